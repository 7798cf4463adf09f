from __future__ import annotations

import itertools

import numpy as np
import pytest

from invsamp.solvers.fem.fields import (
    Constant,
    Field,
    Fixed,
    GaussianBump,
    LogField,
    Modes,
    PerBlock,
    PerRegion,
    Sum,
    as_field,
    union,
)

POINTS = np.random.default_rng(0).random((40, 2))


def waves(points):
    return np.stack([np.cos((k + 1) * points[:, 0] - points[:, 1]) for k in range(3)], axis=1)


def left(points):
    return points[:, 0] < 0.5


FIELDS = {
    "constant": Constant("k"),
    "fixed": Fixed(lambda points: points[:, 0]),
    "bump": GaussianBump("w", "h", ("x", "y")),
    "fixed bump": GaussianBump(0.3, 2.0, (0.4, 0.6)),
    "modes": Modes("z", waves, mean=0.3, count=3),
    "array modes": Modes("z", waves(POINTS), mean=POINTS[:, 1]),
    "regions": PerRegion({left: "a"}, elsewhere="b"),
    "regions, one fixed": PerRegion({left: "a"}, elsewhere=2.0),
    "blocks": PerBlock("b", (2, 3)),
    "log": LogField(Modes("z", waves, count=3)),
    "log of sum": LogField(Sum(Constant("m"), Modes("z", waves, count=3), GaussianBump(0.2, "h", ("x", 0.5)))),
    "shared": Sum(GaussianBump("w", "h"), GaussianBump("w", "h", ("x", "y2"))),
}


@pytest.mark.parametrize("name", FIELDS)
def test_pullback_is_the_derivative_of_the_values(name):
    field = FIELDS[name]
    assert isinstance(field, Field)
    rng = np.random.default_rng(1)
    theta = 0.2 + 0.6 * rng.random((5, sum(field.sizes)))
    located = field.at(POINTS)
    values = located.values(theta)
    assert values.shape == (5, len(POINTS))
    cotangents = rng.standard_normal(values.shape)
    pulled = located.pullback(theta, cotangents)
    assert pulled.shape == theta.shape
    for column, step in itertools.product(range(theta.shape[1]), (1e-5,)):
        move = np.zeros_like(theta)
        move[:, column] = step
        slope = (located.values(theta + move) - located.values(theta - move)) / (2 * step)
        np.testing.assert_allclose(pulled[:, column], (cotangents * slope).sum(axis=1), rtol=1e-6, atol=1e-7)


def test_bump_is_the_gaussian_of_its_unknowns_in_the_order_center_width_height():
    bump = GaussianBump("w", "h")
    assert bump.parameters == ("x", "y", "w", "h")
    found = bump.at(POINTS).values(np.array([[0.3, 0.6, 0.2, 5.0]]))[0]
    distance = np.hypot(*(POINTS - [0.3, 0.6]).T)
    np.testing.assert_allclose(found, 5.0 * np.exp(-(distance**2) / (2 * 0.2**2)), rtol=1e-13)


def test_width_that_is_not_positive_gives_nan_and_leaves_other_rows_alone():
    bump = GaussianBump("w").at(POINTS)
    values = bump.values(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, -1.0], [0.5, 0.5, 0.1]]))
    assert np.isnan(values[:2]).all() and np.isfinite(values[2]).all()


def test_overflow_of_an_exponential_is_infinite_and_silent():
    field = LogField(Constant("k")).at(POINTS)
    assert np.isinf(field.values(np.array([[1e4]]))).all()
    assert not np.isfinite(field.pullback(np.array([[1e4]]), np.ones((1, len(POINTS))))).any()


