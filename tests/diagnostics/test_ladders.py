from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invsamp.diagnostics import passage_times, replica_paths, round_trips, swap_rates


@pytest.mark.parametrize(
    ("path", "rungs", "trips"),
    [
        ([0, 1, 2, 1, 0], 3, 1),
        ([0, 1, 2], 3, 0),
        ([0, 1, 0, 1, 0], 3, 0),  # never at the top
        ([2, 1, 0, 1, 2], 3, 1),  # from the hot end and back
        ([1, 2, 1, 0, 1, 2, 1], 3, 1),  # from the middle: the first end that it reaches is where it starts
        ([1, 2, 1, 0, 1, 1], 3, 0),
        ([0, 1, 2, 1, 0, 1, 2, 1, 0], 3, 2),
        ([0, 1, 0, 1, 0], 2, 2),
        ([0, 0, 0, 0], 1, 0),
        ([], 3, 0),
    ],
)
def test_round_trips_by_hand(path, rungs, trips):
    assert round_trips(np.array(path, dtype=int), rungs) == trips


@pytest.mark.parametrize(
    ("path", "trips"),
    [
        ([2, 0, 2, 0], {"end": 1, "coldest": 1, "start": 1}),
        ([2, 0, 2], {"end": 1, "coldest": 0, "start": 1}),
        ([1, 0, 2, 1, 2, 0, 1], {"end": 1, "coldest": 1, "start": 2}),
        ([1, 2, 0, 2, 0], {"end": 1, "coldest": 1, "start": 0}),
    ],
)
def test_round_trips_begin_where_one_says(path, trips):
    assert {origin: round_trips(path, 3, origin) for origin in trips} == trips


def test_passage_times():
    path = [1, 0, 0, 1, 2, 2, 1, 1, 0, 2]
    assert passage_times(path, 3) == ((3 + 1) / 2, 4.0)
    assert np.isnan(passage_times([0, 1, 0], 3)).all() and np.isnan(passage_times([0], 1)).all()


def test_round_trips_are_summed_over_replicas():
    path = np.array([[0, 2], [1, 1], [2, 0], [1, 1], [0, 2]])
    assert round_trips(path, 3) == 2
    assert round_trips(np.stack([path, path], axis=-1), 3) == 4


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 3))
def test_staying_longer_makes_no_round_trips(path, times):
    values = np.array(path, dtype=int)
    assert round_trips(np.repeat(values, times), 4) == round_trips(values, 4)
    # a second walk back and forth adds at least as many trips, reversed time the same number give or take one
    assert abs(round_trips(values[::-1], 4) - round_trips(values, 4)) <= 1
    assert round_trips(3 - values, 4) == round_trips(values, 4)


@pytest.mark.parametrize(
    ("path", "rungs", "match"),
    [
        ([0, 3], 3, r"path must stay in 0\.\.2, got values from 0 to 3"),
        ([0, -1], 3, "from -1 to 0"),
        ([0.0, 1.0], 3, "integers"),
        ([0], 0, "rungs must be an integer >= 1, got 0"),
    ],
)
def test_round_trips_refuse_what_is_no_path(path, rungs, match):
    with pytest.raises(ValueError, match=match):
        round_trips(path, rungs)


def test_replica_paths_invert_the_record_of_the_rungs():
    rng = np.random.default_rng(3)
    replica = rng.permuted(np.tile(np.arange(4)[:, None, None], (1, 2, 50)), axis=0)
    paths = replica_paths(replica)
    assert paths.shape == (50, 4, 2)
    for draw, chain in ((0, 0), (17, 1)):
        for rung in range(4):
            assert paths[draw, replica[rung, chain, draw], chain] == rung


def test_replica_paths_refuse_what_is_no_permutation():
    replica = np.zeros((2, 1, 3), dtype=int)
    with pytest.raises(ValueError, match=r"got \[0, 0\] at chain 0, draw 0"):
        replica_paths(replica)
    with pytest.raises(ValueError, match=r"\(rungs, chains, draws\), got \(3,\)"):
        replica_paths([0, 1, 2])


def test_swap_rates_are_nan_where_none_was_tried():
    rates = swap_rates({"swap_attempts": [100, 0], "swap_accepts": [25, 0]})
    assert rates[0] == 0.25
    assert np.isnan(rates[1])
    assert swap_rates({}).shape == (0,)
