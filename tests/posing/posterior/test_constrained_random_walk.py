"""Starting points where draws of the prior hardly ever lie inside the domain, and the runs that begin there."""

from __future__ import annotations

import numpy as np
import pytest
from parts import cases
from scipy import stats

import invsamp as iv
from invsamp.posing.posterior.constrained_random_walk import walk
from invsamp.storage.contents import constants

ORDER = iv.constraint(" < ".join(f"u[{k}]" for k in range(9)))
SIMPLEX = iv.constraint(" + ".join(f"u[{k}]" for k in range(10)) + " < 1")
#: Domains of prior mass 2.9e-7, 2.8e-6 and 2.8e-7, their prior, and the distribution of each parameter.
SMALL = {
    "tail": (iv.constraint("u[0] > 5"), iv.Normal([0.0], 1.0), [stats.truncnorm(5.0, np.inf)]),
    "order": (ORDER, iv.Uniform(0, 1, shape=9), [stats.beta(k, 10 - k) for k in range(1, 10)]),
    "simplex": (SIMPLEX, iv.Uniform(0, 1, shape=10), [stats.beta(1, 10)] * 10),
}


def posterior(domain, target, fidelities=("model",)):
    """Whose datum says next to nothing."""
    model = iv.with_jacobian(lambda u: u[:, :1], lambda u: np.eye(1, u.shape[1])[None].repeat(len(u), axis=0))
    return iv.Posterior(iv.Prior(u=target), dict.fromkeys(fidelities, model), [0.0], iv.GaussianNoise(100.0), domain)


def normal(sd):
    return lambda x: -0.5 * np.square(x / sd).sum(axis=1)


class TestWalk:
    def test_converges_to_the_restricted_prior(self, agrees):
        domain, target = iv.domains.HalfSpaces([[-1.0]], [-5.0]), stats.truncnorm(5.0, np.inf)
        truth = [target.mean(), target.moment(2)]
        for sd, right in ((1.0, True), (1.2, False)):
            rng = np.random.default_rng(1)
            ends = walk(rng, np.full((3000, 1), 6.0), normal(sd), domain, np.ones(1))
            assert domain.contains(ends).all()
            assert bool(agrees(np.column_stack([ends, ends**2]), truth)) is right

    def test_keeps_the_restricted_prior(self, agrees):
        """Around a corner, where lines are cut short."""
        domain = iv.domains.HalfSpaces([[-1.0, 0.0], [0.3, 1.0]], [0.0, 0.2])
        rng = np.random.default_rng(2)
        draws = rng.standard_normal((200_000, 2))
        draws = draws[domain.contains(draws)]
        truth, start = draws[20_000:], draws[:4000]

        def moments(x):
            return np.column_stack([x, x**2, x[:, 0] * x[:, 1]])

        error = moments(truth).std(axis=0) / np.sqrt(len(truth))
        for sd, right in ((1.0, True), (1.3, False)):
            ends = walk(np.random.default_rng(3), start, normal(sd), domain, np.ones(2))
            assert bool(agrees(moments(ends), moments(truth).mean(axis=0), error)) is right

    def test_does_not_touch_where_it_begins(self):
        start = np.full((5, 1), 6.0)
        walk(np.random.default_rng(0), start, normal(1.0), iv.domains.HalfSpaces([[-1.0]], [-5.0]), np.ones(1))
        assert (start == 6.0).all()


