"""Distributions of scipy.stats: densities are scipy's own, gradients those by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import invsamp as iv
from invsamp.posing.distributions.from_scipy import ScipyDistribution
from invsamp.posing.distributions.gaussian_mixture import GaussianMixture


def skew_normal_slope(x: np.ndarray) -> np.ndarray:
    return -x + 4 * np.exp(stats.norm.logpdf(4 * x) - stats.norm.logcdf(4 * x))


#: Gradients by hand, or by the families here.
KNOWN = {
    "skew normal": (stats.skewnorm(4), skew_normal_slope),
    "gamma": (stats.gamma(2.5, scale=1 / 3), iv.Gamma(2.5, 3.0).gradient),
    "beta": (stats.beta(2.0, 3.5), iv.Beta(2.0, 3.5).gradient),
    "student": (stats.t(3.5, 0.5, 2.0), iv.StudentT(3.5, 0.5, 2.0).gradient),
    "weibull": (stats.weibull_min(0.8, scale=2.0), iv.distributions.Weibull(0.8, 2.0).gradient),
    "exponential": (stats.expon(scale=2.0), lambda x: np.full(x.shape, -0.5)),
    "logistic": (stats.logistic(1e6, 1e-3), lambda x: -np.tanh((x - 1e6) / 2e-3) / 1e-3),
}


@pytest.mark.parametrize("name", KNOWN)
def test_density_and_gradient(name: str) -> None:
    frozen, slope = KNOWN[name]
    distribution = iv.from_scipy(frozen)
    x = frozen.ppf(np.linspace(1e-3, 1 - 1e-3, 101))
    np.testing.assert_array_equal(distribution.log_density(x), frozen.logpdf(x))
    # a number near 1e6 is known to 1e-7 of a spread of 1e-3
    error = 1e-10 if name != "logistic" else 1e-4
    scale = np.abs(slope(x)) + 1 / frozen.std() if np.isfinite(frozen.std()) else np.abs(slope(x)) + 1
    assert np.max(np.abs(distribution.gradient(x) - slope(x)) / scale) < error


def test_kinks_and_steps() -> None:
    """Where the density has a kink nearby, or steps, the gradient is that of the own side."""
    x = np.array([-1.0, -1e-3, 1e-3, 1.0])
    np.testing.assert_allclose(iv.from_scipy(stats.laplace()).gradient(x), -np.sign(x), rtol=1e-9)
    histogram = stats.rv_histogram(np.histogram(np.random.default_rng(0).normal(size=500), 20))
    inside = np.linspace(-1.5, 1.5, 40)
    np.testing.assert_allclose(iv.from_scipy(histogram).gradient(inside), 0.0, atol=1e-10)


def test_shapes_and_support() -> None:
    rates = iv.from_scipy(stats.gengamma(2, 1.5, scale=[1.0, 2.0, 3.0]))
    assert rates.shape == (3,) and rates.sample(np.random.default_rng(0), 5).shape == (5, 3)
    assert iv.from_scipy(stats.skewnorm(4), shape=(2, 2)).gradient(np.zeros((1, 2, 2))).shape == (1, 2, 2)
    posterior = iv.Posterior(iv.Prior(rate=rates), lambda theta: theta, [1.0, 1.0, 1.0], iv.GaussianNoise(1.0))
    position = posterior.to_position([[0.5, 1.0, 2.0]])
    np.testing.assert_allclose(position, np.log([[0.5, 1.0, 2.0]]))  # positive: sampled as the logarithm
    assert rates == iv.from_scipy(stats.gengamma(2, 1.5, scale=[1.0, 2.0, 3.0])) != iv.from_scipy(stats.skewnorm(4))
    assert isinstance(rates, ScipyDistribution) and "gengamma" in repr(rates)


def test_kernel_density_estimates_are_exact() -> None:
    rng = np.random.default_rng(1)
    for points in (rng.normal(size=60), rng.normal(size=(3, 60))):
        kernels = stats.gaussian_kde(points, weights=rng.random(60))
        found = iv.from_scipy(kernels)
        assert isinstance(found, GaussianMixture)
        x = np.reshape(rng.normal(size=(8, kernels.d)), (8, *found.shape))
        np.testing.assert_allclose(found.log_density(x), kernels.logpdf(np.reshape(x, (8, -1)).T), rtol=1e-10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (stats.poisson(3), "frozen univariate continuous distribution of scipy.stats"),
        (stats.skewnorm, "frozen univariate"),
        (stats.multivariate_normal([0, 0]), "there are iv.MultivariateNormal"),
        (stats.gamma(-1.0), "parameters that gamma allows"),
    ],
)
def test_what_is_refused(wrong: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        iv.from_scipy(wrong)
