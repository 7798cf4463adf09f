"""How many rungs, and where: from rejections, without a run."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.ladder.spacing import AutoLadder, distances, flattened, respaced, rounds


def rejections(betas, barrier):
    """Of neighbors, where the barrier up to a beta is known."""
    return np.abs(np.diff(barrier(np.array(betas))))


@pytest.mark.parametrize("rungs", [4, 9, 30])
@pytest.mark.parametrize("barrier", [lambda b: 3.0 * b, lambda b: np.log1p(1e3 * b), lambda b: 4.0 * np.sqrt(b)])
def test_neighbors_reject_equally_often(barrier, rungs):
    """After three rounds of exact rejections, whatever the path's density is."""
    betas = iv.ladder.auto_ladder().start()
    for _ in range(3):
        betas = respaced(betas, np.maximum(rejections(betas, barrier), 1e-3), rungs)
    assert betas[0] == 1.0 and betas[-1] == 0.0
    assert (np.diff(betas) < 0.0).all()
    found = rejections(betas, barrier)
    np.testing.assert_allclose(found, found.mean(), rtol=0.1)
    # the first ladder's are nothing of the kind
    assert np.ptp(rejections(AutoLadder(first=rungs).start(), barrier)) > 0.3 * found.mean()


def test_equal_distributions_leave_the_rungs_unchanged():
    betas = respaced((1.0, 0.3, 0.1, 0.0), distances([0.0, 0.0, 0.0]), 4)
    assert (np.diff(betas) < 0.0).all()


def test_numbers_of_rungs():
    settings = AutoLadder(min_rungs=3, max_rungs=10)
    assert [settings.rungs(barrier) for barrier in (0.1, 1.2, 2.2, 4.4, 4.6, 50.0)] == [3, 4, 6, 10, 10, 10]


@pytest.mark.parametrize("s", [0.1, 1.0, 3.0])
def test_distances_are_those_of_normal_log_ratios(s):
    """By quadrature of the mean acceptance; two half steps are one whole."""
    z = np.linspace(-12.0, 12.0, 200_001)

    def rejection(s):
        density = np.exp(-0.5 * z**2)
        return 1.0 - (density @ np.minimum(1.0, np.exp(s * z - 0.5 * s**2))) / density.sum()

    assert distances(rejection(s)) == pytest.approx(s / np.sqrt(2.0 * np.pi), rel=1e-4)
    assert rejection(s) < 2.0 * rejection(0.5 * s)


def test_rounds_double():
    assert rounds(300, 100) == (100, 200)
    assert rounds(1500, 100) == (100, 200, 400, 800)
    assert rounds(699, 100) == (100, 599)
    assert sum(rounds(12345, 100)) == 12345
    with pytest.raises(ValueError, match="warmup must be at least 300 steps to find a ladder, in two rounds, got 299"):
        rounds(299, 100)


def test_another_hottest_beta():
    betas, steps = flattened((1.0, 0.1, 0.01, 0.001), (0.5, 0.4, 0.2), 1e-5)
    assert betas == [1.0, 0.1, 0.01, 1e-5]
    assert steps == pytest.approx([0.5, 0.4, 0.6])
    betas, steps = flattened((1.0, 0.1, 0.01, 0.001), (0.5, 0.4, 0.2), 0.1 / 10**0.5)
    assert betas == pytest.approx([1.0, 0.1, 0.1 / 10**0.5])
    assert steps == pytest.approx([0.5, 0.2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_rungs": 1}, "min_rungs must be an integer >= 2, got 1"),
        ({"min_rungs": 9, "max_rungs": 8}, "max_rungs must be an integer >= 9, got 8"),
        ({"min_beta": 0.0}, "min_beta must be"),
        ({"first": 1}, "first must be an integer >= 2, got 1"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(ValueError, match=message):
        iv.ladder.auto_ladder(**settings)
