"""Two rungs and their rule: who swaps, how often under noise, and what is doubted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from swapping import RULES, accept_seed, coarse, fine, ladder, log_ratio, swap, where

from invsamp.estimators import exact, noisy
from invsamp.evaluate.requests import Request
from invsamp.swaps.discrepancy import Discrepancy
from invsamp.swaps.rules import (
    delayed_acceptance,
    metropolis,
    multi_variance,
    noise_penalty,
    product_target,
    state_dependent_penalty,
)
from invsamp.swaps.schemes import adjacent, seo


class TestRules:
    def test_default_is_exact_for_one_and_for_two_fidelities(self):
        _, exchange = ladder((fine, coarse, coarse), (1.0, 2.0, 4.0))
        assert exchange.rules == [delayed_acceptance(Discrepancy()), state_dependent_penalty()]

    @pytest.mark.parametrize("hot", [fine, coarse])
    @pytest.mark.parametrize("name", RULES)
    def test_swaps_happen_exactly_where_the_equation_says(self, name, hot):
        """Accepted chains, recomputed from the energies and the same uniform numbers."""
        rungs, exchange = ladder((fine, hot), rule=RULES[name])
        t_c, t_h = (r.position.copy() for r in rungs)
        cc, ch, hh, hc = fine(t_c)[0], fine(t_h)[0], hot(t_h)[0], hot(t_c)[0]
        if name in ("metropolis", "noise_penalty", "state_dependent_penalty"):
            stages = [0.75 * (cc - hh)]
        elif name == "multi_variance":
            stages = [0.75 * 0.5 * (cc - ch + hc - hh)]
        elif name == "product_target":
            stages = [cc - ch + (hh - hc) / 4.0]
        else:
            stages = [0.75 * (hc - hh), (cc - hc) - (ch - hh)]
        rng = np.random.default_rng(accept_seed(np.random.SeedSequence(0).spawn(1)[0]))
        wanted = np.ones(64, dtype=bool)
        for ratio in stages:
            wanted &= np.log1p(-rng.random(64)) < ratio
        swap(exchange)
        np.testing.assert_array_equal((rungs[0].position == t_h).all(axis=1), wanted)
        np.testing.assert_array_equal((rungs[1].position == t_c).all(axis=1), wanted)
        assert 0 < wanted.sum() < 64
        assert exchange.accepts.tolist() == [wanted.sum()]
        assert exchange.attempts.tolist() == [64]

    def test_two_stages_accept_as_often_as_their_product(self):
        """Delayed acceptance pays for its cheapness with min(1, a) min(1, b) <= min(1, a b)."""
        accepts = {}
        for name in ("product_target", "delayed_acceptance"):
            _, exchange = ladder((fine, coarse), rule=RULES[name], chains=5000)
            swap(exchange)
            accepts[name] = exchange.accepts[0]
        assert 0.3 * accepts["product_target"] < accepts["delayed_acceptance"] < accepts["product_target"]

    @pytest.mark.parametrize("name", RULES)
    @given(constant=st.floats(-100.0, 100.0))
    def test_a_constant_in_all_energies_changes_no_swap(self, name, constant):
        def raised(function):
            def other(position):
                energy, gradient = function(position)
                return energy + constant, gradient

            return other

        plain, exchange = ladder((fine, coarse), rule=RULES[name], chains=32)
        shifted, other = ladder((raised(fine), raised(coarse)), rule=RULES[name], chains=32)
        swap(exchange)
        swap(other)
        np.testing.assert_array_equal(plain[0].position, shifted[0].position)


class Offset:
    """Estimator whose energy noise is given for each chain: a quadrature grid in place of random numbers."""

    def __init__(self, offsets, variance):
        self.offsets, self.variance = offsets, variance

    def bind(self, source, structure):
        outer = self

        class Bound:
            exact, exact_energy, degrees_of_freedom = False, False, None

            def estimate(self, rng, position, gradient=True):
                (found,) = yield (Request(source.fidelity, position, gradient),)
                energy = found.energy if gradient else found.energy + outer.offsets
                return found._replace(energy=energy, energy_variance=np.full(len(position), outer.variance))

        return Bound()


class TestNoisyRatio:
    """E[min(1, S)] as the code computes it, over a fine grid of both rungs' noise."""

    variances = 1.2, 2.5

    def acceptance(self, rule, positions):
        z = np.linspace(-7.0, 7.0, 401)
        weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
        grid = [axis.ravel() for axis in np.meshgrid(z, z, indexing="ij")]
        settings = [{"estimator": Offset(math.sqrt(v) * g, v)} for v, g in zip(self.variances, grid, strict=True)]
        rungs, _ = ladder((fine, fine), settings=settings, rule=rule, chains=len(grid[0]))
        for rung, position in zip(rungs, positions, strict=True):
            rung.start(np.tile(position, (len(grid[0]), 1)))
        (stage,) = rule.stages()
        ratio, _ = log_ratio(rungs, rule, stage)
        return np.outer(weight, weight).ravel() @ np.minimum(1.0, np.exp(ratio))

    def test_penalty_keeps_detailed_balance(self):
        a, b = np.array([1.0, -0.5]), np.array([0.3, 0.4])
        d = 0.75 * float(fine(a[None])[0][0] - fine(b[None])[0][0])
        there, back = (
            self.acceptance(state_dependent_penalty(), (a, b)),
            self.acceptance(state_dependent_penalty(), (b, a)),
        )
        assert there == pytest.approx(math.exp(d) * back, rel=2e-4)
        v = 0.75**2 * sum(self.variances)
        closed = ndtr((d - v / 2) / math.sqrt(v)) + math.exp(d) * ndtr(-(d + v / 2) / math.sqrt(v))
        assert there == pytest.approx(closed, rel=2e-4)
        # without it, and with half of it
        for rule in (metropolis(), noise_penalty(2.0)):
            there, back = self.acceptance(rule, (a, b)), self.acceptance(rule, (b, a))
            assert abs(there / (math.exp(d) * back) - 1.0) > 0.05


