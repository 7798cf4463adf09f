"""Meshes of boxes in one to three dimensions, in equal simplices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array
from invsamp.solvers.fem.mesh import Mesh

#: Names of the two sides of each axis, by the number of dimensions.
SIDES = {
    1: (("left", "right"),),
    2: (("left", "right"), ("bottom", "top")),
    3: (("left", "right"), ("front", "back"), ("bottom", "top")),
}


def box(cells: int | Sequence[int], lower: npt.ArrayLike = 0.0, upper: npt.ArrayLike = 1.0) -> Mesh:
    """An interval, a rectangle or a cuboid in equal intervals, triangles or tetrahedra.

    Parameters
    ----------
    cells : int or sequence of int, >= 1
        How many along each axis; their number is that of the dimensions, one to three. Each small box is cut into 2
        triangles, or 6 tetrahedra, which share the diagonal from its lowest to its highest corner.
    lower, upper : float, or array of shape (d,)
        Opposite corners.

    Returns
    -------
    Mesh
        Nodes are in C order of the grid: the last coordinate varies fastest. The sides of the first axis are the parts
        "left" and "right". In the plane those of the second axis are "bottom" and "top". In space those of the second
        are "front" and "back", those of the third "bottom" and "top".

    Raises
    ------
    ValueError
        If there are more than three dimensions, no cell along an axis, or lower is not below upper.

    Examples
    --------
    >>> from invsamp.solvers.fem.box import box
    >>> box((4, 4, 2), upper=[1.0, 1.0, 0.5])  # doctest: +ELLIPSIS
    Mesh(75 nodes; 192 tetrahedra; edges left, right, front, back, bottom, top; ...)
    """
    counts = np.atleast_1d(array("cells", cells, least=1, whole=True)).astype(np.intp)
    if counts.ndim != 1 or not 1 <= len(counts) <= 3:
        raise ValueError(f"cells must hold one to three numbers, one for each axis, got {cells!r}")
    dimension = len(counts)
    low, high = (
        np.broadcast_to(array(name, value), (dimension,)) if np.ndim(value) == 0 else array(name, value, (dimension,))
        for name, value in (("lower", lower), ("upper", upper))
    )
    if not (low < high).all():
        raise ValueError(f"lower must be below upper, got {lower!r} and {upper!r}")
    axes = [np.linspace(a, b, n + 1) for a, b, n in zip(low, high, counts, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
    number = np.arange(len(points)).reshape(counts + 1)
    corner = {
        step: number[tuple(slice(s, n + s) for s, n in zip(step, counts, strict=True))].ravel()
        for step in product((0, 1), repeat=dimension)
    }
    # a path from the lowest to the highest corner for each order of the axes (Kuhn's simplices)
    paths = [
        np.cumsum([np.zeros(dimension, int), *np.eye(dimension, dtype=int)[list(order)]], axis=0)
        for order in permutations(range(dimension))
    ]
    simplices = np.stack([np.stack([corner[tuple(step)] for step in path], axis=-1) for path in paths], axis=1)
    mesh = Mesh(points, simplices.reshape(-1, dimension + 1))
    ends = {
        name: (axis, end)
        for axis, names in enumerate(SIDES[dimension])
        for name, end in zip(names, (low[axis], high[axis]), strict=True)
    }
    outer = mesh.outer_edges
    edges = {name: outer[(points[outer][:, :, axis] == end).all(axis=1)] for name, (axis, end) in ends.items()}
    return Mesh(points, mesh.cells, {}, edges)
