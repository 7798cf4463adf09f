"""The table of the linearly implicit method, the order of its step, its stability, and derivatives that it needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy.integrate import solve_ivp

from invsamp.solvers.ode.codegen.compile_rhs import prepare_sensitivities
from invsamp.solvers.ode.codegen.rosenbrock_jacobians import jacobian_entries, prepare_linearized
from invsamp.solvers.ode.events.doses_and_events import Event
from invsamp.solvers.ode.integrators import rosenbrock, tableau_rodas5p
from invsamp.solvers.ode.integrators.function_pointers import call
from invsamp.solvers.ode.integrators.sparse_factors import dense_pattern
from invsamp.solvers.ode.integrators.trajectories import Control, Linear
from invsamp.solvers.ode.model.ode_model import OdeModel, Status


def full(rows):
    return np.array([[*row, *[0.0] * (8 - len(row))] for row in rows])


A, C = full(tableau_rodas5p.A), full(tableau_rodas5p.C)
P, START = np.array([0.6, 0.03, 0.8, 0.025]), np.array([30.0, 5.0])


def forced(t, x, p):
    return (p[0] - p[1] * x[1]) * x[0] + np.sin(t) * x[1], (-p[2] + p[3] * x[0]) * x[1] * np.exp(-p[0] * t / 10)


def test_the_table_fulfills_the_order_conditions():
    """Hairer and Wanner, IV.7: tables 7.1 and eq. (7.14), (7.16) up to order 4, in their untransformed coefficients."""
    gammas = np.linalg.inv(np.eye(8) / tableau_rodas5p.GAMMA - C)
    alphas, weights = A @ gammas, np.array([*A[-1, :7], 1.0]) @ gammas
    embedded, betas = np.array([*A[-1, :7], 0.0]) @ gammas, alphas + gammas
    a, b = alphas.sum(axis=1), betas.sum(axis=1)
    np.testing.assert_allclose(a, tableau_rodas5p.NODES, atol=1e-12)
    np.testing.assert_allclose(gammas.sum(axis=1), tableau_rodas5p.BY_TIME, atol=1e-12)
    for row in (weights, embedded):
        conditions = {
            1.0: row.sum(),
            1 / 2: row @ b,
            1 / 3: row @ a**2,
            1 / 6: row @ betas @ b,
            1 / 4: row @ a**3,
            1 / 8: row @ (a * (alphas @ b)),
            1 / 12: row @ betas @ a**2,
            1 / 24: row @ betas @ betas @ b,
        }
        np.testing.assert_allclose(list(conditions.values()), list(conditions), atol=1e-11)
        # damps what is infinitely stiff: R(inf) = 1 - b beta^-1 1
        assert abs(1 - row @ np.linalg.inv(betas) @ np.ones(8)) < 1e-11
    assert abs(weights @ a**4 - 1 / 5) < 1e-11 and abs(embedded @ a**4 - 1 / 5) > 1e-4


_workspace, _begin, _attempt = njit(rosenbrock.workspace), rosenbrock.RODAS.begin, rosenbrock.RODAS.attempt


@njit
def steps(rhs, control, h, count, y, p):
    """That many from y at time 0: the end, and the last step's interpolant at .3."""
    k, z, q, m = np.zeros((16, len(y))), np.zeros(len(y)), np.zeros((5, len(y))), len(y)
    space, absolute, free = _workspace(control, m), np.ones(m), (-math.inf, math.inf)
    for step in range(count):
        t = step * h
        _begin(rhs, control, absolute, t, free[0], free[1], y, p, k, q, space)
        _attempt(rhs, control, absolute, t, h, free[0], free[1], y, p, k, z, q, space)
        inside = y + 0.3 * (q[0] + 0.3 * (q[1] + 0.3 * (q[2] + 0.3 * q[3])))
        y = z.copy()
    return y, inside


