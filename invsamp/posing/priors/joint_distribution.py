"""Parameters that share a distribution: copulas, and posteriors of an earlier run, by name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from invsamp.arguments import text
from invsamp.posing.distributions.base import Distribution
from invsamp.protocols import Array, Facts, Plain


@dataclass(frozen=True)
class Share(Distribution):
    """One parameter of several with a joint distribution: its columns, and its part of the support.

    Parameters
    ----------
    whole : Distribution
        Of all of them, of shape (size,).
    names : tuple of str
        Of all of them, in the order of the entries of ``whole``.
    shapes : tuple of shapes
    place : int
        Of this one among them.
    """

    whole: Distribution
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    place: int

    def __repr__(self) -> str:
        return f"{self.whole!r} of {', '.join(self.names)}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of this parameter."""
        return self.shapes[self.place]

    @cached_property
    def _entries(self) -> slice:
        ends = np.cumsum([0, *map(math.prod, self.shapes)]).tolist()
        return slice(ends[self.place], ends[self.place + 1])

    @property
    def support(self) -> tuple[Array, Array]:
        """Lower and upper end of the support of every entry."""
        lower, upper = (end[self._entries].reshape(self.shape) for end in self.whole.support)
        return lower, upper

    @property
    def log_constant(self) -> float:
        """That of the whole belongs to the first."""
        return self.whole.log_constant if self.place == 0 else 0.0

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Refuses: the density is known of all together."""
        raise NotImplementedError(f"only the joint density of {list(self.names)} is known")

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Draws of this parameter alone, as of its marginal distribution."""
        return self.whole.sample(rng, n)[:, self._entries].reshape(n, *self.shape)


def spread_out(distributions: Mapping[Any, Any]) -> Plain:
    """Distributions by single names, with a `Share` for each of the names that a key has together.

    Raises
    ------
    ValueError
        If a key is no name and no tuple of names, a joint distribution has not as many entries as names, or has
        coordinates of its own.
    """
    found: Plain = {}
    for key, value in distributions.items():
        parts: Facts = {key: value}
        if isinstance(key, tuple):
            names = tuple(text("every name in distributions", name) for name in key)
            parts = shares(names, value)
        else:
            text("every name in distributions", key)
        if twice := [name for name in parts if name in found]:
            raise ValueError(f"distributions must name each parameter once, got {twice} again")
        found |= parts
    return found


def shares(names: Iterable[str], whole: object, shapes: Iterable[tuple[int, ...]] | None = None) -> dict[str, Share]:
    """The share of each name in a joint distribution; all are numbers where no shapes are given."""
    named = tuple(names)
    sizes = tuple(() for _ in named) if shapes is None else tuple(shapes)
    count = sum(map(math.prod, sizes))
    if not isinstance(whole, Distribution) or whole.shape != (count,) or len(set(named)) < len(named):
        right = f"a distribution of shape ({count},), one entry for each of {list(named)}"
        got = f"one of shape {whole.shape}" if isinstance(whole, Distribution) else repr(whole)
        raise ValueError(f"the joint distribution of {named} must be {right}, got {got}")
    if whole.vector_transform is not None:
        raise ValueError(
            f"the joint distribution of {named} must not have coordinates of its own, got {whole!r}: it is that of one "
            "vector by name"
        )
    return {name: Share(whole, named, sizes, place) for place, name in enumerate(named)}


def check_complete(distributions: Mapping[str, object]) -> None:
    """`ValueError` unless all who share a distribution stand beside each other, in its order."""
    order = list(distributions)
    for at, (name, one) in enumerate(distributions.items()):
        if isinstance(one, Share) and order[at - one.place : at - one.place + len(one.names)] != list(one.names):
            raise ValueError(f"{name} shares a distribution: all of {list(one.names)} must stand in this order")
