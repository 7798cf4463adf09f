"""Sampling by gradient matching: minibatches and constraints have the right distributions."""

from __future__ import annotations

import numpy as np
import pytest
from lorenz_matching import NAMES, NORMALS, OFFSETS, with_noisy_derivatives

import invsamp as iv
from invsamp.domains import HalfSpaces
from invsamp.solvers.gradient_matching.matching import LinearModel


class TestMinibatches:
    r"""SGLD in coordinates w in which the posterior is N(0, I).

    The gradient is w plus noise of covariance r I, r = (N/n)(1 - n/N), because the squared residuals of N data add up
    to their precision. So w' = (1 - eps) w + eps noise + sqrt(2 eps) xi, where eps is the step size (twice that in the
    notation of Welling and Teh). Its stationary variance is (1 + eps r / 2) / (1 - eps / 2).
    """

    def run(self, draw, model, sd, step, estimator, **settings):
        mean, covariance = model.gaussian(sd)
        factor = np.linalg.cholesky(covariance)
        white = LinearModel(("w",), model.design @ factor, model.known + model.design @ mean, model.data)
        prior = iv.Prior(w=iv.Normal(0.0, 1e3, shape=3))
        posterior = iv.Posterior(prior, white, model.data, iv.GaussianNoise(sd))
        return draw(posterior, iv.samplers.sgld(step, estimator=estimator), start=np.zeros(3), **settings).theta

    def check(self, draw, agrees, within, model, size, step, **settings):
        total = len(model.data)
        ratio = total / size * (1.0 - size / total)
        formula = (1.0 + 0.5 * step * ratio) / (1.0 - 0.5 * step)
        w = self.run(draw, model, 1.0, step, iv.estimators.minibatch(size), **settings)
        variances = np.square(w).mean(axis=1)  # over the draws, (chains, 3)
        error = variances.mean(axis=1).std(ddof=1) / np.sqrt(len(w))
        assert error < 0.02 * formula  # the bound of 10% is five standard errors
        assert within(variances.mean() / formula - 1.0, 0.1)
        # without the noise of the minibatch
        assert not within(variances.mean() * (1.0 - 0.5 * step) - 1.0, 0.1)
        assert agrees(w.mean(axis=1), 0.0)

    def test_stationary_variance(self, draw, agrees, within):
        model = with_noisy_derivatives(20.0, 0.01, 1.0)
        self.check(draw, agrees, within, model, 60, 0.2, draws=800, warmup=50, chains=128)

    def test_all_data_have_no_factor(self, draw, within):
        """The control of the formula: the same sampler without minibatches has the variance of its step alone."""
        model = with_noisy_derivatives(5.0, 0.01, 1.0)
        w = self.run(draw, model, 1.0, 0.5, iv.estimators.exact(), draws=150, warmup=50, chains=64)
        assert within(np.square(w).mean() * 0.75 - 1.0, 0.05)

    @pytest.mark.slow
    def test_stationary_variance_of_the_published_setting(self, draw, agrees, within):
        """t 0..100 by 0.01, minibatches of 4,096 of 30,003 data."""
        model = with_noisy_derivatives(100.0, 0.01, 1.0)
        self.check(draw, agrees, within, model, 4096, 0.4, draws=90, warmup=10, chains=64)


class TestConstraints:
    """Reflection on the truncated Gaussian, at parameters where every kind of constraint cuts."""

    sd, prior = 1.0, (np.ones(3), np.ones(3))

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        return with_noisy_derivatives(10.0, 0.05, cls.sd, truth=(1.35, 1.3, 0.25), start=(2.0, -1.0, 1.0))

    @pytest.fixture(scope="class")
    @classmethod
    def exact(cls, model):
        """Draws of the truncated Gaussian by rejection: means and standard deviations to 0.2%."""
        drawn = np.random.default_rng(0).multivariate_normal(*model.gaussian(cls.sd, cls.prior), 1_000_000)
        for normal, offset, least in zip(NORMALS[2:], OFFSETS[2:], (0.8, 0.8, 0.4), strict=True):
            assert least < (drawn @ normal < offset).mean() < 0.95
        return drawn[(drawn @ NORMALS.T <= OFFSETS).all(axis=1)]

    def run(self, draw, model, exact, boundary):
        compressed = model.compressed(self.sd)
        prior = iv.Prior(**{name: iv.Normal(1.0, 1.0) for name in NAMES})
        domain = HalfSpaces(NORMALS, OFFSETS)
        posterior = iv.Posterior(prior, compressed, compressed.data, iv.GaussianNoise(1.0), domain=domain)
        sampler = iv.samplers.sgld(0.02, preconditioner="dense", boundary=boundary)
        return draw(posterior, sampler, draws=1500, thin=2, warmup=400, start=exact[:256]).theta

    def test_reflection_samples_the_truncated_gaussian(self, draw, within, model, exact):
        theta = self.run(draw, model, exact, "reflect")
        assert (theta @ NORMALS.T <= OFFSETS + 1e-12).all()
        spread = exact.std(axis=0)
        assert (theta.mean(axis=1).std(axis=0) / 16.0 < 0.0125 * spread).all()  # the bound is four standard errors
        assert within((theta.mean(axis=(0, 1)) - exact.mean(axis=0)) / spread, 0.05)
        assert within(theta.std(axis=(0, 1)) / spread - 1.0, 0.05)

    def test_projection_does_not(self, draw, within, model, exact):
        theta = self.run(draw, model, exact, "project")
        assert (theta @ NORMALS.T <= OFFSETS + 1e-12).all()
        assert not within((theta.mean(axis=(0, 1)) - exact.mean(axis=0)) / exact.std(axis=0), 0.2)
