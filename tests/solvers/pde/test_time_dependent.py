"""Time-stepped equations in UFL: gradients, agreement with the heat equation, and what is observed when."""

from __future__ import annotations

import numpy as np
import pytest

dolfinx = pytest.importorskip("dolfinx")

import pde_cases  # noqa: E402
import ufl  # noqa: E402
from dolfinx import fem, mesh  # noqa: E402
from mpi4py import MPI  # noqa: E402

from invsamp.solvers import fields  # noqa: E402
from invsamp.solvers.fem.box import box  # noqa: E402
from invsamp.solvers.fem.fields import GaussianBump  # noqa: E402
from invsamp.solvers.heat import HeatEquation  # noqa: E402
from invsamp.solvers.pde import TimeDependentProblem  # noqa: E402
from invsamp.solvers.pde.operator import Operator  # noqa: E402

pytestmark = pytest.mark.dolfinx
TAYLOR_STEPS = 0.3 * 10.0 ** -np.arange(6.0)
TIMES = [0.0, 0.05, 0.075]


@pytest.fixture(scope="module", params=[False, True], ids=["nonlinear", "linear"])
def problem(request):
    return pde_cases.evolution(MPI.COMM_SELF, linear=request.param)


@pytest.mark.parametrize("name", ["k", "c", "b", "f", "g", "start"])
def test_taylor_remainders_fall_at_second_order(problem, name) -> None:
    u, k, t = problem.equation.state, problem.unknowns.parts[0].coefficient, problem.clock.time
    for model in (
        problem.observe(pde_cases.SENSORS, TIMES),
        # functionals that hold an unknown and the time
        problem.observe([u**2 * ufl.dx, k * (1 + t) * u**2 * ufl.ds], [0.025, 0.1]),
        problem.observe(pde_cases.SENSORS, [0.01, 0.07, 0.1]),
    ):
        orders, last = pde_cases.taylor_orders(model, name, seed=1, steps=TAYLOR_STEPS)
        # where the observations are linear in the unknown, rounding is all that remains
        assert np.abs(orders[1:] - 2.0).max() < 0.15 or last < 3e-15, orders


def test_observations_are_ordered_by_time_then_sensor(problem) -> None:
    model = problem.observe(pde_cases.SENSORS, TIMES)
    np.testing.assert_allclose(model.times, TIMES)
    assert model.n_observations == 15
    theta = pde_cases.near_reference(model, 1)
    together = model(theta)[0].reshape(3, 5)
    for row, time in zip(together, TIMES, strict=True):
        np.testing.assert_allclose(problem.observe(pde_cases.SENSORS, [time])(theta)[0], row, rtol=1e-13)
    # at time 0 the initial values are seen, of which the first columns of theta know nothing
    moved = theta.copy()
    moved[0, 0] += 0.1
    changed = model(moved)[0].reshape(3, 5)
    np.testing.assert_array_equal(changed[0], together[0])
    assert np.abs(changed[1:] - together[1:]).max() > 1e-4


