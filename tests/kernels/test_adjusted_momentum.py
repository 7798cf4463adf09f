"""Adjusted moves with momentum: exact at any step size, with rejections and reflections of the momentum."""

from __future__ import annotations

import numpy as np
import pytest
import targets
from functions import QUARTIC, quartic
from targets import CORRELATED, second_moments

from invsamp.domains import HalfSpaces
from invsamp.estimators import noisy
from invsamp.kernels import Langevin, Momentum
from invsamp.kernels.compiled.langevin_loop import THRESHOLD_STEP
from invsamp.kernels.momentum import persistent_acceptance
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import ghmc, mala, parallel_tempering


def target(function, dimension, domain=None, start=None):
    potential = FunctionPotential(function, dimension)
    return Target(potential) if domain is None else Target(potential, domain, start)


def gaussian(covariance):
    return Target(targets.gaussian(np.linalg.inv(np.atleast_2d(covariance))))


def even_moments(run):
    return np.stack([(run.theta[..., 0] ** p).mean(axis=1) for p in (2, 4)], axis=1)


class TestTarget:
    """A wrong kernel shows where refusals are common: at long steps."""

    step, friction = 0.8, 0.2

    def run(self, draw, problem=None, draws=2000, step=step, **settings):
        sampler = ghmc(step, friction=self.friction, preconditioner=None)
        return draw(problem or target(quartic, 1), sampler, draws=draws, warmup=100, **settings)

    def test_is_exact_at_long_steps(self, draw, agrees):
        run = self.run(draw)
        assert 0.5 < run.report["acceptance"][0] < 0.9
        assert run.report["kernels"] == ["ghmc"]
        assert agrees(even_moments(run), QUARTIC)

    def test_momentum_that_refusals_do_not_turn_is_rejected(self, draw, agrees, monkeypatch):
        right = Momentum._adjusted_step

        def keeps_going(self, rung, here, memory):
            point, memory, info = yield from right(self, rung, here, memory)
            refused = (point.position == here.position).all(axis=1)
            turned = np.where(refused[:, None], -memory["momentum"], memory["momentum"])
            return point, memory | {"momentum": turned}, info

        monkeypatch.setattr(Momentum, "_adjusted_step", keeps_going)
        assert not agrees(even_moments(self.run(draw, draws=5000, step=1.3)), QUARTIC)

    def test_preconditioned(self, draw, agrees):
        run = draw(gaussian(CORRELATED), ghmc(), draws=1500, warmup=400)
        assert agrees(second_moments(run), CORRELATED[np.triu_indices(2)])
        assert run.report["acceptance"][0] == pytest.approx(0.93, abs=0.03)

    def test_momentum_goes_further_than_langevin(self, draw):
        """Of two directions whose sds differ by 30, nothing preconditioned: the slow one's autocorrelation."""

        def correlation(sampler):
            slow = draw(gaussian(np.diag([1.0, 900.0])), sampler, draws=100, warmup=200, thin=25).theta[..., 1]
            return np.mean(slow[:, 1:] * slow[:, :-1]) / np.mean(slow**2)

        # 25 steps of Langevin are 25 / 900 of its relaxation time; with momentum it is an eighth as long
        assert correlation(mala(0.5, preconditioner=None)) > 0.95
        assert correlation(ghmc(0.5, friction=0.03, preconditioner=None)) < 0.87


class TestLimits:
    def test_full_friction_is_mala_where_nothing_is_refused(self, draw):
        def flat(position):
            return np.zeros(len(position)), np.zeros_like(position)

        box = HalfSpaces([[1.0, 0.5], [-1.0, 0.0], [0.0, -1.0]], [0.7, 0.4, 1.0])
        problem = target(flat, 2, box, np.zeros(2))
        runs = [draw(problem, make, draws=100, warmup=0) for make in (mala(0.1), ghmc(0.1, friction=1.0))]
        assert runs[0].report["reflections"][0] > 1000
        np.testing.assert_allclose(runs[1].theta, runs[0].theta, atol=1e-12)

    def test_full_friction_has_the_acceptance_of_mala(self, draw):
        runs = [
            draw(gaussian(CORRELATED), make, draws=300, warmup=100) for make in (mala(0.8), ghmc(0.8, friction=1.0))
        ]
        rates = [run.report["acceptance"][0] for run in runs]
        # 76,800 correlated decisions each
        assert rates[0] == pytest.approx(rates[1], abs=0.02)


class TestBounds:
    """A Gaussian truncated by an oblique bound that reflects momentum."""

    def moments(self, draw, half_space):
        def function(position):
            return 0.5 * (position**2).sum(axis=1), position

        problem = target(function, 2, half_space, np.array([-1.0, 0.0]))
        theta = draw(problem, ghmc(0.3, friction=0.1, preconditioner=None), draws=1500, warmup=200).theta
        across = theta @ np.array([0.6, 0.8])
        return np.stack([across.mean(axis=1), (across**2).mean(axis=1)], axis=1)

    #: Of a standard normal below 0: minus the root of 2 / pi, and 1.
    truth = -np.sqrt(2.0 / np.pi), 1.0

    def test_turn_the_momentum(self, draw, agrees):
        assert agrees(self.moments(draw, HalfSpaces([[0.6, 0.8]], [0.0])), self.truth)

    def test_momentum_that_is_not_reflected_is_rejected(self, draw, agrees):
        class Forgetful(HalfSpaces):
            def reflect(self, position, move, metric=None):
                return super().reflect(position, move, metric)._replace(move=np.array(move))

        assert not agrees(self.moments(draw, Forgetful([[0.6, 0.8]], [0.0])), self.truth)


