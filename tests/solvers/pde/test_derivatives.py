"""Derivatives are those of the discrete problem: by the degrees of quadrature of what is differentiated."""

from __future__ import annotations

import numpy as np
import pytest

dolfinx = pytest.importorskip("dolfinx")

import pde_cases  # noqa: E402
import ufl  # noqa: E402
from dolfinx import fem, mesh  # noqa: E402
from mpi4py import MPI  # noqa: E402

from invsamp.solvers._dolfinx import function_space  # noqa: E402
from invsamp.solvers.pde import StationaryProblem, TimeDependentProblem, point_sensors  # noqa: E402
from invsamp.solvers.pde import equation as equations  # noqa: E402
from invsamp.solvers.pde import sensors as sensors_module  # noqa: E402
from invsamp.solvers.pde.derivatives import with_degrees  # noqa: E402

pytestmark = pytest.mark.dolfinx
POINTS = np.array([[0.31, 0.42], [0.5, 0.5], [0.77, 0.2]])


def square(cells=6, squares=False):
    """Mesh, P1 functions u and m, a test function, and zero on the edge."""
    kind = mesh.CellType.quadrilateral if squares else mesh.CellType.triangle
    domain = mesh.create_unit_square(MPI.COMM_SELF, cells, cells, kind)
    space = function_space(domain, "Lagrange", 1)
    edge = fem.locate_dofs_geometrical(space, lambda x: np.isclose(x[0] * (1 - x[0]) * x[1] * (1 - x[1]), 0.0))
    zero = fem.dirichletbc(fem.Constant(domain, 0.0), edge, space)
    return domain, fem.Function(space), fem.Function(space), ufl.TestFunction(space), zero


def linear(squares=False):
    _, u, m, v, zero = square(squares=squares)
    residual = ufl.exp(m) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - 1.0 * v * ufl.dx
    return StationaryProblem(residual, u, {"m": m}, boundary_conditions=[zero]).observe(POINTS)


def functionals():
    _, u, m, v, zero = square()
    residual = ufl.exp(m) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - 1.0 * v * ufl.dx
    problem = StationaryProblem(residual, u, {"m": m}, boundary_conditions=[zero])
    return problem.observe([ufl.exp(m) * u * ufl.dx, ufl.exp(u) * m**2 * ufl.dx, u * ufl.exp(m) * ufl.ds + u * ufl.dx])


def newton():
    _, u, m, v, zero = square()
    flow = ufl.exp(m) * (1 + u**2) * ufl.inner(ufl.grad(u), ufl.grad(v))
    residual = flow * ufl.dx - ufl.exp(u) * v * ufl.dx
    return StationaryProblem(residual, u, {"m": m}, boundary_conditions=[zero]).observe(POINTS)


def in_time():
    domain, u, m, v, zero = square()
    last = fem.Function(u.function_space)
    flow = ufl.exp(m) * ufl.inner(ufl.grad(u), ufl.grad(v)) - ufl.exp(-last) * v
    residual = (u - last) * v * ufl.dx + fem.Constant(domain, 0.02) * flow * ufl.dx
    problem = TimeDependentProblem(residual, u, last, {"m": m}, boundary_conditions=[zero], end_time=0.1, steps=5)
    return problem.observe(POINTS, times=[0.06, 0.1])


def mixed():
    domain, _, m, _, _ = square(4)
    space = pde_cases.taylor_hood(domain)
    w, test = fem.Function(space), ufl.TestFunction(space)
    (u, p), (v, q) = ufl.split(w), ufl.split(test)
    stokes = ufl.exp(m) * ufl.inner(ufl.grad(u), ufl.grad(v)) - p * ufl.div(v) - q * ufl.div(u) - v[0]
    still = fem.Function(space.sub(0).collapse()[0])
    bounds = mesh.locate_entities_boundary(domain, 1, lambda x: np.isclose(x[1] * (1 - x[1]), 0.0))
    dofs = fem.locate_dofs_topological((space.sub(0), still.function_space), 1, bounds)
    bc = fem.dirichletbc(still, dofs, space.sub(0))
    return StationaryProblem(stokes * ufl.dx, w, {"m": m}, boundary_conditions=[bc]).observe([point_sensors(POINTS, 0)])


CASES = {
    "linear": linear,
    "squares": lambda: linear(squares=True),
    "functionals": functionals,
    "newton": newton,
    "in time": in_time,
    "mixed": mixed,
}


def error(model, sd):
    """Of the gradient of random sums of the observations, against central differences of fourth order, relative."""
    rng = np.random.default_rng(3)
    theta, step = sd * rng.standard_normal((1, model.sizes[0])), 1e-3
    y, vjp = model.linearize(theta)
    weights = rng.standard_normal(y.shape)
    gradient, misses = vjp(weights)[0], []
    for direction in rng.standard_normal((4, theta.shape[1])):
        moved = model(theta + step * np.array([[-2.0], [-1.0], [1.0], [2.0]]) * direction) @ weights[0]
        slope = moved @ [1.0, -8.0, 8.0, -1.0] / (12.0 * step)
        misses.append(abs(gradient @ direction - slope) / np.linalg.norm(gradient * direction))
    return max(misses)


@pytest.mark.parametrize("sd", [1.0, 2.0])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_discrete_problem(name, sd, monkeypatch) -> None:
    assert error(CASES[name](), sd) < 1e-7
    # control: with the degrees that UFL estimates for the derivatives
    for module in (equations, sensors_module):
        monkeypatch.setattr(module, "with_degrees", lambda form: form)
    assert error(CASES[name](), sd) > 1e-6


def test_values_are_those_of_the_degrees_that_ufl_estimates() -> None:
    _, u, m, v, _ = square()
    rng = np.random.default_rng(0)
    u.x.array[:], m.x.array[:] = rng.standard_normal((2, len(u.x.array)))
    # terms of one measure share the highest degree of theirs
    form = ufl.exp(m) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - ufl.exp(u) * m**2 * v * ufl.dx + m * v * ufl.ds
    before, after = (fem.assemble_vector(fem.form(one)) for one in (form, with_degrees(form)))
    # not to the bit: each is compiled by itself, and in what order terms are added up may differ
    values, others = (getattr(one, "array", one) for one in (before, after))
    np.testing.assert_allclose(values, others, rtol=1e-12, atol=1e-14)


def test_degrees_that_a_person_set_stay() -> None:
    _, u, m, v, _ = square(2)
    chosen = ufl.dx(metadata={"quadrature_degree": 1}) + ufl.ds
    found = [one.metadata()["quadrature_degree"] for one in with_degrees(ufl.exp(m) * u**3 * v * chosen).integrals()]
    # exp counts as two degrees more than its argument
    assert found == [1, 3 + 3 + 1]
