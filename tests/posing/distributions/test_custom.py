"""Distributions by functions, and mixtures: against distributions that are known, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from targets import kolmogorov

import invsamp as iv
from invsamp.distributions import Custom, GaussianMixture


def normal(x: np.ndarray) -> np.ndarray:
    return -0.5 * x**2


def draw(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(n)


def posterior_of(one: object) -> iv.Posterior:
    model = iv.with_jacobian(lambda t: t, lambda t: np.ones((len(t), 1, 1)))
    return iv.Posterior(iv.Prior(x=one), model, [1.0], iv.GaussianNoise(0.5))


def test_a_custom_normal_is_the_normal() -> None:
    x = np.linspace(-3, 3, 7)[:, None]
    expected = posterior_of(iv.Normal(0, 1)).potential().energy_and_gradient(x)
    for one in (
        Custom(normal, draw, lambda x: -x),
        Custom(lambda x: (normal(x), -x), draw, True),
        Custom(lambda x: normal(x)[:, 0], lambda rng, n: draw(rng, n)[:, None], lambda x: -x, shape=1),
    ):
        energy, gradient = posterior_of(one).potential().energy_and_gradient(x)
        np.testing.assert_allclose(np.diff(energy - expected[0]), 0.0, atol=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


def test_without_a_gradient_only_samplers_that_follow_none_work(within) -> None:
    posterior = posterior_of(Custom(normal, draw))
    with pytest.raises(ValueError, match=r"Custom distribution without a gradient.*pcn\(\)"):
        iv.sample(posterior, iv.hmc(), draws=10, seed=1, progress=False)
    run = iv.sample(posterior, iv.pcn(), draws=4000, chains=4, seed=1, progress=False)
    draws = run.theta.reshape(-1)[:: int(len(run.theta.reshape(-1)) / run.summary()["ess_bulk"].iloc[0]) + 1]
    assert within(*kolmogorov(draws, stats.norm(0.8, np.sqrt(0.2)).cdf))
    # control: the prior's own draws are rejected
    assert not within(*kolmogorov(np.random.default_rng(3).standard_normal(len(draws)), stats.norm(0.8, 0.447).cdf))


def test_what_functions_return_is_checked() -> None:
    with pytest.raises(ValueError, match=r"function of a Custom distribution must return shape \(2,\), got \(2, 3\)"):
        Custom(normal, draw, shape=3).log_density(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"sampler of a Custom distribution must return shape \(4, 3\), got \(4,\)"):
        Custom(normal, draw, shape=3).sample(np.random.default_rng(0), 4)
    with pytest.raises(ValueError, match="as gradient=True says"):
        Custom(normal, draw, True).log_density(np.zeros(2))
    with pytest.raises(ValueError, match="upper must be above lower"):
        Custom(normal, draw, lower=1.0, upper=1.0)
    with pytest.raises(ValueError, match="lower must broadcast"):
        Custom(normal, draw, lower=[0.0, 1.0])


def test_mixture() -> None:
    mixture = GaussianMixture([1, 3], [[0.0, 1.0], [2.0, -1.0]], [np.eye(2), [[2.0, 0.5], [0.5, 0.3]]])
    x = np.random.default_rng(0).normal(size=(9, 2))
    parts = [stats.multivariate_normal([0, 1], np.eye(2)), stats.multivariate_normal([2, -1], [[2, 0.5], [0.5, 0.3]])]
    expected = np.log(0.25 * parts[0].pdf(x) + 0.75 * parts[1].pdf(x))
    np.testing.assert_allclose(mixture.log_density(x), expected, rtol=1e-12)
    h = 1e-5 * np.eye(2)
    differences = [(mixture.log_density(x + step) - mixture.log_density(x - step)) / 2e-5 for step in h]
    np.testing.assert_allclose(mixture.gradient(x), np.stack(differences, axis=1), atol=1e-8)


def test_draws_of_a_mixture(within) -> None:
    mixture = GaussianMixture([1, 3], [0.0, 3.0], [1.0, 0.25])

    def cdf(x: np.ndarray) -> np.ndarray:
        return 0.25 * stats.norm.cdf(x) + 0.75 * stats.norm.cdf(x, 3.0, 0.5)

    draws = mixture.sample(np.random.default_rng(2), 20_000)
    assert within(*kolmogorov(draws, cdf))
    assert not within(*kolmogorov(1.1 * draws, cdf))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [0.0, 1.0], [1.0]), "means must have shape"),
        (([1.0], [0.0], [-1.0]), "positive definite"),
        (([1.0], [[0.0, 1.0]], [[[1.0, 2.0], [0.0, 1.0]]]), "symmetric"),
        (([0.0], [0.0], [1.0]), "weights must be"),
    ],
)
def test_mixtures_that_are_none(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianMixture(*arguments)
