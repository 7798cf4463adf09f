"""Who meets whom."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.swap.schemes import adjacent, deo, seo


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
