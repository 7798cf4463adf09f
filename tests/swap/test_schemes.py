"""Who meets whom."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.problems.mixtures import two_modes
from invsamp.swap.schemes import DeterministicEvenOdd, adjacent, all_pairs, deo, seo, sweep, window_of


def meetings(scheme, rungs, attempts=400):
    rng = np.random.default_rng(0)
    return [list(scheme.pairs(k, rungs, rng)) for k in range(attempts)]


@pytest.mark.parametrize("scheme", [adjacent(), seo(), deo()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("rungs", [2, 3, 4, 7])
def test_pairs_are_disjoint_neighbours_and_all_have_their_turn(scheme, rungs):
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
    assert (window_of(deo(3)), window_of(deo()), window_of(seo())) == (3, 1, 1)
    assert deo() == DeterministicEvenOdd(1) and "approximate" in str(deo(4))
    with pytest.raises(ValueError, match="window must be"):
        deo(0)


def test_a_sweep_is_all_pairs_of_neighbours_in_turn():
    assert meetings(sweep(), 5, 2) == [[0, 1, 2, 3]] * 2


def test_any_two_rungs():
    rng = np.random.default_rng(0)
    drawn = {all_pairs().pair(4, rng) for _ in range(200)}
    assert drawn == {(i, j) for i in range(4) for j in range(i + 1, 4)}
    with pytest.raises(ValueError, match="scheme must be a swap scheme, such as deo"):
        iv.Swap(scheme=all_pairs())


class TestWindowsAtWork:
    def test_a_pair_swaps_once_in_a_window_at_the_most(self, draw):
        """Of equal rungs every attempt is accepted: one in four steps, in each chain."""
        flat = iv.Target(iv.FunctionPotential(lambda x: (0.0 * x[:, 0], 0.0 * x), 1))
        sampler = iv.relangevin((1.0, 2.0), 0.1, adjusted=False, scheme=deo(4), swap_fraction=1.0)
        run = draw(flat, sampler, draws=40, warmup=0, chains=3)
        assert run.report["swap_accepts"] == run.report["swap_attempts"] == [30]
        assert "DEO with window 4 (approximate)" in run.report["warnings"][0]

    def test_the_draws_are_biased_where_moves_are_slow(self, draw, agrees):
        """A mode's weight of .6; .502 by the operator with W = 8."""
        found = {}
        for scheme in (deo(), deo(8)):
            sampler = iv.relangevin((1.0, 10.0), 0.1, scheme=scheme, swap_fraction=1.0, preconditioner=None)
            run = draw(iv.Target(two_modes()), sampler, draws=250, thin=4, warmup=500)
            found[scheme] = (run.theta[..., 0] > 0.0).mean(axis=1)
        assert agrees(found[deo()], 0.6)
        assert not agrees(found[deo(8)], 0.6)
