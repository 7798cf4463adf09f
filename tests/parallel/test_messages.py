"""Objects of any size to all processes, exceptions that others can raise, and waiting."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import threads

from invsamp.parallel import messages


@pytest.mark.parametrize("piece", [8, 1000, 10**9])
def test_large_objects_go_in_pieces(monkeypatch, piece):
    monkeypatch.setattr(messages, "PIECE", piece)

    def work(comm):
        return messages.bcast(comm, {"rank": comm.rank, "draws": np.arange(40.0 * (1 - comm.rank))})

    for shared in threads.run(3, work):
        assert shared["rank"] == 0
        np.testing.assert_array_equal(shared["draws"], np.arange(40.0))


def test_waiting_is_measured():
    patience, answers = messages.Patience(), iter([None] * 10 + ["there"])

    def look():
        time.sleep(0.01)
        return next(answers)

    began = time.perf_counter()
    assert patience.until(look) == "there"
    assert 0.1 <= patience.seconds <= time.perf_counter() - began
    at_once = messages.Patience()
    assert at_once.until(lambda: "there") == "there"
    assert at_once.seconds == 0.0


class Locked(ValueError):
    """Cannot be pickled."""

    def __init__(self):
        super().__init__("disk full")
        self.lock = threading.Lock()


def test_an_exception_that_cannot_travel_goes_as_its_words():
    plain = OSError(28, "no space left")
    assert messages.portable(plain) is plain
    assert str(messages.portable(Locked())) == "Locked: disk full"
