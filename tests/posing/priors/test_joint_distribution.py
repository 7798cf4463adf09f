"""Parameters that share a distribution: their density, draws, coordinates and names are those of the whole."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import invsamp as iv
from invsamp.distributions import Custom

MEAN, COVARIANCE = [1.0, -2.0], [[1.0, 0.6], [0.6, 2.0]]
JOINT = iv.MultivariateNormal(MEAN, COVARIANCE)


def test_names_share_a_distribution() -> None:
    prior = iv.Prior({"first": iv.Normal(0, 1), ("a", "b"): JOINT}, last=iv.LogNormal(0, 1))
    vector = iv.Prior(first=iv.Normal(0, 1), ab=JOINT, last=iv.LogNormal(0, 1))
    theta = np.abs(np.random.default_rng(0).normal(size=(6, 4)))
    assert prior.labels == ("first", "a", "b", "last")
    np.testing.assert_allclose(prior.log_density(theta), vector.log_density(theta), rtol=1e-14)
    np.testing.assert_allclose(prior.gradient(theta), vector.gradient(theta), rtol=1e-14)
    draws = prior.sample(np.random.default_rng(1), 20_000)
    np.testing.assert_array_equal(draws, vector.sample(np.random.default_rng(1), 20_000))
    assert pickle.loads(pickle.dumps(prior)) == prior != vector
    assert "a ~ MultivariateNormal" in str(prior.graph)


def test_each_has_the_coordinates_of_its_own_support() -> None:
    """Exponential and uniform entries of one function: a logarithm and a bound; others may name them."""
    two = Custom(
        lambda x: -x[:, 0],
        lambda rng, n: np.stack([rng.exponential(size=n), rng.random(n)], axis=1),
        lambda x: np.stack([-np.ones(len(x)), np.zeros(len(x))], axis=1),
        shape=2,
        lower=0,
        upper=[np.inf, 1.0],
    )
    prior = iv.Prior({("rate", "share"): two}, effect=iv.Normal("share", "rate"))
    apart = iv.Prior(rate=iv.Exponential(1), share=iv.Uniform(0, 1), effect=iv.Normal("share", "rate"))
    model = iv.with_jacobian(lambda t: t**2, lambda t: 2 * t[:, :, None] * np.eye(1))
    posteriors = [iv.Posterior(one, model, [1.0], iv.GaussianNoise(0.1)) for one in (prior, apart)]
    position = np.random.default_rng(0).random((5, 3))
    (energy, gradient), (expected, slope) = (one.potential().energy_and_gradient(position) for one in posteriors)
    np.testing.assert_allclose(energy, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    assert repr(posteriors[0].sampling_domain) == repr(posteriors[1].sampling_domain)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({("a", "b", "c"): JOINT}, r"must be a distribution of shape \(3,\), one entry for each of \['a', 'b', 'c'\]"),
        ({("a", "a"): JOINT}, "one entry for each"),
        ({("a", "b"): 3.0}, "must be a distribution of shape"),
        ({("a", 1): JOINT}, "every name in distributions must be"),
        ({("a", "b"): iv.distributions.Dirichlet([1, 1, 1])}, "coordinates of its own"),
        ({("a", "b"): JOINT, "a": iv.Normal(0, 1)}, r"each parameter once, got \['a'\] again"),
    ],
)
def test_what_is_refused(arguments: dict[object, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        iv.Prior(arguments)
    whole = iv.Prior({("a", "b"): JOINT}).distributions
    with pytest.raises(ValueError, match=r"a shares a distribution: all of \['a', 'b'\]"):
        iv.Prior(a=whole["a"])
