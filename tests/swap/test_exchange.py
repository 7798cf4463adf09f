"""The swap itself: what it evaluates, what it moves, what it counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from invsamp.diagnostics import round_trips
from invsamp.domains import Unbounded
from invsamp.engine.evaluation import Evaluator
from invsamp.engine.replica import Replica
from invsamp.estimators import Estimate, exact, noisy
from invsamp.ladder import GradientNoise, Rung, Swap
from invsamp.posing.potential import FunctionPotential
from invsamp.swap.discrepancy import Discrepancy
from invsamp.swap.exchange import Exchange
from invsamp.swap.meeting import Meeting
from invsamp.swap.rules import corrected, delayed_acceptance, fast, multi_variance, naive, product_target
from invsamp.swap.schemes import adjacent, deo, seo
from invsamp.swap.side import LocalSide
from invsamp.swap.walkers import Walkers
from invsamp.variances.models import running_average

RULES = {
    "naive": naive(assume_unbiased=True),
    "corrected": corrected(assume_unbiased=True),
    "fast": fast(assume_unbiased=True),
    "multi_variance": multi_variance(0.5, assume_unbiased=True),
    "product_target": product_target(),
    "delayed_acceptance": delayed_acceptance(),
}


def fine(position):
    return 0.5 * (position**2).sum(axis=1), position.copy()


def coarse(position):
    away = position - 0.4
    return 0.7 * (away**2).sum(axis=1) + 0.3, 1.4 * away


def ladder(functions, temperatures=(1.0, 4.0), chains=64, rungs=None, rule=None, seed=0, **swap):
    """Replicas on the given functions, at normal positions, and their exchange; equal functions share an evaluator."""
    evaluators = {f: Evaluator(FunctionPotential(f, 2), f.__name__) for f in functions}
    root = np.random.SeedSequence(seed)
    swap_seed, *seeds = root.spawn(len(functions) + 1)
    replicas = []
    for k, (function, temperature) in enumerate(zip(functions, temperatures, strict=True)):
        settings = {"step_size": 0.1} | (rungs[k] if rungs else {})
        replica = Replica(Rung(temperature, **settings), evaluators[function], Unbounded(), seeds[k])
        replica.start(math.sqrt(temperature) * np.random.default_rng(k).standard_normal((chains, 2)))
        replica.step_size = 0.1
        replicas.append(replica)
    return replicas, Exchange(Swap(rule, **({"fraction": 1.0} | swap)), replicas, swap_seed)


def accept_seed(seed):
    """Of the acceptances of the first pair, from that of the exchange."""
    return seed.spawn(3)[2].spawn(2)[0]


def where(exchange):
    """Who is where (rungs, chains)."""
    return np.stack([walkers.replica for walkers in exchange.walkers.values()])


def sides(replicas):
    walkers = [Walkers.at(k, 2, len(replicas[0].position)) for k in range(2)]
    return [LocalSide(replica, walkers[k], k, 2) for k, replica in enumerate(replicas)]


class TestRules:
    def test_default_is_exact_for_one_and_for_two_fidelities(self):
        _, exchange = ladder((fine, coarse, coarse), (1.0, 2.0, 4.0))
        assert exchange.rules == [delayed_acceptance(Discrepancy()), fast()]

    @pytest.mark.parametrize("hot", [fine, coarse])
    @pytest.mark.parametrize("name", RULES)
    def test_swaps_happen_exactly_where_the_equation_says(self, name, hot):
        """Accepted chains, recomputed from the energies and the same uniform numbers."""
        replicas, exchange = ladder((fine, hot), rule=RULES[name])
        t_c, t_h = (r.position.copy() for r in replicas)
        cc, ch, hh, hc = fine(t_c)[0], fine(t_h)[0], hot(t_h)[0], hot(t_c)[0]
        if name in ("naive", "corrected", "fast"):
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
        exchange.step()
        np.testing.assert_array_equal((replicas[0].position == t_h).all(axis=1), wanted)
        np.testing.assert_array_equal((replicas[1].position == t_c).all(axis=1), wanted)
        assert 0 < wanted.sum() < 64
        assert exchange.accepts.tolist() == [wanted.sum()]
        assert exchange.attempts.tolist() == [64]

    def test_two_stages_accept_as_often_as_their_product(self):
        """Delayed acceptance pays for its cheapness with min(1, a) min(1, b) <= min(1, a b)."""
        accepts = {}
        for name in ("product_target", "delayed_acceptance"):
            _, exchange = ladder((fine, coarse), rule=RULES[name], chains=5000)
            exchange.step()
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
        exchange.step()
        other.step()
        np.testing.assert_array_equal(plain[0].position, shifted[0].position)


class TestSolves:
    """What an attempt costs: (cold solves, hot solves)."""

    def attempt(self, functions, rule, **settings):
        replicas, exchange = ladder(functions, rule=rule, **settings)
        before = [replica.evaluator.evaluations for replica in replicas]
        exchange.step()
        spent = [replica.evaluator.evaluations - b for replica, b in zip(replicas, before, strict=True)]
        for replica in replicas:
            assert exchange.solves[replica.evaluator.fidelity] == spent[replicas.index(replica)]
        return spent, int(exchange.accepts[0]), replicas

    @pytest.mark.parametrize("name", RULES)
    def test_one_fidelity_makes_none(self, name):
        spent, accepts, _ = self.attempt((fine, fine), RULES[name])
        assert spent == [0, 0]
        assert accepts > 0

    @pytest.mark.parametrize("name", ["product_target", "multi_variance"])
    def test_crossed_solves_are_made_once(self, name):
        spent, accepts, _ = self.attempt((fine, coarse), RULES[name])
        assert spent == [64, 64]
        assert accepts > 0

    def test_delayed_acceptance_solves_the_fine_model_only_where_the_coarse_agrees(self):
        spent, accepts, _ = self.attempt((fine, coarse), delayed_acceptance())
        # the first stage, recomputed with the same uniform numbers
        rng = np.random.default_rng(accept_seed(np.random.SeedSequence(0).spawn(1)[0]))
        positions = [r.position for r in ladder((fine, coarse))[0]]
        passed = np.log1p(-rng.random(64)) < 0.75 * (coarse(positions[0])[0] - coarse(positions[1])[0])
        assert spent == [passed.sum(), 64]
        assert 0 < accepts < passed.sum() < 64

    def test_own_energies_of_two_fidelities_are_solved_after_the_swap(self):
        spent, accepts, _ = self.attempt((fine, coarse), RULES["fast"])
        assert spent == [accepts, accepts]

    def test_noisy_energies_are_drawn_afresh(self):
        rungs = [{"estimator": noisy(1.0, 1.0)}] * 2
        spent, accepts, replicas = self.attempt((fine, fine), fast(), rungs=rungs)
        assert replicas[0].evaluator is replicas[1].evaluator
        assert spent == [128, 128]
        assert accepts > 0


class TestExchanged:
    @pytest.mark.parametrize("functions", [(fine, fine), (fine, coarse)])
    @pytest.mark.parametrize("name", RULES)
    def test_estimates_belong_to_the_new_positions(self, name, functions):
        replicas, exchange = ladder(functions, rule=RULES[name])
        for _ in range(5):
            exchange.step()
            for replica, function in zip(replicas, functions, strict=True):
                energy, gradient = function(replica.position)
                np.testing.assert_allclose(replica.estimate.energy, energy, rtol=1e-14)
                np.testing.assert_allclose(replica.estimate.gradient, gradient, rtol=1e-14)

    def test_positions_are_permuted_within_each_chain(self):
        replicas, exchange = ladder((fine, coarse, coarse, coarse), (1.0, 2.0, 4.0, 8.0))
        before = np.stack([r.position for r in replicas])
        for _ in range(10):
            exchange.step()
        after = np.stack([r.position for r in replicas])
        np.testing.assert_array_equal(np.sort(before, axis=0), np.sort(after, axis=0))
        chains = np.arange(64)
        np.testing.assert_array_equal(after, before[where(exchange), chains])

    def test_swapping_twice_restores(self):
        """At equal energies every swap is accepted, so two of them undo each other."""

        def flat(position):
            return np.zeros(len(position)), np.zeros_like(position)

        replicas, exchange = ladder((flat, flat))
        before = [r.position for r in replicas]
        exchange.step()
        assert not (replicas[0].position == before[0]).any()
        exchange.step()
        for replica, position in zip(replicas, before, strict=True):
            np.testing.assert_array_equal(replica.position, position)
        assert exchange.accepts.tolist() == [128]
        assert (where(exchange) == [[0], [1]]).all()

    def test_noise_in_different_forms_is_not_handed_over(self):
        """A rung that wants a full covariance must not be given the other's isotropic variance."""
        rungs = [
            {"estimator": noisy(0.1, 1.0), "gradient_noise": GradientNoise(structure=form)}
            for form in ("full", "isotropic")
        ]
        replicas, exchange = ladder((fine, fine), rungs=rungs)
        for _ in range(3):
            exchange.step()
            for replica in replicas:
                replica.step()
        assert replicas[0].estimate.gradient_variance.shape == (64, 2, 2)
        assert replicas[1].estimate.gradient_variance.shape == (64,)

    def test_arrays_of_the_potential_are_left_alone(self):
        returned = []

        def remembering(position):
            energy, gradient = fine(position)
            returned.append((energy, energy.copy(), gradient, gradient.copy()))
            return energy, gradient

        _, exchange = ladder((remembering, coarse))
        exchange.step()
        for energy, energy_then, gradient, gradient_then in returned:
            np.testing.assert_array_equal(energy, energy_then)
            np.testing.assert_array_equal(gradient, gradient_then)


