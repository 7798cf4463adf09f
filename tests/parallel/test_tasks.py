"""What processes are sent and send back comes as it was, and is small."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from invsamp.evaluate.requests import Batch, Estimate, Request
from invsamp.parallel.messages import packed, unpacked
from invsamp.parallel.tasks import Done, Reply, Task

RNG = np.random.default_rng(0)
REQUESTS = {
    "usual": Request("fine", RNG.standard_normal((3, 2))),
    "no rows": Request("fine", np.empty((0, 2)), "apart"),
    "single": Request("coarse", RNG.standard_normal((3, 2)).astype(np.float32), False, None, True),
    "batch": Request(
        "fine",
        RNG.standard_normal((3, 2)),
        True,
        Batch(RNG.integers(9, size=(3, 4)), None, 9, "diagonal", RNG.standard_normal((3, 2)), 0, np.ones(3)),
    ),
}


def equal(one, other):
    """Arrays with their dtypes, in tuples of any depth."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    if isinstance(one, tuple | list):
        return type(one) is type(other) and all(map(equal, one, other)) and len(one) == len(other)
    return one == other and type(one) is type(other)


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_task_comes_as_it_was(request_):
    task = Task(7, 2, request_)
    again = unpacked(pickle.loads(pickle.dumps(packed(task))))
    assert equal(again, task)
    assert again.what.position.flags.writeable and again.what.position.flags.c_contiguous


def test_a_reply_comes_as_it_was():
    estimate = Estimate(np.array([1.0, np.inf]), RNG.standard_normal((2, 3)), None, np.ones((2, 3, 3)), failed=True)
    done = [
        Done(7, 2, estimate, 1, 0.5, "diverged"),
        Done(8, 0, Estimate(np.ones(1), None), 0, 0.1, None),
    ]
    for reply in (Reply(done, 0.6), Reply([], 0.0, None, 15)):
        assert equal(unpacked(pickle.loads(pickle.dumps(packed(reply)))), reply)
    mistake = unpacked(pickle.loads(pickle.dumps(packed(Reply([], 0.0, ValueError("a wrong shape"))))))
    assert isinstance(mistake.error, ValueError) and str(mistake.error) == "a wrong shape"


def test_messages_are_small():
    """Open MPI sends 256 bytes at once, and says so; for more it waits until they are taken."""
    task = Task(1234, 0, Request("fine", np.ones((2, 4))))
    reply = Reply([Done(1234, 0, Estimate(np.ones(2), np.ones((2, 4))), 0, 0.1, None)], 0.1)
    assert len(pickle.dumps(packed([task]), 5)) < 256
    assert len(pickle.dumps(packed(reply), 5)) < 256
