"""The path itself, in domains of every kind: reversible, of constant speed, inside; metric and special paths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invsamp.domains import Ball, Box, Ellipsoid, HalfSpaces, LevelSet, Polygon, Product
from invsamp.domains.contract import Domain

SEEDS = st.integers(0, 2**32 - 1)
FORMS = st.sampled_from(["identity", "diagonal", "dense"])


def random_metric(rng: np.random.Generator, dimension: int) -> np.ndarray:
    rotation = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    return rotation * np.exp(rng.uniform(np.log(0.2), np.log(5), dimension)) @ rotation.T


def random_ring(rng: np.random.Generator, corners: int, low: float, high: float) -> np.ndarray:
    """Star-shaped around the origin, mostly not convex."""
    angles = 2 * np.pi * (np.arange(corners) + rng.uniform(0, 0.8, corners)) / corners
    return rng.uniform(low, high, corners)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])


def random_polygon(rng: np.random.Generator) -> Polygon:
    outline = random_ring(rng, int(rng.integers(3, 40)), 0.6, 2.0)
    holes = [random_ring(rng, int(rng.integers(3, 9)), 0.05, 0.15)] if rng.random() < 0.5 and len(outline) > 8 else []
    return Polygon(outline, holes)


def random_ellipsoid(rng: np.random.Generator) -> Ellipsoid:
    dimension = int(rng.integers(1, 5))
    return Ellipsoid(rng.normal(size=dimension), random_metric(rng, dimension))


def random_ball(rng: np.random.Generator) -> Ball:
    return Ball(rng.normal(size=int(rng.integers(1, 5))), rng.uniform(0.3, 3))


def sphere(center: np.ndarray, radius: float, resolution: float | None = None) -> LevelSet:
    def level(x: np.ndarray) -> np.ndarray:
        return np.sum((x - center) ** 2, axis=1) - radius**2

    def gradient(x: np.ndarray) -> np.ndarray:
        return 2 * (x - center)

    return LevelSet(level, gradient, len(center), resolution, (center - radius, center + radius))


def random_level_set(rng: np.random.Generator) -> LevelSet:
    return sphere(rng.normal(size=int(rng.integers(1, 4))), rng.uniform(0.3, 3))


def random_intersection(rng: np.random.Generator) -> Domain:
    return random_polygon(rng) & Ball([0.2, 0.1], rng.uniform(0.5, 1.2)) & Box([-1.0, -np.inf], [0.9, 0.7])


def random_product(rng: np.random.Generator) -> Product:
    return Product({(2, 0): random_polygon(rng), 1: Box(0, rng.uniform(0.3, 2)), (3, 4): random_ellipsoid_2(rng)})


def random_ellipsoid_2(rng: np.random.Generator) -> Ellipsoid:
    return Ellipsoid(rng.normal(size=2), axes=rng.uniform(0.5, 2, 2))


def random_mixed(rng: np.random.Generator) -> Domain:
    return random_polygon(rng) & sphere(np.array([0.2, 0.1]), rng.uniform(0.5, 1.2), 0.02)


MAKERS = {
    "polygon": random_polygon,
    "ball": random_ball,
    "ellipsoid": random_ellipsoid,
    "level set": random_level_set,
    "intersection": random_intersection,
    "product": random_product,
    "with a level set": random_mixed,
}


def starts_and_moves(rng: np.random.Generator, domain: Domain, n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    position = domain.sample_uniform(rng, n)
    return position, rng.normal(size=position.shape) * 10 ** rng.uniform(-2, 0, (n, 1))


@pytest.mark.parametrize("kind", MAKERS)
@settings(max_examples=30)
@given(seed=SEEDS, form=FORMS)
def test_path_is_reversible_and_keeps_its_speed(kind: str, seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    domain = MAKERS[kind](rng)
    position, move = starts_and_moves(rng, domain)
    dense = random_metric(rng, position.shape[1])
    metric = {"identity": None, "diagonal": np.diag(dense).copy(), "dense": dense}[form]
    inverse = np.linalg.inv({"identity": np.eye(len(dense)), "diagonal": np.diag(np.diag(dense)), "dense": dense}[form])
    end = domain.reflect(position, move, metric)
    assert domain.contains(end.position).all()
    kept = ~end.failed
    np.testing.assert_array_equal(end.position[~kept], position[~kept])
    np.testing.assert_array_equal(end.move[~kept], move[~kept])
    assert (end.bounces[~kept] == 0).all()
    back = domain.reflect(end.position[kept], -end.move[kept], metric)
    assert not back.failed.any()
    # curved boundaries and narrow corners amplify rounding at every bounce
    tolerance = 1e-9 * (1 + end.bounces[kept].max(initial=0))
    np.testing.assert_array_equal(back.bounces, end.bounces[kept])
    np.testing.assert_allclose(back.position, position[kept], rtol=0, atol=tolerance)
    np.testing.assert_allclose(back.move, -move[kept], rtol=0, atol=tolerance)
    speed = [np.einsum("ni,ij,nj->n", v, inverse, v) for v in (move, end.move)]
    np.testing.assert_allclose(speed[1], speed[0], rtol=1e-11)


@settings(max_examples=30)
@given(seed=SEEDS)
def test_metric_equals_reflection_in_whitened_coordinates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    polygon = random_polygon(rng)
    metric = random_metric(rng, 2)
    factor = np.linalg.cholesky(metric)
    inverse = np.linalg.inv(factor)
    whitened = Polygon(polygon.vertices @ inverse.T, [hole @ inverse.T for hole in polygon.holes])
    ellipsoid = random_ellipsoid_2(rng)
    ball_like = Ellipsoid(ellipsoid.center @ inverse.T, factor.T @ ellipsoid.matrix @ factor)
    for domain, mapped in ((polygon, whitened), (ellipsoid, ball_like)):
        position, move = starts_and_moves(rng, domain)
        end = domain.reflect(position, move, metric)
        other = mapped.reflect(position @ inverse.T, move @ inverse.T)
        np.testing.assert_array_equal(other.bounces, end.bounces)
        np.testing.assert_allclose(other.position @ factor.T, end.position, rtol=0, atol=1e-9)
        np.testing.assert_allclose(other.move @ factor.T, end.move, rtol=0, atol=1e-9)


@settings(max_examples=30)
@given(seed=SEEDS, form=FORMS)
def test_kinds_agree_where_they_describe_the_same_set(seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    dense = random_metric(rng, 2)
    metric = {"identity": None, "diagonal": np.diag(dense).copy(), "dense": dense}[form]
    angles = np.sort(2 * np.pi * (np.arange(6) + rng.uniform(0, 0.5, 6)) / 6)
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    step = np.roll(corners, -1, axis=0) - corners
    normals = np.column_stack([step[:, 1], -step[:, 0]])
    center = rng.normal(size=2)
    same = [
        (Polygon(corners), HalfSpaces(normals, np.sum(normals * corners, axis=1))),
        (Ball(center, 1.5), Ellipsoid(center, axes=[1.5, 1.5])),
        (Ball(center, 1.5), sphere(center, 1.5)),
        (Polygon([[0, 0], [2, 0], [2, 1], [0, 1]]), Box([0, 0], [2, 1])),
        (Product({1: Box(0.0, 1.0), 0: Box(0.0, 2.0)}), Box([0, 0], [2, 1])),
        (Polygon([[0, 0], [2, 0], [2, 2], [0, 2]]) & Box([-1, -1], [3, 1]), Box([0, 0], [2, 1])),
    ]
    for one, other in same:
        position, move = starts_and_moves(rng, other)
        ends = one.reflect(position, move, metric), other.reflect(position, move, metric)
        kept = ~(ends[0].failed | ends[1].failed)
        assert kept.mean() > 0.9
        np.testing.assert_array_equal(*(end.bounces[kept] for end in ends))
        np.testing.assert_allclose(*(end.position[kept] for end in ends), rtol=0, atol=1e-9)
        np.testing.assert_allclose(*(end.move[kept] for end in ends), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["polygon", "ball", "ellipsoid", "intersection", "product"])
@settings(max_examples=15)
@given(seed=SEEDS)
def test_rounding_never_leaves_the_domain(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = MAKERS[kind](rng)
    position, move = starts_and_moves(rng, domain)
    for _ in range(20):
        # to where the straight line hits the boundary, up to rounding: halve the time until inside, then out again
        low, high = np.zeros(len(position)), np.full(len(position), 8.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            end = domain.reflect(position, middle[:, None] * move)
            free = (end.bounces == 0) & ~end.failed
            low, high = np.where(free, middle, low), np.where(free, high, middle)
        end = domain.reflect(position, rng.choice([low, high])[:, None] * move)
        assert domain.contains(end.position).all()
        assert not end.failed.any()
        # away along the boundary, or anywhere
        position, move = end.position, np.where(rng.random((len(move), 1)) < 0.5, end.move, rng.normal(size=move.shape))


def one(
    domain: Domain, position: list[float], move: list[float], metric: np.ndarray | None = None
) -> tuple[list, list, int]:
    end = domain.reflect(np.array([position]), np.array([move]), metric)
    assert not end.failed[0]
    assert domain.contains(end.position)[0]
    return end.position[0].round(12).tolist(), end.move[0].round(12).tolist(), int(end.bounces[0])


L_SHAPE = Polygon([[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]])


def test_known_paths_in_a_polygon() -> None:
    # reflected by the two inner edges at the re-entrant corner (1, 1), and past it
    assert one(L_SHAPE, [0.5, 1.5], [1.0, 0.0]) == ([0.5, 1.5], [-1.0, 0.0], 1)
    assert one(L_SHAPE, [1.5, 0.5], [0.0, 1.0]) == ([1.5, 0.5], [0.0, -1.0], 1)
    assert one(L_SHAPE, [0.5, 0.5], [1.0, 0.0]) == ([1.5, 0.5], [1.0, 0.0], 0)
    # both ends lie inside, but they do not see each other
    assert L_SHAPE.contains(np.array([[0.5, 1.75], [1.75, 0.75]])).all()
    assert one(L_SHAPE, [0.5, 1.75], [1.25, -1.0]) == ([0.25, 0.75], [-1.25, -1.0], 1)


def test_corners() -> None:
    # out of a convex corner backwards
    assert one(L_SHAPE, [0.25, 0.25], [-0.5, -0.5]) == ([0.25, 0.25], [0.5, 0.5], 2)
    # along the diagonal into the re-entrant corner: whichever of its edges reflect the move, the end is inside
    assert np.abs(one(L_SHAPE, [0.5, 0.5], [1.0, 1.0])[1]).tolist() == [1.0, 1.0]
    # just beside it on either side
    assert one(L_SHAPE, [0.5, 0.5 + 1e-9], [1.0, 1.0])[1] == [-1.0, 1.0]
    assert one(L_SHAPE, [0.5 + 1e-9, 0.5], [1.0, 1.0])[1] == [1.0, -1.0]


@pytest.mark.parametrize("metric", [None, np.array([2.0, 1.0]), np.array([[1.0, 0.5], [0.5, 2.0]])])
@pytest.mark.parametrize(
    "domain",
    [Polygon([[0, 0], [1, 0.2], [0.3, 1]]), L_SHAPE, L_SHAPE & Ball([0.0, 0.0], 1.9)],
    ids=["triangle", "L-shape", "intersection"],
)
def test_start_on_an_edge_or_in_a_corner(domain: Domain, metric: np.ndarray | None) -> None:
    for start in ([0.0, 0.0], [0.5, 0.1], [0.15, 0.5]):
        assert domain.contains(np.array([start]))[0]
        for angle in np.linspace(0, 2 * np.pi, 9):
            one(domain, start, [0.2 * np.cos(angle), 0.2 * np.sin(angle)], metric)


def test_tangential_moves() -> None:
    square = Polygon([[0, 0], [2, 0], [2, 2], [0, 2]])
    assert one(square, [0.5, 0.0], [1.0, 0.0]) == ([1.5, 0.0], [1.0, 0.0], 0)
    assert one(square, [0.5, 0.0], [2.0, 0.0]) == ([1.5, 0.0], [-2.0, 0.0], 1)
    # a tangent at the equator of a ball leaves it at once: the chord has no length
    end = Ball([0.0, 0.0], 1.0).reflect(np.array([[1.0, 0.0]]), np.array([[0.0, 0.5]]))
    assert Ball([0.0, 0.0], 1.0).contains(end.position)[0]


def test_grazing_paths_in_a_ball_follow_its_boundary() -> None:
    # a regular polygon of 40 chords inscribed in the circle
    angle = np.pi / 40
    start, chord = np.array([[1.0, 0.0]]), 2 * np.sin(angle) * np.array([[-np.sin(angle), np.cos(angle)]])
    end = Ball([0.0, 0.0], 1.0).reflect(start, 39.5 * chord)
    assert end.bounces[0] == 39
    expected = 0.5 * np.array([1.0 + np.cos(2 * angle), -np.sin(2 * angle)])
    np.testing.assert_allclose(end.position[0], expected, atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: L_SHAPE,
        lambda: Ball([1.0, 1.0], 0.8),
        lambda: sphere(np.array([1.0, 1.0]), 0.8),
        lambda: L_SHAPE & Ball([1.0, 1.0], 0.9),
    ],
    ids=["polygon", "ball", "level set", "intersection"],
)
def test_bad_numbers_and_starts_outside_stay(make: Callable[[], Domain]) -> None:
    domain = make()
    position = np.array([[0.9, 0.9]] * 5 + [[3.0, 3.0]])
    move = np.array([[5e4, 3e4], [np.nan, 0.1], [np.inf, 0.0], [-np.inf, np.nan], [0.01, 0.0], [-0.1, -0.1]])
    for metric in (None, np.array([[1.0, 0.5], [0.5, 2.0]])):
        end = domain.reflect(position, move, metric)
        np.testing.assert_array_equal(end.failed, [True, True, True, True, False, True])
        np.testing.assert_array_equal(end.position[end.failed], position[end.failed])
        np.testing.assert_array_equal(end.move, move)
        assert (end.bounces == 0).all()
    empty = domain.reflect(np.empty((0, 2)), np.empty((0, 2)))
    assert empty.position.shape == (0, 2)
    assert position[0, 0] == 0.9  # not overwritten


def test_bad_shapes_are_named() -> None:
    for domain in (L_SHAPE, Ball([0.0, 0.0], 1.0)):
        name = type(domain).__name__
        with pytest.raises(ValueError, match=f"{name} has 2 coordinates, but positions have 3"):
            domain.contains(np.zeros((1, 3)))
        with pytest.raises(ValueError, match=r"shape \(n, d\), got \(1, 2\) and \(2, 2\)"):
            domain.reflect(np.zeros((1, 2)), np.zeros((2, 2)))
        with pytest.raises(ValueError, match="metric must have shape"):
            domain.reflect(np.zeros((1, 2)), np.zeros((1, 2)), np.eye(3))