def test_failed_solves_turn_the_momentum(draw, agrees):
    """Uniform on part of a square: the rest cannot be solved."""

    def unsolvable(position):
        return np.where(position[:, 0] > 0.4, np.nan, 0.0), np.zeros_like(position)

    square = HalfSpaces(np.concatenate([np.eye(2), -np.eye(2)]), np.ones(4))
    sampler = ghmc(0.02, friction=0.1, preconditioner=None)
    run = draw(target(unsolvable, 2, square, np.zeros(2)), sampler, draws=400, thin=10, warmup=200)
    assert run.report["failed_solves"]["target"] > 10_000
    moments = np.stack([run.theta[..., 0].mean(axis=1), (run.theta[..., 0] ** 2).mean(axis=1)], axis=1)
    assert agrees(moments, [-0.3, (0.4**3 + 1.0) / (3.0 * 1.4)])


class TestLadder:
    def moments(self, draw):
        sampler = parallel_tempering((1.0, 3.0), 0.5, friction=0.1, swap_fraction=0.5, preconditioner=None)
        # no chain begins so far out that a step of this length leads it further out and is refused for ever
        start = np.random.default_rng(2).uniform(-1.0, 1.0, (256, 1))
        run = draw(target(quartic, 1), sampler, draws=1500, warmup=100, start=start)
        assert run.report["kernels"] == ["ghmc", "ghmc"]
        assert run.report["swap_accepts"][0] > 0.3 * run.report["swap_attempts"][0]
        return even_moments(run)

    def test_momenta_stay_with_their_rungs(self, draw, agrees):
        assert agrees(self.moments(draw), QUARTIC)

    def test_momenta_as_of_the_unadjusted_kernel_are_rejected(self, draw, agrees, monkeypatch):
        """These belong half a kick earlier, and are moved at a swap."""

        def wrong(self, rung, memory, rows, change):
            momentum = memory["momentum"].copy()
            momentum[rows] += 0.5 * np.sqrt(rung.step_size) * change
            return memory | {"momentum": momentum}

        monkeypatch.setattr(Momentum, "arrived", wrong)
        assert not agrees(self.moments(draw), QUARTIC)

    def test_with_an_unadjusted_rung(self, draw):
        rungs = [Rung(1.0, kernel=Momentum(adjusted=True)), Rung(3.0, kernel=Momentum(), step_size=0.2)]
        run = draw(gaussian(1.0), Sampler(rungs, Swap(fraction=0.5)), draws=50, warmup=100)
        assert run.report["kernels"] == ["ghmc", "sghmc"]


def test_exact_energies_are_needed():
    with pytest.raises(ValueError, match=r"an adjusted kernel .* needs exact energies"):
        Rung(kernel=Momentum(adjusted=True), estimator=noisy(0.1, 0.1))


def test_friction_chooses_the_kernel():
    assert [rung.kernel for rung in parallel_tempering().rungs] == [Langevin(True)] * 2
    assert [rung.kernel for rung in parallel_tempering(friction=0.1).rungs] == [Momentum(0.1, True)] * 2
    assert [rung.kernel for rung in parallel_tempering(friction=0.1, adjusted=False).rungs] == [Momentum(0.1)] * 2
    assert "Metropolis-adjusted Langevin with momentum (friction 0.05)" in str(ghmc())
    with pytest.raises(ValueError, match=r"friction must be a number in \(0, 1\], got 0"):
        parallel_tempering(friction=0)


class TestThresholds:
    rng = np.random.default_rng(0)

    def exchanged(self, decide):
        """States and levels after steps that try to exchange two states of densities 1 and q, from equilibrium."""
        state = self.rng.random(self.size) < self.q / (1.0 + self.q)
        level = self.rng.uniform(-1.0, 1.0, self.size)
        for _ in range(5):
            accept, level = decide(level, np.where(state, -np.log(self.q), np.log(self.q)))
            state = np.where(accept, ~state, state)
        return state, level

    size, q = 200_000, 0.3

    def score(self, state, level):
        """Statistic of the states' distribution and the uniform levels given states: large if either is wrong."""
        # chi-squared with 38 degrees of freedom and one squared normal: 95 is passed once in a million times
        score = (state.mean() * (1.0 + self.q) - self.q) ** 2 * self.size / self.q
        for part in (level[state], level[~state]):
            counts, expected = np.histogram(part, bins=20, range=(-1.0, 1.0))[0], len(part) / 20
            score += np.square(counts - expected).sum() / expected
        return (score - 39.0) / (95.0 - 39.0)

    def test_stay_uniform(self, within):
        """Given the states: what makes the decisions exact."""
        state, level = self.exchanged(persistent_acceptance)
        assert (np.abs(level) < 1.0).all()
        assert within(self.score(state, level), 1.0)

    def test_that_do_not_follow_the_density_are_rejected(self, within):
        def wrong(level, log_ratio):
            accept, _ = persistent_acceptance(level, log_ratio)
            return accept, (level + 1.0 + THRESHOLD_STEP) % 2.0 - 1.0

        assert not within(self.score(*self.exchanged(wrong)), 1.0)

    def test_nothing_undefined_is_accepted(self):
        accept, level = persistent_acceptance(np.full(4, 0.1), np.array([np.nan, -np.inf, np.inf, 1e4]))
        np.testing.assert_array_equal(accept, [False, False, True, True])
        assert np.isfinite(level).all()