def test_between_steps_observations_are_linear_in_time(problem) -> None:
    times, steps = [0.01, 0.025, 0.0625], [0.0, 0.025, 0.05, 0.075]
    model, at_steps = problem.observe(pde_cases.SENSORS, times), problem.observe(pde_cases.SENSORS, steps)
    np.testing.assert_allclose(model.times, times)
    assert model.output_shape == (3, 5) and model.n_observations == 15
    theta = pde_cases.near_reference(model, 2)
    weights = np.array([[0.6, 0.4, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    y, along, back = model.tangent(theta)
    expected = weights @ at_steps(theta).reshape(len(theta), 4, 5)
    np.testing.assert_allclose(y.reshape(len(theta), 3, 5), expected, rtol=1e-12)
    rng = np.random.default_rng(4)
    directions = rng.standard_normal((len(theta), 2, theta.shape[1]))
    cotangents = rng.standard_normal((len(theta), 2, 15))
    by_steps = weights @ at_steps.tangent(theta)[1](directions).reshape(len(theta), 2, 4, 5)
    changes = along(directions)
    np.testing.assert_allclose(changes.reshape(len(theta), 2, 3, 5), by_steps, rtol=1e-9, atol=1e-12)
    both = np.einsum("bkm,bkm->bk", changes, cotangents)
    np.testing.assert_allclose(both, np.einsum("bkp,bkp->bk", directions, back(cotangents)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scheme", ["backward_euler", "crank_nicolson"])
def test_heat_equation_agrees_with_scikit_fem(scheme) -> None:
    cells, steps, end_time, kappa = 12, 5, 0.03, 1.3
    bump = GaussianBump(center=("x", "y"), width="w", height=2.5)
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, cells)
    u, last, start, v = fem.Function(space), fem.Function(space), fem.Function(space), ufl.TestFunction(space)
    step = fem.Constant(domain, 0.0)
    at = u if scheme == "backward_euler" else (u + last) / 2
    residual = (u - last) * v * ufl.dx + step * kappa * ufl.inner(ufl.grad(at), ufl.grad(v)) * ufl.dx
    problem = TimeDependentProblem(
        residual, u, last, fields={start: bump}, initial=start, end_time=end_time, steps=steps, step_size=step
    )
    ours = problem.observe(pde_cases.SENSORS, [0.012, 0.03])
    assert "factored once)" in repr(ours)
    theirs = HeatEquation(cells, steps, end_time, bump, "neumann", scheme, kappa).observe(
        pde_cases.SENSORS, [0.012, 0.03]
    )
    assert ours.parameters == theirs.parameters == ("x", "y", "w")
    theta = np.array([[0.44, 0.37, 0.12], [0.6, 0.5, 0.2]])
    y, vjp = ours.linearize(theta)
    their_y, their_vjp = theirs.linearize(theta)
    np.testing.assert_allclose(y, their_y, rtol=0, atol=1e-10)
    weights = np.random.default_rng(0).standard_normal(y.shape)
    np.testing.assert_allclose(vjp(weights), their_vjp(weights), rtol=0, atol=1e-9)
    assert np.ptp(y[0]) > 0.1


def test_an_update_that_leaves_the_operator_alone_keeps_its_factors(monkeypatch) -> None:
    calls = []
    factor = Operator.factor
    monkeypatch.setattr(Operator, "factor", lambda self, values: calls.append(len(values)) or factor(self, values))
    problem, conductivity = pde_cases.moving_edge(MPI.COMM_SELF)
    model = problem.observe(pde_cases.SENSORS)
    assert "factored once, and when update changes it)" in repr(model)
    theta = np.array([[1.0], [2.0]])
    before, vjp = model.linearize(theta)
    vjp(np.ones_like(before))
    assert len(calls) == 1
    # a conductivity of another time is another matrix, in the solve and in the adjoint
    moving = problem.clock.update

    def update(now):
        moving(now)
        conductivity.x.array[:] = 1.0 + 10 * now

    object.__setattr__(problem.clock, "update", update)
    y, vjp = model.linearize(theta)
    assert len(calls) == 1 + 2 * 5
    assert np.abs(y - before).max() > 1e-3
    # linear in the unknown, so that its difference is the derivative
    np.testing.assert_allclose(vjp(np.ones_like(y))[0, 0], (y[1] - y[0]).sum(), rtol=1e-11)


def test_initial_values_that_are_given() -> None:
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
    u, last, v = fem.Function(space), fem.Function(space), ufl.TestFunction(space)
    rate = fem.Constant(domain, 0.0)
    last.x.array[:] = 3.0
    residual = (u - last + 0.1 * rate * u) * v * ufl.dx
    problem = TimeDependentProblem(residual, u, last, {"rate": rate}, end_time=0.2, steps=2)
    model = problem.observe([[0.5, 0.5]], [0.1, 0.2])
    # implicit Euler of u' = -rate u from 3, step 0.1; evaluated twice: the start is not overwritten
    for _ in range(2):
        np.testing.assert_allclose(model(np.array([[2.0]]))[0], [3 / 1.2, 3 / 1.44], rtol=1e-12)


def test_a_step_without_solution_fails_the_row() -> None:
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
    u, last, v = fem.Function(space), fem.Function(space), ufl.TestFunction(space)
    rate = fem.Constant(domain, 0.0)
    last.x.array[:] = 1.0
    # u = 1 + 0.5 rate u^2 in the first step: no solution for rate > 1/2
    residual = (u - last - 0.5 * rate * u**2) * v * ufl.dx
    model = TimeDependentProblem(residual, u, last, {"rate": rate}, end_time=0.5, steps=1).observe([[0.5, 0.5]])
    y, vjp = model.linearize(np.array([[0.4], [0.6], [0.0]]))
    # the smaller root of 0.2 u^2 - u + 1
    assert y[[0, 2], 0] == pytest.approx([(1 - np.sqrt(0.2)) / 0.4, 1.0], rel=1e-9)
    np.testing.assert_array_equal(np.isnan(vjp(np.ones_like(y)))[:, 0], [False, True, False])
    assert np.isnan(y[1, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end_time": 0.0}, "end_time must be a positive"),
        ({"end_time": np.nan}, "end_time must be a positive"),
        ({"steps": 0}, "steps must be an integer >= 1"),
        ({"steps": 2.5}, "steps must be an integer >= 1"),
        ({"time": 3.0}, "time must be a scalar dolfinx.fem.Constant"),
        ({"previous": "state"}, "previous must be another function"),
        ({"initial": "previous"}, "initial must not be previous"),
        ({"initial": 1.0}, "initial must be another function"),
        ({"parameters": "previous"}, "last must not be the state or the previous state"),
        ({"parameters": "time"}, "t must not be the time or its step"),
    ],
)
def test_bad_settings(changes, message) -> None:
    domain = mesh.create_unit_square(MPI.COMM_SELF, 2, 2)
    space = pde_cases.function_space(domain, "Lagrange", 1)
    u, last, v = fem.Function(space), fem.Function(space), ufl.TestFunction(space)
    rate, t = fem.Constant(domain, 1.0), fem.Constant(domain, 0.0)
    residual = (u - last + rate * u) * v * ufl.dx
    settings = {"previous": last, "parameters": {"rate": rate}, "end_time": 1.0, "steps": 2} | changes
    named = {"state": u, "previous": last}
    for key in ("previous", "initial"):
        if isinstance(settings.get(key), str):
            settings[key] = named[settings[key]]
    if settings["parameters"] == "previous":
        settings["parameters"] = {"last": last}
    if settings["parameters"] == "time":
        settings |= {"parameters": {"t": t}, "time": t}
    previous, parameters = settings.pop("previous"), settings.pop("parameters")
    with pytest.raises(ValueError, match=message):
        TimeDependentProblem(residual, u, previous, parameters, **settings)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.2], "times must lie between 0 and the end time 0.1, got 0.2"),
        ([], "times must have at least one entry"),
        ([0.1, 0.05], "times must be an increasing"),
        ([-0.025], "times must lie between 0 and the end time"),
        ([np.nan], "times must be"),
    ],
)
def test_bad_times(problem, times, message) -> None:
    with pytest.raises(ValueError, match=message):
        problem.observe(pde_cases.SENSORS, times)


