"""Element matrices, added up in one sparsity pattern, and functionals as rows over the nodes of a mesh."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sparse

from invsamp.solvers.fem.contract import Array, Numbers, Part
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.foreign import Sparse


def pattern(cells: Numbers, size: int) -> tuple[Sparse, Numbers]:
    """Sparsity of matrices for ``size`` nodes, as a CSR matrix of ones, and the slots of the element matrices.

    Parameters
    ----------
    cells : array of int, shape (c, corners)
    size : int

    Returns
    -------
    ones : scipy.sparse.csr_matrix, shape (size, size)
    slots : array of int, shape (c * corners**2,)
        Where, among the matrix's entries, each entry of the element matrices (c, corners, corners) is added.
    """
    corners = cells.shape[1]
    rows, columns = np.repeat(cells, corners, axis=1).ravel(), np.tile(cells, (1, corners)).ravel()
    places, slots = np.unique(rows * size + columns, return_inverse=True)
    indptr = np.searchsorted(places, size * np.arange(size + 1))
    return sparse.csr_matrix((np.ones(len(places)), places % size, indptr), (size, size)), slots.ravel()


def weighted_sums(elements: Array, slots: Numbers, entries: int) -> Sparse:
    """Sparse matrix (entries, c): from a weight per cell to the entries of the weighted sum of element matrices."""
    cells = np.repeat(np.arange(len(elements)), elements.shape[1] ** 2)
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


def point_rows(mesh: Mesh, points: Array) -> Sparse:
    """Values at points (m, 2), as a sparse matrix (m, n).

    Raises
    ------
    ValueError
        If a point lies outside the mesh, by more than rounding.
    """
    cells, weights = locate(mesh, np.asarray(points, dtype=float))
    rows = np.repeat(np.arange(len(cells)), weights.shape[1])
    return sparse.csr_matrix((weights.ravel(), (rows, mesh.cells[cells].ravel())), (len(cells), len(mesh.points)))


def average_rows(mesh: Mesh, regions: Sequence[Part]) -> Sparse:
    """Means over regions, as a sparse matrix (m, n).

    Raises
    ------
    ValueError
        If a region is unknown or empty.
    """
    rows, number = [], mesh.cells.shape[1]
    for region in regions:
        areas = mesh.areas * mesh.region_cells(region)
        corners = np.repeat(areas / (number * areas.sum()), number)
        rows.append(added(mesh.cells.ravel(), corners, len(mesh.points)))
    return sparse.csr_matrix(np.array(rows))


def locate(mesh: Mesh, points: Array) -> tuple[Numbers, Array]:
    """Cells (m,) that hold points (m, 2), and the values (m, corners) of their basis functions there.

    Raises
    ------
    ValueError
        If a point lies outside the mesh, by more than rounding.
    """
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"sensors must have shape (n_sensors, 2), got {points.shape}")
    corner, number = mesh.points[mesh.cells], mesh.cells.shape[1]
    origin, first, second = corner[:, 0], corner[:, 1] - corner[:, 0], corner[:, -1] - corner[:, 0]
    spanned = mesh.areas * (2 if number == 3 else 1)
    cells, weights = np.empty(len(points), dtype=np.intp), np.empty((len(points), number))
    for row, point in enumerate(points):
        away = point - origin
        u = (away[:, 0] * second[:, 1] - away[:, 1] * second[:, 0]) / spanned
        v = (first[:, 0] * away[:, 1] - first[:, 1] * away[:, 0]) / spanned
        inside = np.minimum(np.minimum(u, v), 1 - u - v if number == 3 else 1 - np.maximum(u, v))
        cell = int(np.argmax(inside))
        if not inside[cell] > -1e-10:
            low, high = mesh.points.min(axis=0).tolist(), mesh.points.max(axis=0).tolist()
            raise ValueError(f"sensors must lie in the mesh, got {point.tolist()}; it reaches from {low} to {high}")
        cells[row] = cell
        s, t = u[cell], v[cell]
        weights[row] = (1 - s - t, s, t) if number == 3 else ((1 - s) * (1 - t), s * (1 - t), s * t, (1 - s) * t)
    return cells, weights
