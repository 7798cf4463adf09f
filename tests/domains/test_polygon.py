"""Polygons: which points are inside, areas and draws, outlines, values, and bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path

from invsamp.domains import Polygon
from invsamp.domains.saved import from_dict

SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4]]
HOLE = [[1, 1], [2, 1], [2, 2], [1, 2]]


def star(corners: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * (np.arange(corners) + rng.uniform(0, 0.9, corners)) / corners
    return rng.uniform(0.3, 2, corners)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])


@given(seed=st.integers(0, 2**32 - 1), corners=st.sampled_from([3, 4, 7, 50, 400]))
def test_inside_is_what_matplotlib_says(seed: int, corners: int) -> None:
    ring = star(corners, seed)
    points = np.random.default_rng(seed).uniform(-2, 2, (2000, 2))
    np.testing.assert_array_equal(Polygon(ring).contains(points), Path(ring).contains_points(points))


def test_edges_and_corners_are_inside() -> None:
    polygon = Polygon(SQUARE, [HOLE])
    on_edges = [[0, 0], [4, 4], [0, 1.7], [4, 0.3], [2.2, 4], [3, 0], [1, 1], [2, 2], [1, 1.5], [1.5, 2]]
    assert polygon.contains(np.array(on_edges, dtype=float)).all()
    outside = [[-1e-12, 1], [4.0001, 4], [1.5, 1.5], [1.0001, 1.0001], [np.nan, 1], [1, np.inf], [100, -100], [6, 0]]
    assert not polygon.contains(np.array(outside, dtype=float)).any()


@pytest.mark.parametrize("corners", [5, 8, 400])
def test_draws_are_uniform(within, corners: int) -> None:
    polygon = Polygon(star(corners), [0.05 * star(5)])
    rng = np.random.default_rng(0)
    draws = polygon.sample_uniform(rng, 40_000)
    assert polygon.contains(draws).all()
    lower, upper = polygon.bounding_box(2)
    points = rng.uniform(lower, upper, (400_000, 2))
    found = points[polygon.contains(points)]
    # the area by Monte Carlo, and first and second moments; bounds of five standard errors
    share, box = len(found) / len(points), np.prod(upper - lower)
    assert within(share * box - polygon.area, 5 * box * np.sqrt(share / len(points)))
    for power in (1, 2):
        a, b = draws**power, found**power
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        assert within(a.mean(axis=0) - b.mean(axis=0), 5 * error)


def test_either_way_round_and_repeated_points() -> None:
    polygon = Polygon(SQUARE, [HOLE])
    assert polygon.area == 15
    assert Polygon(SQUARE[::-1], [HOLE[::-1]]).area == 15
    assert Polygon([*SQUARE, SQUARE[0]]) == Polygon(SQUARE) == Polygon([SQUARE[0], *SQUARE])
    np.testing.assert_array_equal(polygon.vertices, SQUARE)
    assert Path(polygon.holes[0]).vertices.shape == (4, 2)
    for array in (polygon.vertices, *polygon.holes):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_curve() -> None:
    def ellipse(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 2 * np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)

    polygon = Polygon.from_curve(ellipse)
    # the inscribed polygon misses a fraction (2 pi / n)^2 / 6 of the area
    assert polygon.area == pytest.approx(2 * np.pi * (1 - (2 * np.pi / 400) ** 2 / 6), rel=1e-8)
    assert Polygon.from_curve(lambda t: np.column_stack(ellipse(t))) == polygon
    assert repr(polygon) == "Polygon(400 vertices in [-2, 2] x [-1, 1])"
    with pytest.raises(ValueError, match=r"function must return shape \(50, 2\) or \(2, 50\), got \(3, 50\)"):
        Polygon.from_curve(lambda t: np.zeros((3, len(t))), points=50)
    with pytest.raises(ValueError, match="points must be an integer >= 3, got 2"):
        Polygon.from_curve(ellipse, points=2)


def test_values() -> None:
    polygon = Polygon(SQUARE, [HOLE])
    assert polygon == Polygon(SQUARE, [HOLE]) and hash(polygon) == hash(Polygon(SQUARE, [HOLE]))
    assert polygon != Polygon(SQUARE) and polygon != "polygon"
    assert from_dict(json.loads(json.dumps(polygon.to_dict(), allow_nan=False))) == polygon
    assert repr(polygon) == "Polygon([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]], 1 hole)"
    np.testing.assert_array_equal(polygon.constrains(2), [True, True])


def signed_area(ring: np.ndarray) -> float:
    x, y = ring.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def test_outline_runs_against_its_holes_in_both_planes() -> None:
    polygon = Polygon(SQUARE, [HOLE])
    for i, j in ((0, 1), (1, 0)):
        outline, hole = polygon.outline(i, j, ([-1, -1], [5, 5]))
        assert signed_area(outline) == 16
        assert signed_area(hole) == -1


@pytest.mark.parametrize(
    ("vertices", "holes", "message"),
    [
        ([], (), "vertices must have at least one entry, got none"),
        ([[0, 0], [1, 1]], (), "at least three different points"),
        ([[0, 0], [1, 1], [1, 1], [0, 0]], (), "at least three different points"),
        ([1, 2, 3], (), r"must have shape \(k, 2\), got \(3,\)"),
        (np.zeros((4, 3)), (), r"must have shape \(k, 2\), got \(4, 3\)"),
        ([[0, 0], [1, np.nan], [1, 1]], (), r"must be finite numbers, got nan at index \(1, 1\)"),
        ([[0, 0], [1, 1], [2, 2]], (), "all points lie on one line"),
        ([[0, 0], [2, 2], [2, 0], [0, 2]], (), r"the edges 0-1 and 2-3 .* meet at \(1, 1\)"),
        ([[0, 0], [4, 0], [4, 0], [4, 4], [2, -1], [0, 4]], (), r"the edges 0-2 and 3-4 .* meet at \(2.4, 0\)"),
        ([[0, 0], [4, 0], [4, 4], [2, 0], [0, 4]], (), r"the edges 0-1 and 2-3 .* meet at \(2, 0\)"),
        ([[0, 0], [2, 0], [1, 0], [1, 1]], (), r"must not run back on itself, but does at index 1, \[2.0, 0.0\]"),
        ([[0, 0], [2, 0], [2, 2], [1, 1], [1, 2], [0, 2], [1, 1], [0, 1]], (), r"meet at \(1, 1\)"),
        (SQUARE, [[[1, 1], [5, 1], [2, 2]]], r"holes\[0\] must not meet the outline, but does at \(4, 1.33333\)"),
        (SQUARE, [[[5, 5], [6, 5], [6, 6]]], r"holes\[0\] must lie inside the outline"),
        (SQUARE, [HOLE, [[1.5, 1.5], [3, 1.5], [3, 3]]], r"holes\[1\] must not meet holes\[0\]"),
        (SQUARE, [HOLE, [[1.2, 1.2], [1.8, 1.2], [1.5, 1.5]]], r"holes\[0\] and holes\[1\] do"),
        (SQUARE, [[[1, 1], [2, 2]]], r"holes\[0\] must hold at least three"),
    ],
)
def test_bad_input_is_named(vertices: object, holes: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Polygon(vertices, holes)  # type: ignore[arg-type]
