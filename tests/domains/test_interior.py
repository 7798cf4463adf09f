"""Points inside of domains that draws hardly ever hit."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.domains import Ball, Box, HalfSpaces, LevelSet, Polygon, Product, Unbounded
from invsamp.domains._interior import point_inside
from invsamp.domains.intersection import Intersection

SIMPLEX = HalfSpaces(np.vstack([-np.eye(12), np.ones((1, 12))]), np.append(np.zeros(12), 1e-3))


@pytest.mark.parametrize(
    ("domain", "dimension"),
    [
        (HalfSpaces([[-1.0]], [-5.0]), 1),
        (HalfSpaces([[-1.0, 0.0]], [-1e9]), 2),
        (SIMPLEX, 12),
        (Box(1e6, 1e6 + 1e-3), 3),
        (Box([3.0, -np.inf], [np.inf, -3.0]), 2),
        (Ball([50.0, 50.0], 0.01), 2),
        (Ball([50.0, 50.0], 1.0) & HalfSpaces([[1.0, 1.0]], [98.7]), 2),
        (Product({(0, 2): Ball([7.0, 7.0], 0.1), (1,): HalfSpaces([[-1.0]], [-4.0])}), 4),
        (Product({(3,): Box(9.0, 9.1), (1, 0): HalfSpaces([[1.0, -1.0]], [-8.0])}), 4),
        (Polygon([[9.0, 9.0], [10.0, 9.0], [10.0, 10.0], [9.9, 9.1]]), 2),
        (Unbounded(), 2),
    ],
)
def test_is_found(domain, dimension):
    point = point_inside(domain, dimension, np.random.default_rng(0))
    if isinstance(domain, Unbounded):
        assert point is None  # nothing to look for: every draw lies inside
        return
    assert point.shape == (dimension,) and domain.contains(point[None]).all()


def test_of_flat_faces_is_well_inside():
    point = point_inside(SIMPLEX, 12, np.random.default_rng(0))
    slack = (SIMPLEX.offsets - SIMPLEX.normals @ point) / np.linalg.norm(SIMPLEX.normals, axis=1)
    # the largest ball in the simplex has radius 1e-3 / (12 + sqrt(12)) in its own units
    np.testing.assert_allclose(slack.min(), 1e-3 / (12 + np.sqrt(12)), rtol=0.3)


def test_is_none_where_none_is_known():
    far = LevelSet(lambda x: 100.0 - x[:, 0], lambda x: np.tile([-1.0, 0.0], (len(x), 1)), 2)
    assert point_inside(far, 2, np.random.default_rng(0)) is None
    apart = Intersection((HalfSpaces([[1.0, 1.0]], [-3.0]), Ball([0.0, 0.0], 1.0)))
    assert point_inside(apart, 2, np.random.default_rng(0)) is None