def test_advection_and_diffusion_in_space() -> None:
    """The source is a field with a value at each node of a mesh of its own; u = x t is met exactly."""
    domain = mesh.create_unit_cube(MPI.COMM_SELF, 3, 3, 3)
    space = pde_cases.function_space(domain, "Lagrange", 1)
    u, last, f, g = (fem.Function(space) for _ in range(4))
    v, own = ufl.TestFunction(space), box((3, 3, 3))
    k, b = fem.Constant(domain, 0.3), fem.Constant(domain, np.array([0.4, -0.2, 0.1]))
    t, step = fem.Constant(domain, 0.0), fem.Constant(domain, 0.0)
    flow = k * ufl.inner(ufl.grad(u), ufl.grad(v)) + (ufl.inner(b, ufl.grad(u)) - f - b[0] * t) * v
    edge = fem.locate_dofs_geometrical(space, lambda x: np.isclose(np.prod(x * (1 - x), axis=0), 0.0))
    problem = TimeDependentProblem(
        (u - last) * v * ufl.dx + step * flow * ufl.dx,
        u,
        last,
        {"k": k, "b": b},
        fields={f: fields.Nodal("s", own)},
        boundary_conditions=[fem.dirichletbc(g, edge)],
        end_time=0.2,
        steps=4,
        time=t,
        step_size=step,
        update=lambda now: g.interpolate(lambda x: x[0] * now),
    )
    sensors, times = np.array([[0.4, 0.3, 0.6], [0.7, 0.5, 0.2]]), [0.08, 0.2]
    model = problem.observe(sensors, times)
    assert model.parameters == ("k", "b", "s")
    theta = np.concatenate([[0.3, 0.4, -0.2, 0.1], own.points[:, 0]])[None]
    y, along, back = model.tangent(theta)
    np.testing.assert_allclose(y[0], np.outer(times, sensors[:, 0]).ravel(), atol=1e-10)
    for name in ("k", "b", "s"):
        orders, last_one = pde_cases.taylor_orders(model, name, seed=1, steps=TAYLOR_STEPS[:4])
        assert np.abs(orders - 2.0).max() < 0.15 or last_one < 3e-12, (name, orders)
    rng = np.random.default_rng(0)
    direction, cotangent = rng.standard_normal((1, 1, theta.shape[1])), rng.standard_normal((1, 1, 4))
    assert (along(direction) * cotangent).sum() == pytest.approx((back(cotangent) * direction).sum(), rel=1e-9)


