"""The distribution of unadjusted moves with momentum: closed form for Gaussians, uniform for flat energies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import targets
from targets import CORRELATED, second_moments

from invsamp.domains import HalfSpaces
from invsamp.engine.exchange import replica_pair as swap_pair
from invsamp.engine.exchange import swap_acceptance
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators import exact, noisy
from invsamp.evaluate.counted import CountedPotential
from invsamp.kernels import Langevin, Momentum
from invsamp.ladder import GradientNoise, Rung, Sampler, Swap
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import sghmc, sgld
from invsamp.variances.models import known


def gaussian(precision):
    """Target of a Gaussian with this precision, a number or a matrix."""
    return Target(targets.gaussian(precision))


def variance(step, friction):
    """Of unit curvature, by the second-order recurrence of the positions."""
    return 1.0 / (1.0 - step / (2.0 * (2.0 - friction)))


class TestGaussian:
    @pytest.mark.parametrize(("step", "friction"), [(0.3, 0.1), (1.5, 0.3), (0.8, 1.0), (0.02, 0.02)])
    def test_variance_is_that_of_its_step_and_friction(self, draw, agrees, step, friction):
        thin = max(2, round(min(1.0, friction / step) / friction))
        run = draw(gaussian(1.0), sghmc(step, friction=friction), draws=600, thin=thin, warmup=400)
        moments = second_moments(run)
        assert agrees(moments, variance(step, friction))
        assert not agrees(moments, 1.1 * variance(step, friction))
        if step > 0.1:
            assert not agrees(moments, 1.0)
        if friction < 1.0 and step > 0.1:
            assert not agrees(moments, 1.0 / (1.0 - step / 2.0))  # that of SGLD

    def test_preconditioned(self, draw, agrees):
        precision, step, friction = np.linalg.inv(CORRELATED), 0.8, 0.3
        run = draw(gaussian(precision), sghmc(step, friction=friction, preconditioner="dense"), draws=1000, warmup=300)
        factor = np.linalg.cholesky(np.asarray(run.report["preconditioner_matrices"][0]))
        whitened = factor.T @ precision @ factor
        target = np.linalg.inv(whitened - step / (2.0 * (2.0 - friction)) * whitened @ whitened)
        truth = (factor @ target @ factor.T)[np.triu_indices(2)]
        assert agrees(second_moments(run), truth)
        assert not agrees(second_moments(run), CORRELATED[np.triu_indices(2)])

    def test_stability_limit(self, draw):
        for kernel in (Langevin(), Momentum(0.1), Momentum(1.0)):
            limit = kernel.stability_limit
            far = [self.furthest(draw, kernel, share * limit) for share in (0.98, 1.02)]
            assert far[0] < 1e3
            assert far[1] > 1e6

    def furthest(self, draw, kernel, step):
        return np.abs(
            draw(gaussian(1.0), Sampler([Rung(kernel=kernel, step_size=step)]), draws=1500, warmup=0).theta
        ).max()

    def test_step_from_warm_up_leaves_five_percent(self, draw, agrees):
        run = draw(gaussian(np.diag([1.0, 100.0])), sghmc(preconditioner=None, friction=0.2), draws=800, thin=4)
        assert run.report["step_sizes"][0] == pytest.approx(0.05 * 2.0 * 1.8 / 100.0, rel=1e-3)
        assert run.report["kernels"] == ["sghmc"]
        assert agrees(100.0 * (run.theta[..., 1] ** 2).mean(axis=1), 1.0 / 0.95)

    def test_full_friction_is_sgld(self, draw):
        """Limit case: the same draws up to rounding."""
        box = HalfSpaces([[1.0, 0.5], [-1.0, 0.0]], [0.7, 0.4])
        target = Target(gaussian(CORRELATED).potentials, box)
        runs = [draw(target, make, draws=100, warmup=0) for make in (sgld(0.1), sghmc(0.1, friction=1.0))]
        np.testing.assert_allclose(runs[1].theta, runs[0].theta, atol=1e-10)


class TestNoiseBudget:
    """With the gradient's noise subtracted from the injected noise, the distribution is that of exact gradients."""

    step, friction, sd = 0.4, 0.3, 0.9

    def run(self, draw, noise):
        sampler = sghmc(self.step, friction=self.friction, estimator=noisy(0.0, self.sd), gradient_noise=noise)
        return draw(gaussian(1.0), sampler, draws=600, thin=3, warmup=200)

    def test_budget(self, draw, agrees):
        run = self.run(draw, GradientNoise(known()))
        assert run.report["clipped_noise"] == [0.0]
        assert agrees(second_moments(run), variance(self.step, self.friction))

    def test_no_budget_is_rejected(self, draw, agrees):
        run = self.run(draw, None)
        assert not agrees(second_moments(run), variance(self.step, self.friction))
        # the noise adds eta^2 S to the 2 alpha eta that the step injects
        heat = 1.0 + self.step * self.sd**2 / (2.0 * self.friction)
        assert agrees(second_moments(run), heat * variance(self.step, self.friction))

    def test_budget_of_sgld_is_too_large(self, draw):
        """Friction makes it smaller: 2 alpha tau / eta."""
        noise = GradientNoise(known(), on_noise_overflow="clip")
        sampler = sghmc(0.5, friction=0.1, estimator=noisy(0.0, 1.0), gradient_noise=noise)
        assert draw(gaussian(1.0), sampler, draws=50, warmup=0).report["clipped_noise"] == [1.0]


