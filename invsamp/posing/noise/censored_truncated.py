"""Noise of data with limits: those beyond are recorded as the limit (censored), or not at all (truncated)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, store, wrong
from invsamp.axis_labels import frozen
from invsamp.expression import Value
from invsamp.posing.noise.base import Link, Noise
from invsamp.posing.noise.continuous import ScaleFamily
from invsamp.protocols import Array

#: A value, and its derivatives with respect to y and scale.
Tail = tuple[Array, Array, Array]


@dataclass(frozen=True)
class _Limited(Noise):
    """Base of both: a noise with a scale, and two limits."""

    noise: ScaleFamily
    lower: npt.ArrayLike = -np.inf
    upper: npt.ArrayLike = np.inf

    def __post_init__(self) -> None:
        # of correlated data the limits would cut a volume of many dimensions
        if not isinstance(self.noise, ScaleFamily) or not self.noise.independent:
            raise wrong("noise", "a GaussianNoise without covariance, a LogNormalNoise or a StudentTNoise", self.noise)
        for name in ("lower", "upper"):
            store(self, **{name: frozen(given := getattr(self, name), array(name, given, finite=False))})
        try:
            ordered = bool(np.all(np.asarray(self.lower) < np.asarray(self.upper)))
        except ValueError:
            ordered = True  # shapes that do not fit are reported with the data's
        if not ordered:
            raise ValueError(f"upper must be above lower, got lower {self.lower!r} and upper {self.upper!r}")

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"lower": self.lower, "upper": self.upper} | dict(self.noise.quantities)

    @property
    def link(self) -> Link:
        """That of the noise without limits."""
        return self.noise.link

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood per datum and its derivatives with respect to y, the limits (0) and scale, each (batch, m)."""
        lower, upper, scale = values
        with np.errstate(all="ignore"):  # of limits at infinity, and of tails that are not asked for
            value, by_y, by_scale = self._limit(y, data, lower, upper, scale, self.noise.evaluate(y, data, scale))
        return value, by_y, np.zeros(y.shape), np.zeros(y.shape), by_scale

    @abstractmethod
    def _limit(self, y: Array, data: Array, lower: Array, upper: Array, scale: Array, inside: object) -> Tail:
        """Value and derivatives within the limits, from those ``inside``."""

    def _below(self, limit: Array, y: Array, scale: Array) -> Tail:
        """Log probability of data below a limit, and its derivatives."""
        return self._tail(limit, y, scale, 1.0)

    def _above(self, limit: Array, y: Array, scale: Array) -> Tail:
        return self._tail(limit, y, scale, -1.0)

    def _tail(self, limit: Array, y: Array, scale: Array, side: float) -> Tail:
        z, z_by_y, z_by_scale = self.noise.standardize(limit, y, scale)
        value, slope = self.noise.log_cdf(side * z)
        # a limit at infinity moves nothing
        parts = (np.where(np.isinf(z), 0.0, side * slope * part) for part in (z_by_y, z_by_scale))
        return np.broadcast_to(value, z.shape), *parts  # type: ignore[return-value]


@dataclass(frozen=True)
class CensoredNoise(_Limited):
    """Noise of data that are recorded as a limit where they lie beyond it: of detection, of a scale's end.

    A datum at ``lower`` or below says that much, and so does one at ``upper`` or above.

    Parameters
    ----------
    noise : GaussianNoise, LogNormalNoise or StudentTNoise
    lower, upper : float or array_like, optional
        Limits; they broadcast to the data's shape.

    Raises
    ------
    ValueError
        If upper is not above lower, or it is another noise.

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.CensoredNoise(iv.GaussianNoise(0.1), upper=1.0)  # the instrument saturates at 1
    >>> posterior = iv.Posterior(iv.Prior(a=iv.Normal(0.0, 2.0)), lambda a: a, data=[1.0], noise=noise)
    >>> posterior.log_likelihood([[1.5], [0.5]]).round(2)
    array([[ -0.  ],
           [-15.06]])
    """

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data the noise could make, or lie beyond a limit."""
        try:
            beyond = (data <= np.asarray(self.lower)) | (data >= np.asarray(self.upper))
        except ValueError:
            return np.isfinite(data)
        return self.noise.accepts(data) | (beyond & np.isfinite(data))

    def _limit(self, y: Array, data: Array, lower: Array, upper: Array, scale: Array, inside: Value) -> Tail:
        low, high = np.broadcast_to(data <= lower, y.shape), np.broadcast_to(data >= upper, y.shape)
        parts = zip(inside, self._below(lower, y, scale), self._above(upper, y, scale), strict=True)
        return tuple(np.where(low, below, np.where(high, above, part)) for part, below, above in parts)  # type: ignore[return-value]

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, those beyond a limit as the limit, shape (batch, m)."""
        lower, upper, scale = values
        return np.clip(self.noise.sample(rng, y, scale), lower, upper)


