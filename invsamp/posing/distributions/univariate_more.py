"""More distributions of independent numbers: heavy tails, positive numbers, intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # its stats take most of a second to import: not before they are wanted
from scipy import special

from invsamp.posing.compiled import density_loops
from invsamp.posing.distributions.base import (
    Coefficients,
    FrozenDistribution,
    PositiveFamily,
    ScalarFamily,
    Shape,
    Standard,
    check_ends,
    check_scale,
    check_width,
    ends,
)
from invsamp.posing.distributions.univariate import Uniform
from invsamp.protocols import Array


@dataclass(frozen=True)
class StudentT(ScalarFamily):
    """Student's t, shifted and scaled.

    Parameters
    ----------
    degrees_of_freedom : float or array_like, > 0
    location : float or array_like
        Median.
    scale : float or array_like, > 0
        The standard deviation is ``scale * sqrt(nu / (nu - 2))`` for nu > 2 degrees of freedom.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    degrees_of_freedom: npt.ArrayLike
    location: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("degrees_of_freedom", "scale")
    standard: ClassVar[Standard | None] = Standard("location", "scale", {"location": 0.0, "scale": 1.0})

    def _check(self) -> None:
        check_scale(("location", self.flat("location")), ("scale", self.flat("scale")))

    @cached_property
    def log_constant(self) -> float:
        nu = self.flat("degrees_of_freedom")
        return -float((special.betaln(0.5, 0.5 * nu) + 0.5 * np.log(nu) + np.log(self.flat("scale"))).sum())

    def _coefficients(self) -> Coefficients:
        location, scale, nu = (self.flat(name) for name in ("location", "scale", "degrees_of_freedom"))
        return Coefficients(density_loops.STUDENT_T, location, 1.0 / scale, nu)

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        nu, location, scale = parameters
        return location + scale * rng.standard_t(nu, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.t(self.flat("degrees_of_freedom"), self.flat("location"), self.flat("scale"))


@dataclass(frozen=True)
class HalfStudentT(PositiveFamily):
    """Absolute value of a variable with Student's t about 0.

    Parameters
    ----------
    degrees_of_freedom, scale : float or array_like, > 0
        As in `StudentT`.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    degrees_of_freedom: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("degrees_of_freedom", "scale")
    standard: ClassVar[Standard | None] = Standard("0", "scale", {"scale": 1.0})

    @cached_property
    def _whole(self) -> StudentT:
        return StudentT(self.degrees_of_freedom, 0.0, self.scale, shape=self.shape)

    @cached_property
    def log_constant(self) -> float:
        return self._whole.log_constant + self._whole.flat("scale").size * float(np.log(2.0))

    def _coefficients(self) -> Coefficients:
        return self._whole.compiled

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        nu, scale = parameters
        return np.abs(scale * rng.standard_t(nu, size))

    def scipy(self) -> FrozenDistribution:
        return _Folded(self._whole.scipy())


@dataclass(frozen=True)
class HalfCauchy(PositiveFamily):
    """Absolute value of a Cauchy variable about 0.

    Parameters
    ----------
    scale : float or array_like, > 0
        Median.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("scale",)
    standard: ClassVar[Standard | None] = Standard("0", "scale", {"scale": 1.0})

    @cached_property
    def log_constant(self) -> float:
        return -float(np.log(0.5 * np.pi * self.flat("scale")).sum())

    def _coefficients(self) -> Coefficients:
        scale = self.flat("scale")
        return Coefficients(density_loops.CAUCHY, np.zeros(len(scale)), 1.0 / scale)

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        (scale,) = parameters
        return np.abs(scale * rng.standard_cauchy(size))

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.halfcauchy(scale=self.flat("scale"))


@dataclass(frozen=True)
class Exponential(PositiveFamily):
    """Exponential, of mean 1 / rate.

    Parameters
    ----------
    rate : float or array_like, > 0
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    rate: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("rate",)
    standard: ClassVar[Standard | None] = Standard("0", "1 / rate", {"rate": 1.0})

    @cached_property
    def log_constant(self) -> float:
        return float(np.log(self.flat("rate")).sum())

    def _coefficients(self) -> Coefficients:
        rate = self.flat("rate")
        return Coefficients(density_loops.GAMMA, np.zeros(len(rate)), rate)

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        (rate,) = parameters
        return rng.exponential(1.0 / rate, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.expon(scale=1.0 / self.flat("rate"))


@dataclass(frozen=True)
class InverseGamma(PositiveFamily):
    """One over a Gamma variable: of mean rate / (concentration - 1) where the concentration is above 1.

    Parameters
    ----------
    concentration, rate : float or array_like, > 0
        Of the Gamma variable, as in `Gamma`.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    concentration: npt.ArrayLike
    rate: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("concentration", "rate")
    standard: ClassVar[Standard | None] = Standard("0", "rate", {"rate": 1.0})

    @cached_property
    def log_constant(self) -> float:
        a, rate = self.flat("concentration"), self.flat("rate")
        return float((a * np.log(rate) - special.gammaln(a)).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.INVERSE_GAMMA, self.flat("concentration") + 1.0, self.flat("rate"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        concentration, rate = parameters
        return rate / rng.gamma(concentration, 1.0, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.invgamma(self.flat("concentration"), scale=self.flat("rate"))


@dataclass(frozen=True)
class LogUniform(ScalarFamily):
    """The logarithm is uniform: density 1 / x between two positive ends. It is sampled as its logarithm.

    Parameters
    ----------
    lower, upper : float or array_like, > 0
        Ends, lower < upper.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    lower: npt.ArrayLike
    upper: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("lower", "upper")
    standard: ClassVar[Standard | None] = Standard(
        "log(lower)", "log(upper / lower)", {"lower": 0.0, "upper": 1.0}, Uniform
    )

    def _check(self) -> None:
        check_ends(self)

    @property
    def logarithmic(self) -> bool:
        """It is."""
        return True

    @property
    def support(self) -> tuple[Array, Array]:
        return ends(self.lower, self.upper, self.shape)

    @cached_property
    def log_constant(self) -> float:
        return -float(np.log(np.log(self.flat("upper") / self.flat("lower"))).sum())

    def _coefficients(self) -> Coefficients:
        size = len(self.flat("lower"))
        return Coefficients(density_loops.GAMMA, np.full(size, -1.0), np.zeros(size))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        lower, upper = parameters
        return np.clip(np.exp(rng.uniform(np.log(lower), np.log(upper), size)), lower, upper)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.loguniform(self.flat("lower"), self.flat("upper"))


@dataclass(frozen=True)
class Weibull(PositiveFamily):
    """Weibull: (x / scale) ** exponent is exponential with mean 1.

    Parameters
    ----------
    exponent : float or array_like, > 0
        Also called shape.
    scale : float or array_like, > 0
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    exponent: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("exponent", "scale")
    standard: ClassVar[Standard | None] = Standard("0", "scale", {"scale": 1.0})

    @cached_property
    def log_constant(self) -> float:
        return float(np.log(self.flat("exponent") / self.flat("scale")).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.WEIBULL, self.flat("exponent"), 1.0 / self.flat("scale"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        exponent, scale = parameters
        return np.asarray(scale * rng.weibull(exponent, size))

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.weibull_min(self.flat("exponent"), scale=self.flat("scale"))


@dataclass(frozen=True)
class Triangular(ScalarFamily):
    """Density that rises along a line from ``lower`` to ``mode`` and falls to ``upper``.

    Parameters
    ----------
    lower, mode, upper : float or array_like
        lower <= mode <= upper, and lower < upper.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    lower: npt.ArrayLike
    mode: npt.ArrayLike
    upper: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)

    def _check(self) -> None:
        lower, mode, upper = (self.flat(name) for name in ("lower", "mode", "upper"))
        if not np.all((lower <= mode) & (mode <= upper) & (lower < upper)):
            raise ValueError(
                f"mode must lie between lower and upper, and upper above lower, got lower {self.lower!r}, "
                f"mode {self.mode!r} and upper {self.upper!r}"
            )
        check_width(lower, upper)

    @property
    def support(self) -> tuple[Array, Array]:
        return ends(self.lower, self.upper, self.shape)

    @cached_property
    def log_constant(self) -> float:
        return float(np.log(2.0 / (self.flat("upper") - self.flat("lower"))).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.TRIANGULAR, self.flat("lower"), self.flat("mode"), self.flat("upper"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        lower, mode, upper = parameters
        return rng.triangular(lower, mode, upper, size)

    def scipy(self) -> FrozenDistribution:
        lower, width = self.flat("lower"), self.flat("upper") - self.flat("lower")
        return scipy.stats.triang((self.flat("mode") - lower) / width, lower, width)


class _Folded:
    """The absolute value of a symmetric law about 0, with what `Truncated` asks of it."""

    def __init__(self, whole: FrozenDistribution) -> None:
        self._whole = whole

    def cdf(self, x: Array) -> Array:
        return np.asarray(1.0 - 2.0 * self._whole.sf(np.maximum(x, 0.0)))

    def sf(self, x: Array) -> Array:
        return np.asarray(2.0 * self._whole.sf(np.maximum(x, 0.0)))

    def ppf(self, level: Array) -> Array:
        return np.asarray(self._whole.isf(0.5 * (1.0 - np.asarray(level))))

    def isf(self, level: Array) -> Array:
        return np.asarray(self._whole.isf(0.5 * np.asarray(level)))
