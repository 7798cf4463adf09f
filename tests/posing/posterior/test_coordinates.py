"""The coordinates in which a posterior is sampled, and its bounds there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import special, stats
from waves import DATA, Waves, mixed, start

from invsamp.domains import Ball, Box, HalfSpaces, LevelSet, Product, Unbounded, constraint
from invsamp.maximizing import maximize
from invsamp.posing.distributions.base import Distribution
from invsamp.posing.distributions.from_scipy import from_scipy
from invsamp.posing.distributions.multivariate import Dirichlet, Ordered
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import Beta, Gamma, HalfNormal, Normal, Uniform
from invsamp.posing.forward_models.adapters import finite_differences, with_jacobian
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.noise.discrete import BinomialNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.posing.transforms.univariate import Identity, Log, Logit
from invsamp.samplers import hmc
from invsamp.sampling import sample


def test_default_coordinates_and_bounds() -> None:
    posterior = mixed()
    assert posterior.coordinates.transforms == (
        Identity(), Log(), Log(), Log(0.2), Identity(), Log(), Identity(), Identity()
    )  # fmt: skip
    inf = np.inf
    assert posterior.sampling_domain == Box([-1] + [-inf] * 7, [2] + [inf] * 7)
    assert Posterior(Prior(x=HalfNormal(1)), Waves(), DATA, GaussianNoise(1)).sampling_domain == Unbounded()
    position = start(posterior, 50)
    np.testing.assert_allclose(posterior.to_position(posterior.to_theta(position)), position, rtol=1e-10, atol=1e-12)


def test_chosen_coordinates() -> None:
    posterior = mixed(transforms={"x": "logit", "k": "identity", "s": "log"})
    assert posterior.coordinates.transforms[0] == Logit(-1.0, 2.0)
    assert posterior.coordinates.transforms[3] == Identity()
    assert posterior.sampling_domain == Box([-np.inf] * 3 + [0.2] + [-np.inf] * 4, np.inf)
    # a log coordinate on an interval keeps the upper bound
    bounds = mixed(transforms={"x": "log"}).sampling_domain
    np.testing.assert_allclose(bounds.upper[0], np.log(3.0))


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (Beta(0.5, 0.5), [Logit(0.0, 1.0)]),
        (Beta(3.0, 0.5), [Logit(0.0, 1.0)]),
        (Beta(1.0, 2.0), [Identity()]),
        (Beta([0.5, 2.0], 2.0), [Logit(0.0, 1.0), Identity()]),
        (Beta("s", 2.0), [Logit(0.0, 1.0)]),  # of any s, for all that is known
        (truncated(Gamma(0.5, 1.0), upper=2.0), [Logit(0.0, 2.0)]),
        (truncated(Gamma(0.5, 1.0, shape=2), upper=[2.0, np.inf]), [Logit(0.0, 2.0), Log()]),
        (truncated(Beta(0.5, 0.5), lower=0.3), [Logit(0.3, 1.0)]),
        (truncated(Beta(0.5, 0.5), lower=0.3, upper=0.8), [Identity()]),
        (from_scipy(stats.beta(2.0, 0.5)), [Logit(0.0, 1.0)]),
        (from_scipy(stats.beta(2.0, 5.0)), [Identity()]),
        (from_scipy(stats.beta([2.0, 0.5], 5.0)), [Identity(), Logit(0.0, 1.0)]),
        (Uniform(0.0, 1.0), [Identity()]),
    ],
)
def test_densities_without_bound_have_logits(
    distribution: Distribution, expected: list[Identity | Log | Logit]
) -> None:
    count = len(expected)
    prior = Prior(x=distribution, s=HalfNormal(1.0))
    posterior = Posterior(
        prior, lambda theta: theta, np.full(count + ("s" not in repr(distribution)), 0.5), GaussianNoise(1)
    )
    assert list(posterior.coordinates.transforms[prior.slices["x"]]) == expected
    assert not any(isinstance(one, Logit) for one in posterior.with_bounds().coordinates.transforms)
    within = Posterior(
        prior,
        lambda theta: theta,
        np.full(len(posterior.data), 0.5),
        GaussianNoise(1),
        Ball([0.0] * prior.dimension, 9.0),
    )
    assert not any(isinstance(one, Logit) for one in within.coordinates.transforms)


def test_a_mode_under_a_density_without_bound() -> None:
    """No success among ten, under Jeffreys' prior: in p the density has no maximum, in its logit a finite one."""
    same = with_jacobian(lambda p: p, lambda p: np.ones((len(p), 1, 1)))
    found = maximize(Posterior(Prior(p=Beta(0.5, 0.5)), same, [0.0], BinomialNoise(10)), seed=1)
    exact = special.betaln(0.5, 10.5) - special.betaln(0.5, 0.5)
    assert len(found.theta) == 1
    np.testing.assert_allclose(found.log_evidence, exact, atol=0.2)
    np.testing.assert_allclose(found.theta, 0.5 / 11.0, rtol=0.1)