def test_errors_fall_with_the_fifth_power_of_the_steps():
    """Of states and sensitivities, at the end and within steps, as tolerances fall by five orders of magnitude."""

    def solved(method, rtol):
        model = OdeModel(forced, ("u", "v"), tuple("abcd"), method, rtol=rtol, atol=rtol)
        found = model.solve_with_sensitivities([P], START, [0.0, 0.7, 1.9, 3.1, 4.0])
        return found.steps[0], found.states[0], found.sensitivities[0]

    tight, logs = solved("DOP853", 1e-13), []
    for rtol in (1e-5, 1e-10):
        steps, *found = solved("Rodas5P", rtol)
        logs.append(np.log([steps, *(np.abs(one - other).max() for one, other in zip(found, tight[1:], strict=True))]))
    fallen = logs[1] - logs[0]
    np.testing.assert_allclose(-fallen[1:] / fallen[0], 5.0, atol=0.3)
    assert (logs[1][1:] < np.log([5e-8, 2e-7])).all()


@pytest.mark.slow  # the step alone, which nothing else compiles: errors as tolerances fall are in the first tier
def test_order_of_states_sensitivities_and_interpolant():
    linearized = prepare_linearized(forced, 2, 4, 6, (0, 1, 2, 3))
    pattern = dense_pattern(*jacobian_entries(forced, 2, 4))
    linear = Linear(linearized.jacobian.address, linearized.tangents.address, pattern)
    control = Control(2, 1.0, np.ones((1, 14)), 1, linear=linear)
    rhs = prepare_sensitivities(forced, None, 2, 4, 2).compiled.address
    begin, errors = np.concatenate([START, np.zeros(8), [1.0, 0.0, 0.0, 1.0]]), []

    def slope(t, y):
        out = np.empty((1, 14))
        called(rhs, t, y.copy(), P, out)
        return out[0]

    for count in (40, 80, 160):
        h = 4.0 / count
        end, inside = steps(rhs, control, h, count, begin, P)
        tight = solve_ivp(slope, (0, 4), begin, "DOP853", [4 - 0.7 * h, 4.0], rtol=1e-13, atol=1e-13).y.T
        pairs = (end, tight[1]), (inside, tight[0])
        errors.append([np.abs(f[part] - e[part]).max() for f, e in pairs for part in (slice(2), slice(2, None))])
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    np.testing.assert_allclose(orders[-1, :2], 5.0, atol=0.1)
    assert orders.min() > 4.8
    assert (np.array(errors[-1]) < [1e-8, 2e-6, 1e-8, 2e-6]).all()


@njit
def called(address, t, y, p, out):
    call(address, t, y, p, out, 0)


def switching(t, x, p):
    rate = np.where(x[0] > p[1] * t, p[0] * x[0] ** 1.5, np.maximum(x[1], 0.1))
    return -rate + np.log(x[1]), rate / (1 + x[1]) - np.tanh(p[2] * x[1] * t)


