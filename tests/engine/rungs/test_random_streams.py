"""Streams of random arrays: the numbers depend on neither their blocks nor on being saved."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.engine.rungs.random_streams import Stream, _paired, log_uniform, single_normal


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


@pytest.mark.parametrize("factor", [1.0, 1.02])
def test_normal_numbers_in_single_precision(within, factor):
    """Of 64 streams of 12,003: their means, squares, fourth powers, and products of those that come in pairs.

    Control: an sd that is 2% off.
    """
    half = 6002
    values = factor * np.stack([single_normal(np.random.default_rng(seed), (3, 4001)).ravel() for seed in range(64)])
    assert values.dtype == np.float32 and values.shape == (64, 12_003) and np.abs(values).max() < 5.7 * factor
    values = values.astype(float)
    pairs = values[:, : half - 1] * values[:, half:]
    scores = [values, values**2 - 1.0, values**4 - 3.0, pairs, pairs**2 - 1.0]
    z = [part.mean() / part.std() * np.sqrt(part.size) for part in scores]
    assert bool(within(np.abs(z), 5.0)) is (factor == 1.0)


def test_pairs_of_normal_numbers_are_those_of_box_and_muller():
    """To a rounding of each step in single precision; distances and angles at all ends of their ranges among them."""
    ends = np.array([0, 1, 2, 2**22 - 1, 2**22, 2**22 + 1, 2457000, 2**23 - 2, 2**23 - 1])
    eighths = (np.arange(8)[:, None] * 2**20 + [-1, 0, 1]).ravel() % 2**23
    distances, angles = (part.ravel() for part in np.meshgrid(ends, eighths))
    drawn = np.random.default_rng(0).integers(2**23, size=(2, 10_000))
    distances, angles = np.append(distances, drawn[0]), np.append(angles, drawn[1])
    first, second = ((part.astype(np.uint32) << 9) + 5 for part in (distances, angles))
    _paired(first, second)
    radius, turn = np.sqrt(-2.0 * np.log1p(-distances / 2**23)), 2.0 * np.pi * angles / 2**23
    for found, truth in ((first, radius * np.cos(turn)), (second, radius * np.sin(turn))):
        np.testing.assert_allclose(found.view(np.float32), truth, rtol=6e-7, atol=1e-14)


def test_a_seeds_normal_numbers_in_single_precision_are_the_same_on_every_processor():
    """To the bit what each step by itself gives, in Python: nothing is fused, or taken from a library."""
    bits = np.random.default_rng(0).integers(2**32, size=(2, 3000), dtype=np.uint32)
    compiled, plain = bits.copy(), bits.copy()
    _paired(*compiled)
    _paired.py_func(*plain)
    np.testing.assert_array_equal(compiled, plain)


def test_normal_numbers_of_a_large_array_are_independent(within):
    """Correlation of each number with that 16,384 further on."""
    lag = 2**14
    values = single_normal(np.random.default_rng(0), (4, lag)).astype(float).ravel()
    assert np.isfinite(values).all() and len(np.unique(values)) > 0.99 * len(values)
    assert within(abs(np.corrcoef(values[:lag], values[lag : 2 * lag])[0, 1]) * np.sqrt(lag), 5.0)
