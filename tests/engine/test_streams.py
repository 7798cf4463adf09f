"""Streams of random arrays: the numbers depend on neither their blocks nor on being saved."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.engine.streams import Stream, log_uniform


def test_stream_does_not_depend_on_its_blocks():
    drawn = [Stream(np.random.default_rng(3), (4, 2), block=block) for block in (1, 8, 100, 8192)]
    draws = [np.stack([stream.draw() for _ in range(30)]) for stream in drawn]
    for other in draws[1:]:
        np.testing.assert_array_equal(other, draws[0])
    np.testing.assert_array_equal(draws[0], np.random.default_rng(3).standard_normal((30, 4, 2)))


@pytest.mark.parametrize("draw", [np.random.Generator.standard_normal, log_uniform])
@pytest.mark.parametrize("drawn", [0, 1, 12, 13, 40])
def test_saved_at_any_place_of_a_block(draw, drawn):
    """13 arrays make a block: at its beginning, within, and at its end."""
    stream = Stream(np.random.default_rng(3), (4, 2), draw, block=13 * 8)
    for _ in range(drawn):
        stream.draw()
    again = Stream(np.random.default_rng(99), (4, 2), draw, block=13 * 8)
    again.restore(stream.state())
    for _ in range(30):
        np.testing.assert_array_equal(again.draw(), stream.draw())
    assert again.state() == stream.state()


def test_logs_of_uniform_numbers_accept_with_their_ratio(within):
    """200,000 draws: a share of 0.3 is off by more than 0.005 once in a million."""
    below = log_uniform(np.random.default_rng(0), (200_000,)) < np.log(0.3)
    assert within(below.mean() - 0.3, 0.005)
