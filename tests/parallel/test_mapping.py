"""Many parameters over several processes."""

from __future__ import annotations

import os

import numpy as np
import pytest
import threads
from flaky_models import square_and_process

from invsamp import parallel

THETA = np.linspace(-1.0, 1.0, 14).reshape(7, 2)


def square(theta):
    return np.concatenate([theta**2, theta.sum(axis=1, keepdims=True)], axis=1)


def positive_alone(theta):
    if (theta[:, 0] < 0.0).any():
        raise ValueError(f"negative: {theta[0, 0]}")
    return square(theta)


@pytest.mark.parametrize("ranks", [2, 3, 9])
def test_ranks(ranks):
    for found in threads.run(ranks, lambda comm: parallel.map(square, THETA, comm=comm)):
        np.testing.assert_array_equal(found, square(THETA))


def test_each_rank_evaluates_a_part():
    seen = []

    def remembering(theta):
        seen.append(len(theta))
        return square(theta)

    threads.run(3, lambda comm: parallel.map(remembering, THETA, comm=comm))
    assert sorted(seen) == [2, 2, 3]


def test_worker_processes():
    found = parallel.map(square_and_process, THETA, workers=2)
    np.testing.assert_array_equal(found[:, :2], THETA**2)
    assert os.getpid() not in found[:, 2]


def test_one_worker_is_this_process():
    assert set(parallel.map(square_and_process, THETA, workers=1)[:, 2]) == {os.getpid()}


@pytest.mark.parametrize("ranks", [1, 3])
def test_rows_that_fail_are_nan(ranks):
    wanted = np.where(THETA[:, :1] < 0.0, np.nan, square(THETA))
    for found in threads.run(ranks, lambda comm: parallel.map(positive_alone, THETA, comm=comm, workers=1)):
        np.testing.assert_array_equal(found, wanted)


def test_all_fail():
    with pytest.raises(RuntimeError, match="all 2 solves failed: ValueError: negative"):
        parallel.map(positive_alone, THETA[:2], workers=1)


@pytest.mark.parametrize(
    ("theta", "workers", "match"), [(THETA[0], 1, "shape"), (THETA[:0], 1, "n >= 1"), (THETA, 0, "at least 1, got 0")]
)
def test_refuses(theta, workers, match):
    with pytest.raises(ValueError, match=match):
        parallel.map(square, theta, workers=workers)
