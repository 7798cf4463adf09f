"""Products: blocks by index and by name."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from invsamp.domains import Ball, Box, HalfSpaces, Polygon, Product, Unbounded
from invsamp.domains.constraints import named_columns
from invsamp.domains.saved import from_dict

TRIANGLE = Polygon([[0, 0], [2, 0], [0, 1]])
PRODUCT = Product({(2, 0): TRIANGLE, 1: Box(lower=0.5)})


def test_blocks_are_where_they_should_be() -> None:
    points = np.random.default_rng(0).uniform(-0.5, 2, (1000, 4))
    expected = TRIANGLE.contains(points[:, [2, 0]]) & (points[:, 1] >= 0.5)
    np.testing.assert_array_equal(PRODUCT.contains(points), expected)
    np.testing.assert_array_equal(PRODUCT.constrains(4), [True, True, True, False])
    lower, upper = PRODUCT.bounding_box(4)
    np.testing.assert_array_equal(lower, [0, 0.5, 0, -np.inf])
    np.testing.assert_array_equal(upper, [1, np.inf, 2, np.inf])


def test_blocks_reflect_independently() -> None:
    rng = np.random.default_rng(0)
    domain = Product({(2, 0): TRIANGLE, 1: Box(0.0, 1.0), (3, 4): Ball([1.0, 1.0], 0.5)})
    position = domain.sample_uniform(rng, 500)
    move = rng.normal(size=position.shape) * 0.7
    end = domain.reflect(position, move, np.array([1.0, 2.0, 1.0, 0.5, 1.0]))
    kept = ~end.failed
    assert kept.mean() > 0.99
    blocks = [
        (TRIANGLE, [2, 0], None),
        (Box(0.0, 1.0), [1], None),
        (Ball([1.0, 1.0], 0.5), [3, 4], np.array([0.5, 1.0])),
    ]
    total = np.zeros(len(position), dtype=int)
    for block, columns, metric in blocks:
        alone = block.reflect(position[:, columns], move[:, columns], metric)
        np.testing.assert_allclose(end.position[kept][:, columns], alone.position[kept], rtol=0, atol=1e-12)
        total += alone.bounces
    np.testing.assert_array_equal(end.bounces[kept], total[kept])


def test_outlines() -> None:
    view = ([-3.0, -3.0], [3.0, 3.0])
    (curve,) = PRODUCT.outline(2, 0, view)
    np.testing.assert_array_equal(curve, TRIANGLE.vertices)
    (rectangle,) = PRODUCT.outline(0, 1, view)
    np.testing.assert_array_equal(np.ptp(rectangle, axis=0), [1, 2.5])
    assert Product({0: Box(0, 1)}).outline(1, 2, view) == []


def test_names() -> None:
    columns = named_columns({"a": (), "k": (2,), "b": (), "m": (1, 2)})
    assert columns["k"] == (1, 2) and columns["k[1]"] == (2,) and columns["m[0, 1]"] == (5,)
    named = Product({("b", "a"): TRIANGLE, "k": Box([0, 0], [1, 2]), "m[0, 1]": Box(0.0, 1.0)})
    bound = named.bind(columns)
    assert bound == Product({(3, 0): TRIANGLE, (1, 2): Box([0, 0], [1, 2]), 5: Box(0.0, 1.0)})
    assert from_dict(json.loads(json.dumps(bound.to_dict()))) == bound
    assert hash(from_dict(bound.to_dict())) == hash(bound)
    with pytest.raises(ValueError, match="Product names 'c', which is none of"):
        Product({"c": Box(0, 1)}).bind(columns)
    with pytest.raises(ValueError, match="Box has 3 coordinates, but positions have 2"):
        Product({"k": Box([0] * 3, 1)}).bind(columns)
    with pytest.raises(ValueError, match="a Product by names needs a problem that has these names"):
        named.contains(np.zeros((1, 6)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Product({}), "at least one domain"),
        (lambda: Product({(0, 1): TRIANGLE, 1: Box(0, 1)}), "must not share coordinates"),
        (lambda: Product({(0, 0): TRIANGLE}), "must not share coordinates"),
        (lambda: Product({(0, 1, 2): TRIANGLE}), "Polygon has 2 coordinates, but positions have 3"),
        (lambda: Product({(0, "a"): TRIANGLE}), "keyed by names or by indices"),
        (lambda: Product({-1: Box(0, 1)}), "keyed by names or by indices from 0, got -1"),
        (lambda: Product({0: Unbounded()}), "must hold bounded domains"),
        (lambda: PRODUCT.contains(np.zeros((1, 2))), "block on column 2, but positions have 2 coordinates"),
        (lambda: PRODUCT.sample_uniform(np.random.default_rng(0), 1), "bounded domain"),
        (
            lambda: Product({1: Box(0, 1)}).sample_uniform(np.random.default_rng(0), 1),
            "block on column 1, but positions have 1",
        ),
        (lambda: PRODUCT & HalfSpaces([[1.0, 0.0]], [1.0]), "column 2, but positions have 2"),
    ],
)
def test_bad_input_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
