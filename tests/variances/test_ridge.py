"""The regression of log variances: unbiased logs, leave-one-out errors, interpolation, tables."""

from __future__ import annotations

import numpy as np
import pytest
from sampled_variances import LOG_NOISE, PROBES, fitted_state, sample_variances, sigmoid_variance
from scipy.special import polygamma

from invsamp.variances.models import kernel_ridge
from invsamp.variances.ridge import (
    fit_ridge,
    leave_one_out_errors,
    predict_ridge,
    spread_out,
    standard_error,
    weights_of_centers,
)
from invsamp.variances.sample_variances import unbiased_log


def test_logs_are_unbiased_and_without_correction_are_not(within) -> None:
    # Shrinking the logs towards their mean moves each of them but hardly their average, so the mean error over the
    # pilot's states is the mean of the noise. Four standard errors of it: a false-alarm rate of 6e-5.
    rng = np.random.default_rng(2)
    fits, errors = 40, []
    for _ in range(fits):
        state = fitted_state(rng, sigmoid_variance)
        error = np.log(kernel_ridge().predict(state, state.positions)) - np.log(sigmoid_variance(state.positions))
        errors.append(error.mean())
    bound = 4 * np.sqrt(LOG_NOISE / (100 * fits))
    assert within(np.mean(errors), bound)
    correction = unbiased_log(np.ones(1), np.array([PROBES - 1.0]))[0]
    assert not within(np.mean(errors) - correction, bound)


@pytest.mark.parametrize("degrees_of_freedom", [1, 2, 9, 40])
def test_log_correction_is_that_of_the_chi_square_distribution(within, degrees_of_freedom: int) -> None:
    rng = np.random.default_rng(3)
    n = 200_000
    logs = unbiased_log(
        rng.chisquare(degrees_of_freedom, n) / degrees_of_freedom, np.full(n, float(degrees_of_freedom))
    )
    standard_error = np.sqrt(polygamma(1, degrees_of_freedom / 2) / n)
    assert within(logs.mean(), 4.5 * standard_error)


def test_leave_one_out_errors_are_those_of_fits_without_the_point() -> None:
    rng = np.random.default_rng(5)
    inputs, targets = rng.normal(size=(12, 2)), rng.normal(size=(12, 3))
    ridges = np.array([0.01, 1.0])
    errors = leave_one_out_errors(inputs, targets, ridges)
    for i in range(12):
        others = np.arange(12) != i
        for r, ridge in enumerate(ridges):
            mean = targets[others].mean(axis=0)
            squared = np.sum((inputs[others][:, None] - inputs[others]) ** 2, axis=2)
            weights = np.linalg.solve(np.exp(-squared / 2) + ridge * np.eye(11), targets[others] - mean)
            kernel = np.exp(-np.sum((inputs[others] - inputs[i]) ** 2, axis=1) / 2)
            np.testing.assert_allclose(errors[r, i], targets[i] - mean - kernel @ weights, rtol=1e-8, atol=1e-12)


def test_a_penalty_near_zero_interpolates() -> None:
    rng = np.random.default_rng(6)
    inputs, targets = np.linspace(-1, 1, 8)[:, None], rng.normal(size=(8, 2))
    fit = fit_ridge(inputs, targets, length_scale=0.3, ridge=1e-10)
    np.testing.assert_allclose(predict_ridge(fit, inputs), targets, atol=1e-6)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_tables_say_what_the_regression_says(dimension: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(15)
    position = rng.normal(size=(150, dimension)) * 10.0 ** np.arange(dimension) + 5.0
    truth = np.exp(np.tanh(position[:, 0] - 5.0)).reshape(-1, *(1,) * len(shape)) * np.ones(shape)
    model = kernel_ridge(150)
    state = model.update(model.init(shape), position, sample_variances(rng, truth), PROBES - 1)
    finished = model.finish(state)
    assert state.fit is not None and finished.fit is not None
    assert (finished.fit.table is not None) == (dimension < 3)
    at = np.concatenate([position, rng.normal(size=(200, dimension)) * 20.0**dimension, np.full((1, dimension), 1e9)])
    np.testing.assert_allclose(model.predict(finished, at), model.predict(state, at), rtol=5e-3)


def test_the_standard_error_is_that_of_the_gaussian_process() -> None:
    rng = np.random.default_rng(19)
    inputs, targets, at = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), rng.normal(size=(9, 2))
    noise, ridge = 0.5, 0.1
    fit = fit_ridge(inputs, targets, length_scale=0.8, ridge=ridge, noise=noise)
    squared = [np.sum(((a[:, None] - inputs) / (0.8 * inputs.std(axis=0))) ** 2, axis=2) for a in (inputs, at)]
    between, across = (np.exp(-s / 2) for s in squared)
    # eq. (2.26) of Rasmussen and Williams; the process has the variance noise / ridge = 5
    left = 1.0 - np.einsum("ij,ij->i", across, np.linalg.solve(between + ridge * np.eye(30), across.T).T)
    np.testing.assert_allclose(standard_error(fit, at), np.sqrt(5.0 * left), rtol=1e-6)
    np.testing.assert_allclose(standard_error(fit, np.array([[1e6, 0.0]])), np.sqrt(5.0))
    # targets that do not differ say nothing about what is far away
    alike = fit_ridge(inputs, targets, length_scale=0.8, ridge=100.0, noise=noise)
    np.testing.assert_allclose(standard_error(alike, np.array([[1e6, 0.0]])), 1.0)


def test_centers_are_the_regression_where_every_input_is_one() -> None:
    rng = np.random.default_rng(17)
    inputs, targets = rng.normal(size=(40, 2)), rng.normal(size=(40, 3))
    ridge = np.array([0.1, 1.0, 10.0])
    distance = np.sum((inputs[:, None] - inputs) ** 2, axis=2)
    kernel = np.exp(-0.5 * distance)
    expected = np.stack(
        [kernel @ np.linalg.solve(kernel + r * np.eye(40), y) for r, y in zip(ridge, targets.T, strict=True)], 1
    )
    centers = spread_out(inputs, 40)
    assert len(np.unique(centers, axis=0)) == 40
    weights = weights_of_centers(inputs, centers, targets, ridge)
    found = np.exp(-0.5 * np.sum((inputs[:, None] - centers) ** 2, axis=2)) @ weights
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(spread_out(np.repeat(inputs, 3, axis=0), 60)) == 40  # chains that did not move
