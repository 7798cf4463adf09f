"""Element matrices of P1, added up in one sparsity pattern, and functionals as rows over the nodes of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sparse

from invsamp.solvers.fem.contract import Array, Numbers, Part
from invsamp.solvers.fem.mesh import Mesh


def pattern(triangles: Numbers, size: int) -> tuple[Any, Numbers]:
    """Sparsity of P1 matrices for ``size`` nodes, as a CSR matrix of ones, and the slots of the element matrices.

    Returns
    -------
    ones : scipy.sparse.csr_matrix, shape (size, size)
    slots : array of int, shape (9 c,)
        Where, among the matrix's entries, each entry of the element matrices (c, 3, 3) is added.
    """
    rows, columns = np.repeat(triangles, 3, axis=1).ravel(), np.tile(triangles, (1, 3)).ravel()
    places, slots = np.unique(rows * size + columns, return_inverse=True)
    indptr = np.searchsorted(places, size * np.arange(size + 1))
    return sparse.csr_matrix((np.ones(len(places)), places % size, indptr), (size, size)), slots.ravel()


def weighted_sums(elements: Array, slots: Numbers, entries: int) -> Any:
    """Sparse matrix (entries, c): from a weight per cell to the entries of the weighted sum of element matrices."""
    cells = np.repeat(np.arange(len(elements)), 9)
    return sparse.csr_matrix((elements.ravel(), (slots, cells)), (entries, len(elements)))


def added(slots: Numbers, values: Array, size: int) -> Array:
    """Sums of the values that belong to each slot, shape (size,)."""
    sums: Array = np.bincount(slots, values, size).astype(float, copy=False)  # of no values it counts integers
    return sums


def edge_loads(mesh: Mesh, part: Part | None = None) -> Array:
    """Integrals of the basis functions over a part of the boundary, shape (n,)."""
    pairs = mesh.part_edges(part)
    lengths = np.linalg.norm(mesh.points[pairs[:, 0]] - mesh.points[pairs[:, 1]], axis=1)
    return added(pairs.ravel(), np.repeat(0.5 * lengths, 2), len(mesh.points))


def point_rows(mesh: Mesh, points: Array) -> Any:
    """Values at points (m, 2), as a sparse matrix (m, n).

    Raises
    ------
    ValueError
        If a point lies outside the mesh, by more than rounding.
    """
    cells, weights = locate(mesh, np.asarray(points, dtype=float))
    rows = np.repeat(np.arange(len(cells)), 3)
    return sparse.csr_matrix((weights.ravel(), (rows, mesh.triangles[cells].ravel())), (len(cells), len(mesh.points)))


def average_rows(mesh: Mesh, regions: Sequence[Part]) -> Any:
    """Means over regions, as a sparse matrix (m, n).

    Raises
    ------
    ValueError
        If a region is unknown or empty.
    """
    rows = []
    for region in regions:
        areas = mesh.areas * mesh.region_cells(region)
        corners = np.repeat(areas / (3 * areas.sum()), 3)
        rows.append(added(mesh.triangles.ravel(), corners, len(mesh.points)))
    return sparse.csr_matrix(np.array(rows))


def locate(mesh: Mesh, points: Array) -> tuple[Numbers, Array]:
    """Triangles (m,) that hold points (m, 2), and the points' barycentric coordinates (m, 3) in them.

    Raises
    ------
    ValueError
        If a point lies outside the mesh, by more than rounding.
    """
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"sensors must have shape (n_sensors, 2), got {points.shape}")
    corner = mesh.points[mesh.triangles]
    origin, first, second = corner[:, 0], corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    twice = 2 * mesh.areas
    cells, weights = np.empty(len(points), dtype=np.intp), np.empty((len(points), 3))
    for row, point in enumerate(points):
        away = point - origin
        u = (away[:, 0] * second[:, 1] - away[:, 1] * second[:, 0]) / twice
        v = (first[:, 0] * away[:, 1] - first[:, 1] * away[:, 0]) / twice
        inside = np.minimum(np.minimum(u, v), 1 - u - v)
        cell = int(np.argmax(inside))
        if not inside[cell] > -1e-10:
            low, high = mesh.points.min(axis=0).tolist(), mesh.points.max(axis=0).tolist()
            raise ValueError(f"sensors must lie in the mesh, got {point.tolist()}; it reaches from {low} to {high}")
        cells[row] = cell
        weights[row] = 1 - u[cell] - v[cell], u[cell], v[cell]
    return cells, weights
