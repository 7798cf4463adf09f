"""Boxes and half-spaces: paths, sets, values, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invsamp.domains import Box, HalfSpaces, Unbounded
from invsamp.domains.contract import Domain, Reflection
from invsamp.domains.saved import from_dict

SEEDS = st.integers(0, 2**32 - 1)

TRIANGLE = HalfSpaces([[-1.0, 0.2], [0.3, -1.0], [1.0, 1.1]], [0.0, 0.0, 1.0])
BOX = Box([-1.0, 0.0], [1.0, 0.5])


def octagon(radius: float = 2.0) -> HalfSpaces:
    angles = 2 * np.pi * np.arange(8) / 8
    return HalfSpaces(np.column_stack([np.cos(angles), np.sin(angles)]), np.full(8, radius))


def random_metric(rng: np.random.Generator, dimension: int) -> np.ndarray:
    """Random covariance with standard deviations between 0.3 and 3."""
    rotation = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    return rotation * np.exp(rng.uniform(np.log(0.1), np.log(10), dimension)) @ rotation.T


def random_polytope(rng: np.random.Generator) -> HalfSpaces:
    """Random half-spaces around the origin, bounded or not, in 1 to 4 dimensions."""
    dimension, facets = int(rng.integers(1, 5)), int(rng.integers(1, 10))
    return HalfSpaces(rng.normal(size=(facets, dimension)), rng.uniform(0.3, 1.5, facets))


def starts_and_moves(rng: np.random.Generator, domain: HalfSpaces, n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Points inside, most of them close to a face, and moves of very different lengths."""
    direction = rng.normal(size=(n, domain.dimension))
    rates = direction @ domain.normals.T
    reach = np.where(rates > 0, domain.offsets / np.where(rates > 0, rates, 1.0), 3.0).min(axis=1)
    position = direction * (reach * rng.beta(3, 0.5, n) * (1 - 1e-9))[:, None]
    return position, rng.normal(size=position.shape) * 10 ** rng.uniform(-2, 0.5, (n, 1))


# --- geometry of the path --------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(seed=SEEDS, form=st.sampled_from(["identity", "diagonal", "dense"]))
def test_path_is_reversible_and_keeps_its_speed(seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    domain = random_polytope(rng)
    dense = random_metric(rng, domain.dimension)
    metric = {"identity": None, "diagonal": np.diag(dense).copy(), "dense": dense}[form]
    matrix = {"identity": np.eye(domain.dimension), "diagonal": np.diag(np.diag(dense)), "dense": dense}[form]
    position, move = starts_and_moves(rng, domain)
    end = domain.reflect(position, move, metric)
    assert domain.contains(end.position).all()
    kept = ~end.failed
    back = domain.reflect(end.position[kept], -end.move[kept], metric)
    # a turn keeps errors of size eps in the whitened norm, which is up to a factor 10 from the Euclidean one
    size = 1 + np.abs(position).max() + np.abs(move).max()
    np.testing.assert_allclose(back.position, position[kept], rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(back.move, -move[kept], rtol=0, atol=1e-12 * size)
    np.testing.assert_array_equal(back.bounces, end.bounces[kept])
    assert not back.failed.any()
    inverse = np.linalg.inv(matrix)
    speed = [np.einsum("ni,ij,nj->n", v, inverse, v) for v in (move, end.move)]
    np.testing.assert_allclose(speed[1], speed[0], rtol=1e-11)


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS)
def test_metric_equals_reflection_in_whitened_coordinates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = random_polytope(rng)
    position, move = starts_and_moves(rng, domain)
    metric = random_metric(rng, domain.dimension)
    factor = np.linalg.cholesky(metric)
    end = domain.reflect(position, move, metric)
    whitened = HalfSpaces(domain.normals @ factor, domain.offsets)
    inverse = np.linalg.inv(factor)
    mapped = whitened.reflect(position @ inverse.T, move @ inverse.T)
    np.testing.assert_array_equal(mapped.failed, end.failed)
    np.testing.assert_array_equal(mapped.bounces, end.bounces)
    np.testing.assert_allclose(mapped.position @ factor.T, end.position, rtol=0, atol=1e-11)
    np.testing.assert_allclose(mapped.move @ factor.T, end.move, rtol=0, atol=1e-11)


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS)
def test_diagonal_metric_equals_its_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = random_polytope(rng)
    position, move = starts_and_moves(rng, domain)
    diagonal = rng.uniform(0.1, 10, domain.dimension)
    by_vector, by_matrix = (domain.reflect(position, move, metric) for metric in (diagonal, np.diag(diagonal)))
    np.testing.assert_allclose(by_vector.position, by_matrix.position, rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_vector.move, by_matrix.move, rtol=0, atol=1e-12)


