"""Round trips, counted by what travels with the walkers."""

from __future__ import annotations

import numpy as np

from invsamp.engine.swaps.walkers import Walkers


def swap(ladder, cold, rows):
    """Rungs ``cold`` and ``cold + 1`` exchange their chains ``rows``."""
    pair = ladder[cold : cold + 2]
    for rung, own, other in ((cold, *pair), (cold + 1, *pair[::-1])):
        ladder[rung] = own.arrive(rows, other.take(rows), rung, len(ladder))


def test_a_round_trip_counts_at_both_ends():
    ladder = [Walkers.at(k, 3, 2) for k in range(3)]
    rows = np.array([1])
    # walker 0 goes up to the top and down again; walker 2 goes down and up
    for cold in (0, 1):
        swap(ladder, cold, rows)
    assert [int(walkers.replica[1]) for walkers in ladder] == [1, 2, 0]
    assert sum(walkers.round_trips for walkers in ladder) == 0
    for cold in (1, 0):
        swap(ladder, cold, rows)
    assert [int(walkers.replica[1]) for walkers in ladder] == [0, 1, 2]
    assert sum(walkers.round_trips for walkers in ladder) == 1
    # the other chain stayed where it was
    assert [int(walkers.replica[0]) for walkers in ladder] == [0, 1, 2]


def test_reset_forgets_trips_but_not_who_is_where():
    ladder = [Walkers.at(k, 2, 1) for k in range(2)]
    rows = np.array([0])
    swap(ladder, 0, rows)
    ladder = [walkers.reset(k, 2) for k, walkers in enumerate(ladder)]
    swap(ladder, 0, rows)
    assert sum(walkers.round_trips for walkers in ladder) == 0
    assert [int(walkers.replica[0]) for walkers in ladder] == [0, 1]
    swap(ladder, 0, rows)
    assert sum(walkers.round_trips for walkers in ladder) == 2


def test_arrays_are_left_alone():
    walkers = Walkers.at(0, 2, 3)
    before = [part.copy() for part in walkers]
    walkers.arrive(np.array([2]), Walkers.at(1, 2, 1), 0, 2)
    for part, then in zip(walkers, before, strict=True):
        np.testing.assert_array_equal(part, then)
