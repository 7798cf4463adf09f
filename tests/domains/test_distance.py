"""Nearest points of domains, compared with an optimizer, and the constraint violation with its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from invsamp.domains import Ball, Box, Ellipsoid, HalfSpaces, LevelSet, Polygon, Product
from invsamp.domains.distance import nearest_points, squared_violation


class Opaque:
    """A domain that only says what is inside."""

    def outline(self, i, j, view):
        return None

    def __repr__(self):
        return "Opaque()"


#: The first one lies in all domains, whatever the seed.
POINTS = np.vstack([np.zeros(3), np.random.default_rng(0).normal(0.0, 2.0, (40, 3))])
CENTER = np.array([0.5, 0.0, -0.5])
NORMALS, OFFSETS = np.array([[1.0, 1.0, 0.0], [-1.0, 2.0, 0.3], [0.2, -1.0, 4.0]]), np.array([0.5, 0.7, 0.1])
TILTED = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.2], [0.0, -0.2, 0.3]])


def elliptic(position):
    """The same ellipsoid as a level, with another scale outside."""
    away = position - CENTER
    return np.log(np.einsum("ni,ij,nj->n", away, TILTED, away))


def elliptic_gradient(position):
    away = position - CENTER
    return 2.0 * away @ TILTED / np.einsum("ni,ij,nj->n", away, TILTED, away)[:, None]


class TestNearestPoints:
    """Against a general optimizer, and by the condition that they satisfy."""

    @pytest.mark.parametrize(
        ("domain", "level"),
        [
            (Ball(CENTER, 1.5), lambda y: 1.0 - ((y - CENTER) ** 2).sum() / 1.5**2),
            (Ellipsoid(CENTER, TILTED), lambda y: 1.0 - (y - CENTER) @ TILTED @ (y - CENTER)),
            (HalfSpaces(NORMALS, OFFSETS), lambda y: OFFSETS - NORMALS @ y),
        ],
        ids=["ball", "ellipsoid", "half-spaces"],
    )
    def test_against_an_optimizer(self, domain, level):
        found = nearest_points(domain, 3)(POINTS)
        moved = 0
        for point, near in zip(POINTS, found, strict=True):
            if np.min(level(point)) >= 0.0:
                np.testing.assert_array_equal(near, point)
                continue
            moved += 1
            best = minimize(
                lambda y, point=point: ((y - point) ** 2).sum(),
                np.array([0.1, 0.1, -0.4]),
                jac=lambda y, point=point: 2.0 * (y - point),
                constraints={"type": "ineq", "fun": level},
                options={"ftol": 1e-14, "maxiter": 300},
            )
            np.testing.assert_allclose(near, best.x, atol=2e-6)
            assert np.min(level(near)) >= -1e-12
        assert 5 < moved < len(POINTS)

    def test_half_spaces_that_are_nearly_parallel(self):
        narrow = HalfSpaces([[1.0, 0.0, 0.0], [-1.0, 0.01, 0.0]], [0.0, 0.0])
        near = nearest_points(narrow, 3)(POINTS)
        assert narrow.contains(near).all()
        x, y, z = POINTS.T
        np.testing.assert_allclose(near[:, 2], z, atol=1e-12)
        # the faces intersect at y = 0, and all points beyond are nearest to that line
        np.testing.assert_allclose(near[y > 0.0, :2], 0.0, atol=1e-9)
        right = (x > 0.0) & (y < 0.0)
        np.testing.assert_allclose(near[right, :2], np.stack([0.0 * x, y], axis=1)[right], atol=1e-9)
        assert min((y > 0.0).sum(), right.sum()) > 5

    def test_box(self):
        near = nearest_points(Box([-1.0, 0.0, -np.inf], [1.0, np.inf, 0.5]), 3)(POINTS)
        np.testing.assert_array_equal(near, np.clip(POINTS, [-1.0, 0.0, -np.inf], [1.0, np.inf, 0.5]))

    def test_polygon_with_a_hole(self):
        corners = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
        ring = Polygon(2.0 * corners, holes=[corners])
        points = np.array([[3.0, 0.5], [3.0, 4.0], [0.9, 0.2], [0.1, -0.8], [1.5, 1.5], [-2.5, -1.0]])
        truth = np.array([[2.0, 0.5], [2.0, 2.0], [1.0, 0.2], [0.1, -1.0], [1.5, 1.5], [-2.0, -1.0]])
        np.testing.assert_allclose(nearest_points(ring, 2)(points), truth)

    def test_level_set(self):
        ellipsoid = Ellipsoid(CENTER, TILTED)
        inner = ellipsoid.sample_uniform(np.random.default_rng(0), 50)
        close = CENTER + 1.3 * (inner - CENTER)
        near = nearest_points(LevelSet(elliptic, elliptic_gradient, 3), 3)(close)
        assert 5 < (near != close).any(axis=1).sum() < 50
        np.testing.assert_allclose(near, nearest_points(ellipsoid, 3)(close), atol=1e-9)

    def test_product(self):
        pair = Product({(0, 2): Ball([0.0, 0.0], 1.0), (1,): Box([-1.0], [0.5])})
        near = nearest_points(pair, 3)(POINTS)
        np.testing.assert_allclose(near[:, [0, 2]], nearest_points(Ball([0.0, 0.0], 1.0), 2)(POINTS[:, [0, 2]]))
        np.testing.assert_array_equal(near[:, 1], POINTS[:, 1].clip(-1.0, 0.5))


@pytest.mark.parametrize(
    "domain",
    [
        Box(-1.0, 0.5),
        HalfSpaces([[1.0, 2.0, 0.0], [-1.0, 0.3, 0.3]], [0.5, 0.7]),
        Ball([0.0, 0.1, 0.0], 1.0),
        Ellipsoid(CENTER, TILTED),
        LevelSet(elliptic, elliptic_gradient, 3),
        Ball(CENTER, 1.5) & HalfSpaces([[1.0, 2.0, 0.0]], [0.5]),
        Product({(0, 2): Ball([0.0, 0.0], 1.0), (1,): Box([-1.0], [0.5])}),
    ],
    ids=["box", "half-spaces", "ball", "ellipsoid", "level set", "intersection", "product"],
)
def test_gradient_of_the_violation(domain):
    violation = squared_violation(domain, 3)
    points = np.random.default_rng(1).normal(0.0, 1.0, (200, 3))  # some inside whatever the seed
    value, gradient = violation(points)
    step = 1e-6
    by_difference = np.stack(
        [(violation(points + step * e)[0] - violation(points - step * e)[0]) / (2.0 * step) for e in np.eye(3)], axis=1
    )
    np.testing.assert_allclose(gradient, by_difference, atol=1e-6)
    inside = value == 0.0
    assert 0 < inside.sum() < len(points)
    assert not gradient[inside].any()


def test_violation_of_a_domains_own():
    class Own:
        def violation(self, position):
            return position[:, 0] ** 2, np.eye(3)[0] * 2.0 * position[:, :1]

    value, gradient = squared_violation(Own(), 3)(POINTS)
    np.testing.assert_allclose(value, POINTS[:, 0] ** 2)
    np.testing.assert_allclose(gradient[:, 0], 2.0 * POINTS[:, 0])


def test_domains_without_nearest_points():
    for find in (nearest_points, squared_violation):
        with pytest.raises(ValueError, match=r"needs a domain that knows its nearest points, got Opaque\(\)"):
            find(Opaque(), 3)
    with pytest.raises(ValueError, match="needs a domain that knows its nearest points, got Ball"):
        nearest_points(Ball(np.zeros(3), 1.0) & Box(0.0, 1.0), 3)
