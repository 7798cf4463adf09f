"""Round trips, counted by what travels with the walkers."""

from __future__ import annotations

import numpy as np

from invsamp.engine.exchange.round_trips import ReplicaIndices


def swapped(replica_indices, cold, chain):
    """Rungs ``cold`` and ``cold + 1`` exchange a chain."""
    rungs, chains = replica_indices.replica.shape
    source = np.tile(np.arange(rungs)[:, None], chains)
    source[cold : cold + 2, chain] = cold + 1, cold
    return replica_indices.arrive(source)


def test_a_round_trip_counts_at_both_ends():
    replica_indices = ReplicaIndices.at(3, 2)
    # walker 0 goes up to the top and down again; walker 2 goes down and up
    for cold in (0, 1):
        replica_indices = swapped(replica_indices, cold, 1)
    assert replica_indices.replica[:, 1].tolist() == [1, 2, 0]
    assert replica_indices.round_trips == 0
    for cold in (1, 0):
        replica_indices = swapped(replica_indices, cold, 1)
    assert replica_indices.replica[:, 1].tolist() == [0, 1, 2]
    assert replica_indices.round_trips == 1
    # the other chain stayed where it was
    assert replica_indices.replica[:, 0].tolist() == [0, 1, 2]


def test_reset_clears_trips_but_not_the_replicas():
    replica_indices = swapped(ReplicaIndices.at(2, 1), 0, 0).reset()
    replica_indices = swapped(replica_indices, 0, 0)
    assert replica_indices.round_trips == 0
    assert replica_indices.replica[:, 0].tolist() == [0, 1]
    assert swapped(replica_indices, 0, 0).round_trips == 2


def test_arrays_are_left_alone():
    replica_indices = ReplicaIndices.at(2, 3)
    before = [part.copy() for part in replica_indices]
    swapped(replica_indices, 0, 2)
    for part, then in zip(replica_indices, before, strict=True):
        np.testing.assert_array_equal(part, then)
