"""Targets of rungs: compared with quadrature on ladders, with failed solves, and a user's that is not linear."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from targets import gaussian
from tempering import LINE, Square, SquareRoot, two_modes_posterior

import invsamp as iv
from invsamp.engine.exchange import vectorized_swaps
from invsamp.engine.exchange.swap_acceptance import SwapAttempt
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Estimate, Request
from invsamp.problems.mixtures import two_modes
from invsamp.protocols import SplitPotential
from invsamp.tempering.checks import as_ladder, noise_room
from invsamp.tempering.linear_targets import Tempered, combined
from invsamp.tempering.target_distribution import TargetDistribution

BETAS = 1.0, 0.3, 0.05, 0.0


class TestParts:
    @pytest.mark.parametrize(
        "target",
        [iv.tempering.tempered(1.0), iv.tempering.tempered(3.0), *map(iv.tempering.tempered_likelihood, BETAS)],
        ids=str,
    )
    def test_energy_and_gradient_are_the_factors_of_the_parts(self, target):
        prior, misfit = np.array([0.3, 2.0]), np.array([1.7, -4.0])
        slopes = np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[3.0, 0.1], [-2.0, 7.0]])
        estimate = Estimate(prior + misfit, sum(slopes), prior=prior, prior_gradient=slopes[0])
        a, b = target.factors
        np.testing.assert_allclose(target.energy(estimate, {}), a * prior + b * misfit, rtol=1e-14)
        np.testing.assert_allclose(target.gradient(estimate, {}), a * slopes[0] + b * slopes[1], rtol=1e-14)

    def test_the_prior_knows_nothing_of_a_failed_solve(self):
        """0 times an infinite misfit is no NaN; a target with a misfit is infinite there."""
        estimate = Estimate(np.array([np.inf, np.inf]), np.zeros((2, 1)), prior=np.array([0.7, np.inf]))
        for beta, wanted in ((0.0, [0.7, np.inf]), (0.2, [np.inf, np.inf]), (1.0, [np.inf, np.inf])):
            np.testing.assert_array_equal(iv.tempering.tempered_likelihood(beta).energy(estimate, {}), wanted)

    def test_a_posterior_reports_its_parts(self):
        posterior = two_modes_posterior()
        potential, position = posterior.potential(), np.array([[0.3], [-1.2], [40.0]])
        assert isinstance(potential, SplitPotential)
        energy, gradient = potential.energy_and_gradient(position)
        for wanted in (False, True, "apart"):
            found = potential.parts(position, wanted)
            assert (found.gradient is None, found.prior_gradient is None) == (not wanted, wanted != "apart")
        np.testing.assert_array_equal(found.energy, energy)
        np.testing.assert_array_equal(found.gradient, gradient)
        np.testing.assert_allclose(found.prior, -posterior.log_prior(position), rtol=1e-14)
        np.testing.assert_allclose(found.prior_gradient, -posterior.prior.gradient(position), rtol=1e-14)
        np.testing.assert_allclose(energy - found.prior, -posterior.log_likelihood(position).sum(axis=1), rtol=1e-12)

    @pytest.mark.parametrize(
        "part",
        [
            iv.Gamma(2.0, 1.0, shape=3),
            iv.distributions.Dirichlet([2.0, 1.0, 3.0]),
            iv.truncated(iv.Normal(0.0, 1.0, shape=3), lower=0.0),
        ],
        ids=lambda part: type(part).__name__,
    )
    def test_the_gradient_of_the_prior_energy_is_its_own(self, part):
        """Central differences, in whatever coordinates the prior is sampled."""
        prior = iv.Prior(x=part)
        posterior = iv.Posterior(prior, Square(), np.ones(prior.dimension), iv.GaussianNoise(1.0))
        potential, rng = posterior.potential(), np.random.default_rng(0)
        position, along = posterior.sample_start(rng, 5), 1e-5 * rng.standard_normal((5, posterior.dimension))
        before, after = (potential.parts(position + sign * along, False).prior for sign in (-1.0, 1.0))
        slope = (potential.parts(position, "apart").prior_gradient * along).sum(axis=1)
        np.testing.assert_allclose(slope, 0.5 * (after - before), rtol=1e-6, atol=1e-13)

    def test_failed_solves_and_points_outside(self):
        """Beyond what can be solved the prior is finite; outside the support nothing is solved, and it is not."""
        posterior = iv.Posterior(iv.Prior(x=iv.Uniform(-1.0, 5.0)), SquareRoot(), [1.0], iv.GaussianNoise(0.5))
        potential = CountedPotential(posterior.potential(), "model")
        found = potential.answer(Request("model", np.array([[4.0], [-0.5], [7.0]]), "apart"))
        np.testing.assert_array_equal(np.isfinite(found.energy), [True, False, False])
        np.testing.assert_array_equal(np.isfinite(found.prior), [True, True, False])
        assert found.failed and np.isfinite(found.prior_gradient).all()
        assert potential.failed == 2


class TestLadder:
    """Two modes of different weight: every rung samples its target, and chains that start in one find the other."""

    posterior = two_modes_posterior()

    def run(self, draw, sampler=None, **settings):
        sampler = sampler or iv.samplers.parallel_tempering(
            [iv.tempering.tempered_likelihood(b) for b in BETAS], swap_fraction=0.5
        )
        return draw(self.posterior, sampler, draws=400, thin=2, warmup=600, start=np.array([1.5]), **settings)

    def truth(self, targets):
        return LINE.truth(self.posterior.potential(), targets)

    def test_every_rung_samples_its_target(self, draw, agrees):
        targets = [iv.tempering.tempered_likelihood(b) for b in BETAS]
        run = self.run(draw)
        assert run.report["targets"] == ["beta = 1", "beta = 0.3", "beta = 0.05", "beta = 0"]
        assert run.report["temperatures"] is None
        assert agrees(LINE.shares(run), self.truth(targets))
        # the same numbers as temperatures of the whole density give another target
        others = [iv.tempering.tempered(1.0 / beta) for beta in BETAS[:-1]]
        assert not agrees(LINE.shares(run)[:, : 3 * LINE.intervals], self.truth(others))

    def test_temperatures_and_likelihoods_in_one_ladder(self, draw, agrees):
        targets = [
            iv.tempering.tempered(1.0),
            iv.tempering.tempered(2.0),
            iv.tempering.tempered_likelihood(0.2),
            iv.tempering.tempered_likelihood(0.0),
        ]
        run = self.run(draw, iv.samplers.parallel_tempering(targets, swap_fraction=0.5))
        assert agrees(LINE.shares(run), self.truth(targets))

    def test_a_swap_that_takes_the_prior_for_misfit_is_rejected(self, draw, agrees, monkeypatch):
        decide = vectorized_swaps.decide

        def whole(pairs, factors, energy, prior, *others):
            decide(pairs, factors, energy, np.zeros_like(prior), *others)

        monkeypatch.setattr(vectorized_swaps, "decide", whole)
        targets = [iv.tempering.tempered_likelihood(b) for b in BETAS]
        assert not agrees(LINE.shares(self.run(draw)), self.truth(targets))

    def test_the_prior_of_a_model_that_mostly_fails(self, draw, agrees):
        """Uniform on (-1, 5), solvable above 0 alone: the prior's rung goes where the posterior's cannot."""
        posterior = iv.Posterior(iv.Prior(x=iv.Uniform(-1.0, 5.0)), SquareRoot(), [1.0], iv.GaussianNoise(0.5))
        targets = [iv.tempering.tempered_likelihood(b) for b in (1.0, 0.2, 0.0)]
        sampler = iv.samplers.parallel_tempering(targets, swap_fraction=0.5)
        run = draw(posterior, sampler, draws=400, thin=2, warmup=600, start=np.array([1.0]))
        below = np.stack([(run.rung_theta(k)[..., 0] < 0.0).mean(axis=1) for k in range(3)], axis=1)
        assert not below[:, :2].any()
        assert agrees(below[:, 2], 1.0 / 6.0)
        moments = np.stack([(run.theta[..., 0] ** k).mean(axis=1) for k in (1, 2)], axis=1)
        x = np.linspace(0.0, 5.0, 100_001)
        density = np.exp(-0.5 * ((np.sqrt(x) - 1.0) / 0.5) ** 2)
        assert agrees(moments, [(x**k * density).sum() / density.sum() for k in (1, 2)])


@dataclass(frozen=True)
class Flattened:
    """v = U + zeta log Psi(U), with log Psi given at knots: a contour target with known weights."""

    knots: tuple[float, ...]
    log_psi: tuple[float, ...]
    zeta: float = 0.75
    factors: ClassVar[None] = None
    needs_prior: ClassVar[bool] = False
    step_scale: ClassVar[float] = 1.0

    def init(self):
        return {}

    def energy(self, estimate, memory):
        return estimate.energy + self.zeta * np.interp(estimate.energy, self.knots, self.log_psi)

    def gradient(self, estimate, memory):
        slopes = np.concatenate([[0.0], np.diff(self.log_psi) / np.diff(self.knots), [0.0]])
        slope = slopes[np.searchsorted(self.knots, estimate.energy)]
        return (1.0 + self.zeta * slope)[:, None] * estimate.gradient

    def updated(self, memory, estimate, iteration, warming):
        return memory

    def log_weight(self, estimate, memory):
        return self.zeta * np.interp(estimate.energy, self.knots, self.log_psi)


class TestNotLinear:
    """A flattened histogram of energies on the hot rung: chains cross what lies between the modes."""

    mixture = two_modes()
    target = Flattened((1.0, 6.0, 18.0), (0.0, -5.0, -18.0))

    def run(self, draw, **settings):
        rungs = [
            iv.ladder.Rung(target, kernel=iv.kernels.Langevin(adjusted=True), step_size=0.2)
            for target in (iv.tempering.tempered(1.0), self.target)
        ]
        target = iv.Target(self.mixture)
        sampler = iv.ladder.Sampler(rungs, iv.ladder.Swap(fraction=0.5))
        length = {"draws": 1000, "thin": 4, "warmup": 2000, "start": np.array([-4.0])}
        return draw(target, sampler, **length | settings)

    def test_both_rungs_sample_their_targets(self, draw, agrees, monkeypatch):
        run = self.run(draw)
        assert run.report["swap_accepts"][0] > 0.1 * run.report["swap_attempts"][0]
        truth = LINE.truth(self.mixture, (iv.tempering.tempered(1.0), self.target))
        assert agrees(LINE.shares(run), truth)
        # and the hot rung's draws are the posterior's by their weights
        hot = run.rung_theta(1)[..., 0]
        energy = np.asarray(run.data.hot_stats.energy)[..., 0]
        weight = np.exp(self.target.log_weight(Estimate(energy, None), {}))
        right = self.mixture.weights[1]
        assert agrees((weight * ((hot > 0.0) - right)).mean(axis=1), 0.0)
        assert not agrees(((hot > 0.0) - right).mean(axis=1), 0.0)
        # swaps that ignore the target accept everything
        monkeypatch.setattr(SwapAttempt, "_value", lambda attempt, weights, estimate: (0.0 * estimate.energy, 0.0))
        assert not agrees(LINE.shares(self.run(draw, draws=200)), truth)

    def test_is_a_target_distribution(self):
        assert isinstance(self.target, TargetDistribution)

    def test_needs_exact_energies(self):
        with pytest.raises(ValueError, match=r"not linear in the energies needs exact ones, got Flattened.* Noisy"):
            iv.ladder.Rung(self.target, estimator=iv.estimators.noisy(0.1))
        rungs = [
            iv.ladder.Rung(estimator=iv.estimators.noisy(0.1), step_size=0.1),
            iv.ladder.Rung(self.target, step_size=0.1),
        ]
        with pytest.raises(ValueError, match=r"swaps with a rung of target Flattened.* need exact ones.*swap_energies"):
            iv.sample(iv.Target(self.mixture), iv.ladder.Sampler(rungs), draws=1)
        run = iv.sample(
            iv.Target(self.mixture), iv.ladder.Sampler(rungs, iv.ladder.Swap(energies="exact")), draws=2, progress=False
        )
        assert run.rungs == 2

    def test_as_the_first_its_draws_have_weights(self, draw, agrees):
        kernel = iv.kernels.Langevin(adjusted=True)
        run = draw(
            iv.Target(self.mixture), iv.ladder.Sampler([iv.ladder.Rung(self.target, kernel=kernel)]), draws=1000, thin=4
        )
        right = run.theta[..., 0] > 0.0
        assert agrees((run.weights * (right - self.mixture.weights[1])).mean(axis=1), 0.0)
        assert not agrees(right.mean(axis=1), self.mixture.weights[1])


class TestRefused:
    def test_potentials_without_parts(self):
        sampler = iv.samplers.parallel_tempering([iv.tempering.tempered_likelihood(b) for b in (1.0, 0.5)])
        with pytest.raises(ValueError, match=r"target beta = 1 needs potentials that give prior energy .* 'target'"):
            iv.sample(iv.Target(gaussian(1.0)), sampler, draws=1)

    @pytest.mark.parametrize("beta", [-0.1, 1.1, math.nan, "hot", True])
    def test_beta(self, beta):
        with pytest.raises(ValueError, match="beta must be a number in"):
            iv.tempering.tempered_likelihood(beta)

    @pytest.mark.parametrize(
        "targets, message",
        [
            (
                [iv.tempering.tempered_likelihood(0.5)],
                r"first target must be the posterior.* got TemperedLikelihood\(beta=0.5\)",
            ),
            (
                [1.0, iv.tempering.tempered_likelihood(1.0)],
                "less of the misfit from rung to rung, got T = 1 before beta = 1",
            ),
            ([1.0, iv.tempering.tempered_likelihood(0.2), 2.0], "got beta = 0.2 before T = 2 at index 2"),
            (
                [1.0, "hot", iv.tempering.tempered_likelihood(0.2)],
                r"temperatures\[1\] must be a finite number >= 1, or a target",
            ),
        ],
    )
    def test_ladders(self, targets, message):
        with pytest.raises(ValueError, match=message):
            iv.samplers.parallel_tempering(targets)

    def test_effective_temperature_of_a_target_that_has_none(self):
        noise = iv.ladder.GradientNoise(on_noise_overflow="effective_temperature")
        with pytest.raises(ValueError, match=r"where the target has no temperature: beta = 0\.5"):
            iv.ladder.Rung(iv.tempering.tempered_likelihood(0.5), gradient_noise=noise, step_size=0.1)


def test_temperatures_become_targets():
    assert (
        as_ladder((1.0, 4))
        == as_ladder([Tempered(1.0), 4.0])
        == (iv.tempering.tempered(1.0), iv.tempering.tempered(4.0))
    )


def test_room_for_noise():
    assert noise_room(iv.tempering.tempered(4.0)) == 4.0
    assert [noise_room(iv.tempering.tempered_likelihood(b)) for b in (1.0, 0.5, 0.0)] == [1.0, 4.0, math.inf]


def test_equal_factors_take_the_whole():
    whole = np.array([1.0, np.inf])
    np.testing.assert_array_equal(combined(0.25, 0.25, whole, None), 0.25 * whole)