class TestStarts:
    @pytest.mark.parametrize("name", SMALL)
    def test_are_inside_and_spread_about_as_the_restricted_prior(self, name):
        domain, prior, targets = SMALL[name]
        problem = posterior(domain, prior)
        theta = problem.to_theta(problem.sample_start(np.random.default_rng(0), 400))
        assert problem.domain.contains(theta).all()
        mean, sd = np.array([(target.mean(), target.std()) for target in targets]).T
        # the sd of such a mean is .05 at most
        assert (np.abs(theta.mean(axis=0) - mean) < 0.4 * sd).all()
        assert (theta.std(axis=0) > 0.6 * sd).all() and (theta.std(axis=0) < 1.4 * sd).all()
        with pytest.raises(ValueError, match=r"domain must overlap the prior: \d of 50100 prior draws"):
            problem.sample_prior(np.random.default_rng(0), 4)

    def test_coordinates_without_bounds_begin_in_the_prior(self):
        prior = iv.Prior(x=iv.Normal(0, 1), far=iv.LogNormal(40.0, 0.1))
        model = iv.finite_differences(lambda u: u[:, :1])
        problem = iv.Posterior(prior, model, [0.0], iv.GaussianNoise(1.0), domain=iv.constraint("x > 6"))
        far = np.log(problem.to_theta(problem.sample_start(np.random.default_rng(0), 400))[:, 1])
        assert abs(far.mean() - 40.0) < 0.05 and 0.07 < far.std() < 0.13

    def test_of_a_target(self, agrees):
        potential = iv.extending.FunctionPotential(lambda x: (0.5 * np.square(x).sum(axis=1), x), 2)
        target = iv.Target(potential, iv.domains.HalfSpaces([[-1.0, 0.0]], [-6.0]))
        points = target.sample_start(np.random.default_rng(0), 400)
        target = stats.truncnorm(6.0, np.inf)
        assert agrees(points, [target.mean(), 0.0])

    def test_are_refused_where_no_point_is_known(self):
        far = iv.domains.LevelSet(lambda x: 50.0 - x[:, 0], lambda x: np.full((len(x), 1), -1.0), 1)
        with pytest.raises(ValueError, match=r"0 of 50100 prior draws lie inside .* give one, start=\.\.\."):
            posterior(far, iv.Normal([0.0], 1.0)).sample_start(np.random.default_rng(0), 4)
        for problem in (
            posterior(*SMALL["tail"][:2]),
            iv.Target(iv.extending.FunctionPotential(normal(1.0), 1), iv.Box(5.0, 6.0)),
        ):
            with pytest.raises(ValueError, match=r"positions must lie inside the domain,.* got none of 3"):
                problem.sample_inside(np.random.default_rng(0), 4, np.zeros((3, 1)))


class TestRuns:
    @pytest.mark.parametrize("given", [pytest.param(True, marks=pytest.mark.slow), False])
    @pytest.mark.parametrize("name", cases(SMALL, {"tail", "simplex"}))
    def test_sample_the_restricted_posterior(self, draw, agrees, name, given):
        domain, prior, targets = SMALL[name]
        problem = posterior(domain, prior)
        start = (
            {"tail": [5.5], "order": np.linspace(0.3, 0.4, 9), "simplex": np.full(10, 0.01)}[name] if given else None
        )
        run = draw(problem, iv.mala(), chains=128, draws=150, warmup=400, start=start, thin=2)
        assert problem.domain.contains(run.theta.reshape(-1, problem.dimension)).all()
        truth = np.array([target.mean() for target in targets])
        assert agrees(run.theta.mean(axis=1), truth)
        assert not agrees(run.theta.mean(axis=1), truth + 0.4 * np.array([target.std() for target in targets]))

    def test_begin_at_given_starts_although_no_other_point_is_known(self, draw, agrees):
        far = iv.domains.LevelSet(lambda x: 5.0 - x[:, 0], lambda x: np.full((len(x), 1), -1.0), 1)
        run = draw(posterior(far, iv.Normal([0.0], 1.0)), iv.mala(), chains=64, draws=100, warmup=200, start=[5.5])
        assert agrees(run.theta[..., 0].mean(axis=1), stats.truncnorm(5.0, np.inf).mean())


class TestWhatElseDrawsFromThePrior:
    def test_the_group_of_prior_draws_is_that_within_the_domain(self, agrees):
        half = posterior(iv.constraint("u[0] > 0"), iv.Normal([0.0], 1.0))
        draws = constants(half, half.shapes, 1)["prior"]["u"]
        assert draws.shape == (1, 1000, 1) and (draws > 0.0).all()
        assert agrees(draws[0, :, 0], np.sqrt(2.0 / np.pi))
        tail = posterior(*SMALL["tail"][:2])
        assert "prior" not in constants(tail, tail.shapes, 1)

    def test_a_comparison_of_fidelities_needs_independent_draws(self):
        problem = posterior(*SMALL["tail"][:2], fidelities=("coarse", "fine"))
        with pytest.raises(ValueError, match="domain must overlap the prior"):
            iv.fidelities.compare(problem, 100)
        assert problem.check_gradient().passed