@dataclass(frozen=True)
class TruncatedNoise(_Limited):
    """Noise of data that are in the record only because they lie between two limits.

    Parameters
    ----------
    noise : GaussianNoise, LogNormalNoise or StudentTNoise
    lower, upper : float or array_like, optional
        Limits; they broadcast to the data's shape.

    Raises
    ------
    ValueError
        If upper is not above lower, or it is another noise; in a posterior, if a datum lies beyond.

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.TruncatedNoise(iv.GaussianNoise(0.1), lower=0.0)  # values below 0 are never recorded
    >>> posterior = iv.Posterior(iv.Prior(a=iv.Normal(0.0, 1.0)), lambda a: a, data=[0.05], noise=noise)
    >>> posterior.log_likelihood([[0.0]]).round(3)
    array([[1.952]])
    """

    wanted = "between the limits"

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data lie between the limits."""
        try:
            inside = (data >= np.asarray(self.lower)) & (data <= np.asarray(self.upper))
        except ValueError:
            return np.isfinite(data)
        return self.noise.accepts(data) & inside

    def _limit(self, y: Array, data: Array, lower: Array, upper: Array, scale: Array, inside: Value) -> Tail:
        log_mass, by_y, by_scale = self._mass(y, lower, upper, scale)
        # far out both ends have one probability, and what lies between is not known: no density without bound
        known = np.where(log_mass > -np.inf, log_mass, np.nan)
        return inside[0] - known, inside[1] - by_y, inside[2] - by_scale

    def _mass(self, y: Array, lower: Array, upper: Array, scale: Array) -> Tail:
        """Log probability between the limits, from the tails on the side of the nearer one, and its derivatives."""
        left = self._difference(self._below(upper, y, scale), self._below(lower, y, scale))
        right = self._difference(self._above(lower, y, scale), self._above(upper, y, scale))
        upper_side = self._upper_side(y, lower, scale)
        return tuple(np.where(upper_side, b, a) for a, b in zip(left, right, strict=True))  # type: ignore[return-value]

    def _upper_side(self, y: Array, lower: Array, scale: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(self.noise.standardize(lower, y, scale)[0] > 0.0)

    @staticmethod
    def _difference(more: Tail, less: Tail) -> Tail:
        """Logarithm of the difference of two probabilities given by theirs, and its derivatives."""
        value = more[0] + np.log(-np.expm1(less[0] - more[0]))
        first, second = np.exp(more[0] - value), np.exp(less[0] - value)
        return value, first * more[1] - second * less[1], first * more[2] - second * less[2]

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data between the limits, shape (batch, m)."""
        lower, upper, scale = values
        with np.errstate(all="ignore"):
            side = np.where(self._upper_side(y, lower, scale), -1.0, 1.0)
            ends = (self.noise.standardize(limit, y, scale)[0] for limit in (lower, upper))
            first, last = (np.exp(self.noise.log_cdf(side * end)[0]) for end in ends)
        z = side * self.noise.quantile(first + (last - first) * rng.random(y.shape))
        return np.clip(self.noise.locate(z, y, scale), lower, upper)
