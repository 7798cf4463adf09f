"""The whole space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.domains._arrays import copies
from invsamp.domains.contract import Array, BoolArray, Domain, Reflection
from invsamp.protocols import Plain


@dataclass(frozen=True)
class Unbounded:
    """The whole space, of any dimension.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> iv.domains.Unbounded().contains(np.zeros((2, 3)))
    array([ True,  True])
    """

    @property
    def dimension(self) -> int | None:
        """None: any dimension fits."""
        return None

    def check_dimension(self, dimension: int) -> None:
        """Accept any dimension."""

    def contains(self, position: Array) -> BoolArray:
        """True for every position without NaN or inf, shape (n,)."""
        return np.asarray(np.isfinite(position).all(axis=1))

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Straight moves; a move that is not finite fails. See `Domain.reflect`."""
        end, velocity = copies(position, move)
        n = len(end)
        end += velocity
        failed = np.zeros(n, dtype=bool)
        # one sum is cheaper than a test of every entry
        if not np.isfinite(end.sum()):
            failed |= ~np.isfinite(end).all(axis=1)
            end[failed] = np.asarray(position)[failed]
        return Reflection(end, velocity, np.zeros(n, dtype=np.int64), failed)

    def constrains(self, dimension: int) -> BoolArray:
        """No coordinate, shape (d,)."""
        return np.zeros(dimension, dtype=bool)

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """No curve: there is no boundary."""
        return []

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Infinite ends, (d,)."""
        return np.full(dimension, -np.inf), np.full(dimension, np.inf)

    def sample_uniform(self, rng: np.random.Generator, n: int) -> Array:
        """ValueError: there is no uniform distribution."""
        raise ValueError("sample_uniform needs a bounded domain, got Unbounded()")

    def to_dict(self) -> Plain:
        """JSON-able description, undone by `from_dict`."""
        return {"kind": "unbounded"}

    def __and__(self, other: Domain) -> Domain:
        """The other domain."""
        return other
