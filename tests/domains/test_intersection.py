"""Intersections: simplest forms, sets, outlines, draws."""

from __future__ import annotations

import json

import numpy as np
import pytest

from invsamp.domains import Ball, Box, HalfSpaces, Polygon, Product, Unbounded
from invsamp.domains.intersection import Intersection
from invsamp.domains.saved import from_dict

STAR = Polygon([[0, 2], [0.4, 0.4], [2, 0], [0.4, -0.4], [0, -2], [-0.4, -0.4], [-2, 0], [-0.4, 0.4]])
BALL = Ball([0.0, 0.0], 1.0)
BOX = Box([-0.5, -np.inf], [np.inf, 0.75])


def test_contains_what_all_parts_contain() -> None:
    points = np.random.default_rng(0).uniform(-2, 2, (5000, 2))
    both = STAR & BOX & BALL
    expected = STAR.contains(points) & BOX.contains(points) & BALL.contains(points)
    assert 0 < expected.sum() < len(points)
    np.testing.assert_array_equal(both.contains(points), expected)
    np.testing.assert_array_equal((BALL & (BOX & STAR)).contains(points), expected)


def test_simplest_form() -> None:
    bound = HalfSpaces([[1.0, 1.0]], [1.0])
    assert isinstance(STAR & BOX, Intersection)
    assert STAR & Unbounded() == STAR and Unbounded() & STAR == STAR
    assert STAR & STAR == STAR
    # faces of boxes and half-spaces are one part, in any position
    three = BOX & STAR & bound
    assert three.parts == (bound & BOX, STAR)
    assert (STAR & Box(-1, 1) & Box(0, 2)).parts == (STAR, Box(0, 1))
    assert repr(STAR & BALL) == f"{STAR!r} & {BALL!r}"


def test_values() -> None:
    both = STAR & BOX & BALL
    assert from_dict(json.loads(json.dumps(both.to_dict(), allow_nan=False))) == both
    assert hash(from_dict(both.to_dict())) == hash(both)
    np.testing.assert_array_equal((Product({0: Ball([0.0], 1.0)}) & Box([-1, -np.inf], np.inf)).constrains(2), [1, 0])


def test_draws_and_outline(within) -> None:
    both = STAR & BOX
    draws = both.sample_uniform(np.random.default_rng(0), 3000)
    assert both.contains(draws).all()
    curves = both.outline(0, 1, ([-3, -3], [3, 3]))
    assert len(curves) == 1
    # the part of the star with x >= -0.5 and y <= 0.75, by Monte Carlo
    points = np.random.default_rng(1).uniform(-2, 2, (200_000, 2))
    share = both.contains(points).mean()
    assert within(Polygon(curves[0]).area / 16 - share, 4.5 * np.sqrt(share / len(points)))
    holed = Polygon([[-2, -2], [2, -2], [2, 2], [-2, 2]], [[[-1, -1], [-1, 1], [1, 1], [1, -1]]]) & Ball(
        [0.0, 0.0], 1.9
    )
    assert len(holed.outline(0, 1, ([-3, -3], [3, 3]))) == 2


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"domains must overlap, but these are apart: Ball.* and Box"):
        BALL & Box(2.0, 3.0)
    with pytest.raises(ValueError, match=r"cannot intersect domains of \[2, 3\] coordinates"):
        BALL & Ball([0.0] * 3, 1.0)
    with pytest.raises(ValueError, match="interior"):
        STAR & HalfSpaces([[1.0, 0.0]], [0.0]) & Box(0.5, 1.0)
    with pytest.raises(ValueError, match=r"only domains of invsamp\.domains can be intersected, got 5"):
        STAR & 5  # type: ignore[operator]
