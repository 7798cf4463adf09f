"""The Gaussian that is fitted to a posterior around its mode, against the same by dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from field_cases import Bent, bent_field

import invsamp as iv
from invsamp.domains import Unbounded
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered
from invsamp.modes.products import source_of
from invsamp.modes.variational import PAIRS, fitted
from invsamp.posing.posterior.gaussian_reference import reference_of

D = 90


def fit(posterior, seed=3):
    """The mode's Gaussian, the fitted one with the posterior's width, and what was counted."""
    (mode,) = iv.maximize(posterior, seed=1).gaussians
    potential = CountedPotential(posterior.potential(), "model")
    source = source_of(potential, reference_of(posterior), Unbounded())
    found = answered(fitted(source, mode, D, np.random.default_rng(seed)), potential.answer_all)
    return mode, found, potential


def inverse(gaussian):
    """Its precision (d, d)."""
    root = gaussian.metric.color(np.eye(D))
    return np.linalg.inv(root.T @ root)


def test_it_is_the_average_over_draws_of_the_mode():
    posterior = bent_field(D)
    mode, found, potential = fit(posterior)
    moves = mode.metric.color(np.random.default_rng(3).standard_normal((PAIRS, D)))
    draws = mode.mean + np.concatenate([moves, -moves])
    jacobian = Bent().jacobian(draws)[1] / 0.35
    precision = np.eye(D) + np.einsum("kmd,kme->de", jacobian, jacobian) / len(draws)
    # eigenvalues that are left out are below that
    np.testing.assert_allclose(inverse(found.gaussian), precision, atol=0.05)
    slope = posterior.potential().energy_and_gradient(draws)[1].mean(axis=0)
    np.testing.assert_allclose(found.gaussian.mean, mode.mean - np.linalg.solve(precision, slope), atol=0.05)
    assert np.abs(found.gaussian.mean - mode.mean).max() > 0.1  # there is something to fit
    covariance = np.mean([np.linalg.inv(np.eye(D) + part.T @ part) for part in jacobian], axis=0)
    ratios = np.linalg.eigvals(covariance @ precision).real
    assert found.width > 1.1
    np.testing.assert_allclose(found.width, np.sqrt(ratios.max()), rtol=0.01)
    assert potential.evaluations == 2 * PAIRS and potential.products == 2 * 2 * PAIRS


def test_of_a_linear_model_it_is_that_of_the_mode():
    slopes = np.zeros((3, D))
    slopes[0, :2], slopes[1, 3], slopes[2, 7] = 1.0, 10.0, 100.0
    model = iv.with_jacobian(lambda b: b @ slopes.T, lambda b: np.broadcast_to(slopes, (len(b), *slopes.shape)))
    prior = iv.Prior(b=iv.Normal(0.5, np.full(D, 2.0)))
    mode, found, _ = fit(iv.Posterior(prior, model, [1.0, 2.0, 3.0], iv.GaussianNoise(0.5)))
    np.testing.assert_allclose(found.gaussian.mean, mode.mean, atol=1e-6)
    np.testing.assert_allclose(inverse(found.gaussian), inverse(mode), rtol=1e-8, atol=1e-8)
    assert found.width < 1.0 + 1e-8


class _Failing(Bent):
    """Cannot be solved where an unknown that the data say nothing of is above a number."""

    def __init__(self, most):
        self.most = most

    def __call__(self, theta):
        return np.where(theta[:, 5:6] > self.most, np.nan, super().__call__(theta))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("most", [0.01, 0.5])
def test_pairs_that_cannot_be_solved_are_left_out(most):
    prior = iv.Prior(x=iv.Normal(0.0, np.ones(D)))
    mode, found, _ = fit(iv.Posterior(prior, _Failing(most), [0.8, 0.4], iv.GaussianNoise(0.35)))
    if most == 0.01:
        assert found == (mode, 1.0)  # one of each pair
        return
    moves = mode.metric.color(np.random.default_rng(3).standard_normal((PAIRS, D)))
    left = moves[np.abs(moves[:, 5]) < most]
    assert 0 < len(left) < PAIRS
    jacobian = Bent().jacobian(mode.mean + np.concatenate([left, -left]))[1] / 0.35
    precision = np.eye(D) + np.einsum("kmd,kme->de", jacobian, jacobian) / (2 * len(left))
    np.testing.assert_allclose(inverse(found.gaussian), precision, atol=0.05)
