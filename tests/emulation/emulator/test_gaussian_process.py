"""The Gaussian process: gradients, leave-one-out errors, and functions that it knows."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.emulation.emulator.gaussian_process import GaussianProcess, Hyperparameters, _Objective, fit

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2 - 1.0])
PROCESS = GaussianProcess(X, Y, Hyperparameters(np.array([2.0, 0.3, 0.05]), 0.5, np.array([1.0, 2.0, 3.0]), 1e-4))
SHARED = GaussianProcess(X, Y, PROCESS.hyperparameters._replace(shared=True))


@pytest.mark.parametrize("process", [PROCESS, SHARED])
def test_pulls_slopes_back_as_differences_have_them(process: GaussianProcess) -> None:
    x, step = RNG.standard_normal((4, 3)), 1e-5
    by_mean, by_variance = RNG.standard_normal((4, 2)), RNG.standard_normal(4)

    def value(at: np.ndarray) -> np.ndarray:
        found = process.predict(at)
        return (found.mean * by_mean).sum(axis=1) + found.variance * by_variance

    slope = process.predict(x).pull_back(by_mean, by_variance)
    for k in range(3):
        move = step * np.eye(3)[k]
        assert (value(x + move) - value(x - move)) / (2 * step) == pytest.approx(slope[:, k], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("process", [PROCESS, SHARED])
def test_leaves_one_out_as_a_process_without_that_point_does(process: GaussianProcess) -> None:
    errors, factors = process.leave_one_out()
    for k in (0, 7):
        others = np.arange(len(X)) != k
        found = GaussianProcess(X[others], Y[others], process.hyperparameters).predict(X[k : k + 1])
        assert found.mean[0] == pytest.approx(Y[k] - errors[k], abs=1e-9)
        # that of a noisy observation, which the left-out point is
        assert found.variance[0] + process.hyperparameters.noise == pytest.approx(factors[k], rel=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_objective_has_the_gradient_of_its_value(shared: bool) -> None:
    objective = _Objective(X, Y, np.ones(2), 1.0, shared)
    row, step = PROCESS.hyperparameters.packed(), 1e-6
    _, slope = objective(row)
    for k, direction in enumerate(np.eye(len(row))):
        difference = objective(row + step * direction)[0] - objective(row - step * direction)[0]
        assert difference / (2 * step) == pytest.approx(slope[k], rel=1e-4, abs=1e-4)


def test_learns_a_cubic_polynomial_from_few_points_with_small_sds() -> None:
    rng = np.random.default_rng(1)
    x, there = rng.standard_normal((40, 3)), rng.standard_normal((50, 3))

    def cubic(at: np.ndarray) -> np.ndarray:
        return np.column_stack([at[:, 0] * at[:, 1] + at[:, 2] ** 3, 10.0 * at[:, 1]])

    process = fit(x, cubic(x) - cubic(x).mean(axis=0))
    found = process.predict(there)
    error = found.mean + cubic(x).mean(axis=0) - cubic(there)
    assert np.abs(error).max() < 0.1
    assert np.sqrt(np.mean(error**2 / (found.variance[:, None] * process.scales))) < 3.0


def test_trends_that_share_the_lengths_learn_a_product_of_two_inputs_of_twelve_from_fewer_points() -> None:
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, there = rng.standard_normal((60, 12)), rng.standard_normal((200, 12))

        def product(at: np.ndarray) -> np.ndarray:
            return (at[:, 0] * at[:, 1] + 0.1 * at.sum(axis=1))[:, None]

        away = [
            fit(x, product(x), iterations=60, shared=shared).predict(there).mean - product(there)
            for shared in (False, True)
        ]
        ratios.append(np.linalg.norm(away[1]) / np.linalg.norm(away[0]))
    assert max(ratios) < 0.1  # at most .0005 for seeds 0 to 19


def test_variance_is_that_of_the_prior_far_away_and_none_at_the_points() -> None:
    assert (PROCESS.predict(X).variance <= 1e-4).all()
    assert PROCESS.predict(10.0 * np.ones((1, 3))).variance[0] > 1.0


@pytest.mark.parametrize("shared", [False, True])
def test_far_points_leave_it_positive_definite(shared: bool) -> None:
    """Strong data: standardized by the posterior, the prior's points are so far out that trends exceed rounding."""
    rng = np.random.default_rng(0)
    far = np.concatenate([rng.standard_normal((10, 2)), 1e5 * rng.standard_normal((20, 2))])
    found = fit(far, np.column_stack([np.cbrt(far[:, 0]) + far[:, 1], np.tanh(far[:, 1])]), shared=shared)
    assert np.isfinite(found.leave_one_out()[0]).all()
    assert np.isfinite(found.predict(rng.standard_normal((5, 2))).mean).all()