class TestInfiniteEnergies:
    def walled(self, position):
        energy, gradient = fine(position)
        return np.where(position[:, 0] > 0.5, np.nan, energy), gradient

    @pytest.mark.parametrize("name", ["multi_variance", "product_target", "delayed_acceptance"])
    @pytest.mark.filterwarnings("error")
    def test_never_swap_and_never_warn(self, name):
        def walled(position):
            return self.walled(position)

        replicas, exchange = ladder((walled, coarse), rule=RULES[name], chains=500)
        cold = replicas[0]
        start = cold.position.copy()
        start[:, 0] = -np.abs(start[:, 0])
        cold.start(start)
        for _ in range(4):
            exchange.step()
            assert np.isfinite(cold.estimate.energy).all()
            assert (cold.position[:, 0] <= 0.5).all()
        assert exchange.accepts[0] > 0

    @pytest.mark.parametrize("name", RULES)
    @pytest.mark.filterwarnings("error")
    def test_on_both_sides(self, name):
        """inf - inf is no swap, not nan."""

        def hopeless(position):
            return np.full(len(position), np.nan), np.zeros_like(position)

        replicas, exchange = ladder((hopeless, hopeless), rule=RULES[name])
        before = replicas[0].position.copy()
        exchange.step()
        np.testing.assert_array_equal(replicas[0].position, before)
        assert exchange.accepts.tolist() == [0]


