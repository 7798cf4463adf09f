"""Which minima are modes that decisions rest on."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.modes.minima import Minima


def minima(energies, flat=()):
    """Of unit width in one dimension; the flat ones have an extent, but no Gaussian."""
    k = len(energies)
    extents = np.ones((k, 1, 1))
    covariances = extents.copy()
    covariances[list(flat)] = np.nan
    position = 10.0 * np.arange(k)[:, None]
    return Minima(position, np.array(energies), covariances, extents, np.zeros(k, dtype=bool), np.ones(k, dtype=int))


@pytest.mark.parametrize(
    ("weights", "flat", "heavy", "gaussian"),
    [
        ([0.6, 0.4, 1e-8], [2], [0, 1], True),  # one of no weight has no Gaussian
        ([0.6, 0.395, 5e-3], [2], [0, 1], True),
        ([0.6, 0.38, 2e-2], [2], [0, 1, 2], False),
        ([0.6, 0.4, 2e-3, 1e-8], [3], [0, 1, 2], True),  # others keep their threshold
        ([0.6, 0.4, 1e-8], [0], [0, 1], False),
    ],
)
def test_only_minima_that_carry_weight_count(weights, flat, heavy, gaussian):
    found = minima(-np.log(weights), flat)
    np.testing.assert_allclose(found.weights, weights / np.sum(weights), rtol=1e-10)
    assert found.heavy.tolist() == heavy
    assert found.gaussian == gaussian


def test_a_mode_beyond_those_that_were_known():
    before = minima([0.0])
    assert not minima([0.0, 20.0]).beyond(before)  # of no weight
    assert minima([0.0, 1.0]).beyond(before)
    assert not before.beyond(minima([0.0, 1.0]))
