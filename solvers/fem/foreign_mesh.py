"""Meshes of other libraries as `Mesh`, and a box around a mesh."""

from __future__ import annotations

import sys

import numpy as np

from invsamp.arguments import instance, real, wrong
from invsamp.solvers.fem.box import box
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.foreign import Domain, Given

#: Cells of dolfinx by name -> the order of their corners here.
_CORNERS = {"interval": [0, 1], "triangle": [0, 1, 2], "quadrilateral": [0, 1, 3, 2], "tetrahedron": [0, 1, 2, 3]}


def as_mesh(name: str, mesh: Given) -> Mesh:
    """A mesh of this package, of scikit-fem, or of dolfinx, of cells of the first order.

    The whole of a mesh that dolfinx has spread over ranks, on each of them; collective then.

    Raises
    ------
    ValueError
        If it is none of these; ``name`` is what the message calls it.
    """
    if isinstance(mesh, Mesh):
        return mesh
    right = "a Mesh such as unit_square(32), or a mesh of scikit-fem or dolfinx of cells of the first order"
    if "skfem" in sys.modules and isinstance(mesh, sys.modules["skfem"].Mesh):
        return _of_skfem(name, mesh, right)
    if "dolfinx" in sys.modules and hasattr(mesh, "topology") and hasattr(mesh, "geometry"):
        return _of_dolfinx(name, mesh, right)
    raise wrong(name, right, mesh)


def extended(mesh: Given, margin: float) -> Mesh:
    """A box in simplices around a mesh, for a field whose statistics do not feel the boundary of the mesh.

    A field on it has, on the mesh, the covariance of a field in all of space up to an error that falls with ``margin``:
    one range is enough for a percent.

    Parameters
    ----------
    mesh : Mesh, or a mesh of scikit-fem or dolfinx
    margin : float, > 0
        How far the box goes beyond the mesh on each side. Its cells are as wide as the mesh's are in the mean.

    Returns
    -------
    Mesh
        For `invsamp.solvers.fields.matern` and `invsamp.solvers.fields.Nodal`.

    Raises
    ------
    ValueError
        If an argument is not what it has to be.

    Examples
    --------
    >>> from invsamp.solvers import fields
    >>> from invsamp.solvers.fem.mesh import unit_square
    >>> len(fields.extended(unit_square(4), 0.5).points)
    81
    """
    inner, beyond = as_mesh("mesh", mesh), real("margin", margin, above=0)
    dimension = inner.points.shape[1]
    per_box = {"intervals": 1, "triangles": 2, "parallelograms": 1, "tetrahedra": 6}[inner.kind]
    width = float((per_box * inner.areas.mean()) ** (1.0 / dimension))
    low, high = inner.points.min(axis=0), inner.points.max(axis=0)
    # the nodes of a mesh that is a box of such cells are nodes of the larger one
    inside = np.maximum(np.round((high - low) / width), 1.0)
    step = (high - low) / inside
    outside = np.ceil(beyond / step - 1e-9)
    return box((inside + 2 * outside).astype(int).tolist(), low - outside * step, high + outside * step)


def _of_skfem(name: str, mesh: Given, right: str) -> Mesh:
    kinds = {"MeshLine1", "MeshTri1", "MeshQuad1", "MeshTet1"}
    if type(mesh).__name__ not in kinds:
        raise wrong(name, right, mesh)
    facets, edges = mesh.facets, {}
    for part, numbers in (mesh.boundaries or {}).items():
        edges[part] = np.atleast_2d(facets)[:, np.asarray(numbers)].T
    regions = {part: np.asarray(numbers) for part, numbers in (mesh.subdomains or {}).items()}
    return Mesh(mesh.p.T.copy(), mesh.t.T.copy(), regions, edges)


def _of_dolfinx(name: str, mesh: Domain, right: str) -> Mesh:
    from invsamp.solvers import _dolfinx

    kind = str(mesh.topology.cell_name() if hasattr(mesh.topology, "cell_name") else mesh.topology.cell_type.name)
    nodes = _dolfinx.cell_nodes(mesh)
    if kind not in _CORNERS or nodes.shape[1] != len(_CORNERS[kind]) or mesh.geometry.dim != mesh.topology.dim:
        raise wrong(name, right, mesh)
    numbers = _dolfinx.original_nodes(mesh)
    every = mesh.comm.allgather((numbers, mesh.geometry.x[:, : mesh.geometry.dim], numbers[nodes]))
    points = np.empty((1 + max(int(known.max(initial=-1)) for known, _, _ in every), mesh.geometry.dim))
    for known, at, _ in every:
        points[known] = at
    cells = np.concatenate([corners for _, _, corners in every])[:, _CORNERS[kind]]
    return instance(name, Mesh(points, cells), Mesh, right)
