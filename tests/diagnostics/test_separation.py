"""Modes that draws show by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.diagnostics.separation import separation


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
def test_two_modes_and_each_chains_share(share):
    rng = np.random.default_rng(0)
    right = rng.random((4, 1000)) < share
    found = separation(np.where(right, 5.0, -5.0) + 0.5 * rng.standard_normal((4, 1000)))
    assert found is not None and -3.0 < found.at < 3.0
    np.testing.assert_allclose(found.below, 1.0 - right.mean(axis=1))


def test_one_mode_heavy_tails_and_bounds_are_none():
    rng = np.random.default_rng(0)
    for draws in (
        rng.standard_normal((4, 1000)),
        rng.standard_cauchy((4, 1000)),
        rng.random((4, 1000)),
        np.exp(3.0 * rng.standard_normal((4, 1000))),
        np.zeros((4, 1000)),
        np.full((4, 1000), np.nan),
        np.arange(8.0).reshape(4, 2),
    ):
        assert separation(draws) is None


def test_what_is_connected_is_left_to_r_hat():
    """Modes three sds apart."""
    rng = np.random.default_rng(0)
    assert separation(3.0 * (rng.random((4, 2000)) < 0.5) + rng.standard_normal((4, 2000))) is None
