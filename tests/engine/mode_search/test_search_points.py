"""Where descents begin without a prior: around the modes that are known, at several scales."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.domains import Ball, Box, Unbounded
from invsamp.engine.mode_search.search_points import (
    REACH,
    WIDEST,
    Region,
    at_several_scales,
    below_known,
    region_around,
)
from invsamp.modes.minima import Minima


def two(energies=(0.0, 1.0), position=((0.0, 0.0), (10.0, -2.0)), sds=(1.0, 0.5)):
    covariances = np.square(np.array(sds))[:, None, None] * np.eye(2)
    extents = covariances.copy()
    known = np.ones(2, dtype=bool)
    counts = np.ones(2, dtype=int)
    return Minima(np.array(position), np.array(energies), covariances, extents, known, ~known, counts)


def test_the_box_holds_all_modes_with_their_widths():
    low, high = region_around(two().position, np.linalg.cholesky(two().extents))
    np.testing.assert_allclose(low, [-REACH, -REACH])
    np.testing.assert_allclose(high, [10.0 + 0.5 * REACH, REACH])


def test_each_scale_has_its_share_of_the_points():
    """A point of a box made f times as wide lies in the first one with chance f^-d, and log f is uniform."""
    region, rng, n = Region(np.array([1.0, -4.0]), np.array([3.0, 4.0])), np.random.default_rng([3]), 20_000
    points = at_several_scales(region, rng, n, Unbounded())
    apart = np.abs((points - [2.0, 0.0]) / [1.0, 4.0]).max(axis=1)
    assert len(points) == n
    assert apart.max() <= WIDEST
    for reach in (1.0, 2.0, 4.0):
        # E min(1, (reach / f)^2)
        share = (np.log(reach) + 0.5 * (1.0 - (reach / WIDEST) ** 2)) / np.log(WIDEST)
        assert abs((apart <= reach).mean() - share) < 5.0 * np.sqrt(share * (1.0 - share) / n)
    # a control: all points at the widest scale
    control = np.abs(rng.uniform(-WIDEST, WIDEST, (n, 2))).max(axis=1)
    assert (control <= 4.0).mean() < 0.3 < (apart <= 4.0).mean()


@pytest.mark.parametrize("domain", [Box([0.0, -1.0], [2.5, np.inf]), Ball(np.array([2.0, 3.0]), 2.0)])
def test_points_lie_in_the_domain(domain):
    region = Region(np.array([1.0, -4.0]), np.array([3.0, 4.0]))
    points = at_several_scales(region, np.random.default_rng(3), 100, domain)
    assert points.shape == (100, 2)
    assert domain.contains(points).all()


def test_a_domain_that_is_not_met_gives_no_points():
    region = Region(np.zeros(2), np.ones(2))
    assert at_several_scales(region, np.random.default_rng(3), 10, Ball(np.array([99.0, 99.0]), 1.0)).shape == (0, 2)


def test_points_are_compared_with_the_extent_of_a_minimum_without_a_gaussian():
    found = two()
    found.covariances[1] = np.nan
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.uniform(-4.0, 14.0, (200, 2)), [[5.0, 0.0]]])
    energies = 0.5 * np.square(points).sum(axis=1) + 1.0
    energies[-1] = 0.0
    assert below_known(points, energies, found, np.ones(2)).tolist() == [200]
