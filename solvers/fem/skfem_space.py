"""The spaces P1 and Q1 on scikit-fem and SciPy, in this process alone."""

from __future__ import annotations

import numpy as np
from skfem import Basis, BilinearForm, ElementQuad1, ElementTriP1, MeshQuad, MeshTri
from skfem.helpers import dot, grad

from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.space import Space
from invsamp.solvers.foreign import Given


class SkfemSpace(Space):
    """P1 on triangles, Q1 on parallelograms, see `invsamp.solvers.fem.space.Space`.

    Parameters
    ----------
    mesh : Mesh
    """

    def __init__(self, mesh: Mesh) -> None:
        kind, element = (MeshTri, ElementTriP1()) if mesh.kind == "triangles" else (MeshQuad, ElementQuad1())
        # corners stay as they are: the sparsity pattern is that of mesh.cells
        basis = Basis(kind(mesh.points.T.copy(), mesh.cells.T.copy(), sort_t=False), element)
        mass, stiffness = (np.ascontiguousarray(form.elemental(basis).tolocal()) for form in (_mass, _stiffness))
        super().__init__(mesh, mesh.cells, mass, stiffness, np.arange(len(mesh.points)), np.arange(len(mesh.cells)))


@BilinearForm
def _mass(u: Given, v: Given, _: object) -> object:
    return u * v


@BilinearForm
def _stiffness(u: object, v: object, _: object) -> object:
    return dot(grad(u), grad(v))
