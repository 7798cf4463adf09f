"""Where a proposed move ends: domains of positions and the specular (billiard) path inside them.

A domain maps a start and a straight move to the end of the path that is reflected at the boundary. That map is
reversible and keeps volume, so a random walk with symmetric moves keeps the uniform distribution exactly; moving the
end to the nearest feasible point, or mirroring it there, does not.

With a preconditioner P = L L^T the path is specular in the whitened coordinates w = L^-1 theta. Straight
lines and crossing times are the same there, only the turn at a boundary with normal a differs:

    v <- v - 2 (a . v) / (a . P a) P a,

which keeps v . P^-1 v. Turning by P = 1 under moves drawn with covariance P would not be reversible.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Plain

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: More bounces than this, and the move is refused: where all faces are flat and few, and elsewhere. A move that
#: grazes a curved boundary, or one of many short edges, bounces often.
MAX_BOUNCES, MAX_BOUNCES_CURVED = 20, 100


class Reflection(NamedTuple):
    """End of a batch of reflected moves."""

    position: Array  # (n, d) end of the path, inside the domain; the start where `failed`
    move: Array  # (n, d) the move as turned at the boundary; the original move where `failed`
    bounces: npt.NDArray[np.int64]  # (n,) reflections; 0 where `failed`
    failed: BoolArray  # (n,) the path could not be followed, so the row stays where it started


@runtime_checkable
class Domain(Protocol):
    """Set of feasible positions that knows how a move is reflected at its boundary."""

    @property
    def dimension(self) -> int | None:
        """Number of coordinates; None for a domain that fits any number."""

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless positions of this dimension can lie in the domain."""

    def contains(self, position: Array) -> BoolArray:
        """Whether each position (n, d) lies in the (closed) domain, shape (n,)."""

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Ends of the specular paths that start at `position` (n, d) along `move` (n, d).

        `metric` is the preconditioner P, symmetric positive definite: (d,) for a diagonal, (d, d), or None.
        """

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates the domain restricts, shape (d,)."""

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """Closed curves (k, 2) that bound the domain in the plane of coordinates i and j, for plots.

        Counter-clockwise around the domain and clockwise around holes; none where nothing restricts that pair.
        What lies outside ``view = (lower (2,), upper (2,))`` may be left out.
        """

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (d,) of a box that holds the domain; infinite where there is none."""

    def sample_uniform(self, rng: np.random.Generator, n: int) -> Array:
        """Independent uniform draws, shape (n, d); ValueError for a domain that is not bounded."""

    def to_dict(self) -> Plain:
        """JSON-able description, undone by `from_dict`."""

    def __and__(self, other: Domain) -> Domain:
        """Intersection."""
