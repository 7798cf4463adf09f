"""Noise of the data: log-likelihood of every datum and its derivatives.

A noise is posed by `GaussianNoise`, `LogNormalNoise` or `StudentTNoise`; `BoundNoise` ties it to the data and to
the columns of theta, so that an unknown scale is read from theta and its derivative goes back there.

Extending: subclass `Noise`, keep a ``scale``, and give `evaluate` and `sample`.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from invsamp.contract import Array
from invsamp.posing import likelihood
from invsamp.posing.distribution import freeze
from invsamp.posing.prior import Prior

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

    def __post_init__(self) -> None:
        if isinstance(self.scale, str):
            return
        scale = np.asarray(self.scale, dtype=float)
        if not np.all(np.isfinite(scale) & (scale > 0)):
            raise ValueError(f"scale must be positive, or the name of a parameter, got {self.scale}")
        object.__setattr__(self, "scale", freeze(scale))

    def __repr__(self) -> str:
        """The scale in short where there is one for each of thousands of data."""
        others = [f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self) if entry.name != "scale"]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join([*others, f'scale={_short(self.scale)}'])})"

    @property
    @abstractmethod
    def compiled(self) -> tuple[int, float, float]:
        """Family in `invsamp.posing.likelihood`, shape parameter, constant of one datum's log-likelihood."""

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

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter and constant for the compiled loop."""
        return likelihood.GAUSSIAN, 0.0, -_HALF_LOG_TWO_PI

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

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter and constant for the compiled loop."""
        return likelihood.LOG_NORMAL, 0.0, -_HALF_LOG_TWO_PI

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

    def __post_init__(self) -> None:
        if not (np.isfinite(self.degrees_of_freedom) and self.degrees_of_freedom > 0):
            raise ValueError(f"degrees_of_freedom must be positive, got {self.degrees_of_freedom}")
        super().__post_init__()

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter and constant for the compiled loop."""
        return likelihood.STUDENT_T, float(self.degrees_of_freedom), self._log_factor

    def sample(self, rng: np.random.Generator, y: Array, scale: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        return y + scale * rng.standard_t(self.degrees_of_freedom, y.shape)

    @property
    def _log_factor(self) -> float:
        nu = self.degrees_of_freedom
        # the Beta function, because a difference of log Gammas loses its digits for many degrees of freedom
        return float(-special.betaln(0.5, 0.5 * nu) - 0.5 * math.log(nu))


class BoundNoise:
    """A noise with its data and the columns of theta that hold its scale.

    Parameters
    ----------
    noise : Noise
    data : ndarray of any shape
    prior : Prior

    Attributes
    ----------
    data : ndarray, shape (m,)
        The data, flattened in C order.
    size : int
        Number of data, m.

    Raises
    ------
    ValueError
        If the data are not finite, an unknown scale is no parameter of the prior or may be negative, or
        the scale does not broadcast to the data's shape.
    """

    def __init__(self, noise: Noise, data: Array, prior: Prior) -> None:
        if not isinstance(noise, Noise):
            raise ValueError(f"noise must be a noise such as GaussianNoise(0.1), got {noise!r}")
        noise.check_data(data)
        self.noise = noise
        self.shape = data.shape
        self.data = data.reshape(-1).copy()
        self.size = len(self.data)
        if self.size == 0:
            raise ValueError(f"data must hold at least one number, got shape {data.shape}")
        self.parameter = noise.parameter
        scale_shape = np.shape(noise.scale)
        if self.parameter is not None:
            prior.check_names("scale", [self.parameter])
            scale_shape = prior.shapes[self.parameter]
            self.columns = prior.slices[self.parameter]
            if np.any(prior.support[0][self.columns] < 0):
                raise ValueError(
                    f"{self.parameter} is the scale of the noise: its prior must have positive support, "
                    f"got {prior.distributions[self.parameter]!r}"
                )
        try:
            fits = np.broadcast_shapes(scale_shape, data.shape) == data.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"scale must broadcast to the data's shape {data.shape}, got shape {scale_shape}")
        count = math.prod(scale_shape)
        index = np.broadcast_to(np.arange(count).reshape(scale_shape), data.shape).reshape(-1)
        self._known, self.column_of_datum = np.empty(0), np.empty(0, dtype=np.intp)
        if self.parameter is None:
            self._known = np.asarray(noise.scale, dtype=float).reshape(-1)[index]
        else:
            self.column_of_datum = self.columns.start + index
        self._compiled = self._compile()

    def subset(self, indices: npt.NDArray[np.intp]) -> BoundNoise:
        """The same noise with the data ``indices`` (k,) alone."""
        part = copy.copy(self)
        part.data, part.shape, part.size = self.data[indices], (len(indices),), len(indices)
        if self.parameter is None:
            part._known = self._known[indices]
        else:
            part.column_of_datum = self.column_of_datum[indices]
        part._compiled = part._compile()
        return part

    def _compile(self) -> tuple[Any, ...] | None:
        """Arguments of the compiled loop; None for a class with its own `evaluate`, which may disagree with it."""
        noise = self.noise
        if not isinstance(noise, ScaleFamily) or type(noise).evaluate is not ScaleFamily.evaluate:
            return None
        return *noise.compiled, self.data, noise.log_data(self.data), self._known, self.column_of_datum

    def scale(self, theta: Array) -> Array:
        """Scale at theta (batch, dimension) of every datum, shape (batch, m) or (1, m)."""
        return self._known[None, :] if self.parameter is None else theta[:, self.column_of_datum]

    def evaluate(self, theta: Array, y: Array) -> tuple[Array, Array, Array]:
        """Log-likelihood per datum and its derivatives with respect to y and scale, each (batch, m)."""
        with np.errstate(all="ignore"):
            return self.noise.evaluate(y, self.data, self.scale(theta))

    def evaluate_at(self, theta: Array, y: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """As `evaluate`, for the data ``indices`` (batch, k) alone; ``y`` and all that is returned (batch, k)."""
        if self.parameter is None:
            scale = self._known.take(indices)
        else:
            scale = np.take_along_axis(theta, self.column_of_datum[indices], axis=1)
        with np.errstate(all="ignore"):
            return self.noise.evaluate(y, self.data.take(indices), scale)

    def accumulate(self, theta: Array, y: Array, value: Array, slope: Array) -> Array:
        """Add the log-likelihood to ``value`` (batch,) and its scale part to ``slope`` (batch, dimension), in place.

        Returns the derivative with respect to y, shape (batch, m), with 0 where it is not finite.
        """
        if self._compiled is not None:
            accumulate: Any = likelihood.accumulate
            return np.asarray(accumulate(*self._compiled, theta, np.ascontiguousarray(y), value, slope))
        log_likelihood, y_slope, scale_slope = self.evaluate(theta, y)
        value += log_likelihood.sum(axis=1)
        if self.parameter is not None:
            for i, column in enumerate(self.column_of_datum):
                slope[:, column] += scale_slope[:, i]
        return np.where(np.isfinite(y_slope), y_slope, 0.0)


def _short(scale: Any) -> str:
    """A scale as text, abbreviated where it has more than a handful of entries."""
    if isinstance(scale, str) or np.size(scale) <= 8:
        return repr(scale)
    return np.array2string(np.asarray(scale), threshold=8, edgeitems=2, precision=4).replace("\n", "")