def one(domain: Domain, position: list[float], move: list[float], metric: np.ndarray | None = None) -> Reflection:
    return domain.reflect(np.array([position]), np.array([move]), metric)


def test_known_paths() -> None:
    # 0.5 -> 1 -> 0 -> 0.25 in x; one bounce at the top in y
    end = one(Box([0, 0], [1, 1]), [0.5, 0.75], [1.75, 0.5])
    np.testing.assert_array_equal(end.position, [[0.25, 0.75]])
    np.testing.assert_array_equal(end.move, [[1.75, -0.5]])
    assert end.bounces[0] == 3
    # the face x + y <= 1 swaps the components of an incoming move along x
    end = one(HalfSpaces([[1, 1]], [1]), [0.0, 0.5], [1.5, 0.0])
    np.testing.assert_allclose(end.position, [[0.5, -0.5]], atol=1e-15)
    np.testing.assert_allclose(end.move, [[0.0, -1.5]], atol=1e-15)
    # with P = diag(4, 1) the same face reflects along P a = (4, 1): v - 2 (1.5 / 5) (4, 1)
    end = one(HalfSpaces([[1, 1]], [1]), [0.0, 0.5], [1.5, 0.0], np.array([4.0, 1.0]))
    np.testing.assert_allclose(end.move, [[-0.9, -0.6]], atol=1e-15)


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS, parts=st.integers(2, 6))
def test_wedge_unfolds_into_a_straight_line(seed: int, parts: int) -> None:
    # mirror images of a wedge of 180/parts degrees tile the plane, so the path is a straight line folded by angle
    angle = np.pi / parts
    wedge = HalfSpaces([[0.0, -1.0], [-np.sin(angle), np.cos(angle)]], [0.0, 0.0])
    rng = np.random.default_rng(seed)
    radius, polar = rng.uniform(0.1, 2, 50), rng.uniform(0, angle, 50)
    position = radius[:, None] * np.column_stack([np.cos(polar), np.sin(polar)])
    move = rng.normal(size=(50, 2)) * 3
    straight = position + move
    image = np.floor(np.arctan2(straight[:, 1], straight[:, 0]) / angle)
    # the line turns by less than 180 degrees about the tip: with which sense says how many images it crosses
    clockwise = position[:, 0] * move[:, 1] - position[:, 1] * move[:, 0] < 0
    crossed = np.where(clockwise, -image, image) % (2 * parts)
    folded = np.arctan2(straight[:, 1], straight[:, 0]) % (2 * angle)
    folded = np.minimum(folded, 2 * angle - folded)
    expected = np.linalg.norm(straight, axis=1)[:, None] * np.column_stack([np.cos(folded), np.sin(folded)])
    end = wedge.reflect(position, move)
    np.testing.assert_array_equal(end.bounces, crossed)
    np.testing.assert_allclose(end.position, expected, rtol=0, atol=1e-12)


def test_corner_is_left_backwards() -> None:
    for domain in (Box(0, 1), HalfSpaces(*Box(0, 1).rows(2))):
        end = one(domain, [0.75, 0.75], [0.5, 0.5])
        np.testing.assert_allclose(end.position, [[0.75, 0.75]], atol=1e-15)
        np.testing.assert_allclose(end.move, [[-0.5, -0.5]], atol=1e-15)
        assert end.bounces[0] == 2


