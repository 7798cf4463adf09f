r"""Kernel ridge regression about the mean, its settings chosen by exact leave-one-out errors.

With kernel matrix K, ridge r, M = K + r 1 and e = (1, ..., 1), the fit to targets y of mean m is
``m + k(x)^T weights`` with ``weights = M^-1 (y - m e)``. Far from the data it returns to m: an intercept
fitted along with the weights would go anywhere there, when the length scale is long.

Let c be any constant. The error of a fit about c at point i, without point i, follows from the block inverse of M. It
is ``(M^-1 (y - c e))_i / (M^-1)_ii``. With c the mean of the other targets it is the error of this regression, so no
fit is repeated.

Many inputs are too expensive for both. Then the settings are chosen on some of them. The fit to all targets has
functions ``k(x)^T weights`` with the kernel at some of the inputs only, the centers (Rasmussen and Williams 2006,
section 8.3.1, "subset of regressors"). In one and two dimensions `tabulated` makes predictions a matter of
interpolation.

The fit is the mean of a Gaussian process, whose variance is the regression's own error. With s^2 the variance of the
targets' noise and r the ridge, the process has the variance s^2 / r, here at least 1. So equal targets do not imply a
small variance at a place without any. `standard_error` is the root of the process's variance given the targets (eq.
2.26 there, and eq. 8.27, "projected process", for centers).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from invsamp.stored import stored

Array = npt.NDArray[np.float64]

#: Tried where they are not given. Scales are in units of sqrt(d), as are the distances of standardized inputs.
LENGTH_SCALES = np.geomspace(0.1, 1.6, 7)
RIDGES = np.geomspace(1e-3, 1e3, 13)
#: Most inputs that carry a kernel, and most from which the settings are chosen: both cost their third power.
CENTERS = 200
#: Grid points of a table per length scale, by dimension: interpolation is then off by less than 1e-3 of the amplitude.
_PER_SCALE = {1: 32, 2: 16}
#: Length scales from the outermost center to a table's edge, where the kernel is 1e-8, and most entries of a table.
_MARGIN, _MOST_ENTRIES = 6.0, 2_000_000
#: Standard errors by which a length scale must be worse than the best one to be passed over for a shorter one.
_TOLD_APART = 3.0
#: Least variance of the process: a factor of e in a variance where no state is near.
_LEAST_VARIANCE = 1.0


@stored
class Table(NamedTuple):
    """A fit on a regular grid of one or two dimensions; its mean outside."""

    origin: Array  # (d, 1) the first grid point
    per_unit: Array  # (d, 1) grid points per unit of the inputs
    values: Array  # (q, n) or (q, n, n)


@stored
class RidgeFit(NamedTuple):
    """Fitted quantities that a prediction needs."""

    center: Array  # (d,) of the standardization of inputs
    scale: Array  # (d,) of the standardization, times the length scale
    inputs: Array  # (k, d) standardized training inputs, or the centers among them
    mean: Array  # (q,) of the targets
    weights: Array  # (k, q)
    lower: Array  # (q,) predictions are held above the least target
    upper: Array  # (q,) and below the greatest
    length_scale: float
    ridge: Array  # (q,)
    amplitude: float  # sd of the process, of which the fit is the mean
    explained: Array  # (k, m): |k(x)^T explained|^2 is the share of its variance that the targets explain
    table: Table | None = None


def fit_ridge(
    inputs: Array, targets: Array, length_scale: float | None = None, ridge: float | None = None, noise: float = 1.0
) -> RidgeFit:
    """Fit targets (k, q) at inputs (k, d): one length scale for all columns, one ridge for each.

    ``noise`` is the variance of the targets' noise, in which `standard_error` is measured.
    """
    center, scale = inputs.mean(axis=0), inputs.std(axis=0)
    # a coordinate that never moved says nothing
    scale = np.where(scale > 0.0, scale, 1.0)
    standardized = (inputs - center) / scale
    some = slice(None) if len(inputs) <= CENTERS else np.linspace(0, len(inputs) - 1, CENTERS).astype(int)
    chosen_scale, chosen_ridge = _settings(standardized[some], targets[some], length_scale, ridge)
    standardized = standardized / chosen_scale
    mean = targets.mean(axis=0)
    if len(inputs) <= CENTERS:
        eigenvalues, vectors = _spectrum(standardized)
        weights = vectors @ ((vectors.T @ (targets - mean)) / (eigenvalues[:, None] + chosen_ridge))
    else:
        centers = spread_out(standardized, CENTERS)
        weights = weights_of_centers(standardized, centers, targets - mean, chosen_ridge)
        standardized = centers
    bounds = targets.min(axis=0), targets.max(axis=0)
    variance = max(noise / chosen_ridge.min(), _LEAST_VARIANCE)
    explained = _explained((inputs - center) / (scale * chosen_scale), standardized, noise / variance)
    return RidgeFit(
        *(center, scale * chosen_scale, standardized, mean, weights, *bounds, chosen_scale, chosen_ridge),
        *(float(np.sqrt(variance)), explained),
    )


def predict_ridge(fit: RidgeFit, inputs: Array) -> Array:
    """Predictions (n, q) at inputs (n, d), within the range of the targets."""
    if fit.table is None:
        values = fit.mean + _kernel_at(fit, inputs) @ fit.weights
        return np.minimum(np.maximum(values, fit.lower), fit.upper)
    origin, per_unit, columns = fit.table
    at = (inputs.T - origin) * per_unit
    values = np.empty((len(inputs), len(columns)))
    for q, column in enumerate(columns):
        scipy.ndimage.map_coordinates(column, at, values[:, q], 1, cval=fit.mean[q], prefilter=False)
    return values


def standard_error(fit: RidgeFit, inputs: Array) -> Array:
    """Standard errors (n,) of the predictions at inputs (n, d): small where targets are near, large far from them."""
    explained = np.square(_kernel_at(fit, inputs) @ fit.explained).sum(axis=1)
    return np.asarray(fit.amplitude * np.sqrt(np.maximum(1.0 - explained, 0.0)))


def tabulated(fit: RidgeFit) -> RidgeFit:
    """The same fit with a table, where there are one or two dimensions and the table is not too large."""
    d = fit.inputs.shape[1]
    if d not in _PER_SCALE:
        return fit
    low, high = fit.inputs.min(axis=0) - _MARGIN, fit.inputs.max(axis=0) + _MARGIN
    counts = np.ceil((high - low) * _PER_SCALE[d]).astype(int) + 1
    if counts.prod() > _MOST_ENTRIES:
        return fit
    axes = [low[j] + np.arange(counts[j]) / _PER_SCALE[d] for j in range(d)]
    kernels = [_gaussian_kernel(axis[:, None], fit.inputs[:, j : j + 1]) for j, axis in enumerate(axes)]
    if d == 1:
        values = (kernels[0] @ fit.weights).T
    else:
        # the kernel is a product over the coordinates, so a table is a product of matrices
        values = np.stack([(kernels[0] * column) @ kernels[1].T for column in fit.weights.T])
    by_column = (slice(None), *(None,) * d)
    values += fit.mean[by_column]
    # what is interpolated between values within the range is within it
    values = np.minimum(np.maximum(values, fit.lower[by_column]), fit.upper[by_column])
    origin = fit.center + low * fit.scale
    return fit._replace(table=Table(origin[:, None], (_PER_SCALE[d] / fit.scale)[:, None], values))


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


def _settings(
    standardized: Array, targets: Array, length_scale: float | None, ridge: float | None
) -> tuple[float, Array]:
    """The longest length scale whose leave-one-out error is not worse than the least by more than chance, and its
    ridges (q,).

    Where the targets hardly depend on the inputs, all length scales are equally good. The least error may then be that
    of any of them, and a short one leaves nearly every place without targets near it. The rule is that of Breiman et
    al. (1984), section 3.4.3, with three standard errors of the difference between two settings. The margin is at least
    the share log(n) / n of the error, as the Bayesian information criterion penalizes a parameter.
    """
    spread = np.where(np.ptp(targets, axis=0) > 0.0, targets.std(axis=0), 1.0)
    ridges = RIDGES if ridge is None else np.array([ridge])
    candidates = LENGTH_SCALES * np.sqrt(standardized.shape[1]) if length_scale is None else np.array([length_scale])
    chosen, squares = [], []
    for candidate in candidates:
        by_ridge = (leave_one_out_errors(standardized / candidate, targets, ridges) / spread) ** 2
        mean_squares = by_ridge.mean(axis=1)
        # from the strongest penalty down, so that a tie goes to the smoother fit
        choice = len(ridges) - 1 - np.argmin(mean_squares[::-1], axis=0)
        chosen.append(ridges[choice])
        squares.append(np.take_along_axis(by_ridge, choice[None, None], axis=0)[0].sum(axis=1))
    best = squares[int(np.argmin(np.mean(squares, axis=1)))]
    worse, n = np.array(squares) - best, len(targets)
    chance = np.maximum(_TOLD_APART * worse.std(axis=1) / np.sqrt(n), best.mean() * np.log(n) / n)
    as_good = worse.mean(axis=1) <= chance
    longest = int(np.flatnonzero(as_good)[-1])
    return float(candidates[longest]), chosen[longest]


def _explained(inputs: Array, centers: Array, ridge: float) -> Array:
    """Matrix (c, m) whose product with the kernel at the centers has the explained share as its squared norm."""
    basis = _basis(centers)
    features = _gaussian_kernel(inputs, centers) @ basis
    squares, axes = np.linalg.eigh(features.T @ features)
    squares = np.maximum(squares, 0.0)
    return np.asarray(basis @ (axes * np.sqrt(squares / (squares + ridge))))


def spread_out(inputs: Array, count: int) -> Array:
    """At most ``count`` of the inputs, each the farthest from those before: rare regions have centers too."""
    chosen = [0]
    distance = np.sum((inputs - inputs[0]) ** 2, axis=1)
    while len(chosen) < count and distance.max() > 0.0:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((inputs - inputs[chosen[-1]]) ** 2, axis=1))
    return inputs[chosen]


def weights_of_centers(inputs: Array, centers: Array, residuals: Array, ridge: Array) -> Array:
    """Weights (c, q) of the least sum of squares plus ridge times the squared norm of the function."""
    basis = _basis(centers)
    features = _gaussian_kernel(inputs, centers) @ basis
    squares, axes = np.linalg.eigh(features.T @ features)
    projected = axes.T @ (features.T @ residuals)
    return np.asarray(basis @ (axes @ (projected / (np.maximum(squares, 0.0)[:, None] + ridge))))


def _basis(centers: Array) -> Array:
    """Coordinates (c, m) of the weights in which the norm of a function is that of a vector."""
    values, vectors = _spectrum(centers)
    kept = values > 1e-10 * values.max()
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def _kernel_at(fit: RidgeFit, inputs: Array) -> Array:
    """Kernel of a fit between inputs (n, d) and those that carry it."""
    return _gaussian_kernel((inputs - fit.center) / fit.scale, fit.inputs)


def _spectrum(inputs: Array) -> tuple[Array, Array]:
    """Eigenvalues, raised to their rounding error so that no ridge is too small, and eigenvectors of K."""
    eigenvalues, vectors = np.linalg.eigh(_gaussian_kernel(inputs, inputs))
    return np.maximum(eigenvalues, 1e-15 * len(inputs)), vectors


def _gaussian_kernel(a: Array, b: Array) -> Array:
    """exp(-|a - b|^2 / 2) for all pairs, shape (len(a), len(b))."""
    exponent = a @ b.T
    exponent -= 0.5 * np.sum(a**2, axis=1)[:, None]
    exponent -= 0.5 * np.sum(b**2, axis=1)
    # rounding must not make neighbors more than alike
    np.minimum(exponent, 0.0, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))