class TestDoubts:
    """Rules that are known to be wrong for the energies at hand say so."""

    def rising(self, position, energy):
        return 1.0 / (1.0 + np.exp(-position[:, 0]))

    def doubts(self, rule, *estimators, **swap):
        _, exchange = ladder((fine, fine), settings=[{"estimator": e} for e in estimators], rule=rule, **swap)
        return [pair.doubt for pair in exchange.pairs if pair.doubt]

    def test_noise_taken_for_exact(self):
        (words,) = self.doubts(metropolis(), noisy(1.0), noisy(1.0))
        assert "treats noisy energies as exact" in words
        assert not self.doubts(metropolis(), noisy(1.0), noisy(1.0), energies="exact")
        assert not self.doubts(metropolis(), exact(), exact())

    @pytest.mark.parametrize("rule", [state_dependent_penalty(equalize=False), noise_penalty(equalize=False)])
    def test_variances_that_change_at_a_swap(self, rule):
        (words,) = self.doubts(rule, noisy(1.0), noisy(self.rising))
        assert "rungs 0 and 1" in words and "may change at a swap" in words
        assert not self.doubts(rule, noisy(1.0), noisy(2.0))
        assert not self.doubts(rule, noisy(self.rising), noisy(self.rising))

    @pytest.mark.parametrize(
        "rule", [None, state_dependent_penalty(), noise_penalty(), multi_variance(0.5), product_target()]
    )
    def test_none_about_the_rest(self, rule):
        assert not self.doubts(rule, noisy(1.0), noisy(self.rising))


class TestPairs:
    def test_no_pair_depends_on_another(self):
        """The cold pair swaps by the same random numbers whatever the hot pair does, or learns, or draws."""
        found = []
        for hottest, estimator in ((fine, exact()), (coarse, exact()), (coarse, noisy(2.0, 2.0))):
            settings = [{}, {}, {"estimator": estimator}]
            rungs, exchange = ladder((fine, fine, hottest), (1.0, 2.0, 4.0), settings=settings, scheme=adjacent())
            # the hot pair swaps first, then the cold one
            exchange._meet(1)
            first = exchange.pairs[0]
            thresholds = [first.log_uniform() for _ in range(5)]
            found.append((thresholds, first.state().added.random(5), rungs[0].position))
        for accept, added, position in found[1:]:
            np.testing.assert_array_equal(accept, found[0][0])
            np.testing.assert_array_equal(added, found[0][1])
            np.testing.assert_array_equal(position, found[0][2])

    @pytest.mark.parametrize("functions", [(fine, fine, fine), (fine, coarse, coarse)])
    def test_goes_on_from_a_state(self, functions):
        """Positions and estimates are those of the rungs; all else is in the state."""

        def fresh(seed):
            return ladder(functions, (1.0, 2.0, 4.0), fraction=0.5, scheme=seo(), seed=seed)

        rungs, whole = fresh(0)
        for _ in range(7):
            swap(whole)
        state = whole.state()
        others, resumed = fresh(1)
        for rung, other in zip(rungs, others, strict=True):
            other.position, other.estimate = rung.position.copy(), rung.estimate
        resumed.restore(state)
        for _ in range(20):
            swap(whole)
            swap(resumed)
        for rung, other in zip(rungs, others, strict=True):
            np.testing.assert_array_equal(rung.position, other.position)
        for pair, other in zip(whole.pairs, resumed.pairs, strict=True):
            np.testing.assert_equal(other.state()[-6:], pair.state()[-6:])
        assert (resumed.solves, resumed.round_trips) == (whole.solves, whole.round_trips)
        np.testing.assert_array_equal(where(resumed), where(whole))
