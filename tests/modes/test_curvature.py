"""Widths of a minimum's Gaussian, compared with the energy."""

from __future__ import annotations

import numpy as np

from invsamp.domains import Box, Unbounded
from invsamp.evaluate.requests import Estimate, answered
from invsamp.modes.curvature import confirmed_factor
from invsamp.modes.objective import Objective


def confirmed(function, center, extent, domain=None):
    def evaluate(at):
        return Estimate(function(at), np.zeros_like(at))
        yield

    objective = Objective(evaluate, np.ones(len(extent)), domain or Unbounded())
    asking = confirmed_factor(objective, np.array(center), 0.0, np.linalg.cholesky(extent), 10.0)
    factor, whole = answered(asking, None)
    return factor @ factor.T, whole


def test_a_gaussian_is_as_wide_as_it_says():
    """Of scales that differ by twelve orders of magnitude, correlated."""
    sds = np.array([1e-6, 1.0, 1e6])
    extent = np.outer(sds, sds) * (0.9 + 0.1 * np.eye(3))
    precision = np.linalg.inv(extent)
    found, whole = confirmed(lambda x: 0.5 * np.einsum("ij,jk,ik->i", x, precision, x), np.zeros(3), extent)
    assert whole
    np.testing.assert_allclose(found, extent, rtol=1e-10)


def test_a_ring_is_no_wider_than_itself():
    """Rounding may give it any width along itself."""
    found, whole = confirmed(
        lambda x: 50.0 * (np.linalg.norm(x, axis=1) - 5.0) ** 2, [5.0, 0.0], np.diag([0.01, 200.0**2])
    )
    assert not whole
    np.testing.assert_allclose(found[0, 0], 0.01)
    assert 1.0 < np.sqrt(found[1, 1]) < 3.0


def test_beyond_a_bound_nothing_is_asked():
    found, whole = confirmed(lambda x: 0.5 * x[:, 0] ** 2, [0.0], np.eye(1), Box([-0.5], [0.5]))
    assert whole
    np.testing.assert_allclose(found, 1.0)
