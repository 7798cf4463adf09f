"""Noise of the data: log-likelihood of every datum and its derivatives.

A noise is posed by `GaussianNoise`, `LogNormalNoise` or `StudentTNoise`, and tied to the data and to the columns of
theta by `invsamp.posing.bound_noise`.

Extending: subclass `Noise`, keep a ``scale``, and give `evaluate` and `sample`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from invsamp.arguments import array, real, store
from invsamp.contract import Array
from invsamp.posing import likelihood
from invsamp.posing.distribution import freeze

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Noise(ABC):
    """Noise that is independent between data, with a scale that is known or named.

    Everywhere ``y`` (noise-free observations) has shape (batch, m), and ``data`` and ``scale`` have shapes that
    broadcast to it: (m,), or (batch, m) where each row has its own minibatch.
    """

    #: Numbers, or the name of the prior's parameter that is the scale.
    scale: Any

    @property
    def parameter(self) -> str | None:
        """Name of the prior's parameter that is the scale; None if the scale is known."""
        return self.scale if isinstance(self.scale, str) else None

    @abstractmethod
    def evaluate(self, y: Array, data: Array, scale: Array) -> tuple[Array, Array, Array]:
        """Log-likelihood per datum, and its derivatives with respect to y and scale, each (batch, m)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, y: Array, scale: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""

    def log_likelihood(self, y: Array, data: Array, scale: Array) -> Array:
        """Log-likelihood per datum, shape (batch, m), with all constants."""
        return self.evaluate(y, data, scale)[0]

    def derivatives(self, y: Array, data: Array, scale: Array) -> tuple[Array, Array]:
        """Derivatives of `log_likelihood` with respect to y and to scale, each (batch, m)."""
        return self.evaluate(y, data, scale)[1:]

    def check_data(self, data: Array) -> None:
        """Raise ValueError if the data cannot come with this noise."""
        if not np.all(np.isfinite(data)):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(data))[0])
            raise ValueError(f"data must be finite, got {data[index]} at index {index}")


class ScaleFamily(Noise):
    """Base of the ready noises, whose formulas are compiled; a subclass is a dataclass with a ``scale``."""

    #: Number in `invsamp.posing.likelihood`.
    family: ClassVar[int]

    def __post_init__(self) -> None:
        if isinstance(self.scale, str) and self.scale:
            return
        store(self, scale=freeze(array("scale", self.scale, above=0, also=", or the name of a parameter")))

    def __repr__(self) -> str:
        """The scale in short where there is one for each of thousands of data."""
        others = [f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self) if entry.name != "scale"]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join([*others, f'scale={_short(self.scale)}'])})"

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter, and constant of one datum's log-likelihood, for the compiled loop."""
        return self.family, 0.0, -_HALF_LOG_TWO_PI

    def log_data(self, data: Array) -> Array:
        """Logarithm of the data if the family uses it, else the data."""
        return data

    def evaluate(self, y: Array, data: Array, scale: Array) -> tuple[Array, Array, Array]:
        """Log-likelihood per datum and its derivatives with respect to y and scale, each (batch, m)."""
        shape = np.broadcast_shapes(np.shape(y), np.shape(data), np.shape(scale))
        arrays = (y, data, self.log_data(np.asarray(data, dtype=float)), scale)
        full = [np.broadcast_to(np.asarray(array, dtype=float), shape).copy() for array in arrays]
        value, y_slope, scale_slope = likelihood.evaluate(*self.compiled, *full)
        return value, y_slope, scale_slope


@dataclass(frozen=True, repr=False)
class GaussianNoise(ScaleFamily):
    """data = y + scale * (standard normal).

    Parameters
    ----------
    scale : float, array_like or str
        Standard deviation, in units of the data; broadcasts to the data's shape. A string names the
        parameter of the prior that is the unknown standard deviation.

    Raises
    ------
    ValueError
        If a number is not positive.
    """

    scale: npt.ArrayLike | str
    family: ClassVar[int] = likelihood.GAUSSIAN

    def sample(self, rng: np.random.Generator, y: Array, scale: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        return y + scale * rng.standard_normal(y.shape)


@dataclass(frozen=True, repr=False)
class LogNormalNoise(ScaleFamily):
    """data = y * exp(scale * (standard normal)): the median is y, and both are positive.

    A y that is not positive has zero likelihood.

    Parameters
    ----------
    scale : float, array_like or str
        Standard deviation of the logarithm, without unit; as in `GaussianNoise`.

    Raises
    ------
    ValueError
        If a number is not positive.
    """

    scale: npt.ArrayLike | str
    family: ClassVar[int] = likelihood.LOG_NORMAL

    def sample(self, rng: np.random.Generator, y: Array, scale: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        return y * np.exp(scale * rng.standard_normal(y.shape))

    def log_data(self, data: Array) -> Array:
        """Logarithm of the data."""
        return np.asarray(np.log(data))

    def check_data(self, data: Array) -> None:
        """Raise ValueError if the data are not positive."""
        super().check_data(data)
        if not np.all(data > 0):
            index = tuple(int(i) for i in np.argwhere(~(data > 0))[0])
            raise ValueError(f"data must be positive under LogNormalNoise, got {data[index]} at index {index}")


@dataclass(frozen=True, repr=False)
class StudentTNoise(ScaleFamily):
    """data = y + scale * (Student's t): heavy tails for outliers.

    Parameters
    ----------
    degrees_of_freedom : float, > 0
    scale : float, array_like or str
        As in `GaussianNoise`; the standard deviation is ``scale * sqrt(nu / (nu - 2))`` for nu > 2 degrees
        of freedom.

    Raises
    ------
    ValueError
        If a number is not positive.
    """

    degrees_of_freedom: float
    scale: npt.ArrayLike | str
    family: ClassVar[int] = likelihood.STUDENT_T

    def __post_init__(self) -> None:
        store(self, degrees_of_freedom=real("degrees_of_freedom", self.degrees_of_freedom, above=0))
        super().__post_init__()

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter, and constant of one datum's log-likelihood, for the compiled loop."""
        nu = float(self.degrees_of_freedom)
        # the Beta function, because a difference of log Gammas loses its digits for many degrees of freedom
        return self.family, nu, float(-special.betaln(0.5, 0.5 * nu) - 0.5 * math.log(nu))

    def sample(self, rng: np.random.Generator, y: Array, scale: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        return y + scale * rng.standard_t(self.degrees_of_freedom, y.shape)


def _short(scale: Any) -> str:
    """A scale as text, abbreviated where it has more than a handful of entries."""
    if isinstance(scale, str) or np.size(scale) <= 8:
        return repr(scale)
    return np.array2string(np.asarray(scale), threshold=8, edgeitems=2, precision=4).replace("\n", "")
