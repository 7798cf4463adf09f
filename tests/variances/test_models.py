"""Variance models: unbiased in the log, positive by construction, equal to simple averages in their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, polygamma

from invsamp.variances.kernel_ridge import KernelRidge, KernelRidgeState
from invsamp.variances.models import VarianceModel, kernel_ridge, known, running_average
from invsamp.variances.ridge import (
    CENTRES,
    fit_ridge,
    leave_one_out_errors,
    predict_ridge,
    spread_out,
    weights_of_centres,
)
from invsamp.variances.sample_variances import unbiased_log

SEEDS = st.integers(0, 2**32 - 1)
PROBES = 10
#: Variance of the log of a sample variance of ten Gaussian probes.
LOG_NOISE = float(polygamma(1, (PROBES - 1) / 2))


def sample_variances(rng: np.random.Generator, variance: np.ndarray, probes: int = PROBES) -> np.ndarray:
    """Sample variances of Gaussian probes with these variances."""
    return rng.normal(size=(probes, *variance.shape)).var(axis=0, ddof=1) * variance


def sigmoid_variance(position: np.ndarray) -> np.ndarray:
    return np.asarray((1.5 * expit(position[:, 0])) ** 2)


def fitted_state(
    rng: np.random.Generator, truth: Callable[[np.ndarray], np.ndarray], **settings: Any
) -> KernelRidgeState:
    """A pilot of 100 states, spread over -4..4."""
    model = kernel_ridge(100, **settings)
    position = rng.uniform(-4, 4, (100, 1))
    return model.update(model.init(()), position, sample_variances(rng, truth(position)), PROBES - 1)


# --- kernel ridge ----------------------------------------------------------------------------------------------------


def test_kernel_ridge_recovers_a_variance_that_depends_on_the_state() -> None:
    # A linear smoother with p effective degrees of freedom on n states has mean square noise p LOG_NOISE / n. A
    # sigmoid needs few: p = 10 bounds noise and bias together. The raw targets have p = n, one constant misses by 1.2.
    rng = np.random.default_rng(1)
    grid = np.linspace(-3.5, 3.5, 50)[:, None]
    truth = np.log(sigmoid_variance(grid))
    squares = []
    for _ in range(30):
        state = fitted_state(rng, sigmoid_variance)
        squares.append(np.mean((np.log(kernel_ridge().predict(state, grid)) - truth) ** 2))
    assert np.mean(squares) < 10 * LOG_NOISE / 100
    constant = running_average()
    position = rng.uniform(-4, 4, (100, 1))
    samples = sample_variances(rng, sigmoid_variance(position))
    average = constant.update(constant.init(()), position, samples, PROBES - 1)
    assert np.mean((np.log(constant.predict(average, grid)) - truth) ** 2) > 10 * LOG_NOISE / 100


def test_logs_are_unbiased_and_without_correction_are_not() -> None:
    # Shrinking the logs towards their mean moves each of them but hardly their average, so the mean error over the
    # pilot's states is the mean of the noise. Four standard errors of it: a false-alarm rate of 6e-5.
    rng = np.random.default_rng(2)
    fits, errors = 40, []
    for _ in range(fits):
        state = fitted_state(rng, sigmoid_variance)
        error = np.log(kernel_ridge().predict(state, state.positions)) - np.log(sigmoid_variance(state.positions))
        errors.append(error.mean())
    bound = 4 * np.sqrt(LOG_NOISE / (100 * fits))
    assert abs(np.mean(errors)) < bound
    correction = unbiased_log(np.ones(1), np.array([PROBES - 1.0]))[0]
    assert abs(np.mean(errors) - correction) > bound


@pytest.mark.parametrize("degrees_of_freedom", [1, 2, 9, 40])
def test_log_correction_is_that_of_the_chi_square_law(degrees_of_freedom: int) -> None:
    rng = np.random.default_rng(3)
    n = 200_000
    logs = unbiased_log(
        rng.chisquare(degrees_of_freedom, n) / degrees_of_freedom, np.full(n, float(degrees_of_freedom))
    )
    standard_error = np.sqrt(polygamma(1, degrees_of_freedom / 2) / n)
    assert abs(logs.mean()) < 4 * standard_error


def test_constant_truth_gives_nearly_a_constant() -> None:
    # the constant itself costs one degree of freedom; choosing among the settings of the grid may cost a few more,
    # but far fewer than the fixed setting that follows every state
    rng = np.random.default_rng(4)
    grid = np.linspace(-4, 4, 50)[:, None]
    chosen: list[float] = []
    fixed: list[float] = []
    for _ in range(30):
        for errors, settings_ in ((chosen, {}), (fixed, {"length_scale": 0.1, "ridge": 0.1})):
            state = fitted_state(rng, lambda x: np.full(len(x), 7.0), **settings_)
            errors.append(np.mean(np.log(kernel_ridge().predict(state, grid) / 7.0) ** 2))
    assert np.mean(chosen) < 6 * LOG_NOISE / 100 < np.mean(fixed)
    # with an infinite penalty only the intercept is left
    state = fitted_state(rng, sigmoid_variance, ridge=1e12, length_scale=1.0)
    logs = unbiased_log(state.variances, state.degrees_of_freedom)
    np.testing.assert_allclose(kernel_ridge().predict(state, grid), np.exp(logs.mean()), rtol=1e-9)


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


@settings(deadline=None, max_examples=50)
@given(seed=SEEDS, dimension=st.integers(1, 3), spread=st.floats(0, 30), form=st.sampled_from(["()", "(d,)", "(d, d)"]))
def test_predictions_stay_positive_bounded_and_finite(seed: int, dimension: int, spread: float, form: str) -> None:
    rng = np.random.default_rng(seed)
    position = rng.normal(size=(25, dimension)) * 10 ** rng.uniform(-3, 3, dimension)
    position[5:10] = position[5]  # a chain that did not move
    scale = np.exp(spread * rng.normal(size=(25, 1)))
    probes = rng.normal(size=(25, 4, dimension)) * np.sqrt(scale)[:, None]
    covariance = np.einsum("npi,npj->nij", probes, probes) / 4
    samples = {"()": covariance[:, 0, 0], "(d,)": np.einsum("nii->ni", covariance), "(d, d)": covariance}[form]
    model = kernel_ridge(25)
    state = model.update(model.init(samples.shape[1:]), position, samples, 4)
    for at in (position, 1e6 * position, rng.normal(size=(7, dimension))):
        variance = model.predict(state, at)
        assert variance.shape == (len(at), *samples.shape[1:])
        assert np.isfinite(variance).all()
        diagonal = np.einsum("nii->ni", variance) if form == "(d, d)" else variance
        targets = np.einsum("nii->ni", samples) if form == "(d, d)" else samples
        logs = np.exp(unbiased_log(targets, np.full((25,) + (1,) * (targets.ndim - 1), 4.0)))
        assert (diagonal > 0).all()
        assert (diagonal <= logs.max(axis=0) * (1 + 1e-9)).all() and (diagonal >= logs.min(axis=0) * (1 - 1e-9)).all()
        if form == "(d, d)":
            assert (np.linalg.eigvalsh(variance)[:, 0] >= -1e-12 * np.einsum("nii->n", variance)).all()


def test_far_from_the_pilot_the_log_returns_to_its_mean() -> None:
    state = fitted_state(np.random.default_rng(7), sigmoid_variance)
    assert state.fit is not None
    far = kernel_ridge().predict(state, np.array([[1e9], [-1e9]]))
    np.testing.assert_allclose(far, np.exp(state.fit.mean[0]), rtol=1e-12)
    variance = kernel_ridge().predict(state, state.positions)
    assert variance.min() < far[0] < variance.max()


def test_full_covariance_has_the_regressed_diagonal_and_one_correlation() -> None:
    rng = np.random.default_rng(8)
    position = rng.uniform(-3, 3, (400, 1))
    correlation = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 1.0]])
    sd = np.sqrt(sigmoid_variance(position))[:, None] * np.array([1.0, 10.0, 0.1])
    probes = rng.normal(size=(PROBES, 400, 3)) @ np.linalg.cholesky(correlation).T * sd
    residuals = probes - probes.mean(axis=0)
    model = kernel_ridge(400)
    samples = np.einsum("pni,pnj->nij", residuals, residuals) / (PROBES - 1)
    full = model.update(model.init((3, 3)), position, samples, PROBES - 1)
    diagonal = model.update(model.init((3,)), position, np.einsum("nii->ni", samples), PROBES - 1)
    prediction = model.predict(full, position)
    np.testing.assert_allclose(np.einsum("nii->ni", prediction), model.predict(diagonal, position), rtol=1e-12)
    assert full.correlation is not None
    # 3,600 degrees of freedom behind each of three correlations, of standard error below 1 / 60; four of them
    np.testing.assert_allclose(full.correlation, correlation, atol=4 / 60)
    assert np.abs(full.correlation - np.eye(3)).max() > 4 / 60


def test_pilot_fills_up_and_then_stays() -> None:
    rng = np.random.default_rng(9)
    model = kernel_ridge(states=10, most=12)
    empty = model.init(())
    position, samples = rng.normal(size=(8, 2)), rng.gamma(2.0, size=8)
    samples[0], samples[1] = np.nan, np.inf
    first = model.update(empty, position, samples, 3)
    assert len(empty.degrees_of_freedom) == 0
    assert len(first.degrees_of_freedom) == 6
    assert model.wants_samples(first, position).all()
    np.testing.assert_allclose(model.predict(first, position), samples[2:].mean())
    second = model.update(first, position, rng.gamma(2.0, size=8), 5)
    np.testing.assert_array_equal(second.degrees_of_freedom, [3] * 6 + [5] * 6)
    assert not model.wants_samples(second, 1e3 * position).any()
    assert model.update(second, position, rng.gamma(2.0, size=8), 5) is second


def test_states_that_never_moved_give_their_geometric_mean() -> None:
    model = kernel_ridge(states=5)
    samples = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    state = model.update(model.init(()), np.ones((5, 2)), samples, 9)
    expected = np.exp(unbiased_log(samples, np.full(5, 9.0)).mean())
    np.testing.assert_allclose(model.predict(state, np.ones((3, 2))), expected)


def test_energy_without_noise_is_predicted_as_next_to_none() -> None:
    model = kernel_ridge(states=5)
    state = model.update(model.init(()), np.arange(5.0)[:, None], np.zeros(5), 9)
    assert (model.predict(state, np.arange(5.0)[:, None]) < 1e-300).all()


def visits(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A hundred states in one mode, then n in both; and how noisy they are: sd 1 in one mode, 10 in the other."""
    far = np.append(np.zeros(100, dtype=bool), rng.random(n) < 0.5)
    position = np.where(far, 3.0, -4.0)[:, None] + 0.5 * rng.normal(size=(100 + n, 1))
    return position, np.where(far, 100.0, 1.0)


