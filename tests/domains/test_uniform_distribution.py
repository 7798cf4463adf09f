"""The specular path leaves the uniform distribution invariant in every domain; mirroring and projection do not.

Every walker is independent: it starts from a uniform draw, makes a few moves, and its end is counted in a cell. The
counts are compared with those of draws by rejection, so the statistic is chi-square distributed whatever the walk's
correlation time. What is judged is its distance from its mean, the degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.stats import chi2

from invsamp.domains import Ball, Box, Ellipsoid, HalfSpaces, LevelSet, Polygon, Product
from invsamp.domains.boundary import Projecting
from invsamp.domains.contract import Domain

Reflect = Callable[[np.ndarray, np.ndarray], np.ndarray]
Within = Callable[..., Any]


def flower(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    radius = (np.sin(2 * np.pi * 5 * t) + 3) * 2 / 3.5
    return radius * np.cos(2 * np.pi * t), radius * np.sin(2 * np.pi * t)


def heart(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, r = 2 * np.pi * t, 0.14
    y = 13 * np.cos(a) - 5 * np.cos(2 * a) - 2 * np.cos(3 * a) - np.cos(4 * a)
    return r * 16 * np.sin(a) ** 3, r * y


def regular(corners: int, radius: float) -> np.ndarray:
    angles = 2 * np.pi * np.arange(corners) / corners
    return radius * np.column_stack([np.sin(angles), np.cos(angles)])


def cross(radius: float) -> np.ndarray:
    a, b = 0.309 * radius, 0.951 * radius
    arm = np.array([[b, -a], [b, a], [a, a]])
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])  # of a turn, for rows
    return np.concatenate([arm @ np.linalg.matrix_power(quarter, k) for k in range(4)])


def bean_level(x: np.ndarray) -> np.ndarray:
    # not convex: a circle bent upwards
    return x[:, 0] ** 2 + (x[:, 1] - x[:, 0] ** 2) ** 2 * 2 - 1


def bean_gradient(x: np.ndarray) -> np.ndarray:
    bent = 4 * (x[:, 1] - x[:, 0] ** 2)
    return np.column_stack([2 * x[:, 0] - bent * 2 * x[:, 0], bent])


L_SHAPE = Polygon([[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]])
FRAME = Polygon([[0, 0], [3, 0], [3, 3], [0, 3]], holes=[[[0.5, 0.5], [1.5, 0.7], [1.0, 1.8]], regular(6, 0.5) + 2.2])
DART = Polygon([[-1, -1], [1, -1], [0.8, 1.5], [0, 0.2], [-0.8, 1.5]])


def cut_cube() -> Domain:
    """A unit cube without one of its corners."""
    return Box(np.zeros(3), np.ones(3)) & HalfSpaces([[1.0, 1.0, 1.0]], [2.0])


def bean() -> Domain:
    return LevelSet(bean_level, bean_gradient, 2, resolution=0.1, bounds=([-1.1, -1.1], [1.1, 2.1]))


#: What makes the domain, standard deviation of the moves, cells along each side for about 1,200 in all.
CASES: dict[str, tuple[Callable[[], Domain], float, int]] = {
    "box": (lambda: Box([-1.0, 0.0], [1.0, 0.5]), 0.8, 35),
    "triangle": (lambda: HalfSpaces([[-1.0, 0.2], [0.3, -1.0], [1.0, 1.1]], [0.0, 0.0, 1.0]), 0.4, 46),
    "flower": (lambda: Polygon.from_curve(flower), 0.5, 47),
    "heart": (lambda: Polygon.from_curve(heart), 0.5, 42),
    "octagon": (lambda: Polygon(regular(8, 2.5)), 1.0, 38),
    "cross": (lambda: Polygon(cross(2.5)), 0.8, 45),
    "polytope 3-D": (cut_cube, 0.4, 11),
    "ball 5-D": (lambda: Ball(np.zeros(5), 1.0), 0.3, 6),
    "L-shape": (lambda: L_SHAPE, 0.7, 40),
    "level set": (bean, 0.4, 44),
    "ellipsoid": (lambda: Ellipsoid([0.5, -0.5], [[2.0, 1.2], [1.2, 1.0]]), 0.8, 54),
    "holes": (lambda: FRAME, 0.5, 38),
    "polygon in a box": (lambda: Polygon.from_curve(flower) & Box(-1.0, 1.5), 0.5, 37),
    "level set in a polygon": (lambda: bean() & DART, 0.3, 44),
    "product": (lambda: Product({(0, 2): L_SHAPE, 1: Box(0.0, 1.0)}), 0.5, 11),
}


@cache
def case(name: str) -> tuple[Any, float, int]:
    """Domain, standard deviation of the moves, cells along each side."""
    make, spread, cells = CASES[name]
    return make(), spread, cells


def two_sample_chi2(a: np.ndarray, b: np.ndarray, bins: int) -> tuple[float, int]:
    """Statistic and degrees of freedom for equal-sized samples (n, d) counted in the cells of one grid."""
    low, high = b.min(axis=0), b.max(axis=0)
    dimension = b.shape[1]
    counts = []
    for sample in (a, b):
        # draws beyond the edges count in the outermost cells
        cell = ((sample - low) / (high - low) * bins).astype(int).clip(0, bins - 1)
        flat = np.ravel_multi_index(tuple(cell.T), (bins,) * dimension)
        counts.append(np.bincount(flat, minlength=bins**dimension))
    # cells that a corner leaves nearly empty have no Gaussian counts: join them into one
    few = counts[0] + counts[1] < 40
    first, second = (np.append(count[~few], count[few].sum()) for count in counts)
    total = first + second
    used = total > 0
    return float(np.sum((first - second)[used] ** 2 / total[used])), int(used.sum()) - 1


def by_rejection(domain: Domain, rng: np.random.Generator, n: int) -> np.ndarray:
    lower, upper = domain.bounding_box(domain.dimension or 3)
    draws = np.empty((0, len(lower)))
    while len(draws) < n:
        points = rng.uniform(lower, upper, (n, len(lower)))
        draws = np.concatenate([draws, points[domain.contains(points)]])
    return draws[:n]


def walk(
    name: str,
    n: int,
    bins: int | None = None,
    reflect: Reflect | None = None,
    metric: np.ndarray | None = None,
    seed: int = 0,
) -> tuple[float, int, float]:
    """chi2, degrees of freedom and share of the moves that failed, of `n` walkers after 6 moves."""
    domain, spread, cells = case(name)
    rng = np.random.default_rng(seed)
    position, reference = domain.sample_uniform(rng, n), by_rejection(domain, rng, n)
    dimension = position.shape[1]
    factor = spread * (np.eye(dimension) if metric is None else np.linalg.cholesky(metric))
    failed = 0.0
    for _ in range(6):
        move = rng.standard_normal(position.shape) @ factor.T
        if reflect is None:
            end = domain.reflect(position, move, metric)
            failed += end.failed.mean() / 6
            position = end.position
        else:
            position = reflect(position, move)
    assert domain.contains(position).all()
    return (*two_sample_chi2(position, reference, bins or cells), failed)


def bound(dof: int) -> float:
    """Distance that a right walk's statistic has from its mean once in 100,000 calls, and less often below it."""
    return float(chi2.isf(1e-5, dof)) - dof


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("preconditioned", [False, True])
def test_random_walk_keeps_the_uniform_distribution(within: Within, name: str, preconditioned: bool) -> None:
    dimension = case(name)[0].dimension or 3
    bins = {2: 12, 3: 5, 5: 3}[dimension]
    metric = (
        np.full((dimension, dimension), 0.4) + np.diag(np.linspace(0.4, 1.0, dimension)) if preconditioned else None
    )
    statistic, dof, failed = walk(name, 10_000, bins, metric=metric)
    assert within(statistic - dof, bound(dof))
    assert failed <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_uniform_distribution_in_a_thousand_cells(within: Within, name: str) -> None:
    statistic, dof, failed = walk(name, 120_000, seed=1)
    assert 900 < dof < 1900
    assert within(statistic - dof, bound(dof))
    assert failed < 1e-4


