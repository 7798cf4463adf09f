"""Balls and ellipsoids: sets, draws, outlines, values, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from invsamp.domains import Ball, Ellipsoid
from invsamp.domains.saved import from_dict

MATRIX = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, 0.2], [0.0, 0.2, 0.5]])
TILTED = Ellipsoid([1.0, 2.0, 3.0], MATRIX)


def test_inside() -> None:
    ball = Ball([1.0, 0.0], 2.0)
    np.testing.assert_array_equal(ball.contains(np.array([[3.0, 0], [1, -2], [3.0001, 0], [np.nan, 0]])), [1, 1, 0, 0])
    points = np.random.default_rng(0).normal(size=(1000, 3)) + TILTED.center
    shift = points - TILTED.center
    np.testing.assert_array_equal(TILTED.contains(points), np.einsum("ni,ij,nj->n", shift, MATRIX, shift) <= 1)


def test_bounding_box_touches_and_draws_fill_it(within) -> None:
    for domain in (Ball([1.0, -1.0, 0.0], 0.7), TILTED):
        lower, upper = domain.bounding_box(3)
        draws = domain.sample_uniform(np.random.default_rng(0), 50_000)
        assert domain.contains(draws).all()
        assert (draws.min(axis=0) > lower).all() and (draws.max(axis=0) < upper).all()
        assert ((draws.max(axis=0) - draws.min(axis=0)) / (upper - lower) > 0.95).all()
        # uniform in a ball of 3 dimensions: the variance of a coordinate is radius^2 / 5
        truth = domain._shape() @ domain._shape().T / 5
        # standard errors of 0.5% of the largest variance: four and a half of them, for twelve comparisons
        assert within(np.cov(draws.T) - truth, 0.022 * truth.max())


def test_outline_is_the_shadow() -> None:
    (shadow,) = TILTED.outline(2, 0, ([-9, -9], [9, 9]))
    draws = TILTED.sample_uniform(np.random.default_rng(0), 100_000)[:, [2, 0]]
    covariance = np.linalg.inv(MATRIX)[np.ix_([2, 0], [2, 0])]
    centered = shadow - TILTED.center[[2, 0]]
    np.testing.assert_allclose(np.einsum("ni,ij,nj->n", centered, np.linalg.inv(covariance), centered), 1, rtol=1e-12)
    centered = draws - TILTED.center[[2, 0]]
    reach = np.einsum("ni,ij,nj->n", centered, np.linalg.inv(covariance), centered)
    assert 0.97 < reach.max() < 1
    x, y = shadow.T
    assert np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) > 0


def test_values() -> None:
    for domain in (Ball([1.0, 2.0], 3.0), TILTED):
        again = from_dict(json.loads(json.dumps(domain.to_dict(), allow_nan=False)))
        assert again == domain and hash(again) == hash(domain) and repr(again) == repr(domain)
        np.testing.assert_array_equal(domain.constrains(domain.dimension), [True] * domain.dimension)
    assert Ball([0.0], 1.0) != Ball([0.0], 2.0)
    assert Ellipsoid([0.0, 0.0], axes=[1.0, 2.0]) == Ellipsoid([0.0, 0.0], [[1.0, 0.0], [0.0, 0.25]])
    with pytest.raises(ValueError, match="read-only"):
        TILTED.matrix[0, 0] = 5.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(0.0, 1.0), r"center must have shape \(d,\), got \(\)"),
        (lambda: Ball([0.0, np.inf], 1.0), "center must be finite numbers"),
        (lambda: Ball([], 1.0), "center must have at least one entry"),
        (lambda: Ball([0.0], 0.0), "radius must be a positive finite number, got 0.0"),
        (lambda: Ball([0.0], -1.0), "radius must be a positive finite number, got -1.0"),
        (lambda: Ball([0.0], np.nan), "radius must be a positive finite number, got nan"),
        (lambda: Ellipsoid([0.0, 0.0]), "either matrix or axes"),
        (lambda: Ellipsoid([0.0], [[1.0]], [1.0]), "either matrix or axes"),
        (lambda: Ellipsoid([0.0, 0.0], np.eye(3)), r"matrix must have shape \(2, 2\), got \(3, 3\)"),
        (lambda: Ellipsoid([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: Ellipsoid([0.0, 0.0], [[np.nan, 0.0], [0.0, 1.0]]), "matrix must be finite numbers"),
        (lambda: Ellipsoid([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: Ellipsoid([0.0, 0.0], axes=[1.0, 0.0]), "axes must be positive finite numbers, got 0.0 at index 1"),
    ],
)
def test_bad_input_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