def learnt(model: KernelRidge, position: np.ndarray, truth: np.ndarray, seed: int = 13) -> KernelRidgeState:
    """The model's state after it was shown every position in turn and probed those that it asked for."""
    rng = np.random.default_rng(seed)
    state = model.init(())
    for k in range(len(position)):
        if model.wants_samples(state, position[k : k + 1])[0]:
            state = model.update(state, position[k : k + 1], sample_variances(rng, truth[k : k + 1]), PROBES - 1)
    return model.finish(state)


def test_a_pilot_grows_until_it_covers_what_is_visited() -> None:
    position, truth = visits(np.random.default_rng(12), 400)
    model, first_only = kernel_ridge(100), kernel_ridge(100, most=100)
    grown, stuck = learnt(model, position, truth), learnt(first_only, position, truth)
    modes, sizes = np.array([[-4.0], [3.0]]), np.array([1.0, 100.0])
    # some ten states of nine degrees of freedom stand behind each prediction: 0.16 is the sd of its log, four of them
    assert np.abs(np.log(model.predict(grown, modes) / sizes)).max() < 0.64
    # the first states alone know nothing of the second mode, and say so
    assert np.log(sizes[1] / first_only.predict(stuck, modes)[1]) > 3.0
    assert first_only.covers(stuck, modes).tolist() == [True, False]
    # it stops by itself: of the 400 later states only those that told something new were probed
    assert 110 <= len(grown.degrees_of_freedom) < 250
    assert model.covers(grown, position).mean() > 0.9
    assert not model.wants_samples(grown, modes).any()


