"""-div((1 + u^2) grad u) = f and its heat equation, against manufactured solutions."""

from __future__ import annotations

import numpy as np
import pytest

dolfinx = pytest.importorskip("dolfinx")

import pde_cases  # noqa: E402
import ufl  # noqa: E402
from dolfinx import fem, mesh  # noqa: E402
from mpi4py import MPI  # noqa: E402

from invsamp.solvers import _dolfinx  # noqa: E402
from invsamp.solvers.pde import StationaryProblem, TimeDependentProblem  # noqa: E402

pytestmark = pytest.mark.dolfinx
TAYLOR_STEPS = 0.3 * 10.0 ** -np.arange(6.0)


def stationary(cells: int):
    """The equation whose solution is sin(2 x) cos(y) + x y, with this as boundary values, and its L2 error."""
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, cells)
    x = ufl.SpatialCoordinate(domain)
    exact = ufl.sin(2 * x[0]) * ufl.cos(x[1]) + x[0] * x[1]
    u, v, g = fem.Function(space), ufl.TestFunction(space), fem.Function(space)
    k = fem.Constant(domain, 1.0)
    source = -ufl.div((1 + exact**2) * ufl.grad(exact))
    residual = (k + u**2) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - source * v * ufl.dx(degree=6)
    edge = mesh.locate_entities_boundary(domain, 1, lambda points: np.full(points.shape[1], True))
    g.interpolate(lambda p: np.sin(2 * p[0]) * np.cos(p[1]) + p[0] * p[1])
    boundary = fem.dirichletbc(g, fem.locate_dofs_topological(space, 1, edge))
    problem = StationaryProblem(residual, u, {"k": k}, boundary_conditions=[boundary])
    return problem, _dolfinx.compiled((u - exact) ** 2 * ufl.dx(degree=6))


def test_convergence_in_space_is_of_second_order() -> None:
    cells = np.array([8, 16, 32])
    errors = []
    for n in cells:
        problem, squared = stationary(int(n))
        problem.observe(pde_cases.SENSORS).solve([1.0])
        errors.append(np.sqrt(fem.assemble_scalar(fem.form(squared))))
    orders = -np.diff(np.log(errors)) / np.diff(np.log(cells))
    assert np.abs(orders - 2.0).max() < 0.1, orders
    # a few times what interpolation leaves: |u''| h^2 / 8, |u''| about 4
    assert errors[-1] < 4 / 8 / 32**2
    # control: another diffusivity does not converge to this solution
    problem, squared = stationary(32)
    problem.observe(pde_cases.SENSORS).solve([1.1])
    assert np.sqrt(fem.assemble_scalar(fem.form(squared))) > 20 * errors[-1]


def test_the_gradient_is_right_over_five_decades() -> None:
    problem, _ = stationary(8)
    model = problem.observe(pde_cases.SENSORS)
    orders, _ = pde_cases.taylor_orders(model, "k", seed=3, steps=TAYLOR_STEPS)
    assert np.abs(orders - 2.0).max() < 0.1, orders


def in_time(steps: int, implicitness: float, moving_boundary: bool = False):
    """u_t = div((k + u^2) grad u) + f with the solution (1 + x / 2 + y) exp(-t), which is linear in space.

    So the finite elements hold it exactly, and all of the error is that of the time steps.
    """
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
    x, normal = ufl.SpatialCoordinate(domain), ufl.FacetNormal(domain)
    u, last, start, edge_values = (fem.Function(space) for _ in range(4))
    v = ufl.TestFunction(space)
    k, amplitude, t, step = (fem.Constant(domain, value) for value in (1.0, 1.0, 0.0, 0.0))

    def exact(time):
        return (1 + x[0] / 2 + x[1]) * ufl.exp(-time)

    def rate(w, time):
        truth = exact(time)
        source = -amplitude * truth - ufl.div((1 + truth**2) * ufl.grad(truth))
        flux = (1 + truth**2) * ufl.inner(ufl.grad(truth), normal)
        return (k + w**2) * ufl.inner(ufl.grad(w), ufl.grad(v)) * ufl.dx - source * v * ufl.dx - flux * v * ufl.ds

    residual = (u - last) * v * ufl.dx + step * (
        implicitness * rate(u, t) + (1 - implicitness) * rate(last, t - step) if implicitness < 1 else rate(u, t)
    )
    start.interpolate(lambda p: 1 + p[0] / 2 + p[1])
    boundary = []
    if moving_boundary:
        boundary = [fem.dirichletbc(edge_values, pde_cases.side(space, 0, 0.0))]
    return TimeDependentProblem(
        residual,
        u,
        last,
        {"k": k, "amplitude": amplitude},
        end_time=0.5,
        steps=steps,
        boundary_conditions=boundary,
        initial=start,
        time=t,
        step_size=step,
        update=(lambda now: edge_values.interpolate(lambda p: (1 + p[1]) * np.exp(-now))) if moving_boundary else None,
    )


@pytest.mark.parametrize(("implicitness", "order"), [(1.0, 1), (0.5, 2)])
@pytest.mark.parametrize("moving_boundary", [False, True])
def test_convergence_in_time(implicitness: float, order: int, moving_boundary: bool) -> None:
    steps = np.array([8, 16, 32])
    truth = (1 + pde_cases.SENSORS @ [0.5, 1.0]) * np.exp(-0.5)
    errors = []
    for n in steps:
        model = in_time(int(n), implicitness, moving_boundary).observe(pde_cases.SENSORS)
        errors.append(np.abs(model(np.array([[1.0, 1.0]]))[0] - truth).max())
    orders = -np.diff(np.log(errors)) / np.diff(np.log(steps))
    assert np.abs(orders - order).max() < 0.1, (orders, errors)
    assert errors[-1] < 0.5 / 32**order


@pytest.mark.parametrize("name", ["k", "amplitude"])
def test_the_gradient_through_time_is_right_over_five_decades(name: str) -> None:
    model = in_time(4, 0.5, moving_boundary=True).observe(pde_cases.SENSORS, times=[0.125, 0.5])
    orders, last = pde_cases.taylor_orders(model, name, seed=4, steps=TAYLOR_STEPS)
    assert np.abs(orders[:-1] - 2.0).max() < 0.1, orders
    assert last < 1e-12
