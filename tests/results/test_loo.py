"""Leave-one-out cross-validation under each noise: beside arviz's own on densities by scipy, and the closed form.

The unknowns are a, in what is predicted, and s, in the noise. Their prior is discrete, so that posteriors, and those
without a datum, are sums: nothing of the reference is approximate.
"""

from __future__ import annotations

import warnings

import arviz
import arviz_versions
import numpy as np
import pytest
from scipy import special, stats

import invsamp as iv
from invsamp.results.run import Run

GRID = np.stack(np.meshgrid(np.linspace(0.4, 2.6, 45), np.linspace(0.3, 0.8, 18), indexing="ij"), -1).reshape(-1, 2)
FACTORS, TIMES = np.array([0.8, 1.2, 1.0, 0.6, 1.5, 1.1, 0.9]), np.array([0.0, 0.4, 0.5, 1.5, 1.7, 3.0, 3.2])
NUMBERS = np.array([1.1, 1.3, 1.5, 0.8, 1.6, 1.4, 1.0])
COUNTS = np.array([14.0, 31.0, 19.0, 17.0, 33.0, 20.0, 12.0])
LABELS = np.array([0, 2, 1, 2, 2, 1, 0])
MATRIX = 0.1 * np.eye(7) + 0.05 * 0.6 ** np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
EVERY = np.arange(7)
CHAINS, DRAWS = 4, 1000


def each(target):
    """Of independent data: log density of all (points,), and of each given the others (points, 7)."""

    def wrong(a, s):
        terms = target(a * FACTORS, s)
        return terms.sum(axis=1), terms

    return wrong


def together(density):
    """Of dependent data, the same, by ``density(residuals, s, which of the data)``."""

    def wrong(a, s):
        whole, terms = np.empty(len(a)), np.empty((len(a), 7))
        for value in np.unique(s):
            rows = s[:, 0] == value
            residuals = NUMBERS - a[rows] * FACTORS
            whole[rows] = density(residuals, value, EVERY)
            for i in EVERY:
                others = np.delete(EVERY, i)
                terms[rows, i] = whole[rows] - density(residuals[:, others], value, others)
        return whole, terms

    return wrong


def normal(covariance):
    return together(lambda r, s, which: stats.multivariate_normal(cov=covariance(s)[np.ix_(which, which)]).logpdf(r))


def categories(a, s):
    """Weights 1, a f and (a f)^2."""
    weights = (a * FACTORS)[..., None] ** np.arange(3)
    terms = np.log(weights[:, EVERY, LABELS] / weights.sum(axis=2))
    return terms.sum(axis=1), terms


def either(y, s):
    return np.logaddexp(np.log(0.8) + stats.norm(y, s).logpdf(NUMBERS), np.log(0.2) + stats.norm(y, 2).logpdf(NUMBERS))


def censored(y, s):
    return np.where(NUMBERS <= 1.0, stats.norm(y, s).logcdf(1.0), stats.norm(y, s).logpdf(NUMBERS))


def truncated(y, s):
    return stats.norm(y, s).logpdf(NUMBERS) - stats.norm(y, s).logsf(0.5)


def outputs(y, s):
    first = stats.lognorm(s, scale=y).logpdf(NUMBERS)
    return np.where(EVERY % 2 == 0, first, stats.t(4, y, 0.3).logpdf(NUMBERS))


GAUSSIAN = iv.GaussianNoise("s")
#: Noise, what predictions are multiplied by, data, and what scipy makes of it.
CASES = {
    "gaussian": (GAUSSIAN, 1, NUMBERS, each(lambda y, s: stats.norm(y, s).logpdf(NUMBERS))),
    "formula": (
        *(iv.GaussianNoise("sqrt(0.1**2 + (s * y)**2)"), 1, NUMBERS),
        each(lambda y, s: stats.norm(y, np.hypot(0.1, s * y)).logpdf(NUMBERS)),
    ),
    "log-normal": (*(iv.LogNormalNoise("s"), 1, NUMBERS), each(lambda y, s: stats.lognorm(s, scale=y).logpdf(NUMBERS))),
    "student": (iv.StudentTNoise(4, "s"), 1, NUMBERS, each(lambda y, s: stats.t(4, y, s).logpdf(NUMBERS))),
    "censored": (iv.CensoredNoise(GAUSSIAN, lower=1.0), 1, np.maximum(NUMBERS, 1.0), each(censored)),
    "truncated": (iv.TruncatedNoise(GAUSSIAN, lower=0.5), 1, NUMBERS, each(truncated)),
    "mixture": (iv.MixtureNoise(GAUSSIAN, iv.GaussianNoise(2.0), 0.2), 1, NUMBERS, each(either)),
    "outputs": (
        *(iv.Outputs.labeled(list("abababa"), {"a": iv.LogNormalNoise("s"), "b": iv.StudentTNoise(4, 0.3)}), 1),
        *(NUMBERS, each(outputs)),
    ),
    "matrix": (iv.GaussianNoise(covariance=MATRIX), 1, NUMBERS, normal(lambda s: MATRIX)),
    "precision": (
        *(iv.GaussianNoise(covariance=iv.noise.Precision(np.linalg.inv(MATRIX))), 1, NUMBERS),
        normal(lambda s: MATRIX),
    ),
    "autoregressive": (
        *(iv.GaussianNoise(0.4, covariance=iv.noise.AutoRegressive("s")), 1, NUMBERS),
        normal(lambda s: 0.16 * s ** np.abs(np.subtract.outer(EVERY, EVERY))),
    ),
    "exponential": (
        *(iv.GaussianNoise(0.4, covariance=iv.noise.ExponentialCorrelation("s", TIMES)), 1, NUMBERS),
        normal(lambda s: 0.16 * np.exp(-np.abs(np.subtract.outer(TIMES, TIMES)) / s)),
    ),
    "marginal": (
        *(iv.noise.MarginalNoise(iv.GaussianNoise("s"), 2.0, 1.0), 1, NUMBERS),
        together(lambda r, s, which: stats.multivariate_t(shape=s**2 * 0.5 * np.eye(len(which)), df=4).logpdf(r)),
    ),
    "poisson": (iv.PoissonNoise(), 15, COUNTS, each(lambda y, s: stats.poisson(15 * y).logpmf(COUNTS))),
    "negative binomial": (
        *(iv.NegativeBinomialNoise("s"), 15, COUNTS),
        each(lambda y, s: stats.nbinom(1 / s, 1 / (1 + 15 * s * y)).logpmf(COUNTS)),
    ),
    "binomial": (*(iv.BinomialNoise(80), 0.2, COUNTS), each(lambda y, s: stats.binom(80, 0.2 * y).logpmf(COUNTS))),
    "categories": (iv.noise.CategoricalNoise(), None, np.eye(3)[LABELS], categories),
}


