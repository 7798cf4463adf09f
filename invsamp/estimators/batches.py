"""Which data a minibatch holds: subsets without replacement, of single data or of groups of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array


class Groups(NamedTuple):
    """Indices of each group's data (groups, most), filled up with repetitions that do not count."""

    members: npt.NDArray[np.intp]
    counted: Array  # (groups, most): 1 or 0

    @classmethod
    def of(cls, labels: npt.NDArray[np.int64]) -> Groups:
        """From the label of each datum."""
        _, group, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        ordered = np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
        members = np.stack([np.resize(indices, sizes.max()) for indices in ordered])
        return cls(members, (np.arange(sizes.max()) < sizes[:, None]).astype(float))


def random_subsets(rng: np.random.Generator, chains: int, size: int, total: int) -> npt.NDArray[np.intp]:
    """Indices (chains, size) without replacement in each row."""
    if size * size > total and total <= 1000:
        return np.argpartition(rng.random((chains, total)), size - 1, axis=1)[:, :size]
    if size * size > total:
        return np.stack([rng.choice(total, size, replace=False, shuffle=False) for _ in range(chains)])
    drawn = rng.integers(total, size=(chains, size))
    while True:
        ordered = np.sort(drawn, axis=1)
        repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not repeated.any():
            return drawn
        # a whole row again, not one entry: that keeps every subset equally likely
        drawn[repeated] = rng.integers(total, size=(int(repeated.sum()), size))
