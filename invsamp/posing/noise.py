"""Noise of the data: log-likelihood of every datum and its derivatives.

A noise is posed by `GaussianNoise`, `LogNormalNoise` or `StudentTNoise`, and tied to the data and to the columns of
theta by `invsamp.posing.bound_noise`.

Extending: subclass `Noise`, and give `evaluate` and `sample`; docs/extending.md has one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from invsamp.arguments import array, real, store
from invsamp.contract import Array
from invsamp.posing import likelihood
from invsamp.posing.distribution import freeze
from invsamp.posing.expressions import Expression

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Noise(ABC):
    """What is observed where ``y`` would be without noise. Subclass it: `evaluate` and `sample` are all that it takes.

    Both get the values of `quantities` after their other arguments, in their order. ``y`` has shape (batch, m); the
    data and the values have shapes that broadcast to it: (m,) and (1, m), or as ``y`` where each row has its own
    minibatch or its own value. What is missing or does not count is never among them.
    """

    #: What data must be, for the message where one is not what `accepts` takes.
    wanted: ClassVar[str] = "finite"
    #: Whether each datum's term depends on its own y alone. Minibatches need that.
    independent: ClassVar[bool] = True

    @property
    def quantities(self) -> Mapping[str, Any]:
        """By name what may be unknown: numbers that broadcast to the data's shape, or a parameter of the prior."""
        return {}

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:
        """Where a quantity may lie, for those that are not just positive."""
        return {}

    @abstractmethod
    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood of every datum, and the derivatives of their sum, each (batch, m).

        With respect to y, and to the value of each quantity at each datum. The log-likelihoods add up to that of all
        data, with all constants. What cannot be is NaN or minus infinity, without an exception.
        """

    @abstractmethod
    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data, an array in their own shape, can come with this noise."""
        return np.isfinite(data)

    def log_likelihood(self, y: Array, data: Array, *values: Array) -> Array:
        """Log-likelihood of each datum given all others, (batch, m), for cross-validation."""
        return self.evaluate(y, data, *values)[0]

    def replicate(self, rng: np.random.Generator, y: Array, data: Array, *values: Array) -> Array:
        """Data that might have been observed instead, (batch, m): as `sample` unless the data tell of the noise.

        NaN among the data is missing.
        """
        return self.sample(rng, y, *values)

    def bind(self, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> Noise:
        """The noise of the data ``chosen``, indices (m,) in C order, of all those of this shape."""
        return self


class CompiledNoise(Noise):
    """Base of noises whose formulas are in `invsamp.posing.likelihood`, with one quantity or none."""

    #: Number of the family there.
    family: ClassVar[int]

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter, and constant of one datum's log-likelihood, for the compiled loop."""
        return self.family, 0.0, 0.0

    def auxiliary(self, data: Array, value: Array) -> Array:
        """What the formulas use of the data, and of the quantity if it is known, beside them."""
        return data

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood per datum and its derivatives with respect to y and the quantity, each (batch, m)."""
        value = np.asarray(values[0] if values else 1.0, dtype=float)
        shape = np.broadcast_shapes(np.shape(y), np.shape(data), value.shape)
        arrays = (y, data, self.auxiliary(np.asarray(data, dtype=float), value), value)
        full = [np.broadcast_to(np.asarray(array, dtype=float), shape).copy() for array in arrays]
        found: tuple[Array, ...] = likelihood.evaluate(*self.compiled, *full)
        return found[: 2 + len(values)]


class ScaleFamily(CompiledNoise):
    """Base of the noises of a location and a scale; a subclass is a dataclass with a ``scale``."""

    #: Numbers, the name of the prior's parameter that is the scale, or a formula.
    scale: Any

    def __post_init__(self) -> None:
        store(self, scale=quantity("scale", self.scale))

    def __repr__(self) -> str:
        """The scale in short where there is one for each of thousands of data."""
        others = [f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self) if entry.name != "scale"]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join([*others, f'scale={_short(self.scale)}'])})"

    @property
    def quantities(self) -> Mapping[str, Any]:
        return {"scale": self.scale}

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter, and constant of one datum's log-likelihood, for the compiled loop."""
        return self.family, 0.0, -_HALF_LOG_TWO_PI


@dataclass(frozen=True, repr=False)
class GaussianNoise(ScaleFamily):
    """data = y + scale * (standard normal).

    Parameters
    ----------
    scale : float, array_like or str
        Standard deviation, in units of the data; broadcasts to the data's shape. A string names the
        parameter of the prior that is the unknown standard deviation, or is a formula of parameters and of the
        noise-free observation ``y``, such as ``"sqrt(a**2 + (b * y)**2)"``: additive and proportional.

    Raises
    ------
    ValueError
        If a number is not positive.
    """

    scale: npt.ArrayLike | str
    family: ClassVar[int] = likelihood.GAUSSIAN

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
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
    wanted: ClassVar[str] = "positive"

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
        return y * np.exp(scale * rng.standard_normal(y.shape))

    def auxiliary(self, data: Array, value: Array) -> Array:
        """Logarithm of the data."""
        return np.asarray(np.log(data))

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data are positive."""
        return np.asarray((data > 0) & np.isfinite(data))


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

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
        return y + scale * rng.standard_t(self.degrees_of_freedom, y.shape)


def quantity(name: str, value: Any, above: float = 0.0, below: float | None = None) -> Any:
    """Numbers between limits as they are kept, the name of a parameter, or a formula of names."""
    if isinstance(value, str) and value:
        return value if value.isidentifier() else Expression(name, value).text
    return freeze(array(name, value, above=above, below=below, also=", or the name of a parameter or a formula"))


def _short(scale: Any) -> str:
    """A scale as text, abbreviated where it has more than a handful of entries."""
    if isinstance(scale, str) or np.size(scale) <= 8:
        return repr(scale)
    return np.array2string(np.asarray(scale), threshold=8, edgeitems=2, precision=4).replace("\n", "")
