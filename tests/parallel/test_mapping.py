"""Many parameters over several processes."""

from __future__ import annotations

import os

import launch
import numpy as np
import pytest
import threads
from flaky_models import square_and_process

from invsamp import parallel
from invsamp.errors import ModelError

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


WEIGHTS = np.random.default_rng(0).normal(size=(2, 50))


def product(theta):
    """Whose last bits depend on the number of rows of a batch."""
    return np.tanh(theta @ WEIGHTS) @ WEIGHTS.T * (1.0 + 1e-15 * len(theta))  # whatever BLAS there is


@pytest.mark.parametrize("ranks", [2, 3, 9])
def test_the_numbers_are_those_of_a_loop_to_the_last_bit(ranks):
    theta = np.random.default_rng(1).normal(size=(7, 2))
    loop = np.concatenate([product(row[None]) for row in theta])
    assert not np.array_equal(product(theta), loop)  # a batch would show
    for found in threads.run(ranks, lambda comm: parallel.map(product, theta, comm=comm)):
        np.testing.assert_array_equal(found, loop)
    np.testing.assert_array_equal(parallel.map(product, theta, workers=1), loop)


def test_each_rank_evaluates_a_part():
    seen = []

    def evaluate(comm):
        def remembering(theta):
            seen.append(comm.rank)
            return square(theta)

        parallel.map(remembering, THETA, comm=comm)

    threads.run(3, evaluate)
    assert sorted(seen) == [0, 0, 0, 1, 1, 2, 2]


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


def caught(function):
    with pytest.raises((ValueError, RuntimeError)) as error:
        function()
    return type(error.value), str(error.value)


@pytest.mark.parametrize("ranks", [1, 3])
def test_all_fail(ranks):
    for kind, said in threads.run(
        ranks, lambda comm: caught(lambda: parallel.map(positive_alone, THETA[:2], workers=1, comm=comm))
    ):
        assert kind is RuntimeError and said.startswith("all 2 solves failed: ValueError: negative")


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda theta: theta.sum(axis=1), r"must have shape (1, m), got (1,)"),
        (lambda theta: np.ones((2, 3)), r"must have shape (1, m), got (2, 3)"),
        (lambda theta: np.ones((1, 2 + (theta[0, 0] > 0))), "as many for every theta, got [2, 3]"),
    ],
)
def test_observations_of_the_wrong_shape_are_a_mistake_on_every_rank(ranks, wrong, message):
    for kind, said in threads.run(ranks, lambda comm: caught(lambda: parallel.map(wrong, THETA, workers=1, comm=comm))):
        assert kind is ModelError and message in said


def test_other_parameters_on_another_rank():
    for kind, said in threads.run(3, lambda comm: caught(lambda: parallel.map(square, THETA + comm.rank, comm=comm))):
        assert kind is ValueError and said.endswith("the same on every rank, got others on ranks [1, 2] than on rank 0")


@pytest.mark.parametrize(
    ("theta", "workers", "match"),
    [
        (THETA[0], 1, "shape"),
        (THETA[:0], 1, "thetas must have at least one entry"),
        (THETA, 0, "workers must be an integer >= 1, got 0"),
        ((row for row in THETA), 1, "got <generator"),
        ([[1.0, 2.0], [3.0]], 1, "thetas must be numbers"),
    ],
)
def test_refuses(theta, workers, match):
    with pytest.raises(ValueError, match=match):
        parallel.map(square, theta, workers=workers)


def test_a_model_that_cannot_be_called_or_sent():
    with pytest.raises(ValueError, match="model must be a function of theta"):
        parallel.map(3, THETA)
    with pytest.raises(ValueError, match=r"model must be picklable.*workers=1 evaluates it in this process"):
        parallel.map(lambda theta: theta**2, THETA, workers=2)


@pytest.mark.mpi
def test_processes_of_mpi():
    """More of them than parameters; one row fails, and what all raise can be caught on each."""
    script = """
    import numpy as np
    from mpi4py import MPI
    from invsamp import parallel
    from invsamp.posing.forward_models.guarded_model import ModelError

    rank, shift = MPI.COMM_WORLD.rank, np.array([0.5])
    assert (parallel.rank(), parallel.size()) == (rank, 4)

    def model(theta):  # a closure
        if theta[0, 0] > 1.5:
            raise RuntimeError("no")
        return theta + shift

    theta = np.arange(3.0)[:, None]
    np.testing.assert_array_equal(parallel.map(model, theta), [[0.5], [1.5], [np.nan]])
    for wrong, said in (
        (lambda: parallel.map(lambda theta: theta[0], theta), "(1, m), got (1,)"),
        (lambda: parallel.map(model, theta + 2), "all 3 solves failed: RuntimeError: no"),
        (lambda: parallel.map(model, theta[: 3 - rank // 3]), "ranks [3] than on rank 0"),
    ):
        try:
            wrong()
        except (ValueError, RuntimeError) as error:
            assert said in str(error), error
        else:
            raise AssertionError(said)
    MPI.COMM_WORLD.Barrier()
    print("done")
    """
    assert launch.mpi(script, 4).stdout.split() == ["done"] * 4