class Offset:
    """Estimator whose energy noise is given for each chain: a quadrature grid in place of random numbers."""

    def __init__(self, offsets, variance):
        self.offsets, self.variance = offsets, variance

    def bind(self, potential, structure):
        outer = self

        class Bound:
            exact, exact_energy, degrees_of_freedom = False, False, None

            def estimate(self, rng, position):
                return Estimate(*potential.energy_and_gradient(position), np.full(len(position), outer.variance))

            def energy(self, rng, position):
                return potential.energy(position) + outer.offsets, np.full(len(position), outer.variance)

        return Bound()


class TestNoisyRatio:
    """E[min(1, S)] as the code computes it, over a fine grid of both rungs' noise."""

    variances = 1.2, 2.5

    def acceptance(self, rule, positions):
        z = np.linspace(-7.0, 7.0, 401)
        weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
        grid = [axis.ravel() for axis in np.meshgrid(z, z, indexing="ij")]
        rungs = [{"estimator": Offset(math.sqrt(v) * g, v)} for v, g in zip(self.variances, grid, strict=True)]
        replicas, _ = ladder((fine, fine), rungs=rungs, rule=rule, chains=len(grid[0]))
        for replica, position in zip(replicas, positions, strict=True):
            replica.start(np.tile(position, (len(grid[0]), 1)))
        (stage,) = rule.stages(1.0, 4.0)
        ratio, _ = Meeting(*sides(replicas), rule, same=True).log_ratio(stage, np.arange(len(grid[0])))
        return np.outer(weight, weight).ravel() @ np.minimum(1.0, np.exp(ratio))

    def test_penalty_keeps_detailed_balance(self):
        a, b = np.array([1.0, -0.5]), np.array([0.3, 0.4])
        d = 0.75 * float(fine(a[None])[0][0] - fine(b[None])[0][0])
        there, back = self.acceptance(fast(), (a, b)), self.acceptance(fast(), (b, a))
        assert there == pytest.approx(math.exp(d) * back, rel=2e-4)
        v = 0.75**2 * sum(self.variances)
        closed = ndtr((d - v / 2) / math.sqrt(v)) + math.exp(d) * ndtr(-(d + v / 2) / math.sqrt(v))
        assert there == pytest.approx(closed, rel=2e-4)
        # without it, and with half of it
        for rule in (naive(), corrected(2.0)):
            there, back = self.acceptance(rule, (a, b)), self.acceptance(rule, (b, a))
            assert abs(there / (math.exp(d) * back) - 1.0) > 0.05


