from __future__ import annotations

import numpy as np
import pytest
import skfem

from invsamp.solvers.fem.foreign_mesh import as_mesh, extended
from invsamp.solvers.fem.mesh import unit_square

KINDS = {
    "intervals": skfem.MeshLine,
    "triangles": skfem.MeshTri,
    "parallelograms": skfem.MeshQuad,
    "tetrahedra": skfem.MeshTet,
}


@pytest.mark.parametrize("kind", KINDS)
def test_meshes_of_scikit_fem_keep_their_cells_and_names(kind):
    given = (
        KINDS[kind]()
        .refined(2)
        .with_boundaries({"low": lambda x: x[0] == 0.0})
        .with_subdomains({"half": lambda x: x[0] < 0.5})
    )
    mesh = as_mesh("mesh", given)
    assert mesh.kind == kind and mesh.areas.sum() == pytest.approx(1.0)
    assert (mesh.points[mesh.edges["low"]][..., 0] == 0.0).all()
    assert mesh.areas[mesh.region_cells("half")].sum() == pytest.approx(0.5)


def test_other_objects_are_refused():
    for given in (skfem.MeshTri2(), "square", None, np.zeros((3, 2))):
        with pytest.raises(ValueError, match="mesh must be a Mesh such as unit_square"):
            as_mesh("mesh", given)


def test_a_box_around_a_mesh_has_its_nodes():
    inner, outer = unit_square(5), extended(unit_square(5), 0.3)
    assert outer.points.min() == pytest.approx(-0.4) and outer.points.max() == pytest.approx(1.4)
    distances = np.abs(outer.points[None] - inner.points[:, None]).sum(axis=2).min(axis=1)
    assert distances.max() < 1e-12


@pytest.mark.dolfinx
@pytest.mark.parametrize("kind", ["interval", "triangle", "quadrilateral", "tetrahedron"])
def test_meshes_of_dolfinx_keep_their_cells(kind):
    pytest.importorskip("dolfinx")
    from dolfinx import mesh as dolfinx_mesh
    from mpi4py import MPI

    cell = getattr(dolfinx_mesh.CellType, kind)
    made = {
        "interval": lambda: dolfinx_mesh.create_unit_interval(MPI.COMM_SELF, 5),
        "tetrahedron": lambda: dolfinx_mesh.create_unit_cube(MPI.COMM_SELF, 2, 2, 2, cell),
    }.get(kind, lambda: dolfinx_mesh.create_unit_square(MPI.COMM_SELF, 3, 4, cell))()
    mesh = as_mesh("mesh", made)
    assert mesh.areas.sum() == pytest.approx(1.0)
    assert len(mesh.points) == {"interval": 6, "tetrahedron": 27}.get(kind, 20)
