"""Walkers of fixed chances: round trips as the literature has them, and which scheme makes more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.diagnostics import round_trips
from invsamp.diagnostics.index_process import best_window, round_trip_time, simulate
from invsamp.swaps.schemes import adjacent, all_pairs, deo, seo, sweep


def trips(scheme, r, iterations, seed, **more):
    found = simulate(scheme, r, iterations, np.random.default_rng(seed), ladders=20, **more)
    return found.round_trips / iterations


def time_of(scheme, r, expected, seed, ladders, length=40):
    """Mean time of a round trip: one over the trips of a walker that end in an iteration, once they have all begun."""
    iterations, begin = int(length * expected), int(10 * expected)
    path = simulate(scheme, r, iterations, np.random.default_rng(seed), ladders=ladders).path
    made = [round_trips(path[:end], len(r) + 1, "coldest") for end in (begin, iterations)]
    return (iterations - begin) * path[0].size / (made[1] - made[0])


@pytest.mark.parametrize(
    ("rungs", "rejection", "window", "ladders"),
    [
        *((4, 0.5, 1, 150), (8, 0.7, 4, 60)),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((16, 0.6, 8, 25), (64, 0.1, 1, 9))),
    ],
)
def test_deo_has_the_mean_time_of_its_formula(rungs, rejection, window, ladders, within):
    r = np.full(rungs - 1, rejection)
    expected = round_trip_time(r, window)
    found = time_of(deo(window), r, expected, 3, ladders)
    assert within(found / expected - 1.0, 0.02)
    assert not within(time_of(deo(window), 1.1 * r, expected, 3, ladders) / expected - 1.0, 0.02)


def test_unequal_rejections(within):
    r = np.array([0.2, 0.7, 0.4])
    deterministic, stochastic = round_trip_time(r), round_trip_time(r, scheme="seo")
    assert within(time_of(deo(), r, deterministic, 4, 150) / deterministic - 1.0, 0.02)
    # all ladders have one coin, so that it takes many tosses: sd .004
    found = time_of(seo(), r, stochastic, 5, 15, 600)
    assert within(found / stochastic - 1.0, 0.02)
    assert not within(found / deterministic - 1.0, 0.02)


def test_which_scheme_makes_more(within):
    """Deterministic over stochastic, windows over none, a sweep twice as many as DEO, all pairs with many rejections
    least."""
    r, n = np.full(15, 0.6), 3_000
    rate = {
        "deo": trips(deo(), r, n, 6),
        "seo": trips(seo(), r, n, 6),
        "window": trips(deo(best_window(16, 0.6)), r, n, 6),
        "sweep": trips(sweep(), r, n, 6),
        "adjacent": trips(adjacent(), r, n, 6),
        "all": trips(all_pairs(), r, n, 6),
        "parities": trips(deo(), r, n, 6, attempts=3),
    }
    assert rate["window"] > 1.8 * rate["deo"] > 2.0 * rate["seo"] > 5.0 * rate["adjacent"]
    assert within(rate["sweep"] / rate["deo"] - 2.0, 0.5)
    assert within(rate["parities"] / rate["deo"] - 3.0, 0.6)
    assert rate["all"] < rate["seo"]


def printed_window(rungs, rejection):
    """W* as printed; see `best_window`."""
    return math.ceil((math.log(rungs) + math.log(math.log(rungs))) / -math.log(rejection))


def test_the_printed_window_is_near_the_best():
    for rungs in (8, 16, 64, 256):
        for r in (0.3, 0.6, 0.9):
            best, printed = (round_trip_time([r] * (rungs - 1), f(rungs, r)) for f in (best_window, printed_window))
            assert best <= printed <= 1.1 * best
    assert best_window(16, 0.6) in (7, 8) and best_window(2, 0.0) == 1
    np.testing.assert_allclose(round_trip_time([0.6] * 15, 1), 752.0)
    np.testing.assert_allclose([round_trip_time([0.6] * 15, best_window(16, 0.6))], 321, rtol=0.005)


def test_refused():
    for wrong in ({"rejections": [1.0]}, {"rejections": [0.5], "window": 0}, {"rejections": [0.5], "scheme": "adj"}):
        with pytest.raises(ValueError, match="must be"):
            round_trip_time(**wrong)
    with pytest.raises(ValueError, match="window must be 1 for 'seo'"):
        round_trip_time([0.5], 2, "seo")
    with pytest.raises(ValueError, match="scheme must be"):
        simulate("deo", [0.5], 1, np.random.default_rng(0))
