"""Lorenz identified by multiple shooting: the sds of the posterior are honest, those of a shortcut are not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

import invsamp as iv
from invsamp.problems.lorenz import rhs as lorenz
from invsamp.solvers.ode import MultipleShooting, OdeModel

TRUTH = np.array([10.0, 28.0, 8.0 / 3.0])
TIMES = np.arange(401) * 0.05
DATA_SETS = 6
MODEL = OdeModel(lorenz, ("x", "y", "z"), ("sigma", "rho", "beta"), method="RK45", rtol=1e-5, atol=1e-5)
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


@cache
def path():
    """States at the truth, and the noise's sd of each."""
    states = MODEL.solve(TRUTH[None], np.ones(3), TIMES).states[0]
    return states, 0.05 * states.std(axis=0)


def observations(seed):
    states, sd = path()
    return states + sd * np.random.default_rng(seed).standard_normal(states.shape)


def moments(run):
    theta = run.theta.reshape(-1, run.theta.shape[-1])[:, :3]
    return theta.mean(axis=0), np.cov(theta.T)


def surprise(found):
    """Sum of the squared distances of the truth from the means, over what it is on average, and its bound.

    For each data set three squares of independent normal numbers if the posteriors are right: beyond the bound once in
    100,000 times.
    """
    squares = sum((mean - TRUTH) @ np.linalg.solve(covariance, mean - TRUTH) for mean, covariance in found)
    degrees = 3 * len(found)
    return squares - degrees, chi2.isf(1e-5, degrees) - degrees


@pytest.mark.slow
def test_posterior_is_calibrated_and_agrees_with_laplace(draw, within):
    prior = iv.Prior(**PARAMETERS, starts=iv.Normal(0, 50, shape=(40, 3)))
    found, laplace = [], []
    for seed in range(DATA_SETS):
        fit = SHOOTING.fit(observations(seed), [5.0, 15.0, 1.0], path()[1])
        assert fit.converged
        posterior = iv.Posterior(prior, SHOOTING, observations(seed), iv.GaussianNoise(path()[1]))
        start = fit.start(np.random.default_rng(seed), 4)
        run = draw(posterior, iv.mala(), draws=200, thin=2, warmup=200, chains=4, seed=seed, start=start)
        assert run.report["acceptance"][0] > 0.4
        found.append(moments(run))
        laplace.append((fit.values, fit.sd))
    assert within(*surprise(found))
    # the posterior is nearly normal: 18 means within 0.5 sd (some 100 effective draws: 0.1 sd of Monte Carlo error,
    # the rest for what is not normal), sds within a third, and over the data sets within a tenth
    sds = np.array([np.sqrt(np.diag(covariance)) for _, covariance in found])
    means, modes, widths = (np.array(part) for part in ([mean for mean, _ in found], *zip(*laplace, strict=True)))
    assert within((means - modes) / widths, 0.5)
    assert within(np.log(sds / widths), np.log(1.4))
    assert within((sds / widths).mean(axis=0) - 1.0, 0.12)


@pytest.mark.slow
def test_starts_fixed_at_noisy_data_make_false_confidence(draw, within):
    found = []
    for seed in range(2):  # which are wrong enough
        model = FixedStarts(SHOOTING.initial_guess(observations(seed)))
        posterior = iv.Posterior(iv.Prior(**PARAMETERS), model, observations(seed), iv.GaussianNoise(path()[1]))
        run = draw(posterior, iv.mala(), draws=100, warmup=100, chains=4, seed=seed, start=TRUTH)
        found.append(moments(run))
    assert not within(*surprise(found))
