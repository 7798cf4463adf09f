"""Laplace's Gaussian of very many unknowns: the prior's, narrowed where data inform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import invsamp as iv
from invsamp.domains import Box, Unbounded
from invsamp.evaluate.requests import Estimate, answered
from invsamp.modes.low_rank import low_rank
from invsamp.modes.products import DifferenceProducts
from invsamp.protocols import Reference


def linear(d, data=12, prior=None, domain=None):
    """A smoothing linear model of d unknowns: some ten directions are informed; with slopes, data and noise's sd."""
    rng = np.random.default_rng(d)
    slopes = rng.standard_normal((data, d)) * np.geomspace(3.0, 0.1, data)[:, None] / np.sqrt(d)
    y, sd = rng.standard_normal(data), 0.05
    model = iv.with_jacobian(lambda b: b @ slopes.T, lambda b: np.broadcast_to(slopes, (len(b), *slopes.shape)))
    prior = prior or iv.Normal(0.0, np.linspace(0.5, 2.0, d))
    return iv.Posterior(iv.Prior(b=prior), model, y, iv.GaussianNoise(sd), domain), slopes, y, sd


class TestManyUnknowns:
    D = 800

    @pytest.fixture(scope="class")
    @classmethod
    def known(cls):
        """The problem, what was found, and the posterior's mean, covariance and log evidence."""
        posterior, slopes, y, sd = linear(cls.D)
        spread = np.linspace(0.5, 2.0, cls.D)
        wide = slopes * spread**2
        inner = slopes @ wide.T + sd**2 * np.eye(len(y))
        gain = wide.T @ np.linalg.inv(inner)
        evidence = multivariate_normal(np.zeros(len(y)), inner).logpdf(y)
        modes = iv.maximize(posterior, starts=2, seed=1)
        return posterior, modes, gain @ y, np.diag(spread**2) - gain @ wide, evidence

    def test_mean_variances_and_evidence(self, known):
        _, modes, mean, covariance, evidence = known
        np.testing.assert_allclose(modes.position[0], mean, atol=1e-3)
        np.testing.assert_allclose(modes.sds[0], np.sqrt(np.diag(covariance)), rtol=1e-3)
        (found,) = modes.gaussians
        assert modes.log_evidence[0] + found.remainder == pytest.approx(evidence, abs=0.05)
        assert len(found.metric.values) <= 12
        assert "the prior's but for" in str(modes) and "and 780 more" in str(modes)

    def test_it_takes_far_fewer_gradients_than_a_dense_hessian(self, known):
        assert known[1].evaluations["model"] < 2 * self.D  # descents are half of it; that would be 4 d

    def test_draws_have_the_covariance(self, known):
        """Along the informed directions and others, where their variances differ by four orders of magnitude."""
        _, modes, mean, covariance, _ = known
        draws = modes.draws(4000, seed=3) - mean
        along = np.concatenate(
            [modes.gaussians[0].metric.vectors.T * np.linspace(0.5, 2.0, self.D), np.eye(self.D)[:5]]
        )
        ratio = (draws @ along.T).var(axis=0) / np.einsum("kd,de,ke->k", along, covariance, along)
        assert np.abs(ratio - 1.0).max() < 6.0 * np.sqrt(2.0 / 4000)

    def test_a_newton_step_ends_at_the_mean(self, known):
        posterior, modes, mean, *_ = known
        away = 0.1 * np.random.default_rng(0).standard_normal(self.D)
        _, gradient = posterior.potential().energy_and_gradient((mean + away)[None])
        np.testing.assert_allclose(
            modes.gaussians[0].metric.color(modes.gaussians[0].metric.whiten(gradient))[0], away, atol=0.02
        )

    def test_draws_have_the_energies_of_the_posterior(self, known):
        posterior, modes, *_ = known
        energy = posterior.potential().energy(modes.draws(200, seed=1)) - modes.energies[0]
        assert energy.mean() == pytest.approx(0.5 * self.D, abs=6.0 * np.sqrt(0.5 * self.D / 200))


def bent(d):
    """Curved, and wide in a few directions of d."""
    rng = np.random.default_rng(1)
    slopes = rng.standard_normal((3, d))

    def function(x):
        along = x @ slopes.T
        energy = 0.5 * np.square(x).sum(axis=1) + (np.cosh(along) - 1.0).sum(axis=1)
        return energy, x + np.sinh(along) @ slopes

    return function, np.eye(d) + slopes.T @ slopes


def gaussian(function, at, domain=None, most=50, factor=None):
    def evaluate(x):
        return Estimate(*function(x))
        yield

    reference = Reference(np.zeros(len(at)), np.ones(len(at)) if factor is None else factor)
    products = DifferenceProducts(evaluate, at, reference.factor, domain or Unbounded())
    asking = low_rank(products, at, reference, most, np.random.default_rng(4))
    return answered(asking, None)


class TestOneMinimum:
    def test_of_a_bent_energy(self):
        function, hessian = bent(60)
        found = gaussian(function, np.zeros(60))
        np.testing.assert_allclose(found.variances, np.diag(np.linalg.inv(hessian)), rtol=1e-3)
        assert found.log_volume == pytest.approx(-0.5 * np.linalg.slogdet(hessian)[1], abs=1e-3)
        assert abs(found.remainder) < 1e-3

    def test_with_a_prior_of_its_own_covariance(self):
        d, rng = 60, np.random.default_rng(2)
        factor = np.linalg.cholesky(np.eye(d) + 0.5 * np.ones((d, d)))
        precision, slope = np.linalg.inv(factor @ factor.T), rng.standard_normal(d)
        hessian = precision + 1e6 * np.outer(slope, slope)
        found = gaussian(lambda x: (0.5 * ((x @ hessian) * x).sum(axis=1), x @ hessian), np.zeros(d), factor=factor)
        assert len(found.metric.values) == 1
        np.testing.assert_allclose(found.variances, np.diag(np.linalg.inv(hessian)), rtol=1e-6)
        assert found.log_volume == pytest.approx(-0.5 * np.linalg.slogdet(hessian)[1], abs=1e-4)

    def test_what_is_left_out_is_reported(self):
        """Forty directions of curvature 2, of which a tenth may be kept."""
        curvature = np.where(np.arange(400) < 40, 2.0, 1.0)
        found = gaussian(lambda x: (0.5 * (curvature * x**2).sum(axis=1), curvature * x), np.zeros(400), most=4)
        assert len(found.metric.values) == 4
        assert found.remainder == pytest.approx(-0.5 * 36.0, rel=0.5)

    def test_none_at_bounds_and_saddles(self):
        function, _ = bent(20)
        bounds = Box(np.zeros(20), np.ones(20))
        assert gaussian(function, np.zeros(20), bounds) is None
        saddle = np.where(np.arange(20) == 3, -1.0, 1.0)
        assert gaussian(lambda x: (0.5 * (saddle * x**2).sum(axis=1), saddle * x), np.zeros(20)) is None


def test_directions_that_are_asked_for():
    posterior, *_ = linear(30)
    low, dense = iv.maximize(posterior, 2, seed=1, rank=20), iv.maximize(posterior, 2, seed=1)
    assert dense.gaussians is None and len(dense.covariances)
    assert low.log_evidence == pytest.approx(dense.log_evidence, abs=0.1)
    np.testing.assert_allclose(low.sds, dense.sds, rtol=0.01)
