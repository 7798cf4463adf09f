"""P1 on scikit-fem: exact for linear fields, and combined matrices equal assembled ones."""

from __future__ import annotations

import numpy as np
import pytest
from skfem import Basis, BilinearForm, ElementTriP0, ElementTriP1, MeshTri
from skfem.helpers import dot, grad

from invsamp.solvers.fem.backends import make_space
from invsamp.solvers.fem.factors.recurrence import Factors
from invsamp.solvers.fem.matrices import Matrix
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.space import Sensors, Space


def irregular(seed=0):
    """A mesh without symmetries, nodes and triangles in no order."""
    rng = np.random.default_rng(seed)
    mesh = MeshTri().refined(3)
    inner = np.setdiff1d(np.arange(mesh.nvertices), mesh.boundary_nodes())
    points = mesh.p.T.copy()
    points[inner] += rng.uniform(-0.02, 0.02, (len(inner), 2))
    return Mesh(points, mesh.t.T[rng.permutation(mesh.nelements)])


SPACE = Space(irregular())
LINEAR = np.column_stack([1 + 2 * SPACE.nodes[:, 0] - 3 * SPACE.nodes[:, 1], SPACE.nodes[:, 0]])


def test_it_is_a_space():
    assert isinstance(SPACE, Space) and isinstance(SPACE.mass, Matrix)
    assert isinstance(SPACE.factor(SPACE.mass, SPACE.on_boundary()), Factors)
    assert isinstance(SPACE.points(np.array([[0.5, 0.5]])), Sensors)
    assert SPACE.comm is None and make_space(SPACE.mesh).mesh is SPACE.mesh


def test_matrices_are_those_that_the_library_assembles():
    mesh, rng = SPACE.mesh, np.random.default_rng(1)
    library = MeshTri(mesh.points.T.copy(), mesh.cells.T.copy())
    basis = Basis(library, ElementTriP1())
    kappa = rng.uniform(0.1, 10.0, len(SPACE.areas))

    @BilinearForm
    def stiffness(u, v, w):
        return w.kappa * dot(grad(u), grad(v))

    assembled = stiffness.assemble(basis, kappa=basis.with_element(ElementTriP0()).interpolate(kappa))
    fields = rng.normal(size=(len(SPACE.nodes), 3))
    matrix = SPACE.stiffness(kappa)
    np.testing.assert_allclose(matrix @ fields, assembled @ fields, atol=1e-11)
    combined = SPACE.combine(2.0, SPACE.mass, -0.5, matrix)
    np.testing.assert_allclose(combined @ fields, 2 * (SPACE.mass @ fields) - 0.5 * (matrix @ fields), atol=1e-11)


def test_integrals_of_linear_fields():
    one = np.ones((len(SPACE.nodes), 1))
    # 1 + 2x - 3y and x over the unit square
    np.testing.assert_allclose(one.T @ (SPACE.mass @ LINEAR), [[0.5, 0.5]], rtol=1e-12)
    products = SPACE.cell_products(LINEAR[None], LINEAR[None, :, ::-1])
    np.testing.assert_allclose(products, 2.0 * SPACE.areas[:, None] * [1.0, 1.0], rtol=1e-9)
    np.testing.assert_allclose(SPACE.edge_load(lambda p: p[:, 0] == 1.0) @ LINEAR, [1.5, 1.0], rtol=1e-12)
    np.testing.assert_allclose(SPACE.edge_load() @ LINEAR, [4 * 0.5, 2.0], rtol=1e-12)


def test_cell_products_are_the_derivative_of_the_stiffness():
    rng = np.random.default_rng(2)
    u, v = rng.normal(size=(2, len(SPACE.nodes), 2))
    products, kappa = SPACE.cell_products(u[None], v[None]), rng.uniform(size=len(SPACE.areas))
    energies = np.einsum("nk,nk->k", v, SPACE.stiffness(kappa) @ u)
    np.testing.assert_allclose(kappa @ products, energies, rtol=1e-12)
    single = [SPACE.cell_products(u[None, :, k : k + 1], v[None, :, k : k + 1])[:, 0] for k in range(2)]
    np.testing.assert_allclose(products, np.stack(single, axis=1), rtol=1e-12, atol=1e-14)


def test_sensors_of_linear_fields_are_exact_and_their_transpose_is_one():
    rng = np.random.default_rng(3)
    points = np.vstack([rng.uniform(size=(20, 2)), [[0, 0], [1, 1], [0.5, 0], [1, 0.3]]])
    sensors = SPACE.points(points)
    assert sensors.count == 24
    np.testing.assert_allclose(sensors.values(LINEAR)[:, 0], 1 + 2 * points[:, 0] - 3 * points[:, 1], atol=1e-12)
    means = SPACE.averages([lambda p: p[:, 0] < 2, lambda p: p[:, 0] < 0.3])
    half = SPACE.midpoints[:, 0] < 0.3
    # a triangle's mean of a linear field is its value in the middle
    expected = np.average(SPACE.midpoints[half, 0], weights=SPACE.areas[half])
    np.testing.assert_allclose(means.values(LINEAR[:, 1:]), [[0.5], [expected]], rtol=1e-12)
    for functional in (sensors, means):
        cotangents, fields = rng.normal(size=(functional.count, 2)), rng.normal(size=LINEAR.shape)
        there = np.sum(cotangents * functional.values(fields))
        np.testing.assert_allclose(np.sum(functional.transpose(cotangents) * fields), there, rtol=1e-10)


def test_fixed_nodes_keep_their_values_and_the_others_solve():
    rng = np.random.default_rng(4)
    fixed = SPACE.on_boundary(lambda p: p[:, 0] == 0)
    matrix = SPACE.combine(1.0, SPACE.mass, 0.1, SPACE.stiffness(rng.uniform(1, 2, len(SPACE.areas))))
    right = rng.normal(size=(len(SPACE.nodes), 2))
    solution = SPACE.factor(matrix, fixed).solve(right)
    np.testing.assert_array_equal(solution[fixed], right[fixed])
    inner = np.where(fixed[:, None], 0.0, solution)
    np.testing.assert_allclose((matrix @ inner)[~fixed], right[~fixed], rtol=1e-9, atol=1e-12)
    # lifted, the harmonic extension of linear boundary values is the linear field
    laplace, edge = SPACE.stiffness(np.ones(len(SPACE.areas))), SPACE.on_boundary()
    values = np.where(edge[:, None], LINEAR, 0.0)
    right = np.where(edge[:, None], LINEAR, -(laplace @ values))
    np.testing.assert_allclose(SPACE.factor(laplace, edge).solve(right), LINEAR, atol=1e-12)


def test_a_failed_factorization_gives_nan():
    none = np.zeros(len(SPACE.nodes), dtype=bool)
    hopeless = SPACE.stiffness(np.where(np.arange(len(SPACE.areas)) == 4, np.nan, 1.0))
    assert np.isnan(SPACE.factor(hopeless, none).solve(LINEAR)).all()
    negative = SPACE.stiffness(-np.ones(len(SPACE.areas)))
    assert np.isnan(SPACE.factor(negative, SPACE.on_boundary()).solve(LINEAR)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SPACE.points(np.array([[0.5, 0.5], [1.01, 0.5]])), r"sensors must lie in the mesh, got \[1.01, 0.5\]"),
        (lambda: SPACE.averages(["iron"]), "a region must be one of"),
        (lambda: make_space(unit_square(2), "fenics"), "backend must be one of .* got 'fenics'"),
        (lambda: make_space(unit_square(2), "skfem", object()), "comm must be left out for the backend 'skfem'"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
