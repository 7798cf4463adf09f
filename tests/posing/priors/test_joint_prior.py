"""The prior: columns, packing, densities and gradients of many families at once."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats
from targets import kolmogorov

import invsamp as iv
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import (
    Cauchy,
    Distribution,
    Gamma,
    LogNormal,
    MultivariateNormal,
    Normal,
    Uniform,
)
from invsamp.posing.priors.joint_prior import Prior


@pytest.fixture
def prior() -> Prior:
    # families interleaved, so that columns of one family are not neighbors
    return Prior(
        x=Uniform(0, 1),
        a=truncated(Normal(1, 0.5), lower=0),
        k=LogNormal(0, 1, shape=3),
        b=Normal(0.0, 2.0),
        m=MultivariateNormal([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]]),
        g=Gamma(2.0, 3.0, shape=(2, 2)),
        c=Cauchy(0, 1),
    )


def test_layout(prior: Prior) -> None:
    assert prior.names == ("x", "a", "k", "b", "m", "g", "c")
    assert prior.dimension == 13
    assert prior.shapes["g"] == (2, 2) and prior.shapes["x"] == ()
    assert prior.slices["m"] == slice(6, 8)
    assert prior.labels[2:5] == ("k[0]", "k[1]", "k[2]") and prior.labels[9] == "g[0, 1]"
    lower, upper = prior.support
    assert lower.tolist() == [0, 0, 0, 0, 0, *[-np.inf] * 3, 0, 0, 0, 0, -np.inf]
    assert upper.tolist() == [1, *[np.inf] * 12]


def test_density_and_gradient_are_sums_over_the_parameters(prior: Prior) -> None:
    theta = prior.sample(np.random.default_rng(0), 20)
    values = prior.unpack(theta)
    expected = sum(d.log_density(values[name]) for name, d in prior.distributions.items())
    np.testing.assert_allclose(prior.log_density(theta), expected, rtol=1e-12)
    gradient = np.concatenate(
        [d.gradient(values[name]).reshape(20, -1) for name, d in prior.distributions.items()], axis=1
    )
    np.testing.assert_allclose(prior.gradient(theta), gradient, rtol=1e-12)


def test_gradient_by_finite_differences(prior: Prior) -> None:
    theta = prior.sample(np.random.default_rng(5), 1)
    h = 1e-6 * np.abs(theta[0])
    moves = np.diag(h)
    expected = (prior.log_density(theta + moves) - prior.log_density(theta - moves)) / (2 * h)
    np.testing.assert_allclose(prior.gradient(theta)[0], expected, rtol=1e-5, atol=1e-5)


def test_outside_the_support(prior: Prior) -> None:
    theta = prior.sample(np.random.default_rng(0), 3)
    theta[1, 0] = 1.5
    assert np.isfinite(prior.log_density(theta)).tolist() == [True, False, True]
    assert not prior.gradient(theta)[1].any()


def test_draws_have_the_right_marginals(within, prior: Prior) -> None:
    draws = prior.unpack(prior.sample(np.random.default_rng(3), 4000))
    assert within(*kolmogorov(draws["x"], stats.uniform.cdf))
    assert within(*kolmogorov(draws["k"][:, 1], stats.lognorm(1).cdf))
    assert within(*kolmogorov(draws["g"][:, 1, 0], stats.gamma(2, scale=1 / 3).cdf))
    # the control is the wrong column
    assert not within(*kolmogorov(draws["g"][:, 1, 0], stats.lognorm(1).cdf))


def test_pack_and_unpack_are_inverse(prior: Prior) -> None:
    theta = prior.sample(np.random.default_rng(0), 12).reshape(3, 4, 13)
    values = prior.unpack(theta)
    assert values["g"].shape == (3, 4, 2, 2) and values["x"].shape == (3, 4)
    np.testing.assert_array_equal(prior.pack(values), theta)
    np.testing.assert_array_equal(prior.pack(prior.unpack(theta[0, 0])), theta[0, 0])


def test_one_value_serves_a_batch() -> None:
    prior = Prior(x=Normal(0, 1), y=Normal(0, 1))
    np.testing.assert_array_equal(prior.pack({"x": 1.0, "y": [2.0, 3.0]}), [[1.0, 2.0], [1.0, 3.0]])


def test_own_distribution() -> None:
    class Laplace(Distribution):
        shape = ()
        support = (np.array(-np.inf), np.array(np.inf))
        log_constant = -np.log(2.0)

        def evaluate(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return -np.abs(columns).sum(axis=1), -np.sign(columns)

        def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
            return rng.laplace(size=n)

    prior = Prior(a=Normal(0, 1), b=Laplace(), c=Normal(1, 1))
    theta = np.array([[0.5, -2.0, 0.0]])
    expected = stats.norm.logpdf(0.5) + stats.laplace.logpdf(-2.0) + stats.norm.logpdf(0.0, 1.0)
    np.testing.assert_allclose(prior.log_density(theta), expected)
    np.testing.assert_allclose(prior.gradient(theta), [[-0.5, 1.0, 1.0]])


def test_a_distribution_without_draws_is_named() -> None:
    class Density(Normal):
        def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
            raise NotImplementedError("known up to a constant alone")

    line = iv.with_jacobian(lambda theta: theta, lambda theta: np.ones((len(theta), 1, 1)))
    posterior = iv.Posterior(Prior(a=Density(0, 1)), line, [1.0], iv.GaussianNoise(1.0))
    message = r"^the prior of a must be one that can be drawn from, .* got Density, .* constant alone\. .*temperatures$"
    for start in (None, {"a": 0.5}):
        with pytest.raises(ValueError, match=message):
            iv.sample(posterior, draws=20, seed=1, start=start, progress=False)
    with pytest.raises(ValueError, match=message):
        iv.maximize(posterior, seed=1)
    np.testing.assert_allclose(iv.maximize(posterior, starts=[[0.0]], seed=1).theta, [[0.5]], atol=1e-6)


def test_equality_and_pickle(prior: Prior) -> None:
    again = pickle.loads(pickle.dumps(prior))
    assert again == prior and hash(again) == hash(prior)
    assert Prior(x=Normal(0, 1), y=Normal(0, 2)) != Prior(y=Normal(0, 2), x=Normal(0, 1))
    assert repr(Prior(x=Uniform(0, 1))) == "Prior(x=Uniform(lower=0.0, upper=1.0, shape=()))"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda p: Prior(), "distributions must name at least one parameter"),
        (lambda p: Prior(x=3j), r"x must be a distribution such as Normal\(0, 1\), finite numbers, or a formula of"),
        (lambda p: p.pack({"z": 1.0}), r"values must use the prior's parameters .*, got \['z'\]"),
        (lambda p: p.pack({"x": 1.0}), r"values must have a value for each of \["),
        (lambda p: p.pack(p.unpack(np.ones(13)) | {"k": [1.0, 2.0]}), r"values\['k'\] must have shape \(..., 3,\)"),
        (lambda p: p.pack(p.unpack(np.ones((2, 13))) | {"x": [1.0, 2.0, 3.0]}), "same leading shape"),
        (lambda p: p.unpack(np.ones(4)), r"theta must have 13 columns .* got shape \(4,\)"),
        (lambda p: p.log_density(np.ones(13)), r"theta must have shape \(batch, 13\), got \(13,\)"),
    ],
)
def test_bad_input(prior: Prior, act: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act(prior)


def test_a_mapping_serves_as_well_as_names() -> None:
    table = {"distributions": Normal(0, 1), "k": Uniform(0, 1), "c": [1.0, 2.0]}
    prior = Prior(table)
    assert prior == Prior(**table) and prior.names == ("distributions", "k")
    assert Prior({"a": Normal(0, 1)}, b="2 * a").order == ("a", "b")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prior(a=(0, 1), b=Normal(0, 1)), r"^a must be a distribution.*the tuple \(0, 1\): bounds are Uniform"),
        (lambda: Prior(a=[0, 1]), r"at least one parameter that is not fixed.*got the fixed values \['a'\]"),
        (lambda: Prior(), "at least one parameter that is not fixed.*got none"),
        (lambda: Prior({"a": Normal(0, 1)}, a=Normal(0, 1)), r"names that are given as arguments too, got \['a'\]"),
        (lambda: Prior({0: Normal(0, 1)}), "every name in distributions must be a string"),
        (lambda: Prior([Normal(0, 1)]), "distributions must be a mapping"),
    ],
)
def test_what_is_no_prior_is_reported(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
