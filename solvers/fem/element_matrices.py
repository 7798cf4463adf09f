"""Element matrices of P1 in one to three dimensions, and of Q1, by scikit-fem, whose import takes a second or more."""

from __future__ import annotations

import numpy as np
from skfem import (
    Basis,
    BilinearForm,
    ElementLineP1,
    ElementQuad1,
    ElementTetP1,
    ElementTriP1,
    MeshLine1,
    MeshQuad,
    MeshTet,
    MeshTri,
)
from skfem.helpers import dot, grad

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.foreign import Given

_KINDS = {
    "intervals": (MeshLine1, ElementLineP1),
    "triangles": (MeshTri, ElementTriP1),
    "parallelograms": (MeshQuad, ElementQuad1),
    "tetrahedra": (MeshTet, ElementTetP1),
}


def element_matrices(mesh: Mesh, tensor: Array | None = None) -> tuple[Array, Array]:
    """Mass and stiffness matrices (c, corners, corners) of all cells, the latter of a tensor (c, d, d) if given."""
    kind, element = _KINDS[mesh.kind]
    # corners stay as they are
    basis = Basis(kind(mesh.points.T.copy(), mesh.cells.T.copy(), sort_t=False), element())
    if tensor is not None:
        given = np.moveaxis(tensor, 0, -1)[..., None] * np.ones(basis.dx.shape[1])
        stiffness = _anisotropic.elemental(basis, tensor=given).tolocal()
    else:
        stiffness = _stiffness.elemental(basis).tolocal()
    return np.ascontiguousarray(_mass.elemental(basis).tolocal()), np.ascontiguousarray(stiffness)


@BilinearForm
def _mass(u: Given, v: Given, _: object) -> object:
    return u * v


@BilinearForm
def _stiffness(u: object, v: object, _: object) -> object:
    return dot(grad(u), grad(v))


@BilinearForm
def _anisotropic(u: Given, v: Given, w: Given) -> object:
    return np.einsum("i...,ij...,j...->...", grad(v), w["tensor"], grad(u))
