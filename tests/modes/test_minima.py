"""Which minima are modes that decisions rest on."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.domains import Unbounded
from invsamp.evaluate.requests import Estimate, answered
from invsamp.modes.minima import Minima, confirmed
from invsamp.modes.objective import Objective


def minima(energies, flat=()):
    """Of unit width in one dimension; the flat ones have an extent, but no Gaussian."""
    k = len(energies)
    extents = np.ones((k, 1, 1))
    covariances = extents.copy()
    covariances[list(flat)] = np.nan
    known = np.isfinite(covariances[:, 0, 0])
    position = 10.0 * np.arange(k)[:, None]
    counts = np.ones(k, dtype=int)
    return Minima(position, np.array(energies), covariances, extents, known, np.zeros(k, dtype=bool), counts)


@pytest.mark.parametrize(
    ("weights", "flat", "heavy", "gaussian"),
    [
        ([0.6, 0.4, 1e-8], [2], [0, 1], [0, 1]),  # one of no weight has no Gaussian
        ([0.6, 0.38, 2e-2], [2], [0, 1, 2], [0, 1]),
        ([0.6, 0.4, 2e-3, 1e-8], [3], [0, 1, 2], [0, 1, 2]),
        ([0.6, 0.4, 1e-8], [0], [0, 1], [1]),
    ],
)
def test_only_minima_that_carry_weight_count(weights, flat, heavy, gaussian):
    found = minima(-np.log(weights), flat)
    np.testing.assert_allclose(found.weights, weights / np.sum(weights), rtol=1e-10)
    assert found.heavy.tolist() == heavy
    assert found.gaussian.tolist() == gaussian


def test_a_mode_beyond_those_that_were_known():
    before, after = minima([0.0]), minima([0.0, 1.0])
    assert after.beyond(before, after.heavy)
    assert not after.beyond(before, np.array([0]))
    assert not before.beyond(after, before.heavy)


def test_a_gaussian_that_the_energy_does_not_confirm_is_none():
    """The second one is taken to be a hundred times as wide as it is."""
    found = minima([0.0, 0.0])
    found.covariances[1] = found.extents[1] = 1e4

    def evaluate(at):
        return Estimate(0.5 * np.square(at - 10.0 * np.round(at / 10.0)).sum(axis=1) + (at[:, 0] > 15.0) * 50.0, None)
        yield

    held = answered(confirmed(Objective(evaluate, np.ones(found.position.shape[1]), Unbounded()), found, 10.0), None)
    assert held.known.tolist() == [True, False]
    assert found.weights[1] > 0.99
    assert 0.4 < held.weights[1] < 0.9
    assert held.heavy.tolist() == [0, 1]
    assert not held.gaussian
