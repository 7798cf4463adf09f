"""Optimization by Gauss-Newton matrices within bounds: steps, optima at bounds, data that are not fitted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares

from invsamp.domains import Box, Unbounded
from invsamp.evaluate.requests import Estimate, answered
from invsamp.modes import gauss_newton
from invsamp.modes.descent import descend
from invsamp.modes.objective import Objective


def squares(residuals, jacobian, curved=True):
    """An energy that is half a sum of squares, of rows (n, d) -> (n, m) and (n, m, d)."""

    def evaluate(at):
        r, slopes = residuals(at), jacobian(at)
        matrix = np.einsum("nmi,nmj->nij", slopes, slopes)
        gradient = np.einsum("nm,nmi->ni", r, slopes)
        return Estimate(0.5 * (r * r).sum(axis=1), gradient, gradient_variance=matrix if curved else None)
        yield

    return evaluate


def decay(curved=True):
    """a exp(-b t) + c observed at twelve times without noise, in logarithms; c is below its bound."""
    t = np.linspace(0.0, 3.0, 12)
    data = 2.0 * np.exp(-1.5 * t) + 0.01

    def parts(at):
        a, b, c = (np.exp(at[:, k, None]) for k in range(3))
        return a, b, c, np.exp(-b * t)

    def residuals(at):
        a, _, c, fall = parts(at)
        return (a * fall + c - data) / 1e-3

    def jacobian(at):
        a, b, c, fall = parts(at)
        return np.stack([a * fall, -a * b * t * fall, c + 0.0 * t], axis=2) / 1e-3

    return squares(residuals, jacobian, curved), residuals, jacobian


BOX = Box([-6.0, -6.0, -3.0], [6.0, 6.0, 3.0])


def led(evaluate, position, domain, **settings):
    given = {"tolerance": 1e-6, "most": 400} | settings
    scale = given.pop("scale", np.ones(position.shape[1]))
    return answered(descend(Objective(evaluate, scale, domain), position, **given), None)


def test_steps_within_bounds_satisfy_the_conditions_of_a_minimum():
    rng = np.random.default_rng(0)
    n, d = 200, 7
    roots = rng.standard_normal((n, d, d)) * np.logspace(-1, 1, d)
    matrix = roots @ roots.transpose(0, 2, 1) + 1e-3 * np.eye(d)
    slope = 30.0 * rng.standard_normal((n, d))
    low, high = -rng.exponential(size=(n, d)), rng.exponential(size=(n, d))
    low[:, 0] = high[:, 1] = 0.0  # at a bound
    step = gauss_newton.within(matrix, slope, low, high)
    rest = slope + np.einsum("nij,nj->ni", matrix, step)
    size = np.abs(slope).max(axis=1, keepdims=True)
    assert ((step >= low) & (step <= high)).all()
    assert (np.abs(rest) < 1e-7 * size)[(step > low) & (step < high)].all()
    assert (rest > -1e-7 * size)[step == low].all()
    assert (rest < 1e-7 * size)[step == high].all()
    assert 0.2 < ((step == low) | (step == high)).mean() < 0.9  # the bounds matter


def test_an_optimum_at_a_bound_is_found_from_afar():
    evaluate, residuals, jacobian = decay()
    starts = np.random.default_rng(1).uniform(BOX.lower, BOX.upper, (40, 3))
    best = least_squares(
        lambda x: residuals(x[None])[0], [0.5, 0.0, 0.0], lambda x: jacobian(x[None])[0], bounds=(BOX.lower, BOX.upper)
    )
    end, other = led(evaluate, starts.copy(), BOX), led(decay(curved=False)[0], starts.copy(), BOX)
    close = [np.count_nonzero(found.energy < best.cost + 1e-3) for found in (end, other)]
    assert end.converged.all()
    assert end.energy.min() > best.cost - 1e-3
    assert close[0] > 20
    assert close[0] > close[1] + 5  # where bounds truncate steps
    assert np.abs(end.position[np.argmin(end.energy), 2] - BOX.lower[2]) < 1e-5


def test_data_that_are_not_met(monkeypatch):
    """Brown and Dennis (1971): residuals of hundreds at the minimum, 85822.2, where Gauss-Newton steps overshoot."""
    t = np.arange(1, 21) / 5.0

    def sides(x):
        return x[:, :1] + x[:, 1:2] * t - np.exp(t), x[:, 2:3] + x[:, 3:4] * np.sin(t) - np.cos(t)

    def residuals(x):
        one, other = sides(x)
        return one**2 + other**2

    def jacobian(x):
        one, other = (2.0 * part for part in sides(x))
        return np.stack([one, one * t, other, other * np.sin(t)], axis=2)

    start, scale = np.array([[25.0, 5.0, -5.0, -1.0]]), np.full(4, 10.0)
    evaluate, domain = squares(residuals, jacobian), Box([-100.0] * 4, [100.0] * 4)
    end = led(evaluate, start.copy(), domain, scale=scale)
    assert 2.0 * end.energy[0] == pytest.approx(85822.2, abs=0.1)
    assert end.converged[0]
    monkeypatch.setattr(gauss_newton, "CURVED", np.inf)
    plain = led(evaluate, start.copy(), domain, scale=scale)
    assert end.evaluations[0] < 0.7 * plain.evaluations[0]


def test_coordinates_without_scale_stay():
    starts = np.random.default_rng(2).uniform(BOX.lower, BOX.upper, (5, 3))
    end = led(decay()[0], starts.copy(), BOX, scale=np.array([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(end.position[:, 1], starts[:, 1])
    assert (np.abs(end.position[:, 0] - starts[:, 0]) > 1e-3).all()


def test_a_quadratic_takes_few_steps():
    rng = np.random.default_rng(3)
    root = rng.standard_normal((30, 20)) * np.logspace(-2, 2, 20)

    def jacobian(at):
        return np.broadcast_to(root, (len(at), *root.shape))

    end = led(squares(lambda at: at @ root.T, jacobian), rng.standard_normal((8, 20)), Unbounded())
    assert (end.energy < 1e-4).all()
    assert end.evaluations.max() < 60


def test_an_optimum_at_the_end_of_a_flat_valley():
    """Between parameters of which the data identify the sum, and hardly each one."""
    slopes, data = np.array([[10.0, 10.0], [1e-3, 0.0]]), np.array([0.0, 1e-2])
    evaluate = squares(lambda at: at @ slopes.T - data, lambda at: np.broadcast_to(slopes, (len(at), 2, 2)))
    end = led(evaluate, np.array([[-2.0, 1.5]]), Box([-3.0, -3.0], [3.0, 3.0]), tolerance=1e-8)
    np.testing.assert_allclose(end.position, [[3.0, -3.0]], atol=1e-5)
    assert end.evaluations[0] < 40
