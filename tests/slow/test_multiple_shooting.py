"""Lorenz identified by multiple shooting: the sds of the posterior are honest, those of a shortcut are not."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.problems.lorenz import rhs as lorenz
from invsamp.solvers.ode import MultipleShooting, OdeModel

TRUTH = np.array([10.0, 28.0, 8.0 / 3.0])
TIMES = np.arange(401) * 0.05
DATA_SETS = 10
MODEL = OdeModel(lorenz, ("x", "y", "z"), ("sigma", "rho", "beta"), method="RK45", rtol=1e-5, atol=1e-5)
PATH = MODEL.solve(TRUTH[None], np.ones(3), TIMES).states[0]
SD = 0.05 * PATH.std(axis=0)
SHOOTING = MultipleShooting(MODEL, TIMES, segments=40)
PARAMETERS = {"sigma": iv.Uniform(0, 50), "rho": iv.Uniform(0, 100), "beta": iv.Uniform(0, 20)}


class FixedStarts:
    """The shortcut: every segment starts at its noisy datum."""

    parameters = MODEL.parameters

    def __init__(self, starts):
        self.starts = starts.ravel()

    def __call__(self, theta):
        return SHOOTING(self._full(theta))

    def linearize(self, theta):
        y, vjp = SHOOTING.linearize(self._full(theta))
        return y, lambda cotangent: vjp(cotangent)[:, :3]

    def _full(self, theta):
        return np.concatenate([theta, np.tile(self.starts, (len(theta), 1))], axis=1)


def observations(seed):
    return PATH + SD * np.random.default_rng(seed).standard_normal(PATH.shape)


def moments(run):
    theta = run.theta.reshape(-1, run.theta.shape[-1])[:, :3]
    return theta.mean(axis=0), theta.std(axis=0)


def scores(found):
    return np.array([(mean - TRUTH) / sd for mean, sd in found])


@pytest.mark.slow
def test_posterior_is_calibrated_and_agrees_with_laplace(draw):
    """z-scores of ten data sets: of 30 independent normal ones the rms leaves 0.6..1.6 four times in 10,000."""
    prior = iv.Prior(**PARAMETERS, starts=iv.Normal(0, 50, shape=(40, 3)))
    found, laplace = [], []
    for seed in range(DATA_SETS):
        fit = SHOOTING.fit(observations(seed), [5.0, 15.0, 1.0], SD)
        assert fit.converged
        posterior = iv.Posterior(prior, SHOOTING, observations(seed), iv.GaussianNoise(SD))
        start = fit.start(np.random.default_rng(seed), 4)
        run = draw(posterior, iv.mala(), draws=300, thin=2, warmup=250, chains=4, seed=seed, start=start)
        assert run.report["acceptance"][0] > 0.4
        found.append(moments(run))
        laplace.append((fit.values, fit.sd))
    z = scores(found)
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.6
    # the posterior is nearly normal: 30 means within 0.5 sd (some 150 effective draws: 0.08 sd of Monte Carlo error,
    # the rest for what is not normal), sds within a quarter
    assert np.abs(z - scores(laplace)).max() < 0.5
    ratio = np.array([sd for _, sd in found]) / np.array([sd for _, sd in laplace])
    assert ratio.min() > 0.75 and ratio.max() < 1.33
    np.testing.assert_allclose(ratio.mean(axis=0), 1.0, atol=0.1)


@pytest.mark.slow
def test_starts_fixed_at_noisy_data_make_false_confidence(draw):
    found = []
    for seed in range(DATA_SETS):
        model = FixedStarts(SHOOTING.initial_guess(observations(seed)))
        posterior = iv.Posterior(iv.Prior(**PARAMETERS), model, observations(seed), iv.GaussianNoise(SD))
        run = draw(posterior, iv.mala(), draws=100, warmup=100, chains=4, seed=seed, start=TRUTH)
        found.append(moments(run))
    assert np.sqrt(np.mean(scores(found) ** 2)) > 1.6
