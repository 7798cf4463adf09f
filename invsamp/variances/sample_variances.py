"""Sample variances: their shapes, their logs, the diagonals of covariances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, polygamma

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Shape = tuple[int, ...]


def checked_samples(sample_variance: Array, shape: Shape, degrees_of_freedom: int) -> Array:
    """The variances (n, *shape) as an array; `ValueError` if they have another shape or no degree of freedom."""
    samples = np.asarray(sample_variance, dtype=float)
    if samples.ndim == 0 or samples.shape[1:] != shape:
        raise ValueError(f"sample_variance must have shape (n, *{shape}), got {samples.shape}")
    if degrees_of_freedom < 1:
        raise ValueError(f"degrees_of_freedom must be at least 1, got {degrees_of_freedom}")
    return samples


def unbiased_log(sample_variance: Array, degrees_of_freedom: Array) -> Array:
    """Logs of sample variances, corrected so that their mean is the log variance for Gaussian noise.

    ``nu s^2 / sigma^2`` is chi-square with nu degrees of freedom, the log of which has mean
    ``psi(nu / 2) + log 2``. Sample variances of zero are raised to 1e-12 of the largest in their column.
    """
    half = degrees_of_freedom / 2.0
    # an entry without any noise has no log; next to none is as good
    floor = np.maximum(1e-12 * sample_variance.max(axis=0), np.finfo(float).tiny)
    return np.asarray(np.log(np.maximum(sample_variance, floor)) - digamma(half) + np.log(half))


def log_noise(degrees_of_freedom: Array) -> float:
    """Variance of the logs of sample variances for Gaussian noise, psi'(nu / 2), on average."""
    return float(np.mean(polygamma(1, degrees_of_freedom / 2.0)))


def finite_rows(samples: Array) -> Mask:
    """Which rows are finite in every entry."""
    return np.asarray(np.isfinite(samples.reshape(len(samples), -1)).all(axis=1))


def diagonal(variance: Array) -> Array:
    """The diagonals of full covariances (n, d, d); (n,) and (n, d) are returned as they are."""
    return np.diagonal(variance, axis1=1, axis2=2) if variance.ndim == 3 else variance
