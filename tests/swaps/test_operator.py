"""Distributions under the swap rules and the noise budget, from the exact operator of two rungs in one dimension.

Only `TestCode` uses Monte Carlo: it compares the package's chains with the operator's distribution.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from operator_oracle import Level, TwoRungs, acceptance, grid, mean_of_least, on_grid, transition
from scipy.integrate import trapezoid

from invsamp.estimators import noisy
from invsamp.estimators.exact_energies import Exact
from invsamp.ladder import GradientNoise, Rung, Sampler, Swap
from invsamp.posing.posterior.target import Target
from invsamp.problems.mixtures import GaussianMixture, two_modes
from invsamp.swaps.discrepancy import Discrepancy
from invsamp.swaps.rules import (
    delayed_acceptance,
    metropolis,
    multi_variance,
    noise_penalty,
    product_target,
    state_dependent_penalty,
)

MIXTURE = two_modes()
#: Strongly biased coarse energies: weights turned round, and modes moved, widened too in the second.
MOVED = GaussianMixture((0.8, 0.2), (-4.2, 2.8), (0.7, 0.5))
SMEARED = GaussianMixture((0.75, 0.25), (-3.5, 2.5), (0.8, 0.65))
POINTS = grid(-13.5, 10.0, 174)
TRUTH = on_grid(MIXTURE, POINTS)
COLD, HOT = Level(MIXTURE), Level(MIXTURE, 10.0)
#: A part of the mixtures' energies that is not tempered.
PRIOR = GaussianMixture((1.0,), (-1.0,), (4.0,))
#: Noise of f-reSGLD's section 5.1, and the same taken out of the injected noise.
NOISY = replace(COLD, energy_sd=1.0, gradient_sd=2.0), replace(HOT, energy_sd=3.0, gradient_sd=5.0)
BUDGET = replace(NOISY[0], subtracted=4.0), replace(NOISY[1], subtracted=25.0)


def rising(position, energy):
    """State-dependent sd of an energy: 6 sigmoid(x)."""
    return 6.0 / (1.0 + np.exp(-position[:, 0]))


ASYMMETRIC = replace(COLD, energy_sd=1.0), replace(HOT, energy_sd=rising)


@functools.cache
def chain(rungs, rule, **settings):
    return TwoRungs(*rungs, rule, points=POINTS, **settings)


@functools.cache
def figures(rungs, rule):
    return chain(rungs, rule).summary()


class TestOracle:
    @pytest.mark.parametrize("mean", [-3.0, 0.0, 0.7, 40.0])
    @pytest.mark.parametrize("variance", [0.0, 1e-4, 1.0, 9.0])
    def test_mean_acceptance_is_that_of_quadrature(self, mean, variance):
        z = np.linspace(-9.0, 9.0, 200_001)
        density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
        wanted = trapezoid(np.exp(np.minimum(mean + math.sqrt(variance) * z, 0.0)) * density, z)
        assert mean_of_least(np.array(mean), np.array(variance)) == pytest.approx(wanted, abs=1e-9)

    def test_kernel_has_the_moments_of_a_step(self):
        """SGLD from each point: mean x - h U', variance 2 h tau + (h s)^2, or 2 h tau where s is taken out."""
        _, gradient = MIXTURE.energy_and_gradient(POINTS[:, None])
        inside = np.abs(POINTS) < 6.0
        for level, extra in ((NOISY[1], (0.03 * 5.0) ** 2), (BUDGET[1], 0.0)):
            kernel = transition(level, POINTS)
            mean = kernel @ POINTS
            np.testing.assert_allclose(mean[inside], (POINTS - 0.03 * gradient[:, 0])[inside], atol=1e-6)
            np.testing.assert_allclose((kernel @ POINTS**2 - mean**2)[inside], 0.6 + extra, atol=1e-6)

    def test_gaussian_has_the_variance_of_its_step(self):
        """1 / (1 - h/2) on N(0, 1), at temperature 4 four times that; whatever a rung swaps with itself."""
        normal, points = GaussianMixture((1.0,), (0.0,), (1.0,)), grid(-18.0, 18.0, 160)
        still = TwoRungs(Level(normal, 1.0, 0.5), Level(normal, 4.0, 0.5), metropolis(), fraction=0.0, points=points)
        for axis, temperature in ((1, 1.0), (0, 4.0)):
            assert still.target.sum(axis=axis) @ points**2 == pytest.approx(temperature / 0.75, rel=1e-6)
        # the slower of two independent relaxations by 1 - h
        assert still.relaxation == pytest.approx(-1.0 / math.log(0.5), rel=1e-6)

    @pytest.mark.parametrize("fine", [True, False])
    @pytest.mark.parametrize("rule", [product_target(), delayed_acceptance()], ids=["product", "delayed"])
    def test_product_distribution_without_discretization(self, rule, fine):
        """Adjusted kernels and an exact rule keep both tempered targets, with a strongly biased coarse model too."""
        hot = MIXTURE if fine else SMEARED
        target = chain((Level(MIXTURE, adjusted=True), Level(hot, 10.0, adjusted=True)), rule).target
        np.testing.assert_allclose(target, np.outer(TRUTH, on_grid(hot, POINTS, 10.0)), atol=1e-10)

    @pytest.mark.parametrize("fine", [True, False])
    @pytest.mark.parametrize("rule", [product_target(), delayed_acceptance(Discrepancy())], ids=["product", "delayed"])
    def test_product_distribution_with_a_tempered_likelihood(self, rule, fine):
        """Prior and a tenth of the misfit on the hot rung; the cold one's prior does not change its distribution."""
        potential = MIXTURE if fine else SMEARED
        cold, hot = Level(MIXTURE, adjusted=True), Level(potential, 10.0, adjusted=True, prior=PRIOR)
        target = chain((cold, hot), rule, discrepancy=lambda position: np.sin(position[:, 0])).target
        wanted = np.outer(TRUTH, on_grid(potential, POINTS, 10.0, PRIOR))
        np.testing.assert_allclose(target, wanted, atol=1e-10)
        assert np.abs(target - np.outer(TRUTH, on_grid(potential, POINTS, 10.0))).max() > 1e-4

    @pytest.mark.parametrize(
        "rule",
        [metropolis(), state_dependent_penalty(), multi_variance(0.3)],
        ids=["metropolis", "state_dependent_penalty", "multi"],
    )
    def test_rules_of_one_energy_where_the_likelihood_is_tempered(self, rule):
        rungs = Level(MIXTURE, 2.0, adjusted=True, prior=PRIOR), Level(MIXTURE, 10.0, adjusted=True, prior=PRIOR)
        target = TwoRungs(*rungs, rule, points=POINTS).target
        wanted = np.outer(*(on_grid(MIXTURE, POINTS, level.temperature, PRIOR) for level in rungs))
        np.testing.assert_allclose(target, wanted, atol=1e-10)

    @pytest.mark.parametrize(
        "rule", [state_dependent_penalty(assume_unbiased=True), multi_variance(0.5, assume_unbiased=True)]
    )
    def test_a_wrong_rule_is_seen(self, rule):
        rungs = Level(MIXTURE, adjusted=True), Level(SMEARED, 10.0, adjusted=True)
        assert figures(rungs, rule)["W1"] > 1.0

    @pytest.mark.parametrize("tempered", ["all", "misfit"])
    @pytest.mark.parametrize("rule", [product_target(), delayed_acceptance(), delayed_acceptance(Discrepancy())])
    def test_noisy_stages_keep_detailed_balance(self, rule, tempered):
        """Product of the stages' mean acceptances against the product distribution; without its penalty it does not."""
        prior = PRIOR if tempered == "misfit" else None
        cold = Level(MIXTURE, energy_sd=1.5, prior=prior)
        hot = Level(SMEARED, 10.0, energy_sd=rising, prior=prior)

        def worst(cold, hot):
            stages = acceptance(rule, cold, hot, POINTS, lambda position: 3.0 * np.sin(position[:, 0]))
            flow = np.outer(TRUTH, on_grid(SMEARED, POINTS, 10.0, prior)) * np.prod(stages, axis=0)
            return np.abs(flow - flow.T).max() / flow.max()

        assert worst(cold, hot) < 1e-10
        assert worst(replace(cold, energy_variance=0.0), replace(hot, energy_variance=0.0)) > 0.05


