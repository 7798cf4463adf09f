"""Which rungs attempt a swap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import invsamp as iv
from invsamp.diagnostics.index_process import simulate
from invsamp.problems.mixtures import GaussianMixture, two_modes
from invsamp.swaps.schemes import DeterministicEvenOdd, SwapScheme, Upwards, adjacent, all_pairs, deo, seo, sweep

MODES = two_modes()


def meetings(scheme, rungs, attempts=400):
    rng = np.random.default_rng(0)
    """Lower rungs of the neighbors that meet."""
    found = [scheme.pairs(k, rungs, rng) for k in range(attempts)]
    assert all(j == i + 1 for pairs in found for i, j in pairs)
    return [[i for i, _ in pairs] for pairs in found]


@pytest.mark.parametrize("scheme", [adjacent(), seo(), deo()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("rungs", [2, 3, 4, 7])
def test_pairs_are_disjoint_neighbors_and_all_have_their_turn(scheme, rungs):
    met = set()
    for pairs in meetings(scheme, rungs):
        assert pairs
        members = [rung for k in pairs for rung in (k, k + 1)]
        assert len(set(members)) == len(members)
        assert min(members) >= 0
        assert max(members) < rungs
        met.update(pairs)
    assert met == set(range(rungs - 1))


def test_deo_alternates():
    assert meetings(deo(), 6, 4) == [[0, 2, 4], [1, 3], [0, 2, 4], [1, 3]]
    assert meetings(deo(), 2, 3) == [[0], [0], [0]]


def test_seo_tosses_a_fair_coin(within):
    even = sum(pairs == [0, 2] for pairs in meetings(seo(), 4))
    # 4.4 standard deviations of 10: false alarms once in 100,000
    assert within(even - 200, 44)


def test_adjacent_is_uniform(within):
    counts = np.bincount([pair for (pair,) in meetings(adjacent(), 5)], minlength=4)
    # 4.7 standard deviations of 8.7, for four counts
    assert within(counts - 100, 41)


def test_a_window_is_so_many_attempts_of_one_parity():
    found = meetings(deo(window=3), 5, 7)
    assert found == [[0, 2]] * 3 + [[1, 3]] * 3 + [[0, 2]]
    assert (deo(3).window, deo().window, seo().window) == (3, 1, 1)
    assert deo() == DeterministicEvenOdd(1) and "approximate" in str(deo(4))
    with pytest.raises(ValueError, match="window must be"):
        deo(0)


def test_a_sweep_is_all_pairs_of_neighbors_in_turn():
    assert meetings(sweep(), 5, 2) == [[0, 1, 2, 3]] * 2


def test_upwards_expensive_pairs_swap_rarely_and_all_beyond_in_turn():
    found = meetings(Upwards(2, 3), 6, 9)
    assert [pairs[0] for pairs in found] == [2, 2, 1, 2, 2, 1, 2, 2, 0] and Upwards(2, 3).period == 9
    assert [pairs[1:] for pairs in found[:4]] == [[3], [4], [3], [4]]


class TestAnyTwoRungs:
    SAMPLER = iv.samplers.parallel_tempering((1.0, 2.0, 4.0, 8.0), 0.1, scheme=all_pairs(), preconditioner=None)

    def test_all_pairs_are_drawn_alike(self, within):
        rng = np.random.default_rng(0)
        drawn = [pair for _ in range(600) for pair in all_pairs().pairs(0, 4, rng)]
        counts = np.array([drawn.count((i, j)) for i in range(4) for j in range(i + 1, 4)])
        # 4.8 standard deviations of 9.1, for six counts
        assert counts.sum() == 600 and within(counts - 100, 44)

    def test_rungs_that_are_no_neighbors_are_counted_apart(self, draw):
        run = draw(iv.Target(MODES), self.SAMPLER, draws=60, warmup=20)
        apart = run.report["swaps_apart"]
        assert [attempt[:2] for attempt in apart] == [[0, 2], [0, 3], [1, 3]]
        assert all(met > accepted > 0 for _, _, met, accepted in apart)
        # one pair at each of the meetings after a step
        met = sum(run.report["swap_attempts"]) + sum(attempt[2] for attempt in apart)
        assert met == run.report["swap_parities"] * 60 * 256

    def test_of_two_fidelities(self, draw, agrees):
        """Of which the coarse one has its weights turned round; a swap of any two costs solves."""
        target = iv.Target({"coarse": GaussianMixture((0.8, 0.2), (-4.2, 2.8), (0.7, 0.5)), "fine": MODES})
        sampler = iv.samplers.parallel_tempering(
            (1.0, 3.0, 9.0), 0.1, scheme=all_pairs(), fidelities=(0, 0, 1), swap_fraction=1.0, preconditioner=None
        )
        run = draw(target, sampler, draws=200, thin=4, warmup=300)
        assert agrees((run.theta[..., 0] > 0.0).mean(axis=1), 0.6)
        assert not agrees((run.rung_theta(2)[..., 0] > 0.0).mean(axis=1), 0.6)
        assert run.report["swaps_apart"][0][3] > 0

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_it_is_resumed_to_the_bit(self, tmp_path):
        settings = {"warmup": 30, "chains": 3, "seed": 3, "progress": False}
        whole = iv.sample(iv.Target(MODES), self.SAMPLER, draws=30, **settings)
        iv.sample(iv.Target(MODES), self.SAMPLER, draws=11, directory=tmp_path / "run", **settings)
        run = iv.resume(tmp_path / "run", iv.Target(MODES), draws=30, progress=False)
        np.testing.assert_array_equal(run.theta, whole.theta)
        assert run.report["swaps_apart"] == whole.report["swaps_apart"]


@dataclass(frozen=True)
class NextButOne(SwapScheme):
    """Pairs (k, k + 2) of every other rung, which so are a ladder of their own."""

    window: int = 1
    reach = 2

    def pairs(self, attempt, rungs, rng):
        return [(k, k + 2) for k in range(2 * (attempt // self.window % 2), rungs - 2, 4)]


class TestSchemesOfUsers:
    """A scheme declares how far its pairs reach, and the window of a pair: no class is special."""

    def sampler(self, scheme):
        return iv.samplers.parallel_tempering((1.0, 2.0, 3.0, 6.0, 9.0), 0.1, scheme=scheme, preconditioner=None)

    def test_rungs_that_are_no_neighbors_give_the_modes_their_weights(self, draw, agrees):
        """Every second rung is left out, and the modes' weights are right; with windows of 16 attempts they are not."""
        settings = {"draws": 250, "thin": 4, "warmup": 200, "chains": 400}
        run = draw(iv.Target(MODES), self.sampler(NextButOne()), **settings)
        assert run.report["swap_attempts"] == [0] * 4
        assert [met > 0 for *_, met, _ in run.report["swaps_apart"]] == [True, False, True]
        assert agrees((run.theta[..., 0] > 0.0).mean(axis=1), 0.6)
        biased = draw(iv.Target(MODES), self.sampler(NextButOne(16)), **settings)
        assert not agrees((biased.theta[..., 0] > 0.0).mean(axis=1), 0.6)
        assert "gates of windows" in biased.report["sampler"]

    def test_a_pair_beyond_the_reach_is_refused(self):
        @dataclass(frozen=True)
        class Neighbors(SwapScheme):
            def pairs(self, attempt, rungs, rng):
                return [(0, 2)]

        with pytest.raises(ValueError, match=r"the 5 rungs with i < j <= i \+ 1 \(its reach\), got \[\(0, 2\)\]"):
            iv.sample(iv.Target(MODES), self.sampler(Neighbors()), draws=2, warmup=2, progress=False)

    @pytest.mark.parametrize(("name", "value"), [("reach", 0), ("reach", 1.5), ("window", 0)])
    def test_what_a_scheme_declares_is_checked(self, name, value):
        scheme = type("Wrong", (NextButOne,), {name: value, "__init__": lambda self: None})()
        with pytest.raises(ValueError, match=f"{name} of the scheme must be"):
            self.sampler(scheme)

    def test_windows_gate_each_pair_in_the_index_process(self):
        """Of rungs of which all attempts are accepted each pair swaps once in a window."""
        travels = simulate(NextButOne(4), (0.0,) * 4, 16, np.random.default_rng(0))
        moved = np.count_nonzero(np.diff(travels.path, axis=0), axis=(1, 2))
        assert moved.tolist() == [2, 0, 0, 0] * 4


class TestWindowsAtWork:
    def test_a_pair_swaps_once_in_a_window_at_the_most(self, draw):
        """Of equal rungs every attempt is accepted: one in four steps, in each chain."""
        flat = iv.Target(iv.extending.FunctionPotential(lambda x: (0.0 * x[:, 0], 0.0 * x), 1))
        sampler = iv.samplers.parallel_tempering((1.0, 2.0), 0.1, adjusted=False, scheme=deo(4), swap_fraction=1.0)
        run = draw(flat, sampler, draws=40, warmup=0, chains=3)
        assert run.report["swap_accepts"] == run.report["swap_attempts"] == [30]
        assert "DEO with window 4 (approximate)" in run.report["warnings"][0]
