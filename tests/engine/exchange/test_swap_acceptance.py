"""Which energies an attempt takes, and which it solves, where estimates are noisy or their variances differ."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from functions import square
from scipy.special import ndtr
from swapping import log_ratio, potentials_of, swap

from invsamp.domains import Unbounded
from invsamp.engine.exchange.swap_acceptance import SwapAttempt, variances_may_differ
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators import exact, minibatch, noisy
from invsamp.evaluate.requests import answered
from invsamp.ladder import Rung, Swap
from invsamp.samplers import fast_resgld, multi_variance_resgld, r2sgld, resgld
from invsamp.swaps.discrepancy import Discrepancy
from invsamp.swaps.rules import (
    delayed_acceptance,
    multi_variance,
    noise_penalty,
    product_target,
    state_dependent_penalty,
)
from invsamp.variances.models import kernel_ridge, known, running_average


def coarse(position):
    away = position - 0.4
    return 0.7 * (away**2).sum(axis=1) + 0.3, 1.4 * away


def rising_sd(position, energy):
    return 1.0 / (1.0 + np.exp(-position[:, 0]))


def rising_variance(position):
    return rising_sd(position, None) ** 2


def pair(functions=(square, square), settings=({}, {}), chains=64):
    """Two rungs at normal positions."""
    potentials = potentials_of(functions)
    rungs = []
    for k, (function, own) in enumerate(zip(functions, settings, strict=True)):
        seed, used = np.random.SeedSequence(k), Rung(4.0**k, step_size=0.1, **own)
        rung = RungChains(used, potentials[function], Unbounded(), seed)
        rung.start(2.0**k * np.random.default_rng(k).standard_normal((chains, 2)))
        rung.step_size = 0.1
        rungs.append(rung)
    return rungs


class TestVariancesMayDiffer:
    CONSTANT = (
        {},
        {"estimator": noisy(1.0)},
        {"estimator": noisy(rising_sd), "energy_variance": known(2.0)},
        {"estimator": noisy(rising_sd), "energy_variance": running_average()},
    )
    VARYING = (
        {"estimator": noisy(rising_sd)},
        {"estimator": noisy(rising_sd), "energy_variance": known(rising_variance)},
        {"estimator": noisy(rising_sd), "energy_variance": kernel_ridge()},
    )

    @pytest.mark.parametrize("settings", list(itertools.product(CONSTANT, CONSTANT)))
    def test_constants_do_not(self, settings):
        assert not variances_may_differ(*pair(settings=settings))

    @pytest.mark.parametrize("settings", list(itertools.product(CONSTANT, VARYING)))
    def test_one_that_varies_does(self, settings):
        assert variances_may_differ(*pair(settings=settings))
        assert variances_may_differ(*pair(settings=settings[::-1]))

    def test_the_same_function_does_not(self):
        for settings in self.VARYING[:2]:
            assert not variances_may_differ(*pair(settings=(settings, settings)))
        # each rung learns its own
        assert variances_may_differ(*pair(settings=self.VARYING[2:] * 2))
        # what estimators of two fidelities state are two functions
        assert variances_may_differ(*pair((square, coarse), self.VARYING[:1] * 2))


class TestEqualised:
    """Constant variance 0.8 on the cold rung, one that rises with x on the hot rung, energies on a grid of noise."""

    a, b = np.array([1.0, -0.5]), np.array([-1.3, 0.4])
    variance = staticmethod(lambda position: 6.0 / (1.0 + np.exp(-2.0 * position[:, 0])))

    def acceptance(self, rule, positions, seed):
        chains = 400_000
        settings = (
            {"estimator": noisy(math.sqrt(0.8))},
            {
                "estimator": noisy(lambda position, energy: np.sqrt(self.variance(position))),
                "energy_variance": known(self.variance),
            },
        )
        rungs = pair(settings=settings, chains=chains)
        for rung, position in zip(rungs, positions, strict=True):
            rung.start(np.tile(position, (chains, 1)))
        added = np.random.default_rng(seed) if rule.equalize else None
        (stage,) = rule.stages()
        ratio, noise = log_ratio(rungs, rule, stage, added=added)
        return np.minimum(1.0, np.exp(ratio)).mean(), noise / chains

    @pytest.mark.parametrize("rule", [state_dependent_penalty(), noise_penalty()])
    def test_both_ways_have_the_larger_variance(self, rule):
        """Against the closed form for the larger v; 400,000 draws are right to 0.001."""
        d = 0.75 * float(square(self.a[None])[0][0] - square(self.b[None])[0][0])
        v = 0.75**2 * (0.8 + max(self.variance(np.stack([self.a, self.b]))))
        root = math.sqrt(v)
        for sign, positions in ((1.0, (self.a, self.b)), (-1.0, (self.b, self.a))):
            found, noise = self.acceptance(rule, positions, seed=int(sign) + 1)
            closed = ndtr((sign * d - v / 2) / root) + math.exp(sign * d) * ndtr(-(sign * d + v / 2) / root)
            assert found == pytest.approx(closed, abs=0.004)
            assert noise == pytest.approx(root)

    def test_published_has_two(self):
        (there, one), (back, other) = (
            self.acceptance(state_dependent_penalty(equalize=False), p, 0) for p in ((self.a, self.b), (self.b, self.a))
        )
        assert abs(one - other) > 0.5
        d = 0.75 * float(square(self.a[None])[0][0] - square(self.b[None])[0][0])
        assert abs(there / (back * math.exp(d)) - 1.0) > 0.2


class TestWholeEnergies:
    """Noisy estimates, swaps by energies without noise."""

    def attempt(self, functions, rule, **settings):
        noises = ({"estimator": noisy(30.0, 1.0)}, {"estimator": noisy(20.0, 1.0)})
        rungs = pair(functions, noises)
        before = [rung.potential.evaluations for rung in rungs]
        exchange = Exchange(Swap(rule, fraction=1.0, **settings), rungs, np.random.SeedSequence(0))
        positions = [rung.position for rung in rungs]
        swap(exchange)
        spent = [rung.potential.evaluations - b for rung, b in zip(rungs, before, strict=True)]
        return positions, rungs, exchange, spent

    def test_swaps_happen_exactly_where_the_equation_says(self):
        (cold, hot), rungs, exchange, _ = self.attempt((square, coarse), product_target(), energies="exact")
        ratio = square(cold)[0] - square(hot)[0] + (coarse(hot)[0] - coarse(cold)[0]) / 4.0
        uniform = np.random.default_rng(np.random.SeedSequence(0).spawn(3)[2].spawn(2)[0]).random(64)
        wanted = np.log1p(-uniform) < ratio
        np.testing.assert_array_equal((rungs[0].position == hot).all(axis=1), wanted)
        assert 0 < wanted.sum() < 64
        assert exchange.pairs[0].log_ratio_sd == 0.0

    def test_noise_leaves_none_of_them(self):
        _, _, exchange, _ = self.attempt((square, coarse), product_target())
        assert exchange.accepts.tolist() == [0]

    def test_each_energy_is_solved_once(self):
        """Two stages share them; accepted chains get new estimates at their new positions."""
        _, _, exchange, spent = self.attempt((square, coarse), delayed_acceptance(), energies="exact")
        passed, accepted = exchange.pairs[0].first_stage_accepts, exchange.accepts[0]
        assert 0 < accepted < passed < 64
        assert spent == [2 * passed + accepted, 2 * 64 + accepted]

    def test_refuses(self):
        with pytest.raises(ValueError, match=r"energies must be one of .*, got 'full'"):
            Swap(energies="full")


class TestDifferences:
    def test_known_where_both_models_were_solved(self):
        """At every cold position (its fine energy is at hand), and at the hot ones that passed the first stage."""
        rungs = pair((square, coarse))
        rule = delayed_acceptance()
        attempt, answer = SwapAttempt(*rungs, rule, same=False), rungs[0].answer
        first, second = rule.stages()
        answered(attempt.log_ratio(first, np.arange(64)), answer)
        solves = [rung.potential.evaluations for rung in rungs]
        assert [len(position) for position, _ in attempt.differences()] == [64]
        rows = np.array([3, 10, 50])
        answered(attempt.log_ratio(second, rows), answer)
        (at_cold, cold), (at_hot, hot) = attempt.differences()
        np.testing.assert_array_equal(at_cold, rungs[0].position)
        np.testing.assert_array_equal(at_hot, rungs[1].position[rows])
        for position, difference in ((at_cold, cold), (at_hot, hot)):
            np.testing.assert_allclose(difference, square(position)[0] - coarse(position)[0])
        # what is learned costs nothing
        assert [r.potential.evaluations - s for r, s in zip(rungs, solves, strict=True)] == [3, 0]

    @pytest.mark.parametrize("settings", [({}, {}), ({"estimator": noisy(0.01)}, {"estimator": exact()})])
    def test_learned_in_warm_up_and_frozen_after(self, settings):
        rungs = pair((square, coarse), settings)
        rule = delayed_acceptance(Discrepancy(states=200))
        exchange = Exchange(Swap(rule, fraction=1.0), rungs, np.random.SeedSequence(0))

        def run(steps):
            for _ in range(steps):
                for rung in rungs:
                    rung.step()
                swap(exchange)

        run(50)
        assert exchange.pairs[0].discrepancy.fit is None
        before = exchange.pairs[0].first_stage_accepts, exchange.accepts[0]
        exchange.resolve()
        exchange.reset()
        state = exchange.pairs[0].discrepancy
        assert state.fit is not None and exchange.pairs[0].residual_sd < 0.3
        run(50)
        assert exchange.pairs[0].discrepancy is state
        # what passes the first stage passes the second
        assert before[1] < 0.7 * before[0]
        assert exchange.accepts[0] > 0.9 * exchange.pairs[0].first_stage_accepts

    @pytest.mark.parametrize("rule", [state_dependent_penalty(), multi_variance(0.5), delayed_acceptance()])
    def test_other_rules_learn_nothing(self, rule):
        exchange = Exchange(Swap(rule, fraction=1.0), pair(), np.random.SeedSequence(0))
        swap(exchange)
        exchange.resolve()
        assert exchange.pairs[0].discrepancy is None


@pytest.mark.parametrize("preset", [resgld, r2sgld, multi_variance_resgld, fast_resgld])
def test_presets_pass_whole_energies_on(preset):
    sampler = preset(estimator=minibatch(10), swap_energies="exact")
    assert sampler.swap.energies == "exact"
    assert "with exact energies" in str(sampler)
    assert preset(estimator=minibatch(10)).swap.energies == "estimated"
