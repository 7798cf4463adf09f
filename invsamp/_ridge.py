r"""Kernel ridge regression with a free intercept, its settings chosen by exact leave-one-out errors.

With kernel matrix K, ridge r and M = K + r 1, the fit is ``mean + k(x)^T weights`` where

    G = M^-1 - M^-1 e e^T M^-1 / (e^T M^-1 e),   weights = G y,   e = (1, ..., 1),

and the error at point i of the fit without point i is ``(G y)_i / G_ii``: this is the block inverse of the
bordered system, so nothing has to be fitted twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Tried where they are not given. Standardised states differ by about sqrt(2 d), so scales reach beyond that.
LENGTH_SCALES = np.geomspace(0.1, 10.0, 9)
RIDGES = np.geomspace(1e-3, 1e3, 13)


class RidgeFit(NamedTuple):
    """What a prediction needs."""

    centre: Array  # (d,) of the standardisation of inputs
    scale: Array  # (d,) of the standardisation, times the length scale
    inputs: Array  # (k, d) standardised training inputs
    intercept: Array  # (q,)
    weights: Array  # (k, q)
    lower: Array  # (q,) predictions are held above the least target
    upper: Array  # (q,) and below the greatest
    length_scale: float
    ridge: Array  # (q,)


def fit_ridge(inputs: Array, targets: Array, length_scale: float | None = None, ridge: float | None = None) -> RidgeFit:
    """Fit targets (k, q) at inputs (k, d): one length scale for all columns, one ridge for each."""
    centre, scale = inputs.mean(axis=0), inputs.std(axis=0)
    # a coordinate that never moved says nothing
    scale = np.where(scale > 0.0, scale, 1.0)
    standardised = (inputs - centre) / scale
    spread = np.where(np.ptp(targets, axis=0) > 0.0, targets.std(axis=0), 1.0)
    ridges = RIDGES if ridge is None else np.array([ridge])
    best_error, best = np.inf, (0.0, np.empty(0))
    for candidate in LENGTH_SCALES if length_scale is None else [length_scale]:
        errors = leave_one_out_errors(standardised / candidate, targets, ridges)
        mean_squares = np.mean((errors / spread) ** 2, axis=1)
        # from the strongest penalty down, so that a tie goes to the smoother fit
        choice = len(ridges) - 1 - np.argmin(mean_squares[::-1], axis=0)
        total = mean_squares.min(axis=0).sum()
        if total <= best_error:
            best_error, best = total, (float(candidate), ridges[choice])
    chosen_scale, chosen_ridge = best
    standardised = standardised / chosen_scale
    intercept, weights = _solve(standardised, targets, chosen_ridge)
    bounds = targets.min(axis=0), targets.max(axis=0)
    return RidgeFit(centre, scale * chosen_scale, standardised, intercept, weights, *bounds, chosen_scale, chosen_ridge)


def predict_ridge(fit: RidgeFit, inputs: Array) -> Array:
    """Predictions (n, q) at inputs (n, d), within the range of the targets."""
    values = fit.intercept + _gaussian_kernel((inputs - fit.centre) / fit.scale, fit.inputs) @ fit.weights
    return np.asarray(np.clip(values, fit.lower, fit.upper))


def leave_one_out_errors(inputs: Array, targets: Array, ridges: Array) -> Array:
    """Errors (r, k, q) of predicting each target (k, q) from all the others, for each ridge (r,)."""
    eigenvalues, vectors = _spectrum(inputs)
    errors = []
    for ridge in ridges:
        inverse = (vectors / (eigenvalues + ridge)) @ vectors.T
        border = inverse.sum(axis=1)
        projected = inverse - np.outer(border, border) / border.sum()
        errors.append(projected @ targets / np.diag(projected)[:, None])
    return np.array(errors)


def _solve(inputs: Array, targets: Array, ridges: Array) -> tuple[Array, Array]:
    """Intercepts (q,) and weights (k, q) for targets (k, q) with ridges (q,)."""
    eigenvalues, vectors = _spectrum(inputs)
    damping = eigenvalues[:, None] + ridges
    ones, rotated = vectors.sum(axis=0)[:, None] / damping, vectors.T @ targets
    intercept = (ones * rotated).sum(axis=0) / (ones * vectors.sum(axis=0)[:, None]).sum(axis=0)
    return intercept, vectors @ (rotated / damping - intercept * ones)


def _spectrum(inputs: Array) -> tuple[Array, Array]:
    """Eigenvalues, raised to their rounding error so that no ridge is too small, and eigenvectors of K."""
    eigenvalues, vectors = np.linalg.eigh(_gaussian_kernel(inputs, inputs))
    return np.maximum(eigenvalues, 1e-15 * len(inputs)), vectors


def _gaussian_kernel(a: Array, b: Array) -> Array:
    """exp(-|a - b|^2 / 2) for all pairs, shape (len(a), len(b))."""
    squared = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2.0 * a @ b.T
    return np.asarray(np.exp(-0.5 * np.maximum(squared, 0.0)))
