"""The tables' identities, the order of one step, and the interpolants."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from numba import njit
from scipy.integrate import DOP853, RK45, solve_ivp

from invsamp.solvers.ode.codegen.compile_rhs import prepare_states
from invsamp.solvers.ode.integrators.explicit_rk import Tableau, stepper
from invsamp.solvers.ode.integrators.tableau_dormand_prince import FIVE, eight
from invsamp.solvers.ode.integrators.trajectories import Control
from invsamp.solvers.ode.model.ode_model import OdeModel

PARAMETERS = np.array([0.6, 0.03, 0.8, 0.025])
START = np.array([30.0, 5.0])
TABLES = {5: FIVE, 8: eight()}
STEPS = {order: stepper("step", table) for order, table in TABLES.items()}


def lotka_volterra(t, x, p):
    u, v = x
    return (p[0] - p[1] * v) * u, (-p[2] + p[3] * u) * v


def dense(row, size):
    """A row with its zeros."""
    return np.array([row.get(k, 0.0) for k in range(size)])


def matrix(rows, columns):
    return np.array([dense(row, columns) for row in rows])


@cache
def compiled(order):
    """A step and its interpolant, for Python; returns the norm of the error."""
    attempt, interpolate = STEPS[order].attempt, STEPS[order].interpolate

    @njit
    def run(rhs, control, absolute, t, h, y, p, k, z, q, interpolated):
        space = np.empty(1)
        error = attempt(rhs, control, absolute, t, h, -math.inf, math.inf, y, p, k, z, q, space)
        if interpolated:
            interpolate(rhs, control, t, h, -math.inf, math.inf, y, p, k, z, q, space)
        return error

    return run


def taken(order, rhs, h, y, p, k, z, t=0.0, count=2, n=2, weight=1.0, interpolated=True):
    """A step whose first stage is there; error and coefficients of the interpolant."""
    q = np.zeros((8, len(y)))
    control = Control(n, 1e-6, np.empty((1, count)), 1, weight=weight)
    return compiled(order)(rhs, control, np.full(count, 1e-9), t, h, y, p, k, z, q, interpolated), q


def one_step(order, h, y, t=0.0):
    """One step of size h from y: new y, stages, and the interpolant's coefficients."""
    rhs = prepare_states(lotka_volterra, 2, 4).compiled.address
    k, z = np.zeros((16, 2)), np.zeros(2)
    k[0] = lotka_volterra(t, y, PARAMETERS)
    _, q = taken(order, rhs, h, y, PARAMETERS, k, z, t)
    return z, k, q


def exact(times):
    return solve_ivp(
        lambda t, x: lotka_volterra(t, x, PARAMETERS), (0, times[-1]), START, "DOP853", times, rtol=1e-13, atol=1e-13
    ).y.T


@pytest.mark.parametrize("order", TABLES)
def test_the_table_fulfills_the_order_conditions(order):
    table: Tableau = TABLES[order]
    stages = len(table.stages)
    full, c = matrix(table.stages, stages), np.array(table.nodes)
    weights, tolerance = full[-1], 1e-13
    np.testing.assert_allclose(full.sum(axis=1), c, atol=tolerance)
    for power in range(1, order + 1):
        assert abs(weights @ c ** (power - 1) - 1 / power) < tolerance
    # the trees with branches up to order 4 (Hairer, Norsett, Wanner, II.1, table 1.1), one of order 5
    assert abs(weights @ (full @ c) - 1 / 6) < tolerance
    assert abs(weights @ (c * (full @ c)) - 1 / 8) < tolerance
    assert abs(weights @ (full @ c**2) - 1 / 12) < tolerance
    assert abs(weights @ (full @ (full @ c)) - 1 / 24) < tolerance
    assert abs(weights @ (full @ (full @ (full @ c))) - 1 / 120) < tolerance
    # an embedded formula of order r: the error's weights vanish against all powers below that
    for row, embedded in zip(table.errors, {5: (4,), 8: (5, 3)}[order], strict=True):
        error = dense(row, stages)
        assert all(abs(error @ c**power) < tolerance for power in range(embedded))
        assert abs(error @ c**embedded) > 1e-4
    # at the end of a step the interpolant is the step
    total = len(table.extra_stages) + stages
    np.testing.assert_allclose(
        matrix(table.interpolant, total).sum(axis=0), dense(table.stages[-1], total), atol=tolerance
    )
    sums = [sum(row.values()) for row in table.extra_stages]
    np.testing.assert_allclose(sums, table.extra_nodes, atol=tolerance)


def test_constants_are_those_of_scipy():
    five, eight = TABLES[5], TABLES[8]
    np.testing.assert_array_equal(five.nodes[:6], RK45.C)
    np.testing.assert_array_equal(matrix(five.stages[:6], 5), RK45.A)
    np.testing.assert_array_equal(dense(five.stages[6], 6), RK45.B)
    np.testing.assert_array_equal(matrix(five.errors, 7)[0], RK45.E)
    np.testing.assert_array_equal(matrix(five.interpolant, 7).T, RK45.P)
    np.testing.assert_array_equal(matrix(eight.stages[:12], 12), DOP853.A)
    np.testing.assert_array_equal(dense(eight.stages[12], 12), DOP853.B)
    np.testing.assert_array_equal(matrix(eight.errors, 13), [DOP853.E5, DOP853.E3])