def test_blocks_are_numbered_with_x_slowest_and_their_upper_edges_belong_to_the_next():
    points = np.array([[0.1, 0.1], [0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [1.0, 1.0], [-1.0, 2.0]])
    values = PerBlock("b", (2, 3)).at(points).values(np.arange(6.0)[None])
    assert values.tolist() == [[0.0, 2.0, 3.0, 4.0, 5.0, 2.0]]


def test_regions_by_name_are_asked_of_the_mesh():
    field = PerRegion({"core": "a", "shell": 3.0})
    masks = {"core": left(POINTS), "shell": ~left(POINTS)}
    values = field.at(POINTS, masks.__getitem__).values(np.array([[2.0]]))[0]
    np.testing.assert_array_equal(values, np.where(left(POINTS), 2.0, 3.0))
    with pytest.raises(ValueError, match="the name 'core', which only cells have"):
        field.at(POINTS)


@pytest.mark.parametrize(
    "field, message",
    [
        (PerRegion({left: "a"}), "must cover every point"),
        (PerRegion({left: "a", (lambda points: points[:, 1] < 0.5): "b"}, 0.0), "must not overlap"),
        (PerRegion({(lambda points: points): "a"}), "must give a mask"),
        (Modes("z", waves(POINTS[1:])), "must have shape"),
        (Fixed(np.ones(3)), "must have shape"),
        (Fixed(lambda points: points[:, 0] / 0.0 * np.nan), "must be finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_does_not_fit_the_points_is_an_error(field, message):
    with pytest.raises(ValueError, match=message):
        field.at(POINTS)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Constant(np.nan), "value must be a finite number"),
        (lambda: Constant(""), "or a name for an unknown, got ''"),
        (lambda: GaussianBump(0.0), "width must be positive"),
        (lambda: GaussianBump(height=0), "height must not be zero"),
        (lambda: GaussianBump(center="xy"), "pair"),
        (lambda: GaussianBump("x"), "center, width and height must not repeat a name"),
        (lambda: PerRegion({}), "at least one region"),
        (lambda: PerRegion({left: None}), "must be a finite number"),
        (lambda: PerBlock("b", (0, 2)), "shape must be integers >= 1"),
        (lambda: PerBlock("b", (2, 2), upper=(0.0, 1.0)), "lower must be below upper"),
        (lambda: Modes("z", waves), "count"),
        (lambda: Modes("z", waves(POINTS), count=4), "count"),
        (lambda: Modes("z", np.ones(3)), r"modes must have shape \(n, count\)"),
        (lambda: LogField(None), "logarithm must be a field"),
        (lambda: Modes(3, np.ones((4, 2))), "parameter must be a string that is not empty, got 3"),
        (lambda: GaussianBump(center=0.5), "center must be a pair of numbers or names of at least one entry, got 0.5"),
        (lambda: GaussianBump(center=("x", np.nan)), r"center\[1\] must be a finite number"),
        (lambda: PerRegion(["a"]), r"values must be a mapping from regions to numbers or names, got \['a'\]"),
        (lambda: as_field("source", [1.0, np.nan]), "source must be a field such as GaussianBump"),
        (lambda: Fixed(lambda x, y: x).at(POINTS), r"<lambda> must take points \(n, 2\)"),
        (lambda: Sum(), "at least one"),
        (lambda: Sum(Constant("a"), None), r"fields\[1\] must be a field"),
        (lambda: Sum(Constant("z"), FIELDS["array modes"]), "one size"),
        (lambda: as_field("conductivity", [[1.0]]), "conductivity must be a field"),
        (lambda: as_field("conductivity", None), "conductivity must be a field"),
    ],
)
def test_bad_settings_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_union_gives_each_field_its_columns():
    names, sizes, columns = union([FIELDS["bump"], FIELDS["array modes"], Constant(1.0), Constant("h")])
    assert names == ("x", "y", "w", "h", "z") and sizes == (1, 1, 1, 1, 3)
    assert [own.tolist() for own in columns] == [[0, 1, 2, 3], [4, 5, 6], [], [3]]


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float64(2), np.full(len(POINTS), 2.0), lambda points: 2 + 0 * points[:, 0]]
)
def test_numbers_arrays_and_functions_become_fields(value):
    field = as_field("source", value)
    assert field.parameters == ()
    assert np.all(field.at(POINTS).values(np.empty((3, 0))) == np.full((3, len(POINTS)), 2.0))


def test_what_stands_for_a_field_may_be_put_into_others():
    assert LogField("log_k") == LogField(Constant("log_k"))
    assert Sum("a", 2.0) == Sum(Constant("a"), Constant(2.0))


def test_fields_print_without_addresses():
    assert "0x" not in "".join(map(repr, FIELDS.values()))
    assert repr(FIELDS["array modes"]) == repr(Modes("z", waves(POINTS), mean=POINTS[:, 1]))
