"""Sizes and facets of cells: simplices in one to three dimensions, and parallelograms."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from invsamp.solvers.fem.contract import Array, Numbers


def is_simplex(points: Array, cells: Numbers) -> bool:
    """Whether the cells are intervals, triangles or tetrahedra; otherwise they are parallelograms."""
    return cells.shape[1] == points.shape[1] + 1


def spanned(points: Array, cells: Numbers) -> Array:
    """Volume that the edges at the first corner span, (c,); negative where the orientation is.

    That of a simplex in d dimensions is d! times its own; that of a parallelogram is its own.
    """
    others = range(1, cells.shape[1]) if is_simplex(points, cells) else (1, -1)
    edges = np.stack([points[cells[:, corner]] - points[cells[:, 0]] for corner in others], axis=1)
    return np.asarray(np.linalg.det(edges))


def sizes(points: Array, cells: Numbers) -> Array:
    """Lengths, areas or volumes of cells, (c,)."""
    return spanned(points, cells) / (math.factorial(points.shape[1]) if is_simplex(points, cells) else 1.0)


def longest_edges(points: Array, cells: Numbers) -> Array:
    """The longest distance between two corners of each cell, (c,)."""
    pairs = combinations(range(cells.shape[1]), 2)
    return np.max([np.linalg.norm(points[cells[:, a]] - points[cells[:, b]], axis=1) for a, b in pairs], axis=0)


def facets(points: Array, cells: Numbers) -> Numbers:
    """All facets of all cells, (f, d): ends of intervals, sides of plane cells, faces of tetrahedra; corners rising."""
    corners = cells.shape[1]
    if is_simplex(points, cells):
        chosen = list(combinations(range(corners), corners - 1))
    else:
        chosen = [(k, (k + 1) % corners) for k in range(corners)]
    return np.sort(np.concatenate([cells[:, list(facet)] for facet in chosen]), axis=1)


def facet_sizes(points: Array, numbers: Numbers) -> Array:
    """Sizes (k,) of facets (k, d): 1 for a point, the length of a side, the area of a face."""
    if numbers.shape[1] == 1:
        return np.ones(len(numbers))
    edges = points[numbers[:, 1:]] - points[numbers[:, :1]]
    if numbers.shape[1] == 2:
        return np.asarray(np.linalg.norm(edges[:, 0], axis=1))
    return np.asarray(0.5 * np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1))