def test_logits_become_bounds_again() -> None:
    posterior, default = mixed(transforms={"x": "logit", "k": "identity"}), mixed()
    bounded = posterior.with_bounds()
    assert bounded.coordinates.transforms[0] == Identity()
    assert bounded.coordinates.transforms[1:] == posterior.coordinates.transforms[1:]
    assert bounded.sampling_domain.lower[0] == default.sampling_domain.lower[0] == -1.0
    position = start(posterior, 20)
    at = bounded.to_position(posterior.to_theta(position))
    stretched = posterior.coordinates.evaluate(position).log_jacobian - bounded.coordinates.evaluate(at).log_jacobian
    np.testing.assert_allclose(
        posterior.potential().energy(position), bounded.potential().energy(at) - stretched, rtol=1e-10
    )
    assert np.ptp(stretched) > 0.5
    assert default.with_bounds().coordinates == default.coordinates


def test_constrained_columns_are_sampled_as_themselves() -> None:
    domain = HalfSpaces([[0, 0, 0, 1.0, 0, 1.0, 0, 0]], [3.0])  # k + g <= 3
    posterior = mixed(domain=domain)
    assert posterior.coordinates.transforms[3] == posterior.coordinates.transforms[5] == Identity()
    assert posterior.coordinates.transforms[1] == Log()
    theta = posterior.to_theta(start(posterior, 200))
    assert np.all(theta[:, 3] + theta[:, 5] <= 3.0)
    inside = np.zeros((4, 8))
    inside[:, 3], inside[:, 5] = [1.0, 0.1, 1.0, 2.0], [1.0, 1.0, -0.1, 1.5]
    # the supports of k (above 0.2) and g (positive) have become bounds
    assert posterior.sampling_domain.contains(inside).tolist() == [True, False, False, False]


def test_constraints_and_domains_by_name() -> None:
    posterior = mixed(domain=[constraint("k + g < 3"), Product({("x", "c"): Ball([0.0, 0.0], 1.5)})])
    bound = HalfSpaces([[0, 0, 0, 1.0, 0, 1.0, 0, 0]], [3.0])
    assert posterior.domain == bound & Product({(0, 4): Ball([0.0, 0.0], 1.5)})
    # s is the only column with a support that nothing else constrains
    assert [type(t).__name__ for t in posterior.coordinates.transforms][:6] == ["Identity", "Log", "Log"] + [
        "Identity"
    ] * 3
    theta = posterior.to_theta(start(posterior, 500))
    assert (theta[:, 3] + theta[:, 5] < 3).all() and (theta[:, [3, 5]] > [0.2, 0]).all()
    assert (theta[:, 0] ** 2 + theta[:, 4] ** 2 <= 2.25).all() and (theta[:, 0] >= -1).all()
    assert posterior.support.contains(theta).all()
    assert mixed(domain=constraint("s[0] < s[1]")).domain.constrains(8).tolist() == [False, True, True] + [False] * 5
    assert mixed(domain=constraint("h[0] < 1") & constraint("x > 0")).dimension == 8


