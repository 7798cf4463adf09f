"""Level sets: crossings, resolution, checks of the gradient, what a saved run keeps."""

from __future__ import annotations

import json

import numpy as np
import pytest

from invsamp.domains import Ball, LevelSet, Polygon
from invsamp.domains._surfaces import bracketed_roots
from invsamp.domains.level_set import SavedLevelSet
from invsamp.domains.saved import from_dict


def circle(x: np.ndarray) -> np.ndarray:
    return np.sum(x**2, axis=1) - 1


def circle_gradient(x: np.ndarray) -> np.ndarray:
    return 2 * x


BOUNDS = ([-1.0, -1.0], [1.0, 1.0])


@pytest.fixture(scope="module")
def disc() -> LevelSet:
    return LevelSet(circle, circle_gradient, 2, bounds=BOUNDS)


def test_roots_to_rounding_for_steep_flat_and_undefined_functions() -> None:
    roots = np.array([0.3, 1e-9, 0.999, 0.5])

    def function(rows: np.ndarray, t: np.ndarray) -> np.ndarray:
        value = np.sign(t - roots[rows]) * np.abs(t - roots[rows]) ** np.array([1.0, 3.0, 0.2, 1.0])[rows]
        return np.where((rows == 3) & (t > roots[rows]), np.nan, value)

    found = bracketed_roots(function, np.zeros(4), np.ones(4), np.zeros(4))
    np.testing.assert_allclose(found, roots, rtol=0, atol=1e-15)
    assert (function(np.arange(4), found) <= 0).all()


def test_a_thin_gap_needs_a_resolution() -> None:
    # two parts of a strip, with a gap of width 0.02 between them
    def level(x: np.ndarray) -> np.ndarray:
        return np.maximum(0.01 - np.abs(x[:, 0]), np.abs(x[:, 0]) - 1)

    def gradient(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < 0.5, -np.sign(x), np.sign(x))

    start, move = np.array([[-0.5]]), np.array([[0.9]])
    fine = LevelSet(level, gradient, 1, resolution=0.015).reflect(start, move)
    np.testing.assert_allclose(fine.position, [[-0.42]], atol=1e-12)
    assert fine.bounces[0] == 1
    assert LevelSet(level, gradient, 1).reflect(start, move).position[0, 0] > 0.3


def test_a_function_undefined_outside() -> None:
    # NaN beyond 0.5 is outside as well as a positive level
    bound = LevelSet(lambda x: np.where(x[:, 0] <= 0.5, x[:, 0] - 0.6, np.nan), np.ones_like, 1)
    end = bound.reflect(np.array([[0.25]]), np.array([[0.5]]))
    np.testing.assert_allclose(end.position, [[0.25]], atol=1e-12)


def test_gradients_that_are_wrong_are_named_with_the_place() -> None:
    start = np.zeros((4, 2))
    cases = {
        "must not vanish on the boundary, but does": lambda x: np.zeros_like(x),
        "must be that of level, but differs": lambda x: -2 * x,
        "must be finite on the boundary": lambda x: np.full_like(x, np.nan),
    }
    for message, gradient in cases.items():
        with pytest.raises(ValueError, match=rf"gradient of LevelSet\(circle, dimension=2\) {message}.* at \["):
            LevelSet(circle, gradient, 2, bounds=BOUNDS)
        with pytest.raises(ValueError, match=message):  # without bounds, at the first moves
            LevelSet(circle, gradient, 2).reflect(start, start)
    with pytest.raises(ValueError, match="must not vanish"):
        LevelSet(lambda x: circle(x) ** 3, lambda x: 6 * x * circle(x)[:, None] ** 2, 2).reflect(start, start)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 0}, "dimension must be an integer >= 1, got 0"),
        ({"resolution": 0.0}, "resolution must be positive"),
        ({"resolution": [0.1] * 3}, "resolution must be a number or one per coordinate"),
        ({"bounds": ([0, 0], [1, np.inf])}, "bounds must be finite"),
        ({"bounds": ([0, 0], [1, 0])}, "bounds must be finite with lower below upper"),
        (
            {"level": lambda x: x, "bounds": BOUNDS},
            r"level must return shape \(1000,\) at \(1000, 2\), got \(1000, 2\)",
        ),
        ({"gradient": lambda x: x[:, 0], "bounds": BOUNDS}, r"gradient must return shape \(\d+, 2\), got \(\d+,\)"),
    ],
)
def test_bad_input_is_named(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LevelSet(**({"level": circle, "gradient": circle_gradient, "dimension": 2} | change))


def test_draws_need_bounds(disc: LevelSet) -> None:
    draws = disc.sample_uniform(np.random.default_rng(0), 5000)
    assert draws.shape == (5000, 2) and disc.contains(draws).all()
    with pytest.raises(ValueError, match="needs a bounded domain"):
        LevelSet(circle, circle_gradient, 2).sample_uniform(np.random.default_rng(0), 1)


def test_outline_follows_level_zero(disc: LevelSet) -> None:
    (curve,) = disc.outline(1, 0, ([-2, -2], [2, 2]))
    np.testing.assert_allclose(np.linalg.norm(curve, axis=1), 1, atol=1e-3)
    ring = LevelSet(lambda x: circle(x) * (circle(x) + 0.75), circle_gradient, 2)
    outer, inner = sorted(ring.outline(0, 1, ([-2, -2], [2, 2])), key=len)[::-1]
    areas = [0.5 * np.sum(c[:, 0] * np.roll(c[:, 1], -1) - c[:, 1] * np.roll(c[:, 0], -1)) for c in (outer, inner)]
    np.testing.assert_allclose(areas, [np.pi, -np.pi / 4], rtol=0.01)
    # cut by the view, the curve is closed along its edge
    (half,) = disc.outline(0, 1, ([0, -2], [2, 2]))
    assert Polygon(half).area == pytest.approx(np.pi / 2, rel=0.01)
    assert LevelSet(circle, circle_gradient, 3).outline(0, 1, ([-2, -2], [2, 2])) == []


def test_a_saved_run_keeps_the_name_and_the_curves(disc: LevelSet) -> None:
    saved = from_dict(json.loads(json.dumps(disc.to_dict(), allow_nan=False)))
    assert isinstance(saved, SavedLevelSet)
    assert repr(saved) == "SavedLevelSet(circle, dimension=2)"
    (curve,) = saved.outline(0, 1, ([-2, -2], [2, 2]))
    np.testing.assert_allclose(np.linalg.norm(curve, axis=1), 1, atol=1e-3)
    assert from_dict(saved.to_dict()) == saved
    for call in (lambda: saved.contains(np.zeros((1, 2))), lambda: saved.reflect(np.zeros((1, 2)), np.zeros((1, 2)))):
        with pytest.raises(ValueError, match="the function of the level set circle is not saved"):
            call()
    both = from_dict((disc & Ball([0.5, 0.0], 1.0)).to_dict())
    assert repr(both) == "SavedLevelSet(circle, dimension=2) & Ball(center=[0.5, 0.0], radius=1.0)"
    assert len(both.outline(0, 1, ([-2, -2], [2, 2]))) == 1


def test_values(disc: LevelSet) -> None:
    assert LevelSet(circle, circle_gradient, 2, bounds=BOUNDS) == disc
    assert hash(LevelSet(circle, circle_gradient, 2, bounds=BOUNDS)) == hash(disc)
    assert LevelSet(circle, circle_gradient, 2, resolution=0.1, bounds=BOUNDS) != disc
    assert repr(LevelSet(circle, circle_gradient, 2, name="disc")) == "LevelSet(disc, dimension=2)"