class TestOneFidelity:
    """f-reSGLD's mixture, step 0.03, temperatures 1 and 10."""

    #: W1, KL, weight and sd of the right mode, swap rate, relaxation in steps; from 400 x 400 points.
    TABLE = (
        ((COLD, HOT), metropolis(), (0.0902, 0.00047, 0.587, 0.507, 0.364, 198.0)),
        (NOISY, noise_penalty(), (0.113, 0.00165, 0.585, 0.520, 0.081, 194.0)),
        (NOISY, multi_variance(0.5), (0.111, 0.00129, 0.585, 0.517, 0.157, 190.0)),
        (BUDGET, state_dependent_penalty(), (0.0914, 0.00062, 0.587, 0.510, 0.081, 205.0)),
        (BUDGET, metropolis(), (0.698, 0.075, 0.505, 0.648, 0.400, 204.0)),
    )

    @pytest.mark.parametrize(
        "rungs, rule, wanted", TABLE, ids=["exact", "reSGLD", "m-reSGLD", "f-reSGLD", "metropolis"]
    )
    def test_figures(self, rungs, rule, wanted):
        found = figures(rungs, rule)
        for value, target, error in zip(found.values(), wanted, (0.003, 3e-5, 1e-3, 1e-3, 1e-3, 1.0), strict=True):
            assert value == pytest.approx(target, rel=0.005, abs=error)

    def test_budget_and_penalty_take_the_noise_out(self):
        exact, corrected_only, fast_ = (figures(*row[:2]) for row in (self.TABLE[0], self.TABLE[1], self.TABLE[3]))
        assert abs(fast_["W1"] - exact["W1"]) < 0.003
        assert fast_["KL"] < 0.0008
        assert corrected_only["KL"] > 0.0014

    def test_best_weight_of_eq_11_swaps_most(self):
        """a1 = v_h / (v_c + v_h) = 0.9 has the least variance: 1.1 times that of the better energies alone is 0.9."""
        best = multi_variance().resolve(1.0, 9.0)
        rates = {weight: figures(NOISY, multi_variance(weight))["swaps"] for weight in (0.5, 0.9, 1.0)}
        assert best == multi_variance(0.9)
        assert rates[0.9] > rates[1.0] > rates[0.5]
        for weight in rates:
            assert figures(NOISY, multi_variance(weight))["right"] == pytest.approx(0.585, abs=0.002)

    def test_fewer_swaps_cost_little_relaxation(self):
        """A swap attempt after a tenth of the steps."""
        assert chain(BUDGET, state_dependent_penalty(), fraction=0.1).relaxation == pytest.approx(281.0, abs=2.0)