def test_level_set_among_the_supports() -> None:
    def gradient(x: np.ndarray) -> np.ndarray:
        return np.column_stack([2 * x[:, 0], -np.ones(len(x))])

    parabola = LevelSet(lambda x: x[:, 0] ** 2 - x[:, 1], gradient, 2)  # x^2 < k
    posterior = mixed(domain=Product({("x", "k"): parabola}))
    position = start(posterior, 300)
    rng = np.random.default_rng(0)
    for _ in range(5):
        position = posterior.sampling_domain.reflect(position, 0.3 * rng.normal(size=position.shape)).position
    theta = posterior.to_theta(position)
    assert (theta[:, 0] ** 2 <= theta[:, 3]).all() and (theta[:, 3] >= 0.2).all() and (theta[:, 0] <= 2).all()


def test_without_domain_keeps_coordinates_and_supports() -> None:
    posterior = mixed(domain=constraint("k + g < 3"))
    free = posterior.without_domain()
    assert free.domain == Unbounded() and free.coordinates is posterior.coordinates
    assert free.sampling_domain == Box([-1, -np.inf, -np.inf, 0.2, -np.inf, 0] + [-np.inf] * 2, [2] + [np.inf] * 7)
    assert posterior.domain != Unbounded() and isinstance(posterior.sampling_domain, HalfSpaces)
    position = start(posterior, 5)
    energy, gradient = posterior.potential().energy_and_gradient(position)
    np.testing.assert_array_equal(free.potential().energy_and_gradient(position)[0], energy)
    np.testing.assert_array_equal(free.potential().energy_and_gradient(position)[1], gradient)
    position[:, 5] = 4.0
    assert (posterior.potential().energy(position) == np.inf).all()
    assert np.isfinite(free.potential().energy(position)).all()


@pytest.mark.parametrize(
    ("vector", "domain", "inside", "outside"),
    [
        (Ordered(Normal(0.0, 1.0, shape=3)), "v[0] > -3", [-1.0, 0.0, 0.2], [-1.0, 0.2, 0.0]),
        (Dirichlet([1.0, 1.5, 1.0, 2.0]), "v[0] < 0.5", [0.2, 0.3, 0.3], [0.2, 0.5, 0.4]),
    ],
)
def test_vectors_within_a_domain_keep_their_own_bounds(vector, domain, inside, outside) -> None:
    """Moves are reflected where entries constrain each other; none is lost in a solve that fails."""
    posterior = Posterior(Prior(v=vector), finite_differences(lambda v: v), [0.1] * 3, GaussianNoise(0.5), domain)
    assert posterior.sampling_domain.contains(np.array([inside, outside])).tolist() == [True, False]
    run = sample(posterior, hmc(), draws=50, warmup=100, seed=1, progress=False)
    assert not run.report["failed_solves"]["model"]
    assert np.isfinite(posterior.log_prior(run.theta.reshape(-1, 3))).all()
    itself = Posterior(
        Prior(v=vector), finite_differences(lambda v: v), [0.1] * 3, GaussianNoise(0.5), transforms={"v": "identity"}
    )
    assert itself.sampling_domain.contains(np.array([inside, outside])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("distribution", "warned"),
    [(Beta(0.5, 0.5), True), (Gamma(0.5, 1.0), True), (Beta(1.5, 0.5), True), (Gamma(1.0, 1.0), False)],
)
def test_a_constrained_parameter_whose_density_has_no_bound_is_reported(distribution, warned) -> None:
    """Chains on it give means that are off by half: a domain leaves no logarithm or logit in which it has a bound."""
    prior, model = Prior(x=distribution, y=Normal(0, 1)), finite_differences(lambda theta: theta)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Posterior(prior, model, [0.0, 0.0], GaussianNoise(1.0))
        assert not found
        Posterior(prior, model, [0.0, 0.0], GaussianNoise(1.0), domain="x + y < 1")
    assert [str(each.message).startswith("the prior density of 'x' grows") for each in found] == [True] * warned