def posed(noise, unit, data):
    """A posterior that predicts ``unit a f``, or weights of categories."""

    def model(theta):
        y = theta[:, :1] * FACTORS
        return (y[..., None] ** np.arange(3)).reshape(len(theta), -1) if unit is None else unit * y

    prior = iv.Prior(a=iv.Uniform(0, 3), s=iv.Uniform(0, 1))
    return iv.Posterior(prior, iv.finite_differences(model, parameters=["a"]), data, noise)


def drawn(posterior, whole, seed):
    """A run that holds draws of the exact posterior on the grid, by its log likelihood."""
    chosen = np.random.default_rng(seed).choice(len(GRID), (CHAINS, DRAWS), p=special.softmax(whole))
    return Run.from_arrays(posterior, {"a": (), "s": ()}, GRID[chosen][None], {}, {}), chosen


@pytest.mark.parametrize("name", CASES)
def test_each_noise(name, within) -> None:
    noise, unit, data, target = CASES[name]
    whole, terms = target(GRID[:, :1], GRID[:, 1:])
    posterior = posed(noise, unit, data)
    run, chosen = drawn(posterior, whole, 1)
    draws = dict(zip("as", np.moveaxis(GRID[chosen], 2, 0), strict=True))
    scipys = arviz_versions.container({"posterior": draws, "log_likelihood": {"data": terms[chosen]}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a tail that is long by chance, both warn
        found, theirs = run.loo(posterior), arviz.loo(scipys, pointwise=True)

    each_found = arviz_versions.pointwise(found).to_numpy()
    np.testing.assert_allclose(each_found, arviz_versions.pointwise(theirs), rtol=1e-8)
    assert found.n_data_points == 7 and found.warning == theirs.warning
    assert found.se == pytest.approx(theirs.se)

    left_out = special.logsumexp(whole) - special.logsumexp(whole[:, None] - terms, axis=0)
    wrong = special.logsumexp(whole[:, None] + terms, axis=0) - special.logsumexp(whole)
    # of the mean of 1 / p over independent draws, of which the density found is the log
    weight, ratio = special.softmax(whole)[:, None], np.exp(-terms)
    mean = (weight * ratio).sum(axis=0)
    error = np.sqrt((weight * (ratio - mean) ** 2).sum(axis=0) / (CHAINS * DRAWS)) / mean
    assert within((each_found - left_out) / error, 5.0)
    assert not within((each_found - wrong) / error, 5.0)


def test_what_is_missing_is_no_datum() -> None:
    data = np.ma.array(np.stack([NUMBERS, NUMBERS]), mask=np.zeros((2, 7), dtype=bool))
    data[0, 2] = data[1, 5] = np.ma.masked
    model = iv.finite_differences(lambda theta: np.tile(theta * FACTORS, (1, 2)))
    posterior = iv.Posterior(iv.Prior(a=iv.Uniform(0, 3)), model, data, iv.GaussianNoise(0.4))
    theta = np.random.default_rng(0).normal(1.2, 0.1, (1, CHAINS, DRAWS, 1))
    arguments = posterior, {"a": ()}, theta, {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = Run.from_arrays(*arguments).loo(posterior)
        weighted = Run.from_arrays(*arguments, log_weight=np.zeros((CHAINS, DRAWS))).loo(posterior)
    for found in (plain, weighted):
        assert found.n_data_points == 12 and not found.warning
        assert arviz_versions.pointwise(found)["datum"].values.tolist() == [0, 1, *range(3, 12), 13]
        assert found.se == pytest.approx(arviz_versions.standard_error(found))
    np.testing.assert_allclose(*map(arviz_versions.pointwise, (weighted, plain)), rtol=1e-3)
