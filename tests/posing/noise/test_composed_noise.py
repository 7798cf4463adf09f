"""Noise made of noise: with limits, with outliers, with a factor that is integrated over."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from noise_checks import check_derivatives
from scipy import integrate, stats
from targets import kolmogorov

import invsamp as iv
from invsamp.errors import ModelError

RNG = np.random.default_rng(0)
Y, SCALE = RNG.uniform(0.5, 2.0, (3, 6)), RNG.uniform(0.3, 1.0, 6)
BASES = {
    "gaussian": (iv.GaussianNoise("s"), lambda y, s: stats.norm(y, s)),
    "log_normal": (iv.LogNormalNoise("s"), lambda y, s: stats.lognorm(s, scale=y)),
    "laplace": (iv.noise.LaplaceNoise("s"), lambda y, s: stats.laplace(y, s)),
    "log_laplace": (iv.noise.LogLaplaceNoise("s"), lambda y, s: stats.loglaplace(1 / s, scale=y)),
    "student_t": (iv.StudentTNoise(3.5, "s"), lambda y, s: stats.t(3.5, y, s)),
}
LOWER, UPPER = np.full(6, 0.6), np.array([1.5, 1.8, np.inf, 1.5, 2.0, 3.0])
DATA = np.array([0.6, 0.9, 1.4, 1.5, 0.3, 2.9])


def pmf_of_limits(target, n, draws, lower, upper):
    """Shares of the draws at both limits in standard errors."""
    shares = np.array([(draws == lower).mean(), (draws == upper).mean()])
    wanted = np.array([target.cdf(lower), target.sf(upper)])
    return (shares - wanted) / np.sqrt(wanted * (1 - wanted) / n)


@pytest.mark.parametrize("name", BASES)
class TestCensored:
    def test_density(self, name) -> None:
        base, target = BASES[name]
        noise = iv.CensoredNoise(base, LOWER, UPPER)
        found = noise.evaluate(Y, DATA, LOWER, UPPER, SCALE)[0]
        reference = target(Y, SCALE)
        wanted = reference.logpdf(np.maximum(DATA, LOWER))
        wanted = np.where(DATA <= LOWER, reference.logcdf(LOWER), wanted)
        wanted = np.where(DATA >= UPPER, reference.logsf(UPPER), wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-11)

    def test_derivatives(self, name) -> None:
        noise = iv.CensoredNoise(BASES[name][0], LOWER, UPPER)

        class Moving(iv.CensoredNoise):
            def evaluate(self, y, data, scale):
                value, by_y, _, _, by_scale = super().evaluate(y, data, LOWER, UPPER, scale)
                return value, by_y, by_scale

        check_derivatives(Moving(noise.noise), Y, DATA, SCALE)

    def test_draws(self, within, name) -> None:
        base, target = BASES[name]
        noise, n = iv.CensoredNoise(base, 0.6, 1.5), 40_000
        draws = noise.sample(np.random.default_rng(1), np.full((1, n), 1.0), 0.6, 1.5, np.full((1, n), 0.4))[0]
        assert within(pmf_of_limits(target(1.0, 0.4), n, draws, 0.6, 1.5), 5.0)
        assert not within(pmf_of_limits(target(1.05, 0.4), n, draws, 0.6, 1.5), 5.0)


@pytest.mark.parametrize("name", BASES)
class TestTruncated:
    @pytest.mark.parametrize(("lower", "upper"), [(0.6, 3.0), (-np.inf, 1.0), (4.0, 4.5), (0.01, 0.05), (0.5, np.inf)])
    def test_density_and_draws(self, within, name, lower, upper) -> None:
        base, target = BASES[name]
        noise, reference = iv.TruncatedNoise(base, lower, upper), target(1.3, 0.4)
        inside = reference.ppf([reference.cdf(lower), reference.cdf(upper)]) if lower < 1 else np.array([lower, upper])
        x = np.linspace(*np.clip(inside, max(lower, 0.02), min(upper, 5.0)), 7)[1:-1]
        tails = reference.sf if lower > 1.3 else reference.cdf
        mass = abs(tails(upper) - tails(lower))
        y, s, n = np.full((1, 5), 1.3), np.full((1, 5), 0.4), 20_000
        found = noise.evaluate(y, x, lower, upper, s)[0][0]
        np.testing.assert_allclose(found, reference.logpdf(x) - np.log(mass), rtol=1e-7)
        draws = noise.sample(np.random.default_rng(1), np.full((1, n), 1.3), lower, upper, np.full((1, n), 0.4))[0]
        assert draws.min() >= lower and draws.max() <= upper
        assert within(*kolmogorov(draws, lambda d: abs(tails(d) - tails(lower)) / mass))
        assert not within(*kolmogorov(draws, lambda d: (abs(tails(d) - tails(lower)) / mass) ** 1.2))

    def test_derivatives(self, name) -> None:
        for lower, upper in ((LOWER, UPPER), (np.full(6, 2.5), np.full(6, 4.0)), (np.full(6, 0.01), np.full(6, 0.2))):

            class Fixed(iv.TruncatedNoise):
                def evaluate(self, y, data, scale, lower=lower, upper=upper):
                    value, by_y, _, _, by_scale = super().evaluate(y, data, lower, upper, scale)
                    return value, by_y, by_scale

            data = np.clip(DATA, lower, np.minimum(upper, 3.0))
            check_derivatives(Fixed(BASES[name][0]), Y, data, SCALE)


class TestMixture:
    NOISE = iv.MixtureNoise(iv.GaussianNoise("s"), iv.StudentTNoise(2, "t"), "f")
    VALUES = np.full(6, 0.2), SCALE, np.full(6, 4.0)

    @staticmethod
    def target(x, y=1.0, f=0.2, s=0.4, t=4.0):
        return (1 - f) * stats.norm(y, s).cdf(x) + f * stats.t(2, y, t).cdf(x)

    def test_density_and_derivatives(self) -> None:
        found = self.NOISE.evaluate(Y, DATA, *self.VALUES)[0]
        wanted = 0.8 * stats.norm(Y, SCALE).pdf(DATA) + 0.2 * stats.t(2, Y, 4.0).pdf(DATA)
        np.testing.assert_allclose(found, np.log(wanted), rtol=1e-11)
        check_derivatives(self.NOISE, Y, DATA, *self.VALUES)

    def test_an_outlier_beyond_the_numbers_of_the_first_noise(self) -> None:
        value, by_y, *slopes = self.NOISE.evaluate(np.array([[1.0]]), np.array([1e4]), 0.2, 0.1, 4.0)
        np.testing.assert_allclose(value, np.log(0.2) + stats.t(2, 1.0, 4.0).logpdf(1e4))
        assert all(np.isfinite(part).all() for part in (by_y, *slopes))

    def test_draws(self, within) -> None:
        n = 40_000
        values = [np.full((1, n), value) for value in (0.2, 0.4, 4.0)]
        draws = self.NOISE.sample(np.random.default_rng(1), np.full((1, n), 1.0), *values)[0]
        assert within(*kolmogorov(draws, self.target))
        assert not within(*kolmogorov(draws, lambda x: self.target(x, f=0.3)))


def test_a_datum_that_can_only_be_an_outlier_is_one_however_narrow_the_other_noise_is() -> None:
    same = iv.with_jacobian(lambda x: x, lambda x: np.ones((len(x), 1, 1)))
    prior = iv.Prior(x=iv.Normal(0, 1), rate=iv.Exponential(1), tau=iv.Exponential("rate"))
    noise = iv.MixtureNoise(iv.GaussianNoise("tau"), iv.GaussianNoise(5.0), 0.25)
    posterior = iv.Posterior(prior, same, [8.0], noise)
    theta = np.array([[0.0, 1.0, 1e-160]])
    value, gradient = posterior.log_density(theta)
    wanted = posterior.log_prior(theta) + np.log(0.25) + stats.norm.logpdf(8, 0, 5)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    np.testing.assert_allclose(gradient[0], [8 / 25, -1.0 + 1.0, -1.0], atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # infinite slopes that cancel are no error
        posterior.potential().energy_and_gradient(np.random.default_rng(0).normal(0, [1, 300, 300], (500, 3)))


class TestMarginal:
    COVARIANCE = 0.6 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    NOISE = iv.noise.MarginalNoise(iv.GaussianNoise("s", covariance=iv.noise.AutoRegressive("r")), 2.5, 1.5)
    VALUES = SCALE, np.full(6, 0.6)

    def test_density_is_the_integral(self) -> None:
        found = self.NOISE.evaluate(Y, DATA, *self.VALUES)[0].sum(axis=1)
        whole = self.COVARIANCE * SCALE[:, None] * SCALE

        def density(y, keep):
            r, sub = (y - DATA)[keep], whole[np.ix_(keep, keep)]
            square, size = r @ np.linalg.solve(sub, r), np.linalg.det(2 * np.pi * sub) ** -0.5

            def integrand(log_v):
                v = math.exp(log_v)
                normal = size * v ** (-len(r) / 2) * math.exp(-0.5 * square / v)
                # times the inverse gamma's density and dv / dlog v
                return normal * 1.5**2.5 / math.gamma(2.5) * v**-2.5 * math.exp(-1.5 / v)

            return integrate.quad(integrand, -8, 12, epsabs=0, epsrel=1e-10, limit=200)[0]

        every = list(range(6))
        joint = [density(y, every) for y in Y]
        np.testing.assert_allclose(found, np.log(joint), rtol=1e-8)
        each = self.NOISE.bind((6,), np.arange(6)).log_likelihood(Y, DATA, *(v[None] for v in self.VALUES))
        for i in range(6):
            others = [density(y, [k for k in every if k != i]) for y in Y]
            np.testing.assert_allclose(each[:, i], np.log(np.divide(joint, others)), rtol=1e-7)

    def test_derivatives(self) -> None:
        check_derivatives(self.NOISE, Y, DATA, *self.VALUES)
        check_derivatives(iv.noise.MarginalNoise(iv.GaussianNoise("s"), 1.0, 0.5), Y, DATA, SCALE)

    def test_draws_have_the_prior_of_the_factor(self, within) -> None:
        noise = iv.noise.MarginalNoise(iv.GaussianNoise(1.0), 2.5, 1.5)
        draws = noise.sample(np.random.default_rng(1), np.full((40_000, 1), 1.0), np.ones((1, 1)))[:, 0]
        target = stats.t(5.0, 1.0, np.sqrt(1.5 / 2.5))
        assert within(*kolmogorov(draws, target.cdf))
        assert not within(*kolmogorov(draws, stats.norm(1.0, np.sqrt(1.5 / 2.5)).cdf))

    def test_predictions_have_that_given_the_data(self, within) -> None:
        data = np.ma.array([1.0, 2.5, 0.2, 9.0], mask=[0, 0, 0, 1])
        model = iv.finite_differences(lambda theta: np.tile(theta, (1, 4)))
        noise = iv.noise.MarginalNoise(iv.GaussianNoise(0.5), 2.0, 1.0)
        posterior = iv.Posterior(iv.Prior(a=iv.Normal(0, 1)), model, data, noise)
        n = 40_000
        noisy = posterior.sample_noise(np.random.default_rng(0), np.full((n, 4), 1.0), np.ones((n, 1)))
        square = (np.array([0.0, 1.5, -0.8]) ** 2).sum() / 0.25
        target = stats.t(2 * 2.0 + 3, 1.0, 0.5 * np.sqrt((1.0 + square / 2) / (2.0 + 1.5)))
        assert within(*kolmogorov(noisy[:, 3], target.cdf))
        assert not within(*kolmogorov(noisy[:, 3], stats.t(4.0, 1.0, 0.5 * np.sqrt(0.5)).cdf))


def line(theta):
    return theta[:, :1] + theta[:, 1:] * np.arange(6.0)


PRIOR = iv.Prior(
    a=iv.Normal(1, 1), b=iv.Normal(0, 1), s=iv.HalfNormal(1), t=iv.HalfNormal(5), f=iv.Beta(1, 4), r=iv.Uniform(0, 0.9)
)  # fmt: skip
POSED = {
    "censored": iv.CensoredNoise(iv.GaussianNoise("s * (1 + t)"), LOWER, UPPER),
    "truncated": iv.TruncatedNoise(iv.StudentTNoise(4, "s"), 0.2, 3.0),
    "mixture": iv.MixtureNoise(iv.GaussianNoise("s"), iv.GaussianNoise("t"), "f"),
    "censored mixture": iv.MixtureNoise(iv.CensoredNoise(iv.GaussianNoise("s"), 0.6), iv.GaussianNoise(9.0), 0.1),
    "marginal": iv.noise.MarginalNoise(iv.GaussianNoise(1.0, covariance=iv.noise.AutoRegressive("r")), 2.0, 0.1),
    "output": iv.GaussianNoise("s"),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", POSED)
def test_in_a_posterior(name, missing) -> None:
    data = np.ma.array(DATA, mask=[0, 0, missing, 0, 0, missing])
    model = iv.finite_differences(line, parameters=("a", "b"))
    posterior = iv.Posterior(PRIOR, model, data, POSED[name])
    check = posterior.check_gradient(seed=1)
    assert check.passed, check
    theta = PRIOR.sample(np.random.default_rng(0), 3)
    each = posterior.log_likelihood(theta)
    assert np.isfinite(each).all() and (each[:, [2, 5]] == 0).all() == missing
    noisy = posterior.sample_noise(np.random.default_rng(0), posterior.predict(theta), theta)
    assert noisy.shape == (3, 6) and np.isfinite(noisy).all()
    potential, position = posterior.potential(), posterior.to_position(theta)
    if name != "marginal":
        count = potential.size
        terms = potential.terms(position, np.tile(np.arange(count), (3, 1)))
        np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), potential.energy(position))


def test_far_beyond_both_limits_nothing_is_known() -> None:
    """The probability between them is 0 in double precision: no density without bound."""
    noise = iv.TruncatedNoise(iv.GaussianNoise(0.1), 0.0, 5.0)
    posterior = iv.Posterior(iv.Prior(x=iv.Uniform(-1e21, 1e21)), lambda x: x, [1.0], noise)
    assert (posterior.potential().energy(np.array([[-1e20], [1e20]])) == np.inf).all()


class Spiked(iv.extending.Noise):
    """Of infinite density where the model predicts more than 1.5."""

    def evaluate(self, y, data, *values):
        return np.where(y > 1.5, np.inf, -0.5 * (y - data) ** 2), data - y

    def sample(self, rng, y, *values):
        return y


@pytest.mark.parametrize("gradient", [False, True])
def test_infinite_likelihood_is_reported_with_its_datum(gradient) -> None:
    model = iv.with_jacobian(lambda x: x, lambda x: np.ones((len(x), 1, 1)))
    potential = iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), model, [0.5], Spiked()).potential()
    with pytest.raises(ModelError, match=r"must be finite.*got \+inf for the datum 0.5 where the model predicts 2.0"):
        potential.parts(np.array([[1.0], [2.0]]), gradient)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iv.CensoredNoise(iv.PoissonNoise(), 1.0), "noise must be a GaussianNoise without covariance"),
        (lambda: iv.TruncatedNoise(iv.GaussianNoise(covariance=np.eye(2)), 1.0), "noise must be a GaussianNoise with"),
        (lambda: iv.CensoredNoise(iv.GaussianNoise(1), 2.0, 1.0), "upper must be above lower, got lower 2.0 and upper"),
        (
            lambda: iv.MixtureNoise(iv.GaussianNoise(1), iv.GaussianNoise(9), 1.0),
            r"fraction must be numbers in \(0, 1\)",
        ),
        (lambda: iv.MixtureNoise(iv.GaussianNoise(1), 3.0, 0.1), "outliers must be a noise such as"),
        (
            lambda: iv.MixtureNoise(iv.GaussianNoise(covariance=np.eye(2)), iv.GaussianNoise(9), 0.1),
            "noise must be one of independent data",
        ),
        (lambda: iv.noise.MarginalNoise(iv.PoissonNoise(), 1.0, 1.0), "noise must be a GaussianNoise"),
        (
            lambda: iv.noise.MarginalNoise(iv.GaussianNoise(1), 0.0, 1.0),
            "concentration must be a positive finite number",
        ),
    ],
)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (
            iv.TruncatedNoise(iv.GaussianNoise(1), 0.5),
            r"between the limits under TruncatedNoise, got 0.3 at index \(4,\)",
        ),
        (iv.CensoredNoise(iv.GaussianNoise(1), np.zeros(5)), r"lower must broadcast to the data's shape \(6,\)"),
        (
            iv.MixtureNoise(iv.GaussianNoise("q"), iv.GaussianNoise(9), 0.1),
            r"noise.scale must use the prior's parameters .* got \['q'\]",
        ),
        (
            iv.MixtureNoise(iv.GaussianNoise(1), iv.GaussianNoise(9), "s"),
            r"s is the fraction of the noise: its prior must have support in \[0, 1\]",
        ),
    ],
)
def test_what_does_not_fit_the_data(noise, message) -> None:
    with pytest.raises(ValueError, match=message):
        iv.Posterior(PRIOR, iv.finite_differences(line, parameters=("a", "b")), DATA, noise)