class TestUnequalVariances:
    """Energy variances 1 on the cold rung and (6 sigmoid(x))^2 on the hot one: v changes at a swap."""

    def test_penalty_alone_is_wrong_and_equalization_repairs_it(self):
        published, equalized = (
            figures(ASYMMETRIC, state_dependent_penalty(equalize=False)),
            figures(ASYMMETRIC, state_dependent_penalty()),
        )
        assert published["right"] == pytest.approx(0.028, abs=0.001)
        assert equalized["right"] == pytest.approx(0.585, abs=0.001)
        assert equalized["KL"] < 0.0012

    def test_equalized_acceptance_keeps_detailed_balance(self):
        for rule, balanced in (
            (state_dependent_penalty(), True),
            (noise_penalty(), True),
            (state_dependent_penalty(equalize=False), False),
        ):
            (mean,) = acceptance(rule, *ASYMMETRIC, POINTS)
            flow = np.outer(TRUTH, on_grid(MIXTURE, POINTS, 10.0)) * mean
            assert (np.abs(flow - flow.T).max() < 1e-12 * flow.max()) == balanced

    @pytest.mark.parametrize("rule", [multi_variance(0.5), multi_variance(0.9), product_target()], ids=str)
    def test_rules_with_all_four_energies_need_none(self, rule):
        """Their v is the same both ways."""
        assert figures(ASYMMETRIC, rule)["right"] == pytest.approx(0.5873, abs=5e-4)

    def test_two_stages_pay_for_a_noisy_hot_energy(self):
        """Stage 1 takes the hot energies times 1/tau_c - 1/tau_h, the product target's one stage times 1/tau_h."""
        one, two = (figures(ASYMMETRIC, rule) for rule in (product_target(), delayed_acceptance()))
        assert two["relaxation"] > 100.0 * one["relaxation"]

    def test_equal_variances_gain_no_noise(self):
        for rungs in (NOISY, tuple(replace(level, energy_sd=rising) for level in (COLD, HOT))):
            np.testing.assert_array_equal(
                acceptance(state_dependent_penalty(), *rungs, POINTS),
                acceptance(state_dependent_penalty(equalize=False), *rungs, POINTS),
            )


