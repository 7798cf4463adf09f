"""Objects of any size to all processes, and exceptions that others can raise."""

from __future__ import annotations

import numpy as np
import pytest
import threads

from invsamp.parallel import channel


@pytest.mark.parametrize("piece", [8, 1000, 10**9])
def test_large_objects_go_in_pieces(monkeypatch, piece):
    monkeypatch.setattr(channel, "PIECE", piece)

    def work(comm):
        item = {"rank": comm.rank, "draws": np.arange(40.0 * comm.rank)}
        return channel.bcast(comm, item), channel.gather(comm, item)

    for rank, (shared, gathered) in enumerate(threads.run(3, work)):
        assert shared["rank"] == 0
        assert (gathered is None) == (rank > 0)
        if rank == 0:
            assert [part["rank"] for part in gathered] == [0, 1, 2]
            for k, part in enumerate(gathered):
                np.testing.assert_array_equal(part["draws"], np.arange(40.0 * k))


class TwoWords(ValueError):
    """Cannot be made again from its message."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def test_an_exception_that_cannot_travel_goes_as_its_words():
    plain = OSError(28, "no space left")
    assert channel.portable(plain) is plain
    assert str(channel.portable(TwoWords("disk", "full"))) == "TwoWords: disk full"
