"""Round trips, counted by what travels with the walkers."""

from __future__ import annotations

import numpy as np

from invsamp.engine.swaps.walkers import Walkers


def swapped(walkers, cold, chain):
    """Rungs ``cold`` and ``cold + 1`` exchange a chain."""
    rungs, chains = walkers.replica.shape
    source = np.tile(np.arange(rungs)[:, None], chains)
    source[cold : cold + 2, chain] = cold + 1, cold
    return walkers.arrive(source)


def test_a_round_trip_counts_at_both_ends():
    walkers = Walkers.at(3, 2)
    # walker 0 goes up to the top and down again; walker 2 goes down and up
    for cold in (0, 1):
        walkers = swapped(walkers, cold, 1)
    assert walkers.replica[:, 1].tolist() == [1, 2, 0]
    assert walkers.round_trips == 0
    for cold in (1, 0):
        walkers = swapped(walkers, cold, 1)
    assert walkers.replica[:, 1].tolist() == [0, 1, 2]
    assert walkers.round_trips == 1
    # the other chain stayed where it was
    assert walkers.replica[:, 0].tolist() == [0, 1, 2]


def test_reset_forgets_trips_but_not_who_is_where():
    walkers = swapped(Walkers.at(2, 1), 0, 0).reset()
    walkers = swapped(walkers, 0, 0)
    assert walkers.round_trips == 0
    assert walkers.replica[:, 0].tolist() == [0, 1]
    assert swapped(walkers, 0, 0).round_trips == 2


def test_arrays_are_left_alone():
    walkers = Walkers.at(2, 3)
    before = [part.copy() for part in walkers]
    swapped(walkers, 0, 2)
    for part, then in zip(walkers, before, strict=True):
        np.testing.assert_array_equal(part, then)