@pytest.mark.parametrize("rhs", [forced, switching])
@pytest.mark.parametrize("own", [(0, 1, 2, 3), (2,), ()])
def test_derivatives_of_the_variational_equations(rhs, own):
    """Tangents against central differences of the compiled variational equations."""
    rng, n, columns = np.random.default_rng(1), 2, len(own) + 1
    x, u, tau, t = np.array([1.3, 0.7]), rng.normal(size=n), 0.8, 0.9
    p, sensitivities = np.array([0.6, 0.5, 0.8, 0.3]), rng.normal(size=n * columns)
    variations = prepare_sensitivities(rhs, None, n, 4, 1, own).compiled.address
    found = prepare_linearized(rhs, n, 4, columns, own)

    def value(address, t, y, size):
        out = np.empty((1, size))
        called(address, t, y, p, out)
        return out[0]

    def moved(e, in_space=1.0):
        y = np.concatenate([x + e * in_space * u, sensitivities])
        return value(variations, t + e * tau, y, n * (1 + columns))

    e = 1e-5
    tangents = value(found.tangents.address, t, np.concatenate([x, u, [tau], sensitivities]), n * (1 + columns))
    np.testing.assert_allclose(tangents[n:], (moved(e) - moved(-e))[n:] / (2 * e), rtol=1e-7, atol=1e-7)
    in_time = (moved(e, 0.0) - moved(-e, 0.0))[:n] / (2 * e)
    np.testing.assert_allclose(tangents[:n], in_time, rtol=1e-7, atol=1e-8)
    places, jacobian = jacobian_entries(rhs, n, 4), np.zeros((n, n))
    jacobian[places] = value(found.jacobian.address, t, x, n + len(places[0]))[n:]
    differences = [
        (value(variations, t, np.concatenate([x + d, sensitivities]), n * (1 + columns))[:n]
         - value(variations, t, np.concatenate([x - d, sensitivities]), n * (1 + columns))[:n]) / (2 * e)
        for d in e * np.eye(n)
    ]  # fmt: skip
    np.testing.assert_allclose(jacobian.T, differences, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
def test_stiffness_costs_nothing(rtol):
    """Prothero and Robinson's problem: x follows cos(t) in the same few steps however fast, at the end and within."""
    times, counts = np.linspace(0.0, 3.0, 7), []
    for rate in (1e4, 1e6, 1e8):
        model = OdeModel(lambda t, x, p: (-p[0] * (x[0] - math.cos(t)),), ["x"], ["k"], "Rodas5P", rtol=rtol)
        solution = model.solve_with_sensitivities([[rate]], [1.0], times)
        exact = (rate**2 * np.cos(times) + rate * np.sin(times)) / (rate**2 + 1)
        # without a look at the defect within steps the error would be 1e-3 at either tolerance
        np.testing.assert_allclose(solution.states[0, :, 0], exact, atol=rtol)
        np.testing.assert_allclose(solution.sensitivities[0, 2:, 0, 0] * rate, -np.sin(times[2:]) / rate, atol=rtol)
        counts.append(model.solve([[rate]], [1.0], times).steps[0])
    assert max(counts) < 1.2 * min(counts) and max(counts) < 25


def test_events_in_a_stiff_system():
    """A fast variable follows a slow one until that passes a threshold, which auto goes through as well."""

    def rhs(t, x, p):
        return -p[0] * (x[0] - x[1]), -x[1]

    halved = Event(when=lambda t, x, p: x[0] - p[1], change=lambda t, x, p: (x[0], 2 * x[1]), direction="down")
    for method in ("Rodas5P", "auto"):
        model = OdeModel(rhs, ("fast", "slow"), ("k", "edge"), method, rtol=1e-8, atol=1e-10, events=(halved,))
        solution = model.solve_with_sensitivities([[1e6, 0.5]], [1.0, 1.0], [0.0, 0.5, 1.0], initial_states=())
        assert solution.status[0] == Status.OK and solution.switched[0] == (method == "auto")
        # what is left at the edge is doubled: 2 exp(-t) after it, wherever that is
        np.testing.assert_allclose(solution.states[0, 2], 2 * math.exp(-1), rtol=1e-5)
        np.testing.assert_allclose(solution.sensitivities[0, 2, :, 1], 0.0, atol=1e-4)


def test_what_does_not_trace_is_refused():
    with pytest.raises(ValueError, match=r"method='Rodas5P' needs a rhs that traces .*LSODA"):
        OdeModel(lambda t, x, p: (x[0] if x[0] > 1 else p[0],), ["x"], ["k"], "Rodas5P")


def test_threads_give_the_same_numbers():
    models = (OdeModel(forced, ("u", "v"), tuple("abcd"), "Rodas5P", threads=threads) for threads in (1, 2))
    one, two = (model.solve_with_sensitivities(np.tile(P, (5, 1)), START, [0.0, 2.0, 4.0]) for model in models)
    np.testing.assert_array_equal(one.states, two.states)
    np.testing.assert_array_equal(one.sensitivities, two.sensitivities)
