"""Noise of counts: densities against scipy.stats, derivatives, draws, and data that cannot be."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from noise_checks import check_derivatives
from scipy import stats

import invsamp as iv
from invsamp.posing.compiled import likelihood_loops

Y = np.random.default_rng(0).uniform(0.5, 60.0, (3, 7))
COUNTS = np.array([0.0, 1.0, 4.0, 20.0, 33.0, 57.0, 120.0])
FAMILIES = {
    "poisson": (iv.PoissonNoise(), Y, COUNTS, (), lambda y: stats.poisson(y)),
    "negative_binomial": (
        iv.NegativeBinomialNoise(1.0), Y, COUNTS, (np.geomspace(1e-4, 5.0, 7),),
        lambda y, a: stats.nbinom(1 / a, 1 / (1 + a * y)),
    ),
    "binomial": (iv.BinomialNoise(130), Y / 61, COUNTS, (np.full(7, 130.0),), lambda y, n: stats.binom(n, y)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_log_likelihood_is_that_of_scipy(name: str) -> None:
    noise, y, data, values, reference = FAMILIES[name]
    found = noise.evaluate(y, data, *values)[0]
    np.testing.assert_allclose(found, reference(y, *values).logpmf(data), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_derivatives(name: str) -> None:
    noise, y, data, values, _ = FAMILIES[name]
    check_derivatives(noise, y, data, *values)


def test_derivatives_of_a_probability() -> None:
    noise, y, data, (trials,), _ = FAMILIES["binomial"]
    h = 1e-6
    up, down = (noise.evaluate(y + move, data, trials)[0] for move in (h, -h))
    np.testing.assert_allclose(noise.evaluate(y, data, trials)[1], (up - down) / (2 * h), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dispersion", [1e-9, 1e-5, 1e-3, 0.03, 0.3, 20.0])
@pytest.mark.parametrize("count", [0, 3, 33, 200, 100_000])
def test_the_negative_binomial_keeps_its_digits(dispersion: float, count: int) -> None:
    """Value and both derivatives against 60 digits, where differences of log Gammas would lose all of theirs."""
    mean = 0.7 * count + 2.0
    with mpmath.workdps(60):

        def exact(y, a):
            n = 1 / a
            value = mpmath.loggamma(count + n) - mpmath.loggamma(n) - mpmath.loggamma(count + 1)
            return value - n * mpmath.log1p(a * y) + count * mpmath.log(a * y / (1 + a * y))

        at = mpmath.mpf(mean), mpmath.mpf(dispersion)
        wanted = [exact(*at), mpmath.diff(exact, at, (1, 0)), mpmath.diff(exact, at, (0, 1))]
    found = iv.NegativeBinomialNoise(1.0).evaluate(np.array([[mean]]), np.array([count]), np.array([[dispersion]]))
    scales = 1.0 + count, 1.0 + 1.0 / mean, 1.0 + abs(float(wanted[2])) + count / dispersion * 1e-6
    for part, reference, scale in zip(found, wanted, scales, strict=True):
        assert abs(part[0, 0] - float(reference)) < 1e-10 * scale


def test_small_dispersion_is_poisson() -> None:
    found = iv.NegativeBinomialNoise(1.0).evaluate(Y, COUNTS, np.full((1, 7), 1e-13))[0]
    np.testing.assert_allclose(found, iv.PoissonNoise().evaluate(Y, COUNTS)[0], atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_follow_the_density(within, name: str) -> None:
    noise, y, _, values, reference = FAMILIES[name]
    at, value = y[:1, 3:4], [part[3:4] for part in values]
    draws = noise.sample(np.random.default_rng(1), np.repeat(at, 40_000, axis=1), *value)[0]

    def score(target):
        edges = np.unique(target.ppf(np.linspace(0.02, 0.98, 20)))
        wanted = np.diff(np.concatenate([[0.0], target.cdf(edges), [1.0]]))
        seen = np.histogram(draws, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
        return ((seen - 40_000 * wanted) ** 2 / (40_000 * wanted)).sum(), stats.chi2(len(wanted) - 1).isf(1e-5)

    value = [part.item() for part in value]
    assert within(*score(reference(at.item(), *value)))
    assert not within(*score(reference(0.9 * at.item(), *value)))


def test_observations_at_the_edge() -> None:
    zero = np.array([[0.0, 0.0, -1.0, np.nan]])
    data = np.array([0.0, 2.0, 0.0, 1.0])
    for noise, values in ((iv.PoissonNoise(), ()), (iv.NegativeBinomialNoise(1.0), (np.full((1, 4), 0.3),))):
        value, slope, *_ = noise.evaluate(zero, data, *values)
        np.testing.assert_array_equal(value, [[0.0, -np.inf, -np.inf, np.nan]])
        np.testing.assert_array_equal(slope[0, :3], [-1.0, 0.0, 0.0])
    value = iv.BinomialNoise(2).evaluate(np.array([[0.0, 1.0, 1.0, 1.2]]), np.array([0, 2, 1, 1]), np.full(4, 2.0))[0]
    np.testing.assert_allclose(value, [[0.0, 0.0, -np.inf, -np.inf]], atol=1e-14)


def test_digamma() -> None:
    x = np.geomspace(1e-3, 1e9, 50)
    found = [likelihood_loops._digamma(value) for value in x]
    from scipy.special import psi

    np.testing.assert_allclose(found, psi(x), rtol=1e-13, atol=1e-13)


class TestCategories:
    WEIGHTS = np.array([[1.0, 2.0, 5.0, 0.3, 0.1, 0.6], [0.2, 0.2, 0.6, 7.0, 1.0, 2.0]])
    SEEN = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

    def test_density_and_derivatives(self) -> None:
        noise = iv.noise.CategoricalNoise().bind((2, 3), np.arange(6))
        value = noise.evaluate(self.WEIGHTS, self.SEEN.ravel())[0]
        np.testing.assert_allclose(value, np.log([[1, 0.25, 1, 1, 1, 0.6], [1, 0.2, 1, 1, 1, 0.2]]), atol=1e-12)
        check_derivatives(noise, self.WEIGHTS, self.SEEN.ravel())
        value = noise.evaluate(np.array([[1.0, 2.0, -0.1, 1.0, 1.0, 1.0]]), self.SEEN.ravel())[0]
        assert value.sum() == -np.inf

    def test_draws(self, within) -> None:
        noise = iv.noise.CategoricalNoise().bind((2, 3), np.arange(6))
        draws = noise.sample(np.random.default_rng(0), np.tile(self.WEIGHTS[:1], (40_000, 1)))
        assert np.array_equal(draws.reshape(-1, 2, 3).sum(axis=2), np.ones((40_000, 2)))
        for target, right in (([0.125, 0.25, 0.625, 0.3, 0.1, 0.6], True), ([0.15, 0.25, 0.6, 0.3, 0.1, 0.6], False)):
            score = (draws.mean(axis=0) - target) / np.sqrt(np.multiply(target, np.subtract(1, target)) / 40_000)
            assert bool(within(score, 5.0)) is right


MODEL = iv.finite_differences(lambda theta: theta[:, :1] * np.exp(-0.3 * np.arange(6.0)))
PRIOR = iv.Prior(a=iv.LogNormal(2, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iv.NegativeBinomialNoise(0.0), "dispersion must be positive finite numbers, or the name of a"),
        (lambda: iv.BinomialNoise(0), "trials must be integers >= 1, got 0"),
        (lambda: iv.BinomialNoise(2.5), "trials must be integers >= 1, got 2.5"),
        (lambda: iv.BinomialNoise([3, 4]), r"trials must broadcast to the data's shape \(6,\), got shape \(2,\)"),
        (lambda: iv.BinomialNoise(2), r"integers from 0 to trials, under BinomialNoise, got 3 at index \(2,\)"),
        (lambda: iv.NegativeBinomialNoise("b"), r"dispersion must use the prior's parameters \['a'\], got \['b'\]"),
        (lambda: iv.noise.CategoricalNoise(), "1 at one category along the last axis and 0 at all others"),
    ],
)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        iv.Posterior(PRIOR, MODEL, [1, 0, 3, 0, 2, 1], make())


@pytest.mark.parametrize("wrong", [-1.0, 0.5, np.inf])
@pytest.mark.parametrize("noise", [iv.PoissonNoise(), iv.NegativeBinomialNoise(0.1), iv.BinomialNoise(9)])
def test_what_is_no_count_is_refused(noise, wrong) -> None:
    with pytest.raises(
        ValueError, match=rf"data must be counts.*{type(noise).__name__}, got {wrong:g} at index \(2,\)"
    ):
        iv.Posterior(PRIOR, MODEL, [1, 0, wrong, 0, 2, 1], noise)
