"""Element matrices of P1 and Q1, by scikit-fem, whose import takes a second or more."""

from __future__ import annotations

import numpy as np
from skfem import Basis, BilinearForm, ElementQuad1, ElementTriP1, MeshQuad, MeshTri
from skfem.helpers import dot, grad

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.foreign import Given


def element_matrices(mesh: Mesh) -> tuple[Array, Array]:
    """Mass and stiffness matrices (c, corners, corners) of all cells."""
    kind, element = (MeshTri, ElementTriP1()) if mesh.kind == "triangles" else (MeshQuad, ElementQuad1())
    # corners stay as they are
    basis = Basis(kind(mesh.points.T.copy(), mesh.cells.T.copy(), sort_t=False), element)
    mass, stiffness = (np.ascontiguousarray(form.elemental(basis).tolocal()) for form in (_mass, _stiffness))
    return mass, stiffness


@BilinearForm
def _mass(u: Given, v: Given, _: object) -> object:
    return u * v


@BilinearForm
def _stiffness(u: object, v: object, _: object) -> object:
    return dot(grad(u), grad(v))