def test_problems_share_what_is_in_their_form() -> None:
    """The constant of the step, the state before it, and the unknown: each problem gives what it gives alone."""
    times = np.array([[0.3], [0.7]])

    def posed(*numbers: tuple[int, float]) -> tuple[list[object], list[object]]:
        domain, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
        u, last, v = fem.Function(space), fem.Function(space), ufl.TestFunction(space)
        k, t, dt = fem.Constant(domain, 1.5), fem.Constant(domain, 7.0), fem.Constant(domain, 0.25)
        last.interpolate(lambda x: np.cos(3 * x[0]))
        residual = (u - last) * v * ufl.dx + dt * (k * ufl.inner(ufl.grad(u), ufl.grad(v)) - t * v) * ufl.dx
        made = []
        for steps, end in numbers:
            model = TimeDependentProblem(
                residual, u, last, {"k": k}, end_time=end, steps=steps, time=t, step_size=dt
            ).observe(pde_cases.SENSORS)
            before = [np.copy(one) for one in (u.x.array, last.x.array, k.value, t.value, dt.value)]
            y, vjp = model.linearize(times)
            vjp(np.ones_like(y))
            _, along, _ = model.tangent(times)
            along(np.ones((2, 1, 1)))
            made.append(model)
            for one, other in zip(before, (u.x.array, last.x.array, k.value, t.value, dt.value), strict=True):
                np.testing.assert_array_equal(one, other)
        return made, [(model(times), model.linearize(times)[1](np.ones((2, 5)))) for model in made]

    fine, coarse, later = (32, 0.2), (2, 0.2), (64, 0.4)
    _, together = posed(fine, coarse, later)
    for number, found in zip((fine, coarse, later), together, strict=True):
        for one, other in zip(found, posed(number)[1][0], strict=True):
            np.testing.assert_array_equal(one, other)
    models, _ = posed(fine, coarse)
    for order in (models, models[::-1]):
        y = [model.linearize(times) for model in order]
        gradients = [vjp(np.ones_like(values)) for values, vjp in y]
        for model, gradient in zip(order, gradients, strict=True):
            np.testing.assert_array_equal(gradient, together[models.index(model)][1])


def test_a_step_size_that_the_form_does_not_hold() -> None:
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 2)
    u, last, v = fem.Function(space), fem.Function(space), ufl.TestFunction(space)
    k, dt = fem.Constant(domain, 1.5), fem.Constant(domain, 0.25)

    def pose(step: object, **more: object) -> None:
        residual = (u - last) * v * ufl.dx + step * k * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
        TimeDependentProblem(residual, u, last, {"k": k}, end_time=1.0, steps=4, step_size=dt, **more)

    with pytest.raises(ValueError, match="step_size must be a constant that the residual holds"):
        pose(float(dt.value))
    with pytest.raises(ValueError, match="time and step_size must be two constants"):
        pose(dt, time=dt)
    pose(dt)


def test_a_time_that_nothing_holds() -> None:
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 2)
    u, last, v = fem.Function(space), fem.Function(space), ufl.TestFunction(space)
    k, t = fem.Constant(domain, 1.5), fem.Constant(domain, 0.5)

    def pose(now: object, sensors: object = pde_cases.SENSORS, **more: object) -> None:
        residual = (u - last) * v * ufl.dx + 0.25 * k * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - now * v * ufl.dx
        problem = TimeDependentProblem(residual, u, last, {"k": k}, end_time=1.0, steps=4, time=t, **more)
        problem.observe(sensors)

    with pytest.raises(ValueError, match="time must be a constant that the residual, a boundary value or a sensor"):
        pose(float(t.value))
    pose(t)
    pose(1.0, [t * u * ufl.dx])
    pose(1.0, update=lambda now: None)
    pose(1.0, boundary_conditions=[fem.dirichletbc(t, pde_cases.side(space, 0, 0.0), space)])