def test_a_pilot_ends_at_most_there() -> None:
    rng = np.random.default_rng(14)
    position = 1e3 * rng.normal(size=(60, 3))
    state = learnt(kernel_ridge(10, length_scale=0.01, most=40), position, np.ones(60))
    assert len(state.degrees_of_freedom) == state.fitted == 40


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


def test_thousands_of_states_are_cheap_and_tell_more() -> None:
    rng = np.random.default_rng(16)
    grid = np.linspace(-3.5, 3.5, 50)[:, None]
    errors = []
    for n in (200, 5000):
        model, squares = kernel_ridge(n), []
        for _ in range(8):
            position = rng.uniform(-4, 4, (n, 1))
            state = model.update(
                model.init(()), position, sample_variances(rng, sigmoid_variance(position)), PROBES - 1
            )
            assert state.fit is not None and len(state.fit.inputs) <= CENTRES
            squares.append(np.mean((np.log(model.predict(state, grid) / sigmoid_variance(grid))) ** 2))
        errors.append(np.mean(squares))
    # as for a hundred states above, but with twice the effective degrees of freedom: settings from few states vary
    assert errors[1] < 20 * LOG_NOISE / 5000 < errors[0]


def test_centres_are_the_regression_where_every_input_is_one() -> None:
    rng = np.random.default_rng(17)
    inputs, targets = rng.normal(size=(40, 2)), rng.normal(size=(40, 3))
    ridge = np.array([0.1, 1.0, 10.0])
    distance = np.sum((inputs[:, None] - inputs) ** 2, axis=2)
    kernel = np.exp(-0.5 * distance)
    expected = np.stack(
        [kernel @ np.linalg.solve(kernel + r * np.eye(40), y) for r, y in zip(ridge, targets.T, strict=True)], 1
    )
    centres = spread_out(inputs, 40)
    assert len(np.unique(centres, axis=0)) == 40
    weights = weights_of_centres(inputs, centres, targets, ridge)
    found = np.exp(-0.5 * np.sum((inputs[:, None] - centres) ** 2, axis=2)) @ weights
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(spread_out(np.repeat(inputs, 3, axis=0), 60)) == 40  # chains that did not move


