"""Consecutive reactions: their closed form against a general solver, both modes, and the rows of single experiments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import invsamp as iv
from invsamp.problems.reactions import CONCENTRATION, GROUPS, TIMES, TRUTH, Absorbance, by_quadrature, slow_or_fast


@pytest.mark.parametrize("k", [(1.3, 0.8), (0.8, 1.3), (0.9, 0.9), (0.9, 0.9 + 1e-6), (40.0, 0.2)])
def test_readings_are_those_of_a_general_solver(k):
    k1, k2 = k
    times = TIMES[GROUPS == 7]
    exact = solve_ivp(
        lambda t, x: (-k1 * x[0], k1 * x[0] - k2 * x[1]),
        (0.0, 7.0),
        (CONCENTRATION[GROUPS == 7][0], 0.0),
        t_eval=times,
        method="LSODA",
        rtol=1e-10,
        atol=1e-12,
    )
    y = Absorbance()(np.array([[k1, k2, 1.7]]))[0, GROUPS == 7]
    np.testing.assert_allclose(y, 1.7 * exact.y[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("theta", [(1.3, 0.8, 1.0), (0.8, 1.3, 1.6), (0.9, 0.9, 1.2), (0.9, 0.905, 1.2)])
def test_derivatives_are_those_of_the_readings(theta):
    at, h = np.array([theta]), 1e-6
    matrix = Absorbance().jacobian(at)[1][0]
    moves = h * np.eye(3)
    differences = (Absorbance()(at + moves) - Absorbance()(at - moves)) / (2.0 * h)
    np.testing.assert_allclose(matrix, differences.T, rtol=1e-6, atol=1e-8)


def test_a_batch_solves_what_it_reads():
    theta, indices = np.array([[1.3, 0.8, 1.0], [0.8, 1.3, 1.6]]), np.array([[3, 50], [7, 383]])
    model, rows = Absorbance(), np.arange(2)[:, None]
    for part, whole in zip(model.rows(theta, indices), model.jacobian(theta), strict=True):
        np.testing.assert_array_equal(part, whole[rows, indices])


def test_rates_exchanged_explain_the_data_as_well():
    """The readings are the same to rounding; so the modes differ by the prior of the absorptivity."""
    k1, k2, absorptivity = TRUTH.values()
    theta = np.array([[k1, k2, absorptivity], [k2, k1, absorptivity * k1 / k2]])
    one, two = Absorbance()(theta)
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_quadrature_is_that_of_laplace_nearly():
    known, modes = by_quadrature(points=101), iv.maximize(slow_or_fast(), seed=1)
    assert len(modes) == 2
    share = modes.weights[np.argmax(modes.theta[:, 0] > modes.theta[:, 1])]
    assert abs(known.fast_first - share) < 0.01
    mean = modes.weights @ modes.position
    np.testing.assert_allclose(known.mean, mean, atol=0.01)
