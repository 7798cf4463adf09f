"""Layouts of sensors, bound to a space."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.sensors import Disc, as_layout, point_sensors, region_averages
from invsamp.solvers.fem.space import Space

POINTS = [[0.3, 0.4], [0.7, 0.1]]


def space():
    square = unit_square(8)
    return Space(Mesh(square.points, square.cells, {"half": np.arange(64)}, square.edges))


def test_groups_of_sensors_stand_one_after_the_other():
    bound = as_layout([point_sensors(POINTS), region_averages(["half", Disc((0.5, 0.5), 0.2)])]).on(space())
    x = space().nodes[:, :1]
    np.testing.assert_allclose(bound.values(x)[:, 0], [0.3, 0.7, 0.25, 0.5], atol=1e-12)
    assert bound.count == 4
    rng = np.random.default_rng(0)
    cotangents, fields = rng.normal(size=(4, 3)), rng.normal(size=(81, 3))
    np.testing.assert_allclose(
        np.sum(bound.transpose(cotangents) * fields), np.sum(cotangents * bound.values(fields)), rtol=1e-12
    )


def test_equal_layouts_are_equal_and_say_what_they_are():
    assert point_sensors(POINTS) == as_layout(POINTS) != point_sensors(POINTS[:1])
    assert repr(point_sensors(POINTS)) == "point_sensors([[0.3, 0.4], [0.7, 0.1]])"
    assert repr(region_averages(["half", Disc((0.5, 0.5), 0.2)])) == (
        "region_averages(['half', Disc(center=(0.5, 0.5), radius=0.2)])"
    )
    # no address, so that it is the same in every process
    assert repr(region_averages([np.isfinite])) != repr(region_averages([np.isnan]))
    assert "0x" not in repr(region_averages([lambda points: points[:, 0] < 0.5]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: point_sensors([0.5, 0.5]), r"points must have shape \(n_sensors, d\), got \(2,\)"),
        (lambda: point_sensors(np.empty((0, 2))), "points must have at least one entry"),
        (lambda: point_sensors([[0.5, np.nan]]), r"points must be finite numbers, got nan at index \(0, 1\)"),
        (lambda: region_averages([]), "regions must be a sequence of names or predicates of at least one entry"),
        (
            lambda: region_averages("half"),
            "regions must be a sequence of names or predicates of at least one entry, got 'half'",
        ),
        (lambda: Disc((0.5, 0.5), 0.0), "radius must be a positive finite number, got 0.0"),
        (lambda: region_averages([Disc((3.0, 0.5), 0.1)]).on(space()), "a region must hold a cell, got none"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