def nearest_on(polygon: Polygon, points: np.ndarray) -> np.ndarray:
    """Nearest point of the outline to each point, to 1e-4 of its length."""
    start, step = polygon.vertices, np.roll(polygon.vertices, -1, axis=0) - polygon.vertices
    part = np.arange(0, 1, len(start) / 10_000)
    outline = (start[:, None] + part[:, None] * step[:, None]).reshape(-1, 2)
    return outline[cKDTree(outline).query(points)[1]]


def project(polygon: Polygon, position: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Wrong: ends outside are put on the nearest point of the outline (pulled in a little, so that it is inside)."""
    end = position + move
    out = ~polygon.contains(end)
    foot = nearest_on(polygon, end[out])
    end[out] = foot + 1e-6 * (foot - end[out]) / np.linalg.norm(foot - end[out], axis=1, keepdims=True)
    return np.where(polygon.contains(end)[:, None], end, position)


def mirror(polygon: Polygon, position: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Wrong: ends outside are mirrored at the nearest point of the outline; the start where that is not inside."""
    end = position + move
    out = ~polygon.contains(end)
    end[out] = 2 * nearest_on(polygon, end[out]) - end[out]
    return np.where(polygon.contains(end)[:, None], end, position)


@pytest.mark.parametrize("name", ["octagon", "cross", "L-shape"])
@pytest.mark.parametrize("wrong", [project, mirror])
def test_control_wrong_reflections_are_rejected(within: Within, name: str, wrong: Callable[..., np.ndarray]) -> None:
    domain = case(name)[0]
    statistic, dof, _ = walk(name, 40_000, 12, lambda position, move: wrong(domain, position, move))
    assert not within(statistic - dof, bound(dof))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flower", "heart"])
@pytest.mark.parametrize("wrong", [project, mirror])
def test_control_wrong_reflections_in_a_thousand_cells(
    within: Within, name: str, wrong: Callable[..., np.ndarray]
) -> None:
    domain = case(name)[0]
    statistic, dof, _ = walk(name, 120_000, reflect=lambda position, move: wrong(domain, position, move), seed=1)
    assert not within(statistic - dof, bound(dof))


@pytest.mark.parametrize("name", ["triangle", "L-shape", "ellipsoid"])
def test_control_euclidean_turn_of_preconditioned_moves_is_rejected(within: Within, name: str) -> None:
    domain, spread, _ = case(name)
    factor = spread * np.linalg.cholesky(np.array([[1.1, 0.9], [0.9, 1.1]]))

    def wrong(position: np.ndarray, move: np.ndarray) -> np.ndarray:
        # `walk` draws moves of independent entries
        return domain.reflect(position, move / spread @ factor.T).position

    statistic, dof, _ = walk(name, 20_000, 12, wrong)
    assert not within(statistic - dof, bound(dof))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flower", "L-shape", "ball 5-D", "ellipsoid"])
def test_density_next_to_the_boundary(within: Within, name: str) -> None:
    """Positions near the boundary after long moves are neither missing nor concentrated in a thin layer."""
    domain, spread, _ = case(name)
    rng = np.random.default_rng(2)
    n = 200_000
    start, reference = domain.sample_uniform(rng, n), by_rejection(domain, rng, n)
    moves = spread * rng.standard_normal((4, *start.shape))
    probe = 0.02 * rng.standard_normal(start.shape)

    def near_the_boundary(position: np.ndarray) -> float:
        """Share of the points that a short probe leads out of the domain."""
        return float(np.mean(~domain.contains(position + probe)))

    def score(walls: Domain | Projecting) -> float:
        position = start
        for move in moves:
            position = walls.reflect(position, move).position
        return (near_the_boundary(position) - share) / deviation

    share = near_the_boundary(reference)
    deviation = np.sqrt(2 * share / n)
    assert within(score(domain), 4.5)
    assert not within(score(Projecting(domain, start.shape[1])), 4.5)