def growth(t, x, p):
    return math.cos(t) * x[0], x[1] * (1 - x[1])


@pytest.mark.parametrize(("order", "counts"), [(5, (32, 64, 128)), (8, (5, 7, 10))])
def test_steps_of_equal_size_converge_with_the_order(order, counts):
    rhs = prepare_states(growth, 2, 0).compiled.address
    end, start = 2.0, np.array([1.0, 0.1])
    truth = np.array([math.exp(math.sin(end)), 1 / (1 + 9 * math.exp(-end))])
    errors = []
    for count in counts:
        h, y, z, k = end / count, start.copy(), np.empty(2), np.empty((16, 2))
        for i in range(count):
            k[0] = growth(i * h, y, ())
            taken(order, rhs, h, y, np.empty(0), k, z, i * h)
            y[:] = z
        errors.append(np.abs(y - truth).max())
    slope = -math.log(errors[-1] / errors[-2]) / math.log(counts[-1] / counts[-2])
    assert abs(slope - order) < {5: 0.1, 8: 0.6}[order]  # the latter ends at rounding
    assert errors[-1] < {5: 1e-11, 8: 1e-9}[order]


@pytest.mark.parametrize(("order", "largest"), [(5, 0.2), (8, 0.8)])
def test_the_interpolant_has_both_ends_and_its_order_within_a_step(order, largest):
    z, k, q = one_step(order, 0.3, START)
    last, powers = len(TABLES[order].stages) - 1, len(TABLES[order].interpolant)
    exponents, q = np.arange(1, powers + 1), q[:powers]
    np.testing.assert_allclose(START + q.sum(axis=0), z, rtol=1e-13)
    np.testing.assert_allclose(q[0] / 0.3, k[0], rtol=1e-13)
    np.testing.assert_allclose(exponents @ q / 0.3, k[last], rtol=1e-10)
    steps = largest / 2 ** np.arange(4)
    truth = exact(np.concatenate([[0.0], 0.4 * steps[::-1]]))[:0:-1]
    values = [START + 0.4**exponents @ one_step(order, h, START)[2][:powers] for h in steps]
    slopes = -np.diff(np.log(np.abs(np.array(values) - truth).max(axis=1))) / math.log(2)
    assert abs(slopes[{5: -1, 8: 0}[order]] - {5: 5, 8: 8}[order]) < {5: 0.1, 8: 0.5}[order]


@pytest.mark.parametrize("order", TABLES)
def test_the_error_norm_is_the_largest_of_the_blocks_that_count(order):
    z, k, _ = one_step(order, 0.3, START)
    errors = 0.3 * matrix(TABLES[order].errors, len(TABLES[order].stages)) @ k[: len(TABLES[order].stages)]
    scale = 1e-9 + 1e-6 * np.maximum(np.abs(START), np.abs(z))
    squares = (errors / scale) ** 2

    def expected(entries):
        total = squares[0, entries].sum()
        other = squares[1, entries].sum() if order == 8 else 0.0
        return math.sqrt(total * total / (total + 0.01 * other) / len(squares[0, entries]))

    rhs = prepare_states(lotka_volterra, 2, 4).compiled.address

    def norm(n, count, weight=1.0):
        args = order, rhs, 0.3, START, PARAMETERS, k, np.empty(2)
        return taken(*args, count=count, n=n, weight=weight, interpolated=False)[0]

    assert abs(norm(2, 2) / expected(slice(0, 2)) - 1) < 1e-7
    assert abs(norm(1, 1) / expected(slice(0, 1)) - 1) < 1e-7
    largest = max(expected(slice(0, 1)), expected(slice(1, 2)))
    assert abs(norm(1, 2) / largest - 1) < 1e-7 and largest != expected(slice(0, 2))
    for weight in (1e-3, 0.5, 100.0):  # of blocks after the first
        largest = max(expected(slice(0, 1)), weight * expected(slice(1, 2)))
        assert abs(norm(1, 2, weight) / largest - 1) < 1e-7
    for bad in (math.nan, math.inf):
        k[0, 0] = bad
        assert not norm(1, 2) < math.inf


@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_dop853_takes_the_steps_of_scipy(rtol):
    times = np.linspace(0.5, 20.0, 40)
    scipy = solve_ivp(
        lambda t, x: lotka_volterra(t, x, PARAMETERS), (0, 20), START, "DOP853", times, rtol=rtol, atol=1e-3 * rtol
    )
    model = OdeModel(lotka_volterra, ("u", "v"), tuple("abcd"), "DOP853", rtol=rtol, atol=1e-3 * rtol)
    ours = model.solve(PARAMETERS[None], START, times, t0=0.0)
    np.testing.assert_allclose(ours.states[0], scipy.y.T, rtol=1e-11)
    assert ours.evaluations[0] == scipy.nfev
