"""The tableau's identities, the order of one step, and the interpolant."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import RK45, solve_ivp

from invsamp.solvers.ode import dormand_prince as pair
from invsamp.solvers.ode.right_hand_side import prepare_states

PARAMETERS = np.array([0.6, 0.03, 0.8, 0.025])
START = np.array([30.0, 5.0])


def lotka_volterra(t, x, p):
    u, v = x
    return (p[0] - p[1] * v) * u, (-p[2] + p[3] * u) * v


def step(h, y, t=0.0):
    """One step of size h from y: new y and the interpolant's coefficients."""
    rhs = prepare_states(lotka_volterra, 2, 4).compiled.address
    k, z, q = np.zeros((7, 2)), np.zeros(2), np.zeros((4, 2))
    k[0] = lotka_volterra(t, y, PARAMETERS)
    pair.attempt(rhs, t, h, -math.inf, math.inf, y, PARAMETERS, k, z)
    pair.interpolant(h, k, q)
    return z, k, q


def exact(times):
    return solve_ivp(
        lambda t, x: lotka_volterra(t, x, PARAMETERS),
        (0, times[-1]),
        START,
        "DOP853",
        times,
        rtol=1e-13,
        atol=1e-13,
    ).y.T


def test_the_tableau_fulfils_the_order_conditions():
    A, b, c = pair.A[:, :6], pair.A[6], pair.C
    full = np.vstack([np.pad(A[i], (0, 1)) for i in range(7)])
    np.testing.assert_allclose(full.sum(axis=1), c, atol=1e-15)
    weights = np.append(b, 0.0)
    for order in range(1, 6):
        assert abs(weights @ c ** (order - 1) - 1 / order) < 1e-15
    # the trees with branches up to order 4 (Hairer, Norsett, Wanner, II.1, table 1.1), one of order 5
    assert abs(weights @ (full @ c) - 1 / 6) < 1e-15
    assert abs(weights @ (c * (full @ c)) - 1 / 8) < 1e-15
    assert abs(weights @ (full @ c**2) - 1 / 12) < 1e-15
    assert abs(weights @ (full @ (full @ c)) - 1 / 24) < 1e-15
    assert abs(weights @ (full @ (full @ (full @ c))) - 1 / 120) < 1e-15
    # the error's weights: the embedded formula is of order 4, so they vanish against all powers below the fourth
    for power in range(4):
        assert abs(pair.E @ c**power) < 1e-15
    assert abs(pair.E @ c**4) > 1e-4
    np.testing.assert_allclose(pair.P.sum(axis=1), weights, atol=1e-15)


def test_constants_are_those_of_scipy():
    np.testing.assert_array_equal(pair.C[:6], RK45.C)
    np.testing.assert_array_equal(pair.A[:6, :5], RK45.A)
    np.testing.assert_array_equal(pair.A[6], RK45.B)
    np.testing.assert_array_equal(pair.E, RK45.E)
    np.testing.assert_array_equal(pair.P, RK45.P)


def growth(t, x, p):
    return math.cos(t) * x[0], x[1] * (1 - x[1])


def test_steps_of_equal_size_converge_with_order_five():
    rhs = prepare_states(growth, 2, 0).compiled.address
    end, start = 2.0, np.array([1.0, 0.1])
    truth = np.array([math.exp(math.sin(end)), 1 / (1 + 9 * math.exp(-end))])
    counts = np.array([32, 64, 128])
    errors = []
    for count in counts:
        h, y, z, k = end / count, start.copy(), np.empty(2), np.empty((7, 2))
        for i in range(count):
            k[0] = growth(i * h, y, ())
            pair.attempt(rhs, i * h, h, -math.inf, math.inf, y, np.empty(0), k, z)
            y[:] = z
        errors.append(np.abs(y - truth))
    slopes = -np.diff(np.log(errors), axis=0) / math.log(2)
    assert np.abs(slopes[-1] - 5).max() < 0.1
    assert np.max(errors[-1]) < 1e-12


def test_the_interpolant_meets_both_ends_and_has_order_five_within_a_step():
    z, k, q = step(0.3, START)
    powers = np.arange(1, 5)
    np.testing.assert_allclose(START + q.sum(axis=0), z, rtol=1e-14)
    np.testing.assert_allclose(q[0] / 0.3, k[0], rtol=1e-14)
    np.testing.assert_allclose(powers @ q / 0.3, k[6], rtol=1e-11)
    steps = 0.2 / 2 ** np.arange(4)
    truth = exact(np.concatenate([[0.0], 0.4 * steps[::-1]]))[:0:-1]
    values = [START + 0.4**powers @ step(h, START)[2] for h in steps]
    slopes = -np.diff(np.log(np.abs(np.array(values) - truth).max(axis=1))) / math.log(2)
    assert abs(slopes[-1] - 5) < 0.1


def test_the_error_norm_is_the_largest_of_the_blocks_that_count():
    z, k, _ = step(0.3, START)
    error = 0.3 * pair.E @ k
    scale = 1e-9 + 1e-6 * np.maximum(np.abs(START), np.abs(z))
    absolute = np.full(2, 1e-9)
    both = pair.error_norm(2, 0.3, START, z, k, 1e-6, absolute, np.empty(2))
    assert abs(both / math.sqrt(((error / scale) ** 2).mean()) - 1) < 1e-10
    one = pair.error_norm(1, 0.3, START, z, k, 1e-6, absolute[:1], np.empty(2))
    assert abs(one / abs(error[0] / scale[0]) - 1) < 1e-10
    largest = pair.error_norm(1, 0.3, START, z, k, 1e-6, absolute, np.empty(2))
    assert abs(largest / np.abs(error / scale).max() - 1) < 1e-10 and largest != one
    for bad in (math.nan, math.inf):
        k[0, 0] = bad
        assert not pair.error_norm(1, 0.3, START, z, k, 1e-6, absolute, np.empty(2)) < math.inf
