from __future__ import annotations

import sys

import numpy as np
import pytest

from invsamp.solvers import _dolfinx
from invsamp.solvers.fem.mesh import unit_square


@pytest.fixture
def fresh():
    _dolfinx.load.cache_clear()
    yield
    _dolfinx.load.cache_clear()


def test_missing_dolfinx_is_an_error_that_says_how_to_install_it(monkeypatch, fresh):
    monkeypatch.setitem(sys.modules, "dolfinx", None)  # as if it were not installed
    with pytest.raises(
        ImportError, match=r"backend='dolfinx' needs dolfinx .* not on PyPI: `apt-get install"
    ) as caught:
        _dolfinx.load("backend='dolfinx'")
    assert "conda-forge fenics-dolfinx" in str(caught.value)


def test_heat_equation_asks_for_dolfinx_before_any_solve(monkeypatch, fresh):
    from invsamp.solvers.heat import HeatEquation

    monkeypatch.setitem(sys.modules, "dolfinx", None)
    with pytest.raises(ImportError, match="apt-get install python3-dolfinx"):
        HeatEquation(4, 2, 0.1, backend="dolfinx").observe([[0.5, 0.5]], precompute=False)


@pytest.fixture
def x():
    pytest.importorskip("dolfinx")
    return _dolfinx.load()


@pytest.mark.dolfinx
@pytest.mark.parametrize(("kind", "count"), [("triangles", 18), ("squares", 9)])
def test_a_mesh_knows_where_its_nodes_and_cells_came_from(x, kind, count):
    square = unit_square(3, kind)
    mesh = _dolfinx.cell_mesh(x.MPI.COMM_SELF, square.points, square.cells)
    assert _dolfinx.n_cells(mesh) == count
    nodes = _dolfinx.original_nodes(mesh)[_dolfinx.cell_nodes(mesh)]
    np.testing.assert_array_equal(np.sort(nodes, axis=1), np.sort(square.cells[_dolfinx.original_cells(mesh)], axis=1))
    space = _dolfinx.function_space(mesh, "Lagrange", 1)
    where = space.tabulate_dof_coordinates()[:, :2][_dolfinx.cell_dofs(space)]
    np.testing.assert_allclose(where, square.points[nodes], atol=1e-14)


@pytest.mark.dolfinx
def test_spaces_of_scalars_and_vectors(x):
    mesh = x.mesh.create_unit_square(x.MPI.COMM_SELF, 2, 2)
    sizes = [
        (space.dofmap.index_map.size_global, space.dofmap.index_map_bs)
        for space in (
            _dolfinx.function_space(mesh, "Lagrange", 1),
            _dolfinx.function_space(mesh, "Lagrange", 2),
            _dolfinx.function_space(mesh, "DG", 0),
            _dolfinx.function_space(mesh, "Lagrange", 1, (3,)),
        )
    ]
    assert sizes == [(9, 1), (25, 1), (8, 1), (9, 3)]


@pytest.mark.dolfinx
def test_dirichlet_problem(x):
    # u = x solves Laplace's equation with its own boundary values
    mesh = x.mesh.create_unit_square(x.MPI.COMM_SELF, 4, 4)
    space = _dolfinx.function_space(mesh, "Lagrange", 1)
    u, v = x.ufl.TrialFunction(space), x.ufl.TestFunction(space)
    form = _dolfinx.compiled(x.ufl.inner(x.ufl.grad(u), x.ufl.grad(v)) * x.ufl.dx)
    assert _dolfinx.compiled(form) is form
    given, exact = x.fem.Function(space), space.tabulate_dof_coordinates()[:, 0]
    given.x.array[:] = exact
    sides = x.fem.locate_dofs_geometrical(space, lambda p: np.isclose(p[0] * (1 - p[0]) * p[1] * (1 - p[1]), 0))
    bcs = [x.fem.dirichletbc(given, sides)]
    found = x.fem.Function(space)
    _dolfinx.set_boundary_values(found.x.array, bcs)
    assert np.count_nonzero(found.x.array) == np.count_nonzero(exact[sides])
    right = x.petsc.assemble_vector(_dolfinx.compiled(-x.ufl.inner(x.ufl.grad(found), x.ufl.grad(v)) * x.ufl.dx))
    zero = x.fem.dirichletbc(x.fem.Function(space), sides)
    x.petsc.set_bc(right, [zero])
    solver = x.PETSc.KSP().create(mesh.comm)
    matrix = x.petsc.assemble_matrix(form, bcs)
    matrix.assemble()
    solver.setOperators(matrix)
    solver.setType("preonly")
    solver.getPC().setType("lu")
    step = x.fem.Function(space)
    solver.solve(right, _dolfinx.petsc_vector(step))
    np.testing.assert_allclose(found.x.array + step.x.array, exact, atol=1e-13)


@pytest.mark.dolfinx
def test_cells_that_hold_points(x):
    mesh = x.mesh.create_unit_square(x.MPI.COMM_SELF, 3, 3)
    points = np.array([[0.1, 0.9], [0.5, 0.49], [1.5, 0.5]])
    cells, midpoints = _dolfinx.containing_cells(mesh, points)
    assert cells[2] == -1 and (cells[:2] >= 0).all()
    assert np.isinf(midpoints[2]).all() and np.isfinite(midpoints[:2]).all()
    corners = mesh.geometry.x[_dolfinx.cell_nodes(mesh)[cells[:2]]][:, :, :2]
    for point, corner in zip(points, corners, strict=False):
        weights = np.linalg.solve(np.vstack([corner.T, np.ones(3)]), [*point, 1.0])
        assert (weights > -1e-12).all()


@pytest.mark.dolfinx
def test_of_the_cells_around_a_node_the_leftmost_is_chosen(x):
    mesh = x.mesh.create_unit_square(x.MPI.COMM_SELF, 4, 4)
    cells, _ = _dolfinx.containing_cells(mesh, np.array([[0.5, 0.5]]))
    middles = mesh.geometry.x[_dolfinx.cell_nodes(mesh)].mean(axis=1)
    around = middles[np.abs(middles[:, :2] - 0.5).max(axis=1) < 0.2]
    np.testing.assert_allclose(middles[cells[0]], min(around.tolist()))