# --- running average -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (3, 3)])
def test_running_average_is_the_mean_however_it_is_fed(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(10)
    samples = rng.gamma(2.0, size=(50, *shape))
    model = running_average()
    state = model.init(shape)
    for rows in np.split(np.arange(50), [1, 7, 30]):
        state = model.update(state, np.zeros((len(rows), 3)), samples[rows], 4)
    prediction = model.predict(state, np.zeros((6, 3)))
    assert prediction.shape == (6, *shape)
    np.testing.assert_allclose(prediction, np.broadcast_to(samples.mean(axis=0), prediction.shape), rtol=1e-13)


def test_running_average_pools_by_degrees_of_freedom_and_skips_failures() -> None:
    model = running_average()
    position = np.zeros((3, 1))
    state = model.update(model.init(()), position, np.array([1.0, np.nan, 3.0]), 1)
    state = model.update(state, position[:1], np.array([5.0]), 6)
    np.testing.assert_allclose(model.predict(state, position), (1.0 + 3.0 + 6 * 5.0) / 8)
    assert model.update(state, position[:1], np.array([np.inf]), 6) is state


def test_constant_smoothing_is_an_exponential_average() -> None:
    model = running_average(0.25)
    state = model.init(())
    expected = None
    for value in (4.0, 8.0, 0.0, 2.0):
        state = model.update(state, np.zeros((1, 1)), np.array([value]), 9)
        expected = value if expected is None else 0.75 * expected + 0.25 * value
        np.testing.assert_allclose(model.predict(state, np.zeros((1, 1))), [expected])
    assert model.wants_samples(state, np.zeros((2, 1))).all()


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, smoothing=st.none() | st.floats(0.01, 1.0))
def test_running_average_of_covariances_is_positive_semidefinite(seed: int, smoothing: float | None) -> None:
    rng = np.random.default_rng(seed)
    model = running_average(smoothing)
    state = model.init((3, 3))
    for _ in range(5):
        # one degree of freedom: each sample covariance has rank one
        probes = rng.normal(size=(2, 3)) * 10 ** rng.uniform(-3, 3, 3)
        state = model.update(state, np.zeros((2, 3)), np.einsum("ni,nj->nij", probes, probes), 1)
    covariance = model.predict(state, np.zeros((1, 3)))[0]
    assert np.linalg.eigvalsh(covariance)[0] >= -1e-12 * np.trace(covariance)