TRIANGLE = HalfSpaces([[-1.0, 0.2], [0.3, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])


def flat(position):
    return np.zeros(len(position)), np.zeros_like(position)


class Forgetful(HalfSpaces):
    """Wrong on purpose: the boundary reflects the move, but not the momentum."""

    def reflect(self, position, move, metric=None):
        return super().reflect(position, move, metric)._replace(move=np.array(move))


class TestBounds:
    """A flat energy stays uniform exactly: the path keeps volume, and friction keeps the momenta's Gaussian."""

    def moments(self, draw, domain, function=flat):
        start = self.vertices(domain).mean(axis=0)
        target = Target(FunctionPotential(function, 2), domain, start)
        run = draw(target, sghmc(0.02, friction=0.1), draws=400, thin=10, warmup=200)
        return run, np.concatenate([run.theta.mean(axis=1), second_moments(run)], axis=1)

    @staticmethod
    def vertices(domain):
        pairs = [[0, 1], [1, 2], [2, 0]]
        return np.array([np.linalg.solve(domain.normals[p], domain.offsets[p]) for p in pairs])

    @property
    def truth(self):
        corners = self.vertices(TRIANGLE)
        mean = corners.mean(axis=0)
        second = (corners.T @ corners + 9.0 * np.outer(mean, mean)) / 12.0
        return np.append(mean, second[np.triu_indices(2)])

    def test_turn_the_momentum(self, draw, agrees):
        run, moments = self.moments(draw, TRIANGLE)
        assert run.report["reflections"][0] > 10_000
        assert agrees(moments, self.truth)

    def test_momentum_that_is_not_reflected_is_rejected(self, draw, agrees):
        _, moments = self.moments(draw, Forgetful(TRIANGLE.normals, TRIANGLE.offsets))
        assert not agrees(moments, self.truth)

    @pytest.mark.parametrize("right", [True, False])
    def test_refused_moves_turn_the_momentum_back(self, draw, agrees, monkeypatch, right):
        if not right:
            monkeypatch.setattr(Momentum, "_plain_step", keeps_going(Momentum._plain_step))

        def unsolvable(position):
            energy, gradient = flat(position)
            return np.where(position[:, 0] > 0.4, np.nan, energy), gradient

        square = HalfSpaces(np.concatenate([np.eye(2), -np.eye(2)]), np.ones(4))
        target = Target(FunctionPotential(unsolvable, 2), square, np.zeros(2))
        run = draw(target, sghmc(0.02, friction=0.1), draws=400, thin=10, warmup=200)
        assert run.report["failed_solves"]["target"] > 10_000
        moments = np.stack([run.theta[..., 0].mean(axis=1), (run.theta[..., 0] ** 2).mean(axis=1)], axis=1)
        assert bool(agrees(moments, [-0.3, (0.4**3 + 1.0) / (3.0 * 1.4)])) == right


def keeps_going(right):
    """Wrong on purpose: chains that stay keep their momentum."""

    def wrong(self, rung, here, memory):
        point, memory, info = yield from right(self, rung, here, memory)
        stayed = (point.position == here.position).all(axis=1)
        turned = np.where(stayed[:, None], -memory["momentum"], memory["momentum"])
        return point, {"momentum": turned}, info

    return wrong


class TestLadder:
    """At swaps positions move and momenta stay with their rungs."""

    step, friction = 0.05, 0.05

    def moments(self, draw):
        rungs = [Rung(t, kernel=Momentum(self.friction), step_size=self.step) for t in (1.0, 3.0)]
        run = draw(gaussian(1.0), Sampler(rungs, Swap(fraction=0.5)), draws=2000, thin=8, warmup=400)
        assert run.report["swap_accepts"][0] > 0.3 * run.report["swap_attempts"][0]
        return [(run.rung_theta(k) ** 2).mean(axis=(1, 2)) / t for k, t in enumerate((1.0, 3.0))]

    #: Swaps pull towards 1, steps towards their own distribution: in between.
    low, high = 1.0, variance(0.05, 0.05)
    truth = (low + high) / 2.0, (high - low) / (2.0 * 4.8)

    def test_both_rungs_keep_their_targets(self, draw, agrees):
        for moments in self.moments(draw):
            assert agrees(moments, *self.truth)

    @pytest.mark.slow
    def test_momenta_that_travel_are_rejected(self, draw, agrees, monkeypatch):
        right = swap_acceptance.SwapAttempt.exchange

        def travel(attempt, rows):
            yield from right(attempt, rows)
            cold, hot = attempt._cold.rung, attempt._hot.rung
            first, second = cold.memory["momentum"].copy(), hot.memory["momentum"].copy()
            first[rows], second[rows] = hot.memory["momentum"][rows], cold.memory["momentum"][rows]
            cold.memory, hot.memory = {"momentum": first}, {"momentum": second}

        monkeypatch.setattr(swap_acceptance.SwapAttempt, "exchange", travel)
        monkeypatch.setattr(swap_pair.Pair, "_is_vectorized", lambda self: False)  # so that rungs meet by it
        assert not agrees(self.moments(draw)[0], *self.truth)

    def test_momenta_half_a_kick_behind_are_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr(Momentum, "arrived", lambda self, rung, memory, rows, change: memory)
        assert not agrees(self.moments(draw)[0], *self.truth)

    def test_one_rung_with_momentum_and_one_adjusted(self, draw, agrees):
        rungs = [Rung(1.0, kernel=Langevin(adjusted=True), step_size=1.0), Rung(3.0, kernel=Momentum(), step_size=0.2)]
        run = draw(gaussian(1.0), Sampler(rungs), draws=500, thin=2, warmup=100)
        assert run.report["kernels"] == ["mala", "sghmc"]
        assert agrees(second_moments(run), 1.0, (variance(0.2, 0.1) - 1.0) / (2.0 * 4.8))


@pytest.mark.parametrize("friction", [0.0, -0.1, 1.1, math.nan, "low"])
def test_friction(friction):
    with pytest.raises(ValueError, match=rf"friction must be a number in \(0, 1\], got {friction!r}"):
        Momentum(friction)


def test_adjusted_exploration_leaves_the_momentum_alone():
    """Warm-up may explore with the adjusted kernel: it neither spends nor changes what is carried."""
    potential = CountedPotential(gaussian(1.0).potentials, "model")
    made = RungChains(
        Rung(kernel=Momentum(), estimator=exact()),
        potential,
        Target(gaussian(1.0).potentials).domain,
        np.random.SeedSequence(0),
    )
    made.start(np.zeros((3, 1)))
    made.step_size, made.exploring = 0.5, True
    before = made.memory["momentum"].copy()
    made.step()
    np.testing.assert_array_equal(made.memory["momentum"], before)
    made.exploring = False
    made.step()
    assert (made.memory["momentum"] != before).all()
