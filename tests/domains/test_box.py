"""Boxes: moves fold back in closed form. What boxes share with half-spaces is in test_half_spaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invsamp.domains import Box, HalfSpaces, Unbounded
from invsamp.domains.contract import MAX_BOUNCES

SEEDS = st.integers(0, 2**32 - 1)
BOX = Box([-1.0, 0.0], [1.0, 0.5])


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS, dimension=st.integers(1, 4))
def test_box_fold_equals_the_path_through_half_spaces(seed: int, dimension: int) -> None:
    rng = np.random.default_rng(seed)
    lower, upper = -rng.uniform(0.1, 2, dimension), rng.uniform(0.1, 2, dimension)
    lower[rng.random(dimension) < 0.3] = -np.inf
    upper[rng.random(dimension) < 0.3] = np.inf
    box = Box(lower, upper)
    position = rng.uniform(np.maximum(lower, -5), np.minimum(upper, 5), (30, dimension))
    move = rng.normal(size=(30, dimension)) * 10 ** rng.uniform(-1, 1, (30, 1))
    bounds = box.rows(dimension)
    walked = (HalfSpaces(*bounds) if len(bounds[0]) else Unbounded()).reflect(position, move)
    folded = box.reflect(position, move)
    kept = ~walked.failed
    assert not folded.failed.any()
    assert (folded.bounces[~kept] > MAX_BOUNCES).all()
    np.testing.assert_allclose(folded.position[kept], walked.position[kept], rtol=0, atol=1e-12)
    np.testing.assert_allclose(folded.move[kept], walked.move[kept], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(folded.bounces[kept], walked.bounces[kept])


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS)
def test_box_fold_is_reversible_for_moves_of_many_widths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    position, move = rng.uniform([-1, 0], [1, 0.5], (50, 2)), rng.normal(size=(50, 2)) * 10 ** rng.uniform(-3, 4)
    end = BOX.reflect(position, move)
    assert BOX.contains(end.position).all()
    np.testing.assert_array_equal(np.abs(end.move), np.abs(move))
    back = BOX.reflect(end.position, -end.move)
    np.testing.assert_allclose(
        back.position, position, rtol=0, atol=4 * np.finfo(float).eps * np.abs(move).max() + 1e-15
    )
    np.testing.assert_array_equal(back.move, -move)


def test_one_sided_box_and_scalar_bounds() -> None:
    end = Box(lower=0.0).reflect(np.array([[1.0, 2.0]]), np.array([[-3.0, 100.0]]))
    np.testing.assert_array_equal(end.position, [[2.0, 102.0]])
    np.testing.assert_array_equal(end.move, [[3.0, 100.0]])
    end = Box(upper=[1.0, np.inf]).reflect(np.zeros((1, 2)), np.array([[1e6, -7.0]]))
    np.testing.assert_array_equal(end.position, [[2 - 1e6, -7.0]])


def test_draws_need_closed_sides_and_a_number_of_coordinates() -> None:
    draws = BOX.sample_uniform(np.random.default_rng(0), 1000)
    assert draws.shape == (1000, 2) and BOX.contains(draws).all()
    np.testing.assert_array_equal(Box(lower=0.0).bounding_box(2), [[0, 0], [np.inf, np.inf]])
    with pytest.raises(ValueError, match="sample_uniform needs a bounded domain"):
        Box([0.0, 0.0]).sample_uniform(np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="sample_uniform needs a domain of a fixed number of coordinates"):
        Box(0.0, 1.0).sample_uniform(np.random.default_rng(0), 1)