class TestAttempts:
    def test_fraction(self):
        _, exchange = ladder((fine, coarse), fraction=0.2, chains=1)
        for _ in range(5000):
            exchange.step()
        # 4.4 standard deviations of 28
        assert abs(exchange.attempts[0] - 1000) < 125

    def test_waits_for_the_variances_of_both_rungs(self):
        rungs = [{}, {"estimator": noisy(0.5, 0.0), "energy_variance": running_average()}]
        replicas, exchange = ladder((fine, fine), rungs=rungs)
        exchange.step()
        assert exchange.attempts.tolist() == [0]
        replicas[1].train()
        exchange.step()
        assert exchange.attempts.tolist() == [64]

    def test_reset_forgets_the_counts_but_not_who_is_where(self):
        _, exchange = ladder((fine, coarse, coarse), (1.0, 2.0, 4.0))
        for _ in range(20):
            exchange.step()
        before = where(exchange)
        assert exchange.round_trips > 0
        exchange.reset()
        assert exchange.round_trips == exchange.attempts.sum() == exchange.accepts.sum() == 0
        assert set(exchange.solves.values()) == {0}
        np.testing.assert_array_equal(where(exchange), before)

    def test_weight_of_multi_variance_comes_from_the_learnt_variances(self):
        rungs = [{"estimator": noisy(sd, 0.0)} for sd in (1.0, 3.0)]
        _, exchange = ladder((fine, coarse), rungs=rungs, rule=multi_variance(assume_unbiased=True))
        exchange.resolve()
        assert exchange.rules[0].weight == pytest.approx(0.9)


