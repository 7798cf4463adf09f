"""Variances that are known or averaged; what all models have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_variances import SEEDS

from invsamp.variances.models import VarianceModel, kernel_ridge, known, running_average


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
        (lambda: known([1.0, np.nan]), "value must be finite numbers"),
        (lambda: known(np.ones((2, 3))), r"got \(2, 3\)"),
        (lambda: known([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: known([[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite"),
        (lambda: known([1.0, 2.0]).init(()), r"value of shape \(2,\) cannot stand for a variance of shape \(\)"),
        (lambda: known([1.0, 2.0]).init((3,)), "cannot stand"),
        (lambda: known(lambda x: -x[:, 0]).predict(known(1).init(()), np.ones((2, 1))), ">= 0, got -1.0"),
        (lambda: known(lambda x: np.array(1.0)).predict(known(1).init(()), np.ones((2, 1))), r"per position \(2\)"),
        (lambda: running_average(0.0), r"smoothing must be a number in \(0, 1\], got 0.0"),
        (lambda: running_average(1.5), "smoothing"),
        (lambda: kernel_ridge(2), "states must be an integer >= 3, got 2"),
        (lambda: kernel_ridge(10.5), "states"),  # type: ignore[arg-type]
        (lambda: kernel_ridge(10, max_states=9), "max_states must be an integer >= 10, got 9"),
        (lambda: kernel_ridge(length_scale=0.0), "length_scale must be a positive finite number, got 0.0"),
        (lambda: kernel_ridge(ridge=-1.0), "ridge must be a positive finite number"),
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
