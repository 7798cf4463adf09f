"""Noise with Laplace's distribution, of the data or of their logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.posing.noise.continuous import LogScaleFamily, ScaleFamily
from invsamp.protocols import Array

_LOG_2 = math.log(2.0)


class _Laplace(ScaleFamily):
    """Base of both: the standard distribution."""

    def log_cdf(self, z: Array) -> tuple[Array, Array]:
        """Logarithm of the standard distribution function, which is symmetric, and its derivative."""
        tail = 0.5 * np.exp(-np.abs(z))
        value = np.where(z < 0.0, z - _LOG_2, np.log1p(-tail))
        return value, np.where(z < 0.0, 1.0, tail / (1.0 - tail))

    def quantile(self, probability: Array) -> Array:
        """Inverse of the standard distribution function."""
        center = np.asarray(probability) - 0.5
        return np.asarray(-np.sign(center) * np.log1p(-2.0 * np.abs(center)))

    def cumulant(self, rate: Array) -> Array:
        """That of a standard exponential number."""
        return np.where(rate < 1.0, -np.log1p(-np.where(rate < 1.0, rate, 0.0)), np.inf)

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood per datum and its derivatives with respect to y and the scale, each (batch, m)."""
        (scale,) = values
        z, z_by_y, z_by_scale = self.standardize(data, y, scale)
        value = -np.abs(z) - np.log(2.0 * scale) - self._log_jacobian(data)
        return (
            np.where(np.isnan(z), np.where(np.isnan(y), np.nan, -np.inf), value),
            -np.sign(z) * z_by_y,
            (-np.sign(z) * z_by_scale - 1.0 / scale),
        )

    def _log_jacobian(self, data: Array) -> Array | float:
        return 0.0


@dataclass(frozen=True, repr=False)
class LaplaceNoise(_Laplace):
    """data = y + scale * e, with e of the standard Laplace distribution: the misfit is a sum of absolute residuals.

    Parameters
    ----------
    scale : float, array_like or str
        Mean absolute residual, in units of the data; as in `GaussianNoise`.

    Raises
    ------
    ValueError
        If a number is not positive.

    Notes
    -----
    The gradient jumps where a datum is predicted exactly.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.noise.LaplaceNoise(0.1)
    LaplaceNoise(scale=0.1)
    """

    scale: npt.ArrayLike | str

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
        return y + scale * rng.laplace(size=y.shape)


@dataclass(frozen=True, repr=False)
class LogLaplaceNoise(_Laplace, LogScaleFamily):
    """data = y * exp(scale * e), with e of the standard Laplace distribution; data and y are positive.

    Parameters
    ----------
    scale : float, array_like or str
        Mean absolute residual of the natural logarithm, without unit; as in `GaussianNoise`.

    Raises
    ------
    ValueError
        If a number is not positive.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.noise.LogLaplaceNoise("s")
    LogLaplaceNoise(scale='s')
    """

    scale: npt.ArrayLike | str

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
        return y * np.exp(scale * rng.laplace(size=y.shape))

    def _log_jacobian(self, data: Array) -> Array | float:
        return np.asarray(np.log(data))
