"""Vectors whose entries constrain each other: coordinates, densities, draws, and the draws of a run."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from targets import kolmogorov

import invsamp as iv
from invsamp.distributions import LKJ, Ordered
from invsamp.posing.transforms.multivariate import Correlations, Increasing, Shares

TRANSFORMS = {
    "increasing": (Increasing(), 3),
    "increasing above": (Increasing(1.0), 3),
    "increasing within": (Increasing(1.0, 4.0), 3),
    "shares": (Shares(), 3),
    "two correlations": (Correlations(2), 1),
    "correlations": (Correlations(4), 6),
}


@pytest.mark.parametrize("name", TRANSFORMS)
class TestTransforms:
    def test_there_and_back(self, name) -> None:
        transform, k = TRANSFORMS[name]
        position = np.random.default_rng(0).normal(size=(2, 5, k))
        np.testing.assert_allclose(transform.position(transform.theta(position)), position, rtol=1e-8, atol=1e-10)

    def test_jacobian(self, name) -> None:
        transform, k = TRANSFORMS[name]
        position = np.random.default_rng(1).normal(size=(5, k))
        jacobian, slope = transform.derivatives(position)
        for j, h in itertools.product(range(k), [1e-6]):
            move = h * np.eye(k)[j]
            for function, found in ((transform.theta, jacobian[:, :, j]), (transform.log_jacobian, slope[:, j])):
                difference = (function(position + move) - function(position - move)) / (2 * h)
                np.testing.assert_allclose(found, difference, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(np.linalg.slogdet(jacobian)[1], transform.log_jacobian(position), rtol=1e-10)

    def test_far_away_is_finite(self, name) -> None:
        transform, k = TRANSFORMS[name]
        position = np.array(list(itertools.product([-300.0, 0.3, 300.0], repeat=min(k, 3))))
        position = np.tile(position, (1, 2))[:, :k]
        with np.errstate(all="ignore"):
            assert np.isfinite(transform.theta(position)).all() and np.isfinite(transform.log_jacobian(position)).all()


DISTRIBUTIONS = {
    "ordered": Ordered(iv.Normal(1.0, 2.0, shape=3)),
    "ordered_positive": Ordered(iv.Gamma(2.0, 1.0, shape=2)),
    "ordered_bounded": Ordered(iv.truncated(iv.Normal(0, 1, shape=2), -1, 2)),
    "dirichlet": iv.distributions.Dirichlet([0.7, 2.0, 3.5]),
    "lkj_2": LKJ(2, 0.8),
    "lkj_3": LKJ(3, 2.0),
}


def grid(k):
    line = np.linspace(-15.0, 15.0, {1: 3001, 2: 601, 3: 101}[k])
    return np.stack(np.meshgrid(*[line] * k, indexing="ij"), axis=-1).reshape(-1, k), (line[1] - line[0]) ** k


@pytest.mark.parametrize("name", DISTRIBUTIONS)
class TestTargets:
    def test_density_in_positions_integrates_to_one_and_has_the_moments_of_the_draws(self, within, name) -> None:
        target = DISTRIBUTIONS[name]
        k = target.shape[0]
        points, cell = grid(k)
        transform = target.vector_transform
        with np.errstate(all="ignore"):
            theta = transform.theta(points)
            weight = cell * np.exp(target.log_density(theta) + transform.log_jacobian(points))
        weight = np.where(np.isnan(weight), 0.0, weight)
        assert abs(weight.sum() - 1.0) < 2e-3

        def features(values):
            return np.concatenate([values, values**2, values[:, :1] * values], axis=1)

        found = features(target.sample(np.random.default_rng(0), 40_000))
        wanted = (weight[:, None] * features(np.where(weight[:, None] > 0.0, theta, 0.0))).sum(axis=0) / weight.sum()
        error = found.std(axis=0) / 200.0
        assert within((found.mean(axis=0) - wanted) / error, 5.5)
        others = features(target.sample(np.random.default_rng(0), 40_000) * 1.1)
        assert not within((others.mean(axis=0) - wanted) / error, 5.5)

    def test_gradient(self, name) -> None:
        target = DISTRIBUTIONS[name]
        x, h = target.sample(np.random.default_rng(3), 6), 1e-6
        for j in range(target.shape[0]):
            move = h * np.eye(target.shape[0])[j]
            f = [target.log_density(x + m * move) for m in (-2, -1, 1, 2)]
            wanted = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
            np.testing.assert_allclose(target.gradient(x)[:, j], wanted, rtol=1e-5, atol=1e-5)


def test_densities_by_others() -> None:
    alpha, x = (
        np.array([0.7, 2.0, 3.5]),
        iv.distributions.Dirichlet([0.7, 2.0, 3.5]).sample(np.random.default_rng(0), 5),
    )
    target = iv.distributions.Dirichlet(alpha)
    np.testing.assert_allclose(target.log_density(x), [stats.dirichlet(alpha).logpdf(row) for row in target.whole(x)])
    np.testing.assert_allclose(target.log_density([[0.7, 0.5], [-0.1, 0.3]]), -np.inf)
    r = np.linspace(-0.9, 0.9, 7)[:, None]
    np.testing.assert_allclose(LKJ(2, 1.7).log_density(r), stats.beta(1.7, 1.7, -1, 2).logpdf(r[:, 0]))
    assert LKJ(3).log_density([[0.9, 0.9, -0.9]]) == -np.inf
    ordered = Ordered(iv.Normal(0, 1, shape=3))
    np.testing.assert_allclose(
        ordered.log_density([[-1.0, 0.5, 2.0], [0.5, -1.0, 2.0]]),
        [stats.norm.logpdf([-1.0, 0.5, 2.0]).sum() + math.log(6), -np.inf],
    )


def test_marginals_of_correlations(within) -> None:
    for size, eta in ((3, 0.7), (5, 2.0)):
        target = LKJ(size, eta)
        draws = target.sample(np.random.default_rng(1), 20_000)
        a = eta - 1 + size / 2
        for column in draws.T:
            assert within(*kolmogorov(column, stats.beta(a, a, -1, 2).cdf))
        assert not within(*kolmogorov(draws[:, 0], stats.beta(1.5 * a, 1.5 * a, -1, 2).cdf))
        matrices = target.matrix(draws)
        assert (np.linalg.eigvalsh(matrices) > 0).all()
        np.testing.assert_array_equal(matrices[:, 2, 1], draws[:, 2])


class TestPosterior:
    SEEN = np.eye(3)[[0, 2, 2, 1, 2, 2, 0, 2]]

    def test_shares_of_categories_have_their_conjugate_posterior(self, draw, agrees) -> None:
        target = iv.distributions.Dirichlet([1.5, 2.0, 1.0])
        model = iv.finite_differences(lambda x: np.tile(target.whole(x), (1, 8)))
        posterior = iv.Posterior(iv.Prior(x=target), model, self.SEEN, iv.noise.CategoricalNoise())
        check = posterior.check_gradient()
        assert check.passed, check
        run = draw(posterior, iv.mala(), draws=150, thin=3, warmup=300)
        after = np.array([1.5, 2.0, 1.0]) + self.SEEN.sum(axis=0)
        mean = after[:2] / after.sum()
        second = (np.diag(after) + np.outer(after, after))[:2, :2] / (after.sum() * (after.sum() + 1))
        found = np.concatenate([run.theta, run.theta**2], axis=2).mean(axis=1)
        assert agrees(found, [*mean, *np.diag(second)])
        assert not agrees(found, [*mean[::-1], *np.diag(second)[::-1]])

    def test_correlations_and_what_is_beside_them(self, draw, agrees) -> None:
        """Data that say nothing of the correlations leave them their prior, and of the others what they say."""
        prior = iv.Prior(
            a=iv.Normal(0, 1),
            r=LKJ(3, 1.5),
            s=iv.HalfNormal(1),
            o=Ordered(iv.Normal(0, 1, shape=2)),
        )
        model = iv.finite_differences(lambda t: t[:, :1] + 0.5 * t[:, 4:5], parameters=("a", "r", "o"))
        posterior = iv.Posterior(prior, model, [0.5], iv.GaussianNoise("0.5 + 0 * s"))
        check = posterior.check_gradient()
        assert check.passed, check
        run = draw(posterior, iv.mala(), draws=75, thin=4, warmup=300)
        r = run.theta[..., 1:4]
        spread = 1 / (2 * 1.5 + 3 - 1)
        found = np.concatenate([r.mean(axis=1), (r**2).mean(axis=1)], axis=1)
        assert agrees(found, [0.0] * 3 + [spread] * 3)
        assert not agrees(found, [0.0] * 3 + [1.2 * spread] * 3)
        assert (np.diff(run.theta[..., 5:], axis=2) > 0).all()

    def test_terms_add_up(self) -> None:
        target = Ordered(iv.LogNormal(0, 1, shape=3))
        model = iv.with_jacobian(
            lambda t: t @ A.T, lambda t: np.broadcast_to(A, (len(t), *A.shape)), parameters=["x", "b"]
        )
        prior = iv.Prior(b=iv.Normal(0, 1), x=target, s=iv.HalfNormal(1))
        posterior = iv.Posterior(prior, model, np.ones(5), iv.GaussianNoise("s"))
        position, potential = posterior.sample_start(np.random.default_rng(0), 4), posterior.potential()
        energy, gradient = potential.energy_and_gradient(position)
        h = 1e-6
        for j in range(5):
            move = h * np.eye(5)[j]
            wanted = (potential.energy(position + move) - potential.energy(position - move)) / (2 * h)
            np.testing.assert_allclose(gradient[:, j], wanted, rtol=1e-5, atol=1e-5)
        terms = potential.terms(position, np.tile([4, 0, 2, 3, 1], (4, 1)))
        np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy)
        np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient, rtol=1e-9, atol=1e-9)
        apart = potential.parts(position, "apart")
        np.testing.assert_allclose(apart.prior_gradient, terms.prior_gradient, rtol=1e-9, atol=1e-9)

    def test_bounds_instead(self) -> None:
        target = Ordered(iv.Normal(0, 1, shape=2))
        model = iv.finite_differences(lambda t: t)
        apart = iv.constraint("x[0] < x[1]")
        bounds = iv.Posterior(iv.Prior(x=target), model, [0, 1], iv.GaussianNoise(1), domain=apart)
        assert not bounds.coordinates.vectors
        free = iv.Posterior(iv.Prior(x=target), model, [0, 1], iv.GaussianNoise(1))
        theta = target.sample(np.random.default_rng(0), 4)
        difference = bounds.potential().energy(theta) - free.potential().energy(free.to_position(theta))
        np.testing.assert_allclose(difference, free.coordinates.evaluate(free.to_position(theta)).log_jacobian)


A = np.random.default_rng(2).normal(size=(5, 4))


def test_flat_on_a_domain(draw, agrees) -> None:
    triangle = iv.domains.Polygon([[0, 0], [2, 0], [0, 1]])
    model = iv.finite_differences(lambda t: t[:, 2:] + 0 * t[:, :1])
    prior = iv.Prior(x=iv.Flat(triangle), b=iv.Normal(0, 1))
    posterior = iv.Posterior(prior, model, [0.0], iv.GaussianNoise(1.0))
    np.testing.assert_array_equal(prior.distributions["x"].log_density([[0.5, 0.2], [1.9, 0.9]]), [0.0, -np.inf])
    run = draw(posterior, iv.mala(), draws=150, thin=4, warmup=300)
    found = np.concatenate([run.theta[..., :2].mean(axis=1), (run.theta[..., :2] ** 2).mean(axis=1)], axis=1)
    truth = [2 / 3, 1 / 3, 4 / 6, 1 / 6]
    assert triangle.contains(run.theta[..., :2].reshape(-1, 2)).all()
    assert agrees(found, truth)
    assert not agrees(found, [2 / 3, 1 / 3, 4 / 6, 1 / 5])
    assert posterior.without_domain().sampling_domain.constrains(3).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ordered(iv.Normal(0, 1)), r"distribution must have shape \(k,\), k >= 2, got \(\)"),
        (lambda: Ordered(iv.Normal([0, 1], 1)), 'distribution must be the same for all entries.*domain="a < b"'),
        (lambda: Ordered([iv.Normal(0, 1), iv.Normal(1, 1)]), 'must be one for all.*got 2.*domain="a < b"'),
        (lambda: Ordered(iv.Uniform(0, [1, 2])), "distribution must be the same for all entries"),
        (lambda: Ordered(LKJ(3)), "distribution must be one of independent numbers"),
        (
            lambda: Ordered(iv.truncated(iv.Normal(0, 1, shape=2), upper=1)),
            "distribution must be bounded on both sides, below, or not at all",
        ),
        (lambda: iv.distributions.Dirichlet([1.0]), "concentration must have at least two entries, got 1"),
        (lambda: iv.distributions.Dirichlet([1.0, 0.0]), "concentration must be positive finite numbers"),
        (lambda: LKJ(1), "size must be an integer >= 2, got 1"),
        (lambda: LKJ(3, 0.0), "concentration must be a positive finite number"),
        (lambda: iv.Flat(iv.domains.Unbounded()), "domain must have a number of coordinates"),
        (lambda: iv.Flat(iv.domains.HalfSpaces([[1.0, 0.0]], [1.0])), "domain must be bounded"),
        (lambda: iv.Flat(1.0), "domain must be a bounded domain such as"),
        (
            lambda: iv.Posterior(
                iv.Prior(x=LKJ(3)), iv.finite_differences(lambda t: t), np.zeros(3), iv.GaussianNoise(1),
                transforms={"x": "log"},
            ),
            "must be 'identity', or its own by default, got 'log'",
        ),
    ],
)  # fmt: skip
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
