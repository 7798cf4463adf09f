"""Densities against scipy.stats and quadrature, gradients against finite differences, draws against the CDF."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from targets import kolmogorov

from invsamp.posing.distributions.truncated import Truncated, truncated
from invsamp.posing.distributions.univariate import (
    Beta,
    Cauchy,
    Gamma,
    HalfNormal,
    LogNormal,
    MultivariateNormal,
    Normal,
    Uniform,
)
from invsamp.posing.distributions.univariate_more import (
    Exponential,
    HalfCauchy,
    HalfStudentT,
    InverseGamma,
    Laplace,
    LogLaplace,
    LogUniform,
    StudentT,
    Triangular,
    Weibull,
)


class Between:
    """A distribution of scipy conditioned on an interval."""

    def __init__(self, whole: object, lower: float, upper: float) -> None:
        self.whole, self.first, self.mass = whole, whole.cdf(lower), whole.cdf(upper) - whole.cdf(lower)

    def ppf(self, level: object) -> np.ndarray:
        return self.whole.ppf(self.first + self.mass * np.asarray(level))

    def median(self) -> float:
        return float(self.ppf(0.5))

    def cdf(self, x: np.ndarray) -> np.ndarray:
        return (self.whole.cdf(x) - self.first) / self.mass

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        return self.whole.logpdf(x) - np.log(self.mass)


FAMILIES = {
    "uniform": (Uniform(-1.0, 2.5), stats.uniform(-1.0, 3.5)),
    "normal": (Normal(1.0, 0.5), stats.norm(1.0, 0.5)),
    "log_normal": (LogNormal(-0.3, 0.7), stats.lognorm(0.7, scale=math.exp(-0.3))),
    "half_normal": (HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    "gamma": (Gamma(2.5, 3.0), stats.gamma(2.5, scale=1 / 3.0)),
    "exponential": (Gamma(1.0, 0.5), stats.expon(scale=2.0)),
    "beta": (Beta(2.0, 3.5), stats.beta(2.0, 3.5)),
    "cauchy": (Cauchy(0.5, 2.0), stats.cauchy(0.5, 2.0)),
    "student_t": (StudentT(3.5, 0.5, 2.0), stats.t(3.5, 0.5, 2.0)),
    "half_student_t": (HalfStudentT(4.0, 2.0), Between(stats.t(4.0, scale=2.0), 0.0, np.inf)),
    "half_cauchy": (HalfCauchy(2.0), stats.halfcauchy(scale=2.0)),
    "exponential_of_rate": (Exponential(0.5), stats.expon(scale=2.0)),
    "inverse_gamma": (InverseGamma(2.5, 3.0), stats.invgamma(2.5, scale=3.0)),
    "log_uniform": (LogUniform(0.01, 30.0), stats.loguniform(0.01, 30.0)),
    "laplace": (Laplace(0.5, 2.0), stats.laplace(0.5, 2.0)),
    "truncated_log_laplace": (  # whose median is no kink
        truncated(LogLaplace(0.5, 0.4), 0.5, 9.0),
        Between(stats.loglaplace(2.5, scale=math.exp(0.5)), 0.5, 9.0),
    ),
    "weibull": (Weibull(1.7, 2.0), stats.weibull_min(1.7, scale=2.0)),
    "weibull_below_1": (Weibull(0.8, 2.0), stats.weibull_min(0.8, scale=2.0)),
    "triangular": (Triangular(-1.0, 0.5, 3.0), stats.triang(0.375, -1.0, 4.0)),
    "rising": (Triangular(-1.0, 3.0, 3.0), stats.triang(1.0, -1.0, 4.0)),
    "falling": (Triangular(-1.0, -1.0, 3.0), stats.triang(0.0, -1.0, 4.0)),
    "truncated_inverse_gamma": (
        truncated(InverseGamma(2.5, 3.0), 0.5, 4.0),
        Between(stats.invgamma(2.5, scale=3.0), 0.5, 4.0),
    ),
    "truncated_half_t": (truncated(HalfStudentT(4.0, 2.0), 1.0, 5.0), Between(stats.t(4.0, scale=2.0), 1.0, 5.0)),
    "truncated_normal": (truncated(Normal(1.0, 0.5), lower=0.2, upper=1.7), stats.truncnorm(-1.6, 1.4, 1.0, 0.5)),
    "normal_above": (truncated(Normal(0.05, 0.05), lower=0), stats.truncnorm(-1.0, np.inf, 0.05, 0.05)),
    "upper_tail": (truncated(Normal(0.0, 1.0), lower=9.0), stats.truncnorm(9.0, np.inf)),
}


def bulk(reference: object, n: int = 25) -> np.ndarray:
    return reference.ppf(np.linspace(0.02, 0.98, n))


@pytest.mark.parametrize("name", FAMILIES)
def test_log_density_is_that_of_scipy(name: str) -> None:
    distribution, reference = FAMILIES[name]
    x = bulk(reference)
    np.testing.assert_allclose(distribution.log_density(x), reference.logpdf(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_density_integrates_to_one(name: str) -> None:
    distribution, reference = FAMILIES[name]
    lower, upper = (float(end) for end in distribution.support)
    middle = float(reference.median())

    def density(x: float) -> float:
        return float(np.exp(distribution.log_density([x])[0]))

    total = sum(
        integrate.quad(density, a, b, epsabs=1e-11, limit=300)[0] for a, b in ((lower, middle), (middle, upper))
    )
    assert abs(total - 1.0) < 1e-8


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_is_the_derivative(name: str) -> None:
    distribution, reference = FAMILIES[name]
    x = bulk(reference)
    h = 1e-5 * (x[-1] - x[0])
    # fourth-order differences: their error is far below the tolerance
    f = [distribution.log_density(x + k * h) for k in (-2, -1, 1, 2)]
    expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    np.testing.assert_allclose(distribution.gradient(x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_follow_the_distribution(within, name: str) -> None:
    distribution, reference = FAMILIES[name]
    draws = distribution.sample(np.random.default_rng(11), 40_000)
    assert draws.shape == (40_000,)
    assert within(*kolmogorov(draws, reference.cdf))
    # control: draws that are 25% too wide around their median are rejected
    wide = np.median(draws) + 1.25 * (draws - np.median(draws))
    assert not within(*kolmogorov(wide, reference.cdf))


@pytest.mark.parametrize("name", FAMILIES)
def test_outside_the_support(name: str) -> None:
    distribution, _ = FAMILIES[name]
    lower, upper = distribution.support
    for outside in [end for end in (lower - 0.1, upper + 0.1) if np.isfinite(end)]:
        assert distribution.log_density([outside]) == -np.inf
        assert distribution.gradient([outside]) == 0.0


def test_edges_of_the_support() -> None:
    assert LogNormal(0, 1).log_density([0.0]) == -np.inf
    np.testing.assert_allclose(Gamma(1.0, 2.0).log_density([0.0]), math.log(2.0))
    np.testing.assert_allclose(Gamma(1.0, 2.0).gradient([0.0]), -2.0)
    np.testing.assert_allclose(Beta(1.0, 1.0).log_density([0.0, 1.0]), 0.0, atol=1e-15)
    np.testing.assert_allclose(HalfNormal(1.0).log_density([0.0]), stats.halfnorm.logpdf(0.0))
    np.testing.assert_allclose(Weibull(1.0, 2.0).log_density([0.0]), math.log(0.5))
    np.testing.assert_allclose(Weibull(1.0, 2.0).gradient([0.0]), -0.5)
    assert InverseGamma(1.0, 1.0).log_density([0.0]) == Weibull(2.0, 1.0).log_density([0.0]) == -np.inf
    np.testing.assert_array_equal(Triangular(0, 1, 3).log_density([0.0, 3.0]), -np.inf)
    np.testing.assert_allclose(Triangular(0, 1, 3).log_density([1.0]), math.log(2 / 3))


def test_vectors_sum_over_their_entries() -> None:
    distribution = Normal(mean=[0.0, 1.0, 2.0], sd=0.5)
    assert distribution.shape == (3,)
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(distribution.log_density(x), stats.norm([0, 1, 2], 0.5).logpdf(x).sum(axis=1))
    assert distribution.gradient(x).shape == (4, 3)
    assert LogNormal(0, 1, shape=(2, 3)).sample(np.random.default_rng(0), 5).shape == (5, 2, 3)
    assert Gamma(2, [1.0, 2.0], shape=(3, 2)).log_density(np.ones((7, 3, 2))).shape == (7,)
    halves = truncated(Normal(0, 1, shape=2), lower=[0.0, -np.inf])
    np.testing.assert_allclose(
        halves.log_density([[1.0, -1.0], [-1.0, -1.0]]), [2 * stats.norm.logpdf(1) + math.log(2), -np.inf]
    )
    draws = halves.sample(np.random.default_rng(0), 2000)
    assert draws[:, 0].min() >= 0 and draws[:, 1].min() < -2


def test_multivariate_normal(within) -> None:
    covariance = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])
    mean = [1.0, -2.0, 0.5]
    distribution, reference = MultivariateNormal(mean, covariance), stats.multivariate_normal(mean, covariance)
    x = np.random.default_rng(1).normal(size=(6, 3))
    np.testing.assert_allclose(distribution.log_density(x), reference.logpdf(x))
    np.testing.assert_allclose(distribution.gradient(x), -(x - mean) @ np.linalg.inv(covariance))
    draws = distribution.sample(np.random.default_rng(2), 40_000)
    # squared Mahalanobis distances of the draws; control: draws that lost their correlation
    loose = np.random.default_rng(3).permuted(draws, axis=0)
    for points, accepted in ((draws, True), (loose, False)):
        z = points - mean
        distances = np.einsum("ni,ij,nj->n", z, np.linalg.inv(covariance), z)
        assert bool(within(*kolmogorov(distances, stats.chi2(3).cdf))) is accepted


def test_distributions_compare_print_and_hash() -> None:
    assert Normal([0, 1], np.array([1, 2])) == Normal((0.0, 1.0), (1.0, 2.0))
    assert Normal(0, 1) != Normal(0, 2) and Normal(0, 1) != Normal(0, 1, shape=2)
    assert repr(Normal(0, 1, shape=3)) == "Normal(mean=0.0, sd=1.0, shape=(3,))"
    assert len({truncated(Normal(0, 1), 0), truncated(Normal(0, 1), 0.0)}) == 1
    one, same, other = (MultivariateNormal(m, [[1]]) for m in ([0], np.zeros(1), [-1.0]))
    assert one == same and hash(one) == hash(same) and one != other
    assert repr(one) == "MultivariateNormal(mean=array([0.]), covariance=array([[1.]]))"


def test_a_multivariate_normal_holds_its_covariance_and_one_factor() -> None:
    size = 400
    points = np.arange(size) / size
    mean, covariance = np.zeros(size), np.exp(-np.abs(points[:, None] - points))
    tracemalloc.start()
    try:
        target = MultivariateNormal(mean, covariance)
        held, most = (count / covariance.nbytes for count in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert held < 2.5 and most < 3.5  # tuples of floats would hold 4
    np.testing.assert_array_equal(target.covariance, covariance)
    covariance[:] = 7.0
    assert target.covariance[0, 0] == 1.0


@settings(max_examples=60, deadline=None)
@given(mean=st.floats(-5, 5), sd=st.floats(0.1, 5), start=st.floats(-8, 8), width=st.floats(0.01, 10))
def test_truncated_draws_lie_inside(mean: float, sd: float, start: float, width: float) -> None:
    lower, upper = mean + sd * start, mean + sd * (start + width)
    distribution = truncated(Normal(mean, sd), lower, upper)
    draws = distribution.sample(np.random.default_rng(0), 50)
    assert np.all((draws >= lower) & (draws <= upper))
    reference = stats.truncnorm(start, start + width, mean, sd)
    np.testing.assert_allclose(distribution.log_density(draws), reference.logpdf(draws), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normal(0, -1), "sd must be positive finite numbers, got -1"),
        (lambda: Normal(np.nan, 1), "mean must be finite numbers, got nan"),
        (lambda: LogUniform(0, 1), "lower must be positive finite numbers, got 0"),
        (lambda: LogUniform(2, 1), "upper must be above lower, got lower 2.0 and upper 1.0"),
        (lambda: Triangular(0, 2, 1), "mode must lie between lower and upper"),
        (lambda: Uniform(1, 1), "upper must be above lower, got lower 1.0 and upper 1.0"),
        (lambda: Gamma(1, 0), "rate must be positive finite numbers, got 0"),
        (lambda: Normal([0, 1], 1, shape=3), r"mean must broadcast to shape \(3,\), got shape \(2,\)"),
        (lambda: Normal(0, 1, shape=0), "shape must be an integer >= 1 or a tuple of these, got 0"),
        (lambda: truncated(Normal(0, 1), 2, 1), "upper must be above lower"),
        (lambda: truncated(HalfNormal(1), upper=-1), "upper must be above lower inside the support"),
        (lambda: truncated(Normal(0, 1), 60, 61), "must enclose some mass"),
        (lambda: truncated(Normal(0, 1), lower=[0, 1]), r"lower must broadcast to shape \(\)"),
        (lambda: Truncated(MultivariateNormal([0], [[1]]), 0, 1), "distribution must be one of independent numbers"),
        (lambda: MultivariateNormal([0, 0], np.eye(3)), r"covariance must have shape \(2, 2\), got \(3, 3\)"),
        (lambda: MultivariateNormal([0, 0], [[1, 2], [2, 1]]), "positive definite, got smallest eigenvalue -1"),
        (lambda: MultivariateNormal([0, 0], [[1, 0.5], [0, 1]]), "covariance must be symmetric"),
        (lambda: Normal(0, 1e-200), r"sd must be between 1e-70 and 1e\+70, got 1e-200.*in other units"),
        (lambda: Normal([0, 1], [1, 1e200]), r"sd must be between 1e-70 and 1e\+70, got 1e\+200"),
        (lambda: Normal(1e200, 1), r"mean must be at most 1e\+70 in size, got 1e\+200"),
        (lambda: Normal(1e16, 1), r"sd must be at least 50 times .* near mean 1e\+16, 2, got 1\. .*diff"),
        (lambda: Uniform(0, 1e-300), "upper - lower must be between 1e-70"),
        (lambda: Uniform(-1.7e308, 1.7e308), "lower and upper must be at most"),
        (lambda: Triangular(0, 0, 1e-300), "upper - lower must be between 1e-70"),
        (lambda: Cauchy(0, 1e-200), "scale must be between 1e-70"),
        (lambda: StudentT(3, 1e16, 1), "scale must be at least 50 times .* near location"),
        (lambda: MultivariateNormal([0, 0], np.diag([1, 1e-300])), "sds of the covariance must be between 1e-70"),
        (lambda: Normal(0, 1).log_density(np.ones((2, 2))), r"x must have shape \(batch, \), got \(2, 2\)"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