# --- known -----------------------------------------------------------------------------------------------------------


def test_known_values_take_the_wanted_form() -> None:
    position = np.arange(4.0).reshape(2, 2)
    cases: list[tuple[Any, tuple[int, ...], np.ndarray]] = [
        (2.0, (), np.array([2.0, 2.0])),
        (2.0, (2,), np.full((2, 2), 2.0)),
        (2.0, (2, 2), np.array([2 * np.eye(2)] * 2)),
        ([1.0, 3.0], (2,), np.array([[1.0, 3.0]] * 2)),
        ([1.0, 3.0], (2, 2), np.array([np.diag([1.0, 3.0])] * 2)),
        ([[1.0, 0.5], [0.5, 1.0]], (2, 2), np.array([[[1.0, 0.5], [0.5, 1.0]]] * 2)),
        (lambda x: x[:, 0], (), position[:, 0]),
        (lambda x: x, (2,), position),
        (lambda x: x, (2, 2), np.array([np.diag(row) for row in position])),
    ]
    for value, shape, expected in cases:
        model = known(value)
        state = model.init(shape)
        assert not model.wants_samples(state, position).any()
        assert model.update(state, position, np.ones((2, *shape)), 3) is state
        np.testing.assert_array_equal(model.predict(state, position), expected)


def test_settings_compare_hash_and_follow_the_protocol() -> None:
    assert known([1.0, 2.0]) == known(np.array([1.0, 2.0]))
    assert known(1.0) != known(2.0)
    assert kernel_ridge() == kernel_ridge(100)
    for model in (known(), known([[1.0, 0.0], [0.0, 1.0]]), running_average(), kernel_ridge()):
        assert isinstance(model, VarianceModel)
        assert isinstance(hash(model), int)
    assert known().stated and not known(1.0).stated


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: known(-1.0), "value must hold finite variances >= 0, got -1.0"),
        (lambda: known([1.0, np.nan]), "finite variances"),
        (lambda: known(np.ones((2, 3))), r"got \(2, 3\)"),
        (lambda: known([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: known([[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite"),
        (lambda: known([1.0, 2.0]).init(()), r"value of shape \(2,\) cannot stand for a variance of shape \(\)"),
        (lambda: known([1.0, 2.0]).init((3,)), "cannot stand"),
        (lambda: known(lambda x: -x[:, 0]).predict(known(1).init(()), np.ones((2, 1))), ">= 0, got -1.0"),
        (lambda: known(lambda x: np.array(1.0)).predict(known(1).init(()), np.ones((2, 1))), r"per position \(2\)"),
        (lambda: running_average(0.0), r"smoothing must be in \(0, 1\], got 0.0"),
        (lambda: running_average(1.5), "smoothing"),
        (lambda: kernel_ridge(2), "states must be an integer of at least 3, got 2"),
        (lambda: kernel_ridge(10.5), "states"),  # type: ignore[arg-type]
        (lambda: kernel_ridge(10, most=9), "most must be an integer of at least the 10 states, got 9"),
        (lambda: kernel_ridge(length_scale=0.0), "length_scale must be positive and finite, got 0.0"),
        (lambda: kernel_ridge(ridge=-1.0), "ridge must be positive"),
        (lambda: _update(running_average(), np.ones((2, 3)), 4), r"shape \(n, \*\(\)\), got \(2, 3\)"),
        (lambda: _update(kernel_ridge(), np.ones(2), 0), "degrees_of_freedom must be at least 1, got 0"),
    ],
)
def test_bad_input_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def _update(model: VarianceModel, samples: np.ndarray, degrees_of_freedom: int) -> object:
    return model.update(model.init(()), np.zeros((len(samples), 1)), samples, degrees_of_freedom)


@pytest.mark.parametrize("model", [known(), running_average(), kernel_ridge()])
def test_no_prediction_without_data(model: VarianceModel) -> None:
    with pytest.raises(RuntimeError, match=r"update|states its variance"):
        model.predict(model.init(()), np.zeros((1, 1)))
