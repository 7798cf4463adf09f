"""Who holds which rungs, and who helps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invsamp.parallel.layout import arrange

costs = st.floats(0.01, 100.0)


def alone(*seconds):
    """Rungs that no one can help with."""
    return [[s] for s in seconds]


def scaling(ranks, *seconds):
    """Rungs that share perfectly."""
    return [[s / n for n in range(1, ranks + 1)] for s in seconds]


def slowest(seconds, groups):
    return max(sum(seconds[k][len(group.ranks) - 1] for k in group.rungs) for group in groups)


def test_one_rung_for_each():
    groups = arrange(alone(1.0, 1.0, 1.0), 3)
    assert [(list(g.rungs), list(g.ranks)) for g in groups] == [([0], [0]), ([1], [1]), ([2], [2])]


def test_few_ranks_balance_blocks_of_rungs():
    groups = arrange(alone(10.0, 1.0, 1.0, 1.0), 2)
    assert [list(g.rungs) for g in groups] == [[0], [1, 2, 3]]
    assert [list(g.rungs) for g in arrange(alone(1.0, 1.0, 1.0, 3.0), 2)] == [[0, 1, 2], [3]]


def test_spare_ranks_go_where_the_time_goes():
    groups = arrange([[s / n + 0.1 * (n > 1) for n in range(1, 7)] for s in (4.0, 1.0, 1.0)], 6)
    assert [len(g.ranks) for g in groups] == [4, 1, 1]
    # a rung that cannot be shared keeps its one rank, and the others theirs: nothing would be faster
    assert [len(g.ranks) for g in arrange(alone(4.0, 1.0), 5)] == [1, 1]


def test_one_rank_holds_all():
    ((rungs, ranks),) = arrange(alone(3.0, 2.0), 1)
    assert list(rungs) == [0, 1] and list(ranks) == [0]


@given(st.lists(costs, min_size=1, max_size=5), st.integers(1, 6), st.booleans())
def test_no_layout_is_faster(seconds, ranks, shares):
    """Against all layouts, one by one."""
    table = scaling(ranks, *seconds) if shares else alone(*seconds)
    groups = arrange(table, ranks)
    assert [k for group in groups for k in group.rungs] == list(range(len(seconds)))
    assert [r for group in groups for r in group.ranks] == list(range(sum(len(group.ranks) for group in groups)))
    best = min(
        max(sum(table[k][n - 1] for k in range(*ends)) for ends, n in zip(blocks, sizes, strict=True))
        for blocks in partitions(len(seconds))
        for sizes in itertools.product(range(1, len(table[0]) + 1), repeat=len(blocks))
        if sum(sizes) <= ranks
    )
    assert slowest(table, groups) == pytest.approx(best, rel=1e-12)


def partitions(rungs):
    """All ways to cut a ladder: (begin, end) of each block."""
    for cuts in itertools.product([False, True], repeat=rungs - 1):
        ends = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), rungs]
        yield list(itertools.pairwise(ends))


@pytest.mark.parametrize(
    ("seconds", "ranks", "match"),
    [([], 1, "needs rungs"), ([[1.0], []], 1, "needs rungs"), ([[1.0]], 0, "at least one rank"), ([[0.0]], 1, "pos")],
)
def test_refuses(seconds, ranks, match):
    with pytest.raises(ValueError, match=match):
        arrange(seconds, ranks)