@pytest.mark.parametrize("metric", [None, np.array([[1.0, 0.5], [0.5, 2.0]])])
def test_start_on_a_face(metric: np.ndarray | None) -> None:
    for domain in (Box([0, 0], [1, 1]), HalfSpaces(*Box([0, 0], [1, 1]).rows(2)), TRIANGLE):
        outward, inward, along = (
            one(domain, [0.0, 0.0], move, metric) for move in ([-0.3, -0.2], [0.3, 0.2], [0.3, 0.0])
        )
        for end in (outward, inward, along):
            assert domain.contains(end.position).all()
            assert not end.failed.any()
        np.testing.assert_array_equal(inward.move, [[0.3, 0.2]])
        assert inward.bounces[0] == 0
        assert outward.bounces[0] >= 1


def test_too_many_bounces_and_bad_numbers_stay_at_the_start() -> None:
    position = np.array([[0.1, 0.1]] * 5)
    move = np.array([[500.0, 300.0], [np.nan, 0.1], [np.inf, 0.0], [-np.inf, np.nan], [0.1, 0.0]])
    domain = HalfSpaces(*Box(0, 1).rows(2))
    for metric in (None, np.array([[1.0, 0.5], [0.5, 2.0]])):
        end = domain.reflect(position, move, metric)
        np.testing.assert_array_equal(end.failed, [True, True, True, True, False])
        np.testing.assert_array_equal(end.position[:4], position[:4])
        np.testing.assert_array_equal(end.move, move)
        assert (end.bounces == 0).all()
    box = Box(0, 1).reflect(position, move)
    np.testing.assert_array_equal(box.failed, [False, True, True, True, False])
    np.testing.assert_array_equal(box.position[1:4], position[1:4])
    unbounded = Unbounded().reflect(position, move)
    np.testing.assert_array_equal(unbounded.failed, [False, True, True, True, False])
    np.testing.assert_array_equal(unbounded.position[1:4], position[1:4])


@settings(deadline=None, max_examples=100)
@given(seed=SEEDS)
def test_rounding_never_leaves_the_domain(seed: int) -> None:
    # ends on faces and in corners, coordinates of very different size, starts from earlier ends
    rng = np.random.default_rng(seed)
    domain = random_polytope(rng)
    units = 10 ** rng.uniform(-6, 6, domain.dimension)
    scaled = HalfSpaces(domain.normals / units, domain.offsets)
    position, move = starts_and_moves(rng, domain)
    # short moves: none of them is refused for its number of bounces
    position, move = position * units, 0.1 * move * units
    for _ in range(20):
        end = scaled.reflect(position, move, units**2)
        assert scaled.contains(end.position).all()
        # on to the face that the straight line would hit first: a path that ends there up to rounding
        rates = end.move @ scaled.normals.T
        gaps = scaled.offsets - end.position @ scaled.normals.T
        times = np.where(rates > 0, gaps / np.where(rates > 0, rates, 1.0), np.inf).min(axis=1)
        position, move = end.position, end.move * np.where(np.isfinite(times), times, 1.0)[:, None]
        assert not end.failed.any()


def test_inputs_are_not_overwritten() -> None:
    for domain in (Unbounded(), Box(0, 1), octagon()):
        position, move = np.full((2, 2), 0.5), np.full((2, 2), 3.0)
        domain.reflect(position, move)
        assert (position == 0.5).all() and (move == 3.0).all()


# --- sets, values, errors --------------------------------------------------------------------------------------------


def test_intersections() -> None:
    assert Box(0, 2) & Box(1, 3) == Box(1, 2)
    assert Box([0, 0], [1, 1]) & Box(0.5) == Box([0.5, 0.5], [1, 1])
    for domain in (Box(0, 1), TRIANGLE, Unbounded()):
        assert Unbounded() & domain == domain
        assert domain & Unbounded() == domain
    assert TRIANGLE & Box() == TRIANGLE
    both = Box([0.1, -np.inf], [np.inf, 0.4]) & TRIANGLE
    assert both == TRIANGLE & Box([0.1, -np.inf], [np.inf, 0.4])
    points = np.random.default_rng(0).uniform(-0.5, 1.5, (1000, 2))
    expected = TRIANGLE.contains(points) & (points[:, 0] >= 0.1) & (points[:, 1] <= 0.4)
    np.testing.assert_array_equal(both.contains(points), expected)
    np.testing.assert_array_equal(
        (TRIANGLE & octagon(0.3)).contains(points), TRIANGLE.contains(points) & octagon(0.3).contains(points)
    )
    with pytest.raises(ValueError, match="lower must be below upper"):
        Box(0, 1) & Box(2, 3)
    with pytest.raises(ValueError, match="interior"):
        TRIANGLE & Box(2, 3)
    with pytest.raises(ValueError, match="3 coordinates"):
        TRIANGLE & Box(np.zeros(3), 1.0)


