"""The same discrete heat problem, assembled from UFL and solved in the textbook's way, against both backends."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")
pytestmark = pytest.mark.dolfinx

from invsamp.solvers import _dolfinx  # noqa: E402
from invsamp.solvers.heat import DecayingGaussian, GaussianBump, HeatEquation  # noqa: E402

CELLS, STEPS, END, KAPPA = 12, 5, 0.03, 1.3
SENSORS = np.array([[0.31, 0.42], [0.5, 0.5], [0.77, 0.2], [0.93, 0.06]])
CENTER = np.array([0.44, 0.37])
BACKENDS = ("skfem", "dolfinx")
IMPLICITNESS = {"backward_euler": 1.0, "crank_nicolson": 0.5}


def gaussian(points, width, height):
    return height * np.exp(-np.sum((points[:, :2] - CENTER) ** 2, axis=1) / (2 * width**2))


def solve_with_dolfinx(initial, source, profile, boundary, scheme):
    """Sensor values at the end; ``initial`` and ``source`` map node coordinates to values."""
    x = _dolfinx.load()
    domain = x.mesh.create_unit_square(x.MPI.COMM_SELF, CELLS, CELLS)
    space = _dolfinx.function_space(domain, "Lagrange", 1)
    points = space.tabulate_dof_coordinates()
    u, v = x.ufl.TrialFunction(space), x.ufl.TestFunction(space)
    mass = matrix(u * v * x.ufl.dx)
    stiffness = matrix(KAPPA * x.ufl.inner(x.ufl.grad(u), x.ufl.grad(v)) * x.ufl.dx)
    edge = np.isclose(points[:, :2] * (1 - points[:, :2]), 0).any(axis=1)
    edge = np.flatnonzero(edge) if boundary != "neumann" else np.array([], dtype=int)
    implicit, step = IMPLICITNESS[scheme], END / STEPS
    left = (mass + implicit * step * stiffness).tolil()
    left[edge] = 0
    left[edge, edge] = 1
    left = left.tocsr()
    operator = x.PETSc.Mat().createAIJ(left.shape, csr=(left.indptr, left.indices, left.data), comm=x.MPI.COMM_SELF)
    solver = x.PETSc.KSP().create(x.MPI.COMM_SELF)
    solver.setOperators(operator)
    solver.setType("preonly")
    solver.getPC().setType("lu")
    field = initial(points)
    start = field.copy()
    field[edge] = 0.0 if boundary == "dirichlet" else start[edge]
    for n in range(STEPS):
        weight = implicit * profile[n + 1] + (1 - implicit) * profile[n]
        right = (mass - (1 - implicit) * step * stiffness) @ field + step * weight * (mass @ source(points))
        right[edge] = 0.0 if boundary == "dirichlet" else profile[n + 1] * start[edge]
        vector, solution = operator.createVecRight(), operator.createVecLeft()
        vector.array[:] = right
        solver.solve(vector, solution)
        field = solution.array.copy()
    function = x.fem.Function(space)
    function.x.array[:] = field
    padded = np.column_stack([SENSORS, np.zeros(len(SENSORS))])
    return function.eval(padded, _dolfinx.containing_cells(domain, SENSORS)[0].astype(np.int32))[:, 0]


def matrix(form):
    import scipy.sparse as sparse

    assembled = _dolfinx.load().petsc.assemble_matrix(_dolfinx.compiled(form))
    assembled.assemble()
    indptr, indices, data = assembled.getValuesCSR()
    return sparse.csr_matrix((data, indices, indptr), shape=assembled.getSize())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scheme", IMPLICITNESS)
@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_bump_agrees(boundary, scheme, backend):
    bump = GaussianBump(0.12, 2.5)
    ours = HeatEquation(CELLS, STEPS, END, bump, boundary, scheme, KAPPA, backend=backend).observe(SENSORS)(
        CENTER[None]
    )[0]
    theirs = solve_with_dolfinx(
        lambda points: gaussian(points, 0.12, 2.5),
        lambda points: np.zeros(len(points)),
        np.ones(STEPS + 1),
        boundary,
        scheme,
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    assert np.ptp(theirs) > 0.1  # the sensors see different things, so that an exchange would show


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scheme", IMPLICITNESS)
def test_manufactured_solution_agrees(scheme, backend):
    width = 0.2
    height = DecayingGaussian(width).value(0.0, 0.0)
    manufactured = DecayingGaussian(width)
    model = HeatEquation(CELLS, STEPS, END, manufactured, "exact", scheme, KAPPA, backend=backend).observe(SENSORS)

    def source(points):
        # f = u_t - kappa Laplace u at time 0
        squared = np.sum((points[:, :2] - CENTER) ** 2, axis=1)
        return gaussian(points, width, height) * (-1 - KAPPA * (squared / width**4 - 2 / width**2))

    profile = np.exp(-np.linspace(0, END, STEPS + 1))
    theirs = solve_with_dolfinx(lambda points: gaussian(points, width, height), source, profile, "exact", scheme)
    np.testing.assert_allclose(model(CENTER[None])[0], theirs, rtol=0, atol=1e-10)
