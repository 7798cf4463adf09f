"""Convex polytopes, which may be unbounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array
from invsamp.domains import _members
from invsamp.domains._arrays import freeze
from invsamp.domains._polytope import bounding_box, clipped_polygon, interior_point
from invsamp.domains._reflecting import Member, ReflectingDomain
from invsamp.domains.contract import Array, BoolArray


@dataclass(frozen=True, init=False, eq=False, repr=False)
class HalfSpaces(ReflectingDomain):
    """Positions with ``normals @ position <= offsets``: a convex polytope, which may be unbounded.

    Parameters
    ----------
    normals : array_like, shape (k, d)
        Outward normals, of any length but zero.
    offsets : array_like, shape (k,)

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, a normal is zero, or the set has no interior.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> triangle = iv.domains.HalfSpaces([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    >>> triangle.contains(np.array([[0.2, 0.3], [0.8, 0.8]]))
    array([ True, False])
    """

    normals: Array
    offsets: Array
    _interior: Array = field(init=False)  # (d,) a strictly feasible point
    kind: ClassVar[str] = "half_spaces"

    def __init__(self, normals: npt.ArrayLike, offsets: npt.ArrayLike) -> None:
        a = np.array(array("normals", normals, ("k", "d")), order="C")
        b = np.array(array("offsets", offsets, a.shape[:1]))
        zero = ~a.any(axis=1)
        if zero.any():
            raise ValueError(
                f"normals must not be zero, got row {int(np.argmax(zero))} = {a[np.argmax(zero)].tolist()}"
            )
        freeze(self, normals=a, offsets=b, _interior=interior_point(a, b))

    @property
    def dimension(self) -> int:
        """Number of columns of the normals."""
        return int(self.normals.shape[1])

    @property
    def interior(self) -> Array:
        """A point (d,) well inside."""
        return self._interior

    def members(self, dimension: int) -> list[Member]:
        """The facets."""
        numbers = np.concatenate([self._interior, self.offsets, self.normals.ravel()])
        return [Member(_members.HALF_SPACES, tuple(range(self.dimension)), len(self.offsets), numbers)]

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates appear in some inequality, shape (d,)."""
        self.check_dimension(dimension)
        return np.asarray(self.normals.any(axis=0))

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (d,), by two linear programs for each coordinate in use; infinite where open."""
        self.check_dimension(dimension)
        known: list[tuple[Array, Array]] = self.__dict__.setdefault("_bounding_box", [])
        if not known:
            known.append(bounding_box(self.normals, self.offsets))
        return known[0]

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """The polygon (k, 2), counter-clockwise, of the inequalities in coordinates i and j alone.

        Clipped to ``view = (lower (2,), upper (2,))``. No polygon where no inequality concerns just this pair, or
        where the polygon lies outside the view. In two dimensions that is the whole domain; in more, facets
        that involve a third coordinate have no sharp edge in this plane and are left out.
        """
        others = np.delete(np.arange(self.dimension), [i, j])
        alone = ~self.normals[:, others].any(axis=1)
        return clipped_polygon(self.normals[alone][:, [i, j]], self.offsets[alone], view) if alone.any() else []
