"""What the misfit of data should be, from the noise alone: bounds that hold, and are not far off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from parts import cases
from scipy import stats

import invsamp as iv
from invsamp.posing.noise.expected_misfit import RATE


def expected(noise, data, **unknown):
    prior = iv.Prior(x=iv.Normal(0, 1), **unknown)
    m = np.size(data)
    model = iv.with_jacobian(lambda t: np.repeat(t[:, :1], m, axis=1), lambda t: np.ones((len(t), m, 1)))
    return iv.Posterior(prior, model, data, noise).potential().expected_misfit()


@pytest.mark.parametrize("m", [1, 3, 40, 5000])
def test_gaussian_noise_has_half_chi_squared(m):
    found = expected(iv.GaussianNoise(0.3), np.linspace(-1, 1, m))
    assert found.data == m
    assert found.least == pytest.approx(m * (np.log(0.3) + 0.5 * np.log(2 * np.pi)))
    assert found.mean == pytest.approx(m / 2, rel=1e-3) and found.sd == pytest.approx(np.sqrt(m / 2), rel=1e-3)
    # Chernoff's bounds are conservative, by a factor of ten or so
    above, below = stats.chi2(m).sf(2 * found.high), stats.chi2(m).cdf(2 * found.low)
    assert RATE / 60 < above <= RATE and below <= RATE
    assert m < 40 or below > RATE / 60


def test_errors_that_depend_on_each_other(within):
    """Half the squared length in units of the covariance, which is chi-squared as well."""
    times = np.arange(12.0)
    covariance = np.exp(-np.abs(times[:, None] - times) / 3.0)
    found = expected(iv.GaussianNoise(covariance=4.0 * covariance), times)
    exact = stats.multivariate_normal(np.zeros(12), 4.0 * covariance)
    assert found.least == pytest.approx(-exact.logpdf(np.zeros(12)))
    assert found[3:] == pytest.approx(expected(iv.GaussianNoise(1.0), times)[3:])
    misfit = -exact.logpdf(exact.rvs(2000, random_state=np.random.default_rng(1))) - found.least
    assert within(misfit.mean() - found.mean, 5 * found.sd / np.sqrt(2000))


def test_scales_of_their_own_and_logarithms():
    scale, data = np.array([0.1, 0.2, 0.4]), np.array([1.0, 2.0, 3.0])
    found = expected(iv.LogNormalNoise(scale), data)
    exact = stats.lognorm(scale, scale=data).logpdf(data).sum()
    assert found.least == pytest.approx(-exact)
    assert found[3:] == pytest.approx(expected(iv.GaussianNoise(1.0), data)[3:])
    assert found.mean == pytest.approx(1.5, rel=1e-3)


@pytest.mark.parametrize("nu", cases([1.5, 4.0, 50.0], {1.5, 50.0}))
def test_students_noise_by_simulation(within, nu):
    m, n = 12, 200_000
    found = expected(iv.StudentTNoise(nu, 2.0), np.zeros(m))
    t = stats.t(nu)
    misfit = (t.logpdf(0) - t.logpdf(t.rvs((n, m), random_state=np.random.default_rng(1)))).sum(axis=1)
    assert found.least == pytest.approx(-m * stats.t(nu, scale=2.0).logpdf(0))
    assert within(misfit.mean() - found.mean, 5 * found.sd / np.sqrt(n))
    assert within(misfit.std() / found.sd - 1, 0.05)
    above = (misfit > found.high).mean()
    assert within(max(above - RATE, 0.0), 5 * np.sqrt(RATE / n))
    assert above > 0 or found.high < misfit.max() * 1.2
    # control: of heavier tails
    heavy = stats.t(0.7).rvs((n, m), random_state=np.random.default_rng(1))
    above = ((t.logpdf(0) - t.logpdf(heavy)).sum(axis=1) > found.high).mean()
    assert not within(max(above - RATE, 0.0), 5 * np.sqrt(RATE / n))


@dataclass(frozen=True, repr=False)
class Doubled(iv.GaussianNoise):
    """Counts every datum twice, of which its base knows nothing."""

    def evaluate(self, y, data, *values):
        return tuple(2.0 * part for part in super().evaluate(y, data, *values))


@dataclass(frozen=True)
class Laplace(iv.extending.Noise):
    """Two-sided exponential errors of scale 1."""

    def evaluate(self, y, data):
        return -np.abs(data - y) - np.log(2.0), np.sign(data - y)

    def sample(self, rng, y):
        return y + rng.laplace(size=y.shape)

    def cumulant(self, rate):
        return np.where(rate < 1.0, -np.log(np.maximum(1.0 - rate, 1e-12)), np.inf)


def test_a_users_noise_may_provide_it():
    found = expected(Laplace(), np.arange(10.0))
    assert found.mean == pytest.approx(10.0, rel=1e-3) and found.least == pytest.approx(10 * np.log(2.0))
    assert RATE / 60 < stats.gamma(10).sf(found.high) <= RATE


@pytest.mark.parametrize(
    ("noise", "data", "unknown"),
    [
        (iv.GaussianNoise("s"), [1.0, 2.0], {"s": iv.HalfNormal(1)}),
        (iv.GaussianNoise("0.1 * abs(y)"), [1.0, 2.0], {}),
        (iv.PoissonNoise(), [1, 2], {}),
        (Doubled(0.1), [1.0, 2.0], {}),
    ],
)
def test_where_it_is_unknown(noise, data, unknown):
    assert expected(noise, data, **unknown) is None


def test_outputs_with_noises_of_their_own():
    noise = iv.Outputs(a=iv.GaussianNoise(0.1), b=iv.StudentTNoise(4.0, 1.0))
    data = np.zeros((5, 2))
    data[3, 1] = np.nan
    found = expected(noise, data)
    parts = expected(iv.GaussianNoise(0.1), np.zeros(5)), expected(iv.StudentTNoise(4.0, 1.0), np.zeros(4))
    assert found.data == 9
    assert found.least == pytest.approx(parts[0].least + parts[1].least)
    assert found.mean == pytest.approx(parts[0].mean + parts[1].mean, rel=1e-3)
    assert max(part.high for part in parts) < found.high < parts[0].high + parts[1].high
    half_known = iv.Outputs(a=iv.GaussianNoise(0.1), b=iv.GaussianNoise("s"))
    assert expected(half_known, data, s=iv.HalfNormal(1)) is None