@pytest.mark.parametrize("scheme", [deo(), seo(), adjacent()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("rungs", [2, 3, 5])
def test_round_trips_agree_with_the_stored_path(scheme, rungs):
    replicas, exchange = ladder(
        [fine] * rungs, tuple(1.3**k for k in range(rungs)), chains=20, scheme=scheme, fraction=0.7
    )
    path = [np.argsort(where(exchange), axis=0)]
    for k in range(400):
        if k == 100:
            exchange.reset()
            path = path[-1:]
        exchange.step()
        path.append(np.argsort(where(exchange), axis=0))
        for replica in replicas:
            replica.step()
    assert exchange.round_trips == round_trips(np.array(path), rungs)
    assert exchange.round_trips > 50


class TestDoubts:
    """Rules that are known to be wrong for the energies at hand say so."""

    def rising(self, position, energy):
        return 1.0 / (1.0 + np.exp(-position[:, 0]))

    def doubts(self, rule, *estimators, **swap):
        _, exchange = ladder((fine, fine), rungs=[{"estimator": e} for e in estimators], rule=rule, **swap)
        return exchange.doubts

    def test_noise_taken_for_exact(self):
        (words,) = self.doubts(naive(), noisy(1.0), noisy(1.0))
        assert "takes noisy energies for exact ones" in words
        assert not self.doubts(naive(), noisy(1.0), noisy(1.0), energies="exact")
        assert not self.doubts(naive(), exact(), exact())

    @pytest.mark.parametrize("rule", [fast(equalise=False), corrected(equalise=False)])
    def test_variances_that_change_at_a_swap(self, rule):
        (words,) = self.doubts(rule, noisy(1.0), noisy(self.rising))
        assert "rungs 0 and 1" in words and "may change at a swap" in words
        assert not self.doubts(rule, noisy(1.0), noisy(2.0))
        assert not self.doubts(rule, noisy(self.rising), noisy(self.rising))

    @pytest.mark.parametrize("rule", [None, fast(), corrected(), multi_variance(0.5), product_target()])
    def test_none_about_the_rest(self, rule):
        assert not self.doubts(rule, noisy(1.0), noisy(self.rising))


class TestPairs:
    def test_no_pair_depends_on_another(self):
        """The cold pair swaps by the same random numbers whatever the hot pair does, or learns, or draws."""
        found = []
        for hottest, estimator in ((fine, exact()), (coarse, exact()), (coarse, noisy(2.0, 2.0))):
            rungs = [{}, {}, {"estimator": estimator}]
            replicas, exchange = ladder((fine, fine, hottest), (1.0, 2.0, 4.0), rungs=rungs, scheme=adjacent())
            # the hot pair meets first, then the cold one
            exchange._meet(1)
            state = exchange.state()["pairs"][0]["streams"]
            found.append((state["accept"].random(5), state["added"].random(5), replicas[0].position))
        for accept, added, position in found[1:]:
            np.testing.assert_array_equal(accept, found[0][0])
            np.testing.assert_array_equal(added, found[0][1])
            np.testing.assert_array_equal(position, found[0][2])

    @pytest.mark.parametrize("functions", [(fine, fine, fine), (fine, coarse, coarse)])
    def test_goes_on_from_a_state(self, functions):
        """Positions and estimates are those of the replicas; all else is in the state."""

        def fresh(seed):
            return ladder(functions, (1.0, 2.0, 4.0), fraction=0.5, scheme=seo(), seed=seed)

        replicas, whole = fresh(0)
        for _ in range(7):
            whole.step()
        state = whole.state()
        others, resumed = fresh(1)
        for replica, other in zip(replicas, others, strict=True):
            other.position, other.estimate = replica.position.copy(), replica.estimate
        resumed.restore(state)
        for _ in range(20):
            whole.step()
            resumed.step()
        for replica, other in zip(replicas, others, strict=True):
            np.testing.assert_array_equal(replica.position, other.position)
        for counts in ("attempts", "accepts", "first_stage_accepts", "log_ratio_sd"):
            np.testing.assert_array_equal(getattr(resumed, counts), getattr(whole, counts))
        assert (resumed.solves, resumed.round_trips) == (whole.solves, whole.round_trips)
        np.testing.assert_array_equal(where(resumed), where(whole))