class TestTwoFidelities:
    """A coarse energy on the hot rung that is far off, its weights turned round."""

    rungs = COLD, Level(MOVED, 10.0)

    @pytest.mark.parametrize("rule", [product_target(), delayed_acceptance()], ids=["product", "delayed"])
    def test_exact_rules_are_as_good_as_the_fine_model_on_both(self, rule):
        fine = figures((COLD, HOT), product_target())
        assert abs(figures(self.rungs, rule)["W1"] - fine["W1"]) < 0.012

    @pytest.mark.parametrize(
        "rule",
        [state_dependent_penalty(assume_unbiased=True), multi_variance(0.5, assume_unbiased=True)],
        ids=["eq 18", "eq 11"],
    )
    def test_rules_for_one_energy_are_far_off(self, rule):
        assert figures(self.rungs, rule)["W1"] > 1.5

    @pytest.mark.parametrize("offset, weight", [(0.5, 0.645), (-0.5, 0.531)])
    def test_a_constant_offset_moves_the_weights(self, offset, weight):
        class Raised:
            dimension = 1

            def energy(self, position):
                return MIXTURE.energy(position) + offset

            def energy_and_gradient(self, position):
                energy, gradient = MIXTURE.energy_and_gradient(position)
                return energy + offset, gradient

        rungs = COLD, Level(Raised(), 10.0)
        assert figures(rungs, state_dependent_penalty(assume_unbiased=True))["right"] == pytest.approx(
            weight, abs=0.001
        )
        assert figures(rungs, delayed_acceptance())["right"] == pytest.approx(0.5874, abs=0.001)


class TestDiscrepancy:
    """Delayed acceptance whose first stage knows the mean of U_fine - U_coarse."""

    rungs = COLD, Level(SMEARED, 10.0)

    def learned(self, states=150):
        """From draws of the two tempered distributions, as in warm-up."""
        rng, rule = np.random.default_rng(0), Discrepancy()
        targets = TRUTH, on_grid(SMEARED, POINTS, 10.0)
        position = np.concatenate([rng.choice(POINTS, (states, 1), p=target) for target in targets])
        state = rule.update(rule.init(), position, MIXTURE.energy(position) - SMEARED.energy(position))
        state = rule.fitted(state)
        return lambda at: rule.predict(state, at)

    def test_second_stage_hardly_refuses(self):
        without = chain(self.rungs, delayed_acceptance())
        with_ = chain(self.rungs, delayed_acceptance(Discrepancy()), discrepancy=self.learned())
        product = figures(self.rungs, product_target())["swaps"]
        (tried, swapped), (tried_before, swapped_before) = with_.rates, without.rates
        # fine solves per attempt 0.45 and 0.31, per swap 2.3 and 1.03
        assert tried_before > 0.43 and swapped_before < 0.5 * tried_before
        assert tried < 0.32 and swapped > 0.95 * tried
        assert 0.95 * product < swapped < product

    @pytest.mark.parametrize("guess", ["learned", "wrong"])
    def test_distribution_does_not_depend_on_it(self, guess):
        mean = self.learned() if guess == "learned" else lambda position: 3.0 * np.sin(position[:, 0])
        adjusted = tuple(replace(level, adjusted=True) for level in self.rungs)
        target = chain(adjusted, delayed_acceptance(Discrepancy()), discrepancy=mean).target
        np.testing.assert_allclose(target.sum(axis=1), TRUTH, atol=1e-10)


