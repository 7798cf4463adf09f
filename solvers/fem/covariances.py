"""Covariance functions of random fields."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln, kv

from invsamp.arguments import array, real, store
from invsamp.solvers.fem.contract import Array

#: Correlations by distance in units of the length, for the smoothnesses that need no Bessel function.
_CLOSED_FORMS: dict[float, Callable[[Array], Array]] = {
    0.5: lambda r: np.exp(-r),
    1.5: lambda r: (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r),
    2.5: lambda r: (1 + math.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-math.sqrt(5) * r),
}


class Covariance(Protocol):
    """A covariance function."""

    def __call__(self, first: Array, second: Array) -> Array:
        """Covariances (n, m) between points (n, d) and (m, d)."""


@dataclass(frozen=True)
class SquaredExponential:
    r"""Covariance :math:`\sigma^2 \exp(-r^2 / 2)`, r the distance in units of ``length``.

    Parameters
    ----------
    length : float or tuple of float, > 0
        Correlation length; one per axis in a tuple.
    sd : float, > 0
        Of the field at a point.

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", eq. (4.9).
    """

    length: float | tuple[float, ...]
    sd: float = 1.0

    def __post_init__(self) -> None:
        store(self, length=_checked_length(self.length), sd=real("sd", self.sd, above=0))

    def __call__(self, first: Array, second: Array) -> Array:
        """Covariances (n, m) between points (n, d) and (m, d)."""
        return self.sd**2 * np.exp(-0.5 * _distances(first, second, self.length) ** 2)


@dataclass(frozen=True)
class Matern:
    r"""Covariance of a field that is less than :math:`\nu` times differentiable.

    .. math:: \sigma^2 \frac{2^{1-\nu}}{\Gamma(\nu)} (\sqrt{2\nu}\, r)^\nu K_\nu(\sqrt{2\nu}\, r),

    r the distance in units of ``length``. At :math:`\nu = 1/2` it is :math:`\sigma^2 \exp(-r)`.

    Parameters
    ----------
    smoothness : float in (0, 50]
        :math:`\nu`. Towards infinity it becomes a `SquaredExponential`, whose cost and rounding are less.
    length : float or tuple of float, > 0
        Correlation length; one per axis in a tuple.
    sd : float, > 0
        Of the field at a point.

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", eq. (4.14); (4.17) for 3/2 and 5/2.
    """

    smoothness: float
    length: float | tuple[float, ...]
    sd: float = 1.0

    def __post_init__(self) -> None:
        smoothness = real("smoothness", self.smoothness, above=0, most=50)
        store(self, smoothness=smoothness, length=_checked_length(self.length), sd=real("sd", self.sd, above=0))

    def __call__(self, first: Array, second: Array) -> Array:
        """Covariances (n, m) between points (n, d) and (m, d)."""
        distances = _distances(first, second, self.length)
        closed = _CLOSED_FORMS.get(self.smoothness)
        return self.sd**2 * (_matern(distances, self.smoothness) if closed is None else closed(distances))


def _distances(first: Array, second: Array, length: float | tuple[float, ...]) -> Array:
    """Distances (n, m) in units of the length."""
    square = np.zeros((len(first), len(second)))
    units = length if isinstance(length, tuple) else (length,) * first.shape[1]
    if len(units) != first.shape[1]:
        raise ValueError(f"length must have {first.shape[1]} parts, as points have, got {length}")
    for axis, unit in enumerate(units):
        square += ((first[:, axis, None] - second[None, :, axis]) / unit) ** 2
    return np.sqrt(square)


def _matern(distances: Array, smoothness: float) -> Array:
    """Correlations for any smoothness; 1 at distances too small to differ from it."""
    scaled = math.sqrt(2 * smoothness) * distances
    correlations = np.ones_like(scaled)
    apart = scaled > 1e-10
    at = scaled[apart]
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        values = np.exp((1 - smoothness) * math.log(2) - gammaln(smoothness) + smoothness * np.log(at)) * kv(
            smoothness, at
        )
    correlations[apart] = np.where(np.isfinite(values), values, 1.0)
    return correlations


def _checked_length(length: float | tuple[float, ...]) -> float | tuple[float, ...]:
    parts = array("length", length, above=0)
    if parts.ndim > 1:
        raise ValueError(f"length must be a number, or one per axis, got shape {parts.shape}")
    return float(parts) if parts.ndim == 0 else tuple(parts.tolist())
