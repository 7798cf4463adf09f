r"""Kernel ridge regression about the mean, its settings chosen by exact leave-one-out errors.

With kernel matrix K, ridge r, M = K + r 1 and e = (1, ..., 1), the fit to targets y of mean m is
``m + k(x)^T weights`` with ``weights = M^-1 (y - m e)``. Far from the data it returns to m: an intercept
fitted along with the weights would go anywhere there, when the length scale is long.

The error at point i of a fit about any constant c without point i is ``(M^-1 (y - c e))_i / (M^-1)_ii``, by
the block inverse of M. With c the mean of the other targets it is the error of this regression, so nothing
has to be fitted twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Tried where they are not given. Scales are in units of sqrt(d), as are the distances of standardised inputs.
LENGTH_SCALES = np.geomspace(0.1, 4.0, 9)
RIDGES = np.geomspace(1e-3, 1e3, 13)


class RidgeFit(NamedTuple):
    """What a prediction needs."""

    centre: Array  # (d,) of the standardisation of inputs
    scale: Array  # (d,) of the standardisation, times the length scale
    inputs: Array  # (k, d) standardised training inputs
    mean: Array  # (q,) of the targets
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
    candidates = LENGTH_SCALES * np.sqrt(inputs.shape[1]) if length_scale is None else [length_scale]
    for candidate in candidates:
        errors = leave_one_out_errors(standardised / candidate, targets, ridges)
        mean_squares = np.mean((errors / spread) ** 2, axis=1)
        # from the strongest penalty down, so that a tie goes to the smoother fit
        choice = len(ridges) - 1 - np.argmin(mean_squares[::-1], axis=0)
        total = mean_squares.min(axis=0).sum()
        if total <= best_error:
            best_error, best = total, (float(candidate), ridges[choice])
    chosen_scale, chosen_ridge = best
    standardised = standardised / chosen_scale
    eigenvalues, vectors = _spectrum(standardised)
    mean = targets.mean(axis=0)
    weights = vectors @ ((vectors.T @ (targets - mean)) / (eigenvalues[:, None] + chosen_ridge))
    bounds = targets.min(axis=0), targets.max(axis=0)
    return RidgeFit(centre, scale * chosen_scale, standardised, mean, weights, *bounds, chosen_scale, chosen_ridge)


def predict_ridge(fit: RidgeFit, inputs: Array) -> Array:
    """Predictions (n, q) at inputs (n, d), within the range of the targets."""
    values = fit.mean + _gaussian_kernel((inputs - fit.centre) / fit.scale, fit.inputs) @ fit.weights
    return np.asarray(np.clip(values, fit.lower, fit.upper))


def leave_one_out_errors(inputs: Array, targets: Array, ridges: Array) -> Array:
    """Errors (r, k, q) of predicting each target (k, q) from all the others, for each ridge (r,)."""
    eigenvalues, vectors = _spectrum(inputs)
    mean_of_others = (targets.sum(axis=0) - targets) / (len(targets) - 1)
    rotated, ones, squares = vectors.T @ targets, vectors.sum(axis=0), vectors**2
    errors = []
    for ridge in ridges:
        # M^-1 itself, a k x k matrix for each ridge, is never needed: only its diagonal and its action
        damping = 1.0 / (eigenvalues + ridge)
        residuals = vectors @ (damping[:, None] * rotated) - (vectors @ (damping * ones))[:, None] * mean_of_others
        errors.append(residuals / (squares @ damping)[:, None])
    return np.array(errors)


def _spectrum(inputs: Array) -> tuple[Array, Array]:
    """Eigenvalues, raised to their rounding error so that no ridge is too small, and eigenvectors of K."""
    eigenvalues, vectors = np.linalg.eigh(_gaussian_kernel(inputs, inputs))
    return np.maximum(eigenvalues, 1e-15 * len(inputs)), vectors


def _gaussian_kernel(a: Array, b: Array) -> Array:
    """exp(-|a - b|^2 / 2) for all pairs, shape (len(a), len(b))."""
    exponent = a @ b.T
    exponent -= 0.5 * np.sum(a**2, axis=1)[:, None]
    exponent -= 0.5 * np.sum(b**2, axis=1)
    # rounding must not make neighbours more than alike
    np.minimum(exponent, 0.0, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))
