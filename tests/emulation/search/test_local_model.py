"""The linear model of a descent: exact for linear outputs, and true to derivatives that were measured elsewhere."""

from __future__ import annotations

import numpy as np

import invsamp as iv
from invsamp.emulation.runs.inputs import inputs_of
from invsamp.emulation.search.local_model import regressed

DIMENSION, OUTPUTS = 6, 20


def inputs() -> object:
    prior = iv.Prior(x=iv.Normal(0, 1, shape=DIMENSION))
    return inputs_of(iv.Posterior(prior, lambda theta: theta, np.zeros(DIMENSION), iv.GaussianNoise(1.0)))


def slope(center: np.ndarray, points: np.ndarray, function: object) -> np.ndarray:
    model, _ = regressed(inputs(), center, function(center[None])[0], points, function(points), np.ones(DIMENSION))
    return model.jacobian


def by_independent_errors(center: np.ndarray, points: np.ndarray, function: object) -> np.ndarray:
    """The same regression as if errors were independent."""
    away, change = points - center, function(points) - function(center[None])
    root = 1.0 / (np.square(away).sum(axis=1, keepdims=True) + 0.03**2)
    return np.linalg.lstsq(root * away, root * change, rcond=None)[0].T


def test_is_exact_for_linear_outputs() -> None:
    rng = np.random.default_rng(0)
    matrix, points = rng.standard_normal((OUTPUTS, DIMENSION)), rng.standard_normal((10, DIMENSION))
    found = slope(rng.standard_normal(DIMENSION), points, lambda theta: theta @ matrix.T)
    assert np.abs(found - matrix).max() < 1e-5


def test_keeps_derivatives_that_were_measured_a_step_before() -> None:
    worst = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        matrix = rng.standard_normal((OUTPUTS, DIMENSION))
        phase = rng.uniform(0.0, 2.0 * np.pi, OUTPUTS)

        def function(theta: np.ndarray, matrix: np.ndarray = matrix, phase: np.ndarray = phase) -> np.ndarray:
            return np.sin(theta @ matrix.T + phase)

        start = rng.standard_normal(DIMENSION)
        center = start + 0.3 * rng.choice([-1.0, 1.0], DIMENSION) / np.sqrt(DIMENSION)
        beside = start + 0.02 * np.eye(DIMENSION)
        points = np.concatenate([rng.standard_normal((40, DIMENSION)), start[None], beside])
        true = np.cos(matrix @ center + phase)[:, None] * matrix
        errors = [
            np.linalg.norm(found - true)
            for found in (slope(center, points, function), by_independent_errors(center, points, function))
        ]
        worst.append(errors[0] / errors[1])
    assert max(worst) < 0.7  # .17 to .43
