"""Distributions of the samplers on targets where they are known in closed form, beside wrong samplers."""

from __future__ import annotations

import numpy as np
import pytest
from targets import CORRELATED, gaussian, second_moments, sgld_covariance, upper

from invsamp.estimators import noisy
from invsamp.posing.posterior.target import Target
from invsamp.problems.mixtures import GaussianMixture, two_modes
from invsamp.samplers import parallel_tempering, resgld, sgld
from invsamp.swaps import rules
from invsamp.variances.models import known


class TestSgld:
    """SGLD with step h on N(0, 1) has variance 1 / (1 - h/2)."""

    @pytest.mark.parametrize("step", [0.1, 0.5, 1.2])
    def test_variance_is_that_of_its_step(self, draw, agrees, step):
        run = draw(Target(gaussian(1.0)), sgld(step), draws=500, thin=max(2, round(0.5 / step)), warmup=200)
        assert agrees(second_moments(run), 1.0 / (1.0 - step / 2.0))
        # the target's own variance, and an injected noise 5% off, are distinguished
        assert not agrees(second_moments(run), 1.0)
        assert not agrees(second_moments(run), 1.05 / (1.0 - step / 2.0))

    def test_preconditioned_steps_whiten_a_correlated_gaussian(self, draw, agrees):
        precision = np.linalg.inv(CORRELATED)
        run = draw(Target(gaussian(precision)), sgld(0.5, preconditioner="dense"), draws=1000, warmup=300)
        assert agrees(second_moments(run), upper(sgld_covariance(precision, run, 0.5)))
        assert not agrees(second_moments(run), upper(CORRELATED))

    def test_gradient_noise_adds_its_own_variance(self, draw, agrees):
        step, sd = 0.5, 1.0
        run = draw(Target(gaussian(1.0)), sgld(step, estimator=noisy(0.0, sd)), draws=1000, warmup=200)
        assert agrees(second_moments(run), (1.0 + step * sd**2 / 2.0) / (1.0 - step / 2.0))
        assert not agrees(second_moments(run), 1.0 / (1.0 - step / 2.0))


def mixture_moments(run):
    """Per chain: P(right mode), and second moment about each mode's mean within it, by its share of all draws."""
    x = run.theta[..., 0]
    right = x > -0.5
    return np.stack([right.mean(1), (right * (x - 3.0) ** 2).mean(1), (~right * (x + 4.0) ** 2).mean(1)], axis=1)


MIXTURE = np.array([0.6, 0.6 * 0.5**2, 0.4 * 0.7**2])


def spread_start(rng, n):
    return rng.uniform(-7.0, 6.0, (n, 1))


class TestReplicaExchange:
    """The cold rung's distribution with exact energies; a very wrong coarse model must not change it."""

    @pytest.fixture
    def two_fidelities(self):
        coarse = GaussianMixture((0.8, 0.2), (-4.6, 2.5), (0.9, 0.8))
        return Target({"coarse": coarse, "fine": two_modes()}, start=spread_start)

    def run(self, draw, target, rule=None, temperatures=(1.0, 10.0)):
        steps = [0.3 + 0.05 * t for t in temperatures]
        sampler = parallel_tempering(temperatures, steps, swap=rule, swap_fraction=0.3)
        return draw(target, sampler, draws=250, thin=8, warmup=400)

    @pytest.mark.parametrize("rule", [rules.product_target(), rules.delayed_acceptance(), None])
    def test_two_fidelities(self, draw, agrees, two_fidelities, rule):
        run = self.run(draw, two_fidelities, rule)
        assert run.report["fidelities"] == ["fine", "coarse"]
        assert agrees(mixture_moments(run), MIXTURE)

    def test_own_energies_of_two_fidelities_are_rejected(self, draw, agrees, two_fidelities):
        run = self.run(draw, two_fidelities, rules.state_dependent_penalty(assume_unbiased=True))
        assert not agrees(mixture_moments(run), MIXTURE)

    def test_four_rungs(self, draw, agrees, two_fidelities):
        run = self.run(draw, two_fidelities, temperatures=(1.0, 2.5, 5.0, 12.0))
        assert run.report["fidelities"] == ["fine", "coarse", "coarse", "coarse"]
        assert agrees(mixture_moments(run), MIXTURE)

    def test_hot_rung_has_the_tempered_distribution(self, draw, agrees):
        run = draw(Target(gaussian(1.0)), parallel_tempering((1.0, 4.0), 1.0), draws=500, thin=2, warmup=100)
        hot = run.rung_theta(1)
        assert agrees((hot**2).mean(axis=(1, 2)), 4.0)
        assert not agrees((hot**2).mean(axis=(1, 2)), 4.0 / (1.0 - 0.05))

    @pytest.mark.parametrize(("rule", "right"), [(rules.noise_penalty(), True), (rules.metropolis(), False)])
    def test_noisy_energies_need_the_penalty(self, draw, agrees, rule, right):
        sampler = resgld(
            (1.0, 10.0), 0.03, estimator=noisy(2.0, 0.0), swap=rule, energy_variance=known(), swap_fraction=0.3
        )
        run = draw(Target(two_modes(), start=spread_start), sampler, draws=200, thin=15, warmup=1000)
        weight = (run.theta[..., 0] > -0.5).mean(axis=1)
        # plain steps of 0.03 with exact swaps give 0.587, by the transition operator on a grid
        assert bool(agrees(weight, 0.587, 0.002)) == right