def test_constrains() -> None:
    np.testing.assert_array_equal(Unbounded().constrains(3), [False, False, False])
    np.testing.assert_array_equal(Box(0).constrains(2), [True, True])
    np.testing.assert_array_equal(Box([-np.inf, -np.inf, 0], [1, np.inf, np.inf]).constrains(3), [True, False, True])
    np.testing.assert_array_equal(HalfSpaces([[1, 0, -1], [0, 0, 2]], [0, 1]).constrains(3), [True, False, True])


def test_dictionaries_round_trip_through_strict_json() -> None:
    for domain in (Unbounded(), Box(0, 1), Box([-np.inf, 0.1], [2.0, np.inf]), Box(), TRIANGLE):
        again = from_dict(json.loads(json.dumps(domain.to_dict(), allow_nan=False)))
        assert again == domain
        assert hash(again) == hash(domain)
        assert repr(again) == repr(domain)
    with pytest.raises(ValueError, match="kind must be"):
        from_dict({"kind": "torus"})


def test_values_compare_and_do_not_change() -> None:
    assert Box(0, 1) != Box(0, 2)
    assert Box(0, 1) != TRIANGLE
    assert HalfSpaces([[1]], [1]) != HalfSpaces([[1]], [2])
    for array in (Box(0, 1).lower, TRIANGLE.normals, TRIANGLE.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    given_bounds = np.zeros(2)
    box = Box(given_bounds, 1)
    given_bounds[:] = 5.0
    assert box == Box([0, 0], 1)


def assert_same_polygon(curves: list[np.ndarray], expected: npt.ArrayLike) -> None:
    """One curve of equal vertices in the same cyclic order, whichever comes first."""
    (polygon,) = curves
    expected = np.asarray(expected, dtype=float)
    first = np.linalg.norm(polygon - expected[0], axis=1).argmin()
    np.testing.assert_allclose(np.roll(polygon, -first, axis=0), expected, atol=1e-12)


def test_outlines() -> None:
    view = ([-2.0, -2.0], [2.0, 2.0])
    assert Unbounded().outline(0, 1, view) == []
    rectangle = Box([0, 0, 0], [1, 3, 1]).outline(0, 1, view)
    assert_same_polygon(rectangle, [[0, 0], [1, 0], [1, 2], [0, 2]])
    assert Box([0, -np.inf, -np.inf], np.inf).outline(1, 2, view) == []
    pairs = ([0, 1], [1, 2], [2, 0])
    vertices: Any = [np.linalg.solve(TRIANGLE.normals[pair], TRIANGLE.offsets[pair]) for pair in pairs]
    assert_same_polygon(TRIANGLE.outline(0, 1, view), vertices)
    # sigma > 1 + beta, among three parameters
    wedge = HalfSpaces([[-1.0, 0.0, 1.0]], [-1.0])
    assert_same_polygon(wedge.outline(0, 2, view), [[-1, -2], [2, -2], [2, 1]])
    assert wedge.outline(0, 1, view) == []
    assert HalfSpaces([[1.0, 0.0]], [-5.0]).outline(0, 1, view) == []


def test_interior_is_found_in_any_units() -> None:
    # a linear program with absolute tolerances would call the second coordinate empty, or anything feasible
    domain = HalfSpaces([[1, 0], [-1, 0], [0, 1], [0, -1], [1e-9, 1e9]], [1e9, -0.9e9, 1.1e-9, -1e-9, 2.5])
    assert domain.contains(np.array([[0.95e9, 1.05e-9]]))[0]
    with pytest.raises(ValueError, match="interior"):
        HalfSpaces([[0, 1], [0, -1]], [1e-9, -1.1e-9])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(1, 0), "lower must be below upper, got lower 1.0 and upper 0.0 at index 0"),
        (lambda: Box([0, 1], [1, 1]), "at index 1"),
        (lambda: Box(np.nan, 1), "lower must be numbers, got nan"),
        (lambda: Box(np.inf, np.inf), "lower must be below upper"),
        (lambda: Box([0, 0], [1, 1, 1]), r"one length, got shapes \(2,\) and \(3,\)"),
        (lambda: Box(np.zeros((2, 2)), 1), r"got shapes \(2, 2\)"),
        (lambda: Box([], 1), "at least one entry"),
        (lambda: Box(-1e308, 1e308), "finite float"),
        (lambda: HalfSpaces([1, 0], [1]), r"shape \(k, d\), got \(2,\)"),
        (lambda: HalfSpaces([[1, 0]], [1, 2]), r"offsets must have shape \(1,\), got \(2,\)"),
        (lambda: HalfSpaces([[1, 0], [0, 0]], [1, 2]), r"must not be zero, got row 1"),
        (lambda: HalfSpaces([[1, np.nan]], [1]), "must be finite"),
        (lambda: HalfSpaces([[1, 0]], [np.inf]), "must be finite"),
        (lambda: HalfSpaces([[1, 0], [-1, 0]], [0, -1]), "interior"),
        (lambda: HalfSpaces([[1, 0], [-1, 0]], [1, -1]), "interior"),
        (lambda: Box([0, 0], 1).check_dimension(3), "Box has 2 coordinates, but positions have 3"),
        (lambda: TRIANGLE.check_dimension(3), "HalfSpaces has 2 coordinates, but positions have 3"),
        (lambda: TRIANGLE.reflect(np.zeros((1, 3)), np.zeros((1, 3))), "positions have 3"),
        (lambda: TRIANGLE.contains(np.zeros((1, 3))), "positions have 3"),
        (lambda: BOX.reflect(np.zeros((1, 3)), np.zeros((1, 3))), "positions have 3"),
        (lambda: BOX.reflect(np.zeros((1, 2)), np.zeros((2, 2))), r"shape \(n, d\), got \(1, 2\) and \(2, 2\)"),
        (lambda: BOX.reflect(np.zeros((1, 2)), np.zeros((1, 2)), np.ones(3)), "metric must have shape"),
        (lambda: TRIANGLE.reflect(np.zeros((1, 2)), np.zeros((1, 2)), np.eye(3)), "metric must have shape"),
    ],
)
def test_bad_input_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_draws_fill_the_bounding_box() -> None:
    domain = HalfSpaces(np.vstack([np.eye(3), -np.eye(3), [[1.0, 1.0, 1.0]]]), [1, 2, 3, 0, 0, 0, 4])
    lower, upper = domain.bounding_box(3)
    np.testing.assert_allclose(lower, 0, atol=1e-5)
    np.testing.assert_allclose(upper, [1, 2, 3], atol=1e-5)
    draws = domain.sample_uniform(np.random.default_rng(0), 20_000)
    assert draws.shape == (20_000, 3) and domain.contains(draws).all()
    # the slab of width 0.05 with the least volume holds one draw in 200
    np.testing.assert_allclose([draws.min(axis=0), draws.max(axis=0)], [[0] * 3, [1, 2, 3]], atol=0.05)
    wedge = HalfSpaces([[1.0, 1.0, 0.0], [-1.0, 0.0, 0.0]], [1.0, 0.0])
    np.testing.assert_allclose(wedge.bounding_box(3), [[0, -np.inf, -np.inf], [np.inf, 1, np.inf]], atol=1e-5)
    with pytest.raises(ValueError, match="sample_uniform needs a bounded domain"):
        wedge.sample_uniform(np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="sample_uniform needs a bounded domain, got Unbounded"):
        Unbounded().sample_uniform(np.random.default_rng(0), 1)