class TestBeyondTheBudget:
    """A gradient noisier than the noise that a step injects: eta s^2 > 2 tau."""

    @staticmethod
    def sd(position, energy):
        """14 sigmoid(x): at step 0.03 up to three times what may be taken out on the cold rung."""
        return 14.0 / (1.0 + np.exp(-position[:, 0]))

    def cold(self, **settings):
        def variance(position, energy):
            return self.sd(position, energy) ** 2

        level = Level(MIXTURE, gradient_sd=self.sd, subtracted=variance, **settings)
        return figures((level, replace(HOT, adjusted=True)), product_target())

    def test_clipping_is_wrong_and_a_smaller_step_is_right(self):
        clipped, smaller = self.cold(), self.cold(step_size=2.0 / 14.0**2)
        assert clipped["right"] < 0.52 and clipped["sd"] > 0.6
        assert smaller["KL"] < 1e-5

    def test_a_step_shrunk_state_by_state_is_another_distribution(self):
        """It rests where its steps are short: where the noise is large."""

        def step_size(position):
            return np.minimum(0.03, 2.0 / self.sd(position, None) ** 2)

        by_state, smaller = self.cold(step_size=step_size), self.cold(step_size=2.0 / 14.0**2)
        assert by_state["right"] > 0.602
        assert smaller["right"] == pytest.approx(0.5996, abs=2e-4)

    def test_a_hot_rung_may_take_its_effective_temperature(self):
        """tau + eta s^2 / 2 = 16 with noise that is not taken out: the same chain as at 16, if the swap knows."""
        points = grid(-17.0, 13.0, 200)

        def target(hot):
            return TwoRungs(COLD, hot, state_dependent_penalty(), points=points).target

        noisy_hot = replace(HOT, gradient_sd=20.0)
        wanted = target(replace(HOT, temperature=16.0))
        np.testing.assert_allclose(target(replace(noisy_hot, swap_temperature=16.0)), wanted, atol=1e-8)
        assert np.abs(target(noisy_hot) - wanted).max() > 1e-5


class TestCode:
    """256 chains of the package have the operator's distribution: probabilities of five intervals of the cold rung."""

    edges = np.array([-4.2, -3.0, 2.8, 3.3])

    def check(self, draw, agrees, right, wrong, draws=600):
        """The distribution of the chains, and a wrong one that is rejected."""
        cold, hot = levels = right.cold, right.hot
        names = ("fine", "fine") if cold.potential is hot.potential else ("fine", "coarse")
        rungs = tuple(
            Rung(
                level.temperature,
                name,
                noisy(level.energy_sd, level.gradient_sd) if level.energy_sd or level.gradient_sd else Exact(),
                step_size=level.step_size,
                gradient_noise=None if level.subtracted is None else GradientNoise(),
            )
            for level, name in zip(levels, names, strict=True)
        )
        # starting in the distribution of the cold rung, both rungs need a few relaxation times to that of the chain
        target = Target({names[1]: hot.potential, names[0]: cold.potential}, start=MIXTURE.sample)
        run = draw(target, Sampler(rungs, Swap(right.rule, fraction=1.0)), draws=draws, thin=2, warmup=500)
        within = np.searchsorted(self.edges, run.theta[..., 0])
        shares = np.stack([(within == k).mean(axis=1) for k in range(len(self.edges) + 1)], axis=1)
        assert agrees(shares, self.shares(right))
        assert not agrees(shares, self.shares(wrong))
        return run

    def shares(self, operator):
        ends = POINTS + 0.5 * (POINTS[1] - POINTS[0])
        return np.diff(np.interp(self.edges, ends, np.cumsum(operator.marginal)), prepend=0.0, append=1.0)

    def test_fast(self, draw, agrees):
        self.check(draw, agrees, chain(BUDGET, state_dependent_penalty()), chain(BUDGET, metropolis()))

    def test_equalized(self, draw, agrees):
        self.check(
            draw,
            agrees,
            chain(ASYMMETRIC, state_dependent_penalty()),
            chain(ASYMMETRIC, state_dependent_penalty(equalize=False)),
        )

    def test_published_where_it_is_wrong(self, draw, agrees):
        self.check(
            draw,
            agrees,
            chain(ASYMMETRIC, state_dependent_penalty(equalize=False)),
            chain(ASYMMETRIC, state_dependent_penalty()),
        )

    @pytest.mark.slow
    def test_delayed_acceptance_with_noise_in_both_stages(self, draw, agrees):
        levels = replace(COLD, energy_sd=1.0), Level(MOVED, 10.0, energy_sd=1.0)
        deaf = tuple(replace(level, energy_variance=0.0) for level in levels)
        right = chain(levels, delayed_acceptance())
        run = self.check(draw, agrees, right, chain(deaf, delayed_acceptance()), draws=1200)
        for count, rate in zip(("swap_first_stage_accepts", "swap_accepts"), right.rates, strict=True):
            assert run.report[count][0] / run.report["swap_attempts"][0] == pytest.approx(rate, rel=0.05)
