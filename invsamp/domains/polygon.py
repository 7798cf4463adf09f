"""Polygons in the plane, not necessarily convex, with or without holes; also for curves that enclose an area."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array, integer
from invsamp.domains import _members
from invsamp.domains._arrays import freeze
from invsamp.domains._edge_grid import edge_grid
from invsamp.domains._reflecting import Member, ReflectingDomain
from invsamp.domains._rings import check_holes, check_simple, signed_area, without_repeats
from invsamp.domains.contract import Array
from invsamp.protocols import Plain

#: A polygon of at most this many vertices prints them.
SHOWN = 8


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Polygon(ReflectingDomain):
    """The inside of a closed polygon in the plane, its edges included, without the inside of its holes.

    Parameters
    ----------
    vertices : array_like, shape (k, 2)
        In order, either way round. The last one is joined to the first; of repeated ones one is kept.
    holes : sequence of array_like, shape (k, 2)
        Polygons within, apart from each other and from the outline.

    Attributes
    ----------
    vertices : ndarray, shape (k, 2)
        Counter-clockwise.
    holes : tuple of ndarray, shape (k, 2)
        Clockwise.

    Raises
    ------
    ValueError
        If fewer than three vertices differ or they enclose no area, if an edge crosses or touches another one
        (which and where is said), or if a hole lies outside or within another one.

    Notes
    -----
    Edges are kept in a uniform grid: a move costs about the cells and edges that it passes, whatever the number
    of edges.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> triangle = iv.domains.Polygon([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> triangle.contains(np.array([[0.2, 0.3], [0.8, 0.8]]))
    array([ True, False])
    """

    vertices: Array
    holes: tuple[Array, ...]

    def __init__(self, vertices: npt.ArrayLike, holes: Iterable[npt.ArrayLike] = ()) -> None:
        outline = _ring(vertices, "vertices")
        rings = arguments.sequence("holes", holes, least=0)
        inner = tuple(_ring(hole, f"holes[{k}]")[::-1].copy() for k, hole in enumerate(rings))
        check_holes(outline, list(inner))
        freeze(self, vertices=outline)
        for hole in inner:
            hole.flags.writeable = False
        object.__setattr__(self, "holes", inner)

    @classmethod
    def from_curve(cls, function: Callable[[Array], npt.ArrayLike], points: int = 400) -> Polygon:
        """The inside of a closed curve, by a polygon of points on it.

        Parameters
        ----------
        function : callable
            Curve parameters (points,), equally spaced in [0, 1) -> x and y, as (points, 2) or as a pair of arrays
            (points,). The curve closes at 1.
        points : int, >= 3

        Examples
        --------
        >>> import numpy as np, invsamp as iv
        >>> def ellipse(t):
        ...     return 2 * np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)
        >>> iv.domains.Polygon.from_curve(ellipse)
        Polygon(400 vertices in [-2, 2] x [-1, 1])

        Raises
        ------
        ValueError
            As for the vertices of a polygon, or if the function returns another shape.
        """
        points = integer("points", points, least=3)
        called = arguments.function("function", function)
        values = array("function", called(np.arange(points) / points), also=" at every curve parameter")
        if values.shape == (2, points):
            values = values.T
        if values.shape != (points, 2):
            raise ValueError(f"function must return shape ({points}, 2) or (2, {points}), got {values.shape}")
        return cls(values)

    @property
    def dimension(self) -> int:
        """Two."""
        return 2

    @property
    def area(self) -> float:
        """Area, without the holes."""
        return signed_area(self.vertices) + sum(map(signed_area, self.holes))

    def members(self, dimension: int) -> list[Member]:
        """The edges."""
        return [self._member]

    @cached_property
    def _member(self) -> Member:  # on first use: the grid is made by compiled code
        rings = [self.vertices, *self.holes]
        indices, numbers = edge_grid(rings)
        convex = not self.holes and bool((_turns(self.vertices) >= 0.0).all())
        return Member(_members.EDGES, (0, 1), sum(map(len, rings)), numbers, indices, convex, True)

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (2,)."""
        return self.vertices.min(axis=0), self.vertices.max(axis=0)

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """The outline (k, 2), counter-clockwise, and the holes, clockwise, in the plane of coordinates i and j."""
        order = [i, j]
        rings = [ring[:, order] for ring in (self.vertices, *self.holes)]
        return rings if i < j else [ring[::-1] for ring in rings]

    def to_dict(self) -> Plain:
        """JSON-able description, undone by `from_dict`."""
        return {"kind": "polygon", "vertices": self.vertices.tolist(), "holes": [h.tolist() for h in self.holes]}

    def __repr__(self) -> str:
        holes = f", {len(self.holes)} hole{'s' * (len(self.holes) > 1)}" if self.holes else ""
        if len(self.vertices) <= SHOWN:
            return f"Polygon({self.vertices.tolist()}{holes})"
        (left, bottom), (right, top) = self.bounding_box(2)
        return f"Polygon({len(self.vertices)} vertices in [{left:.4g}, {right:.4g}] x [{bottom:.4g}, {top:.4g}]{holes})"


def _ring(vertices: npt.ArrayLike, name: str) -> Array:
    """Checked vertices (k, 2), counter-clockwise."""
    ring = np.array(array(name, vertices, ("k", 2)))
    kept = without_repeats(ring)
    if len(kept) < 3:
        raise ValueError(f"{name} must hold at least three different points, got {ring.tolist()}")
    check_simple(ring, kept, name)
    ring = ring[kept]
    return ring if signed_area(ring) > 0.0 else ring[::-1].copy()


def _turns(ring: Array) -> Array:
    """Sine of the turn at every vertex, up to a positive factor; positive to the left."""
    step = np.roll(ring, -1, axis=0) - ring
    before = np.roll(step, 1, axis=0)
    return np.asarray(before[:, 0] * step[:, 1] - before[:, 1] * step[:, 0])
