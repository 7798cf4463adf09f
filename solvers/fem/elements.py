"""Element matrices, added up in one sparsity pattern, and functionals as rows over the nodes of a mesh."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sparse
from scipy.spatial import cKDTree

from invsamp.solvers.fem.cell_geometry import facet_sizes, is_simplex
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
    facets = mesh.part_edges(part)
    corners = facets.shape[1]
    return added(facets.ravel(), np.repeat(facet_sizes(mesh.points, facets) / corners, corners), len(mesh.points))


def point_rows(mesh: Mesh, points: Array, name: str = "sensors") -> Sparse:
    """Values at points (m, d), which messages call ``name``, as a sparse matrix (m, n).

    Raises
    ------
    ValueError
        If a point lies outside the mesh, by more than rounding.
    """
    cells, weights = locate(mesh, np.asarray(points, dtype=float), name)
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


def locate(mesh: Mesh, points: Array, name: str = "sensors") -> tuple[Numbers, Array]:
    """Cells (m,) that hold points (m, d), and the values (m, corners) of their basis functions there.

    Raises
    ------
    ValueError
        If a point lies outside the mesh, by more than rounding.
    """
    dimension = mesh.points.shape[1]
    if points.ndim != 2 or points.shape[1] != dimension or not len(points):
        raise ValueError(f"{name} must have shape (n_{name}, {dimension}), got {points.shape}")
    corner = mesh.points[mesh.cells]
    simplex = is_simplex(mesh.points, mesh.cells)
    edges = (corner[:, 1:] if simplex else corner[:, [1, 3]]) - corner[:, :1]
    inverse = np.linalg.inv(edges)
    tree, size = cKDTree(mesh.midpoints), len(mesh.cells)
    cells, weights = np.empty(len(points), dtype=np.intp), np.empty((len(points), mesh.cells.shape[1]))
    missing, near = np.arange(len(points)), 8
    while len(missing):
        # the cell is one of those with the nearest midpoints: of how many depends on their shapes
        near = min(near, size)
        found = tree.query(points[missing], near)[1].reshape(len(missing), near)
        local = np.einsum("mkd,mkde->mke", points[missing][:, None] - corner[found, 0], inverse[found])
        values = _basis(local, simplex)
        inside = values.min(axis=2) if simplex else np.minimum(local, 1 - local).min(axis=2)
        best = inside.argmax(axis=1)
        row = np.arange(len(missing))
        held = inside[row, best] > -1e-10
        cells[missing[held]], weights[missing[held]] = found[row, best][held], values[row, best][held]
        if not held.all() and near == size:
            low, high = mesh.points.min(axis=0).tolist(), mesh.points.max(axis=0).tolist()
            point = points[missing[~held][0]].tolist()
            raise ValueError(f"{name} must lie in the mesh, got {point}; it reaches from {low} to {high}")
        missing, near = missing[~held], 8 * near
    return cells, weights


def _basis(local: Array, simplex: bool) -> Array:
    """Values (..., corners) of the basis functions at local coordinates (..., d)."""
    if simplex:
        return np.concatenate([1 - local.sum(axis=-1, keepdims=True), local], axis=-1)
    s, t = local[..., 0], local[..., 1]
    return np.stack([(1 - s) * (1 - t), s * (1 - t), s * t, (1 - s) * t], axis=-1)
