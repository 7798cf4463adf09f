"""Whitened coordinates: one algebra in three forms."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.kernels.metric import DenseMetric, DiagonalMetric, IdentityMetric

SCALE = np.array([0.5, 2.0, 3.0])
LOWER = np.array([[1.0, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.5, 2.0]])
METRICS = {
    "identity": (IdentityMetric(), np.eye(3)),
    "diagonal": (DiagonalMetric(SCALE), np.diag(SCALE)),
    "dense": (DenseMetric(LOWER), LOWER),
}


@pytest.fixture(params=METRICS)
def pair(request):
    """A metric, and its factor L."""
    return METRICS[request.param]


def test_maps_are_multiplications_by_the_factor(pair):
    metric, factor = pair
    vectors = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(metric.whiten(vectors), vectors @ factor)
    np.testing.assert_allclose(metric.color(vectors), vectors @ factor.T)
    np.testing.assert_allclose(metric.uncolor(metric.color(vectors)), vectors)


def test_slopes_do_not_depend_on_coordinates(pair):
    metric, _ = pair
    gradient, move = np.random.default_rng(0).standard_normal((2, 5, 3))
    np.testing.assert_allclose((metric.whiten(gradient) * move).sum(1), (gradient * metric.color(move)).sum(1))


@pytest.mark.parametrize("structure", ["isotropic", "diagonal", "full"])
def test_covariances_of_gradients(pair, structure):
    metric, factor = pair
    roots = np.random.default_rng(0).standard_normal((4, 3, 3))
    full = roots @ np.swapaxes(roots, 1, 2)
    given = {"isotropic": full[:, 0, 0], "diagonal": np.diagonal(full, axis1=1, axis2=2).copy(), "full": full}[
        structure
    ]
    matrices = {"isotropic": lambda s: s * np.eye(3), "diagonal": np.diag, "full": lambda s: s}[structure]
    white = metric.whiten_covariance(given)
    for row, answer in zip(given, white, strict=True):
        matrix = answer if answer.ndim == 2 else np.diag(np.broadcast_to(answer, 3))
        np.testing.assert_allclose(matrix, factor.T @ matrices(row) @ factor, atol=1e-12)


def test_matrix_is_what_a_domain_takes(pair):
    metric, factor = pair
    if metric.matrix is not None:
        matrix = np.diag(metric.matrix) if metric.matrix.ndim == 1 else metric.matrix
        np.testing.assert_allclose(matrix, factor @ factor.T)
