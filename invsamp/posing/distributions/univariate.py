"""Distributions of single parameters: normalized log densities, their gradients, and sampling.

A parameter is a number or an array of independent numbers (``shape``). The numbers that describe a
distribution are stored as floats or nested tuples, so that distributions compare, print and hash.

Extending: subclass `Distribution` and give ``shape``, ``support``, ``log_constant``, ``evaluate`` and
``sample``; `invsamp.Prior` takes the result as it takes those below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # its stats take most of a second to import: not before they are wanted
from scipy import special
from scipy.linalg import lapack

from invsamp.arguments import array, generator, integer, store
from invsamp.posing.compiled import density_loops
from invsamp.posing.distributions.base import (
    Coefficients,
    Distribution,
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
from invsamp.protocols import Array

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Uniform(ScalarFamily):
    """Uniform on the interval from ``lower`` to ``upper``.

    Parameters
    ----------
    lower, upper : float or array_like
        Ends, lower < upper.
    shape : int or tuple of int, optional
        Of the parameter, to which the other arguments broadcast: independent entries. Default: their own shape.

    Raises
    ------
    ValueError
        As in all families: if an argument is not finite, out of its range, or does not broadcast to the shape.
    """

    lower: npt.ArrayLike
    upper: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    standard: ClassVar[Standard | None] = Standard("lower", "upper - lower", {"lower": 0.0, "upper": 1.0})

    def _check(self) -> None:
        check_ends(self)
        check_width(self.flat("lower"), self.flat("upper"))

    @property
    def support(self) -> tuple[Array, Array]:
        return ends(self.lower, self.upper, self.shape)

    @cached_property
    def log_constant(self) -> float:
        return -float(np.log(self.flat("upper") - self.flat("lower")).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.FLAT, self.flat("lower"), self.flat("upper"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        lower, upper = parameters
        return rng.uniform(lower, upper, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.uniform(self.flat("lower"), self.flat("upper") - self.flat("lower"))


@dataclass(frozen=True)
class Normal(ScalarFamily):
    """Normal.

    Parameters
    ----------
    mean : float or array_like
    sd : float or array_like, > 0
        Standard deviation.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    mean: npt.ArrayLike
    sd: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("sd",)
    standard: ClassVar[Standard | None] = Standard("mean", "sd", {"mean": 0.0, "sd": 1.0})

    def _check(self) -> None:
        check_scale(("mean", self.flat("mean")), ("sd", self.flat("sd")))

    @cached_property
    def log_constant(self) -> float:
        return -float((np.log(self.flat("sd")) + _HALF_LOG_TWO_PI).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.NORMAL, self.flat("mean"), 1.0 / self.flat("sd"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        mean, sd = parameters
        return rng.normal(mean, sd, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.norm(self.flat("mean"), self.flat("sd"))


@dataclass(frozen=True)
class LogNormal(PositiveFamily):
    """Log-normal: the logarithm is normal.

    Parameters
    ----------
    log_mean : float or array_like
        Mean of the logarithm; the median is its exponential.
    log_sd : float or array_like, > 0
        Standard deviation of the logarithm.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    log_mean: npt.ArrayLike
    log_sd: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("log_sd",)
    standard: ClassVar[Standard | None] = Standard("log_mean", "log_sd", {"mean": 0.0, "sd": 1.0}, Normal)

    @cached_property
    def log_constant(self) -> float:
        return -float((np.log(self.flat("log_sd")) + _HALF_LOG_TWO_PI).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.LOG_NORMAL, self.flat("log_mean"), 1.0 / self.flat("log_sd"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        log_mean, log_sd = parameters
        return rng.lognormal(log_mean, log_sd, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.lognorm(self.flat("log_sd"), scale=np.exp(self.flat("log_mean")))


@dataclass(frozen=True)
class HalfNormal(PositiveFamily):
    """Absolute value of a normal variable with mean zero.

    Parameters
    ----------
    sd : float or array_like, > 0
        Standard deviation of that variable.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    sd: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("sd",)
    standard: ClassVar[Standard | None] = Standard("0", "sd", {"sd": 1.0})

    @cached_property
    def log_constant(self) -> float:
        return -float((np.log(0.5 * self.flat("sd")) + _HALF_LOG_TWO_PI).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.NORMAL, np.zeros(math.prod(self.shape)), 1.0 / self.flat("sd"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        (sd,) = parameters
        return np.abs(rng.normal(0.0, sd, size))

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.halfnorm(scale=self.flat("sd"))


@dataclass(frozen=True)
class Gamma(PositiveFamily):
    """Gamma, of mean concentration / rate.

    Parameters
    ----------
    concentration : float or array_like, > 0
        Exponent of x, plus 1; also called shape.
    rate : float or array_like, > 0
        One over the scale.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    concentration: npt.ArrayLike
    rate: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("concentration", "rate")
    standard: ClassVar[Standard | None] = Standard("0", "1 / rate", {"rate": 1.0})

    @cached_property
    def log_constant(self) -> float:
        a, rate = self.flat("concentration"), self.flat("rate")
        return float((a * np.log(rate) - special.gammaln(a)).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.GAMMA, self.flat("concentration") - 1.0, self.flat("rate"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        concentration, rate = parameters
        return rng.gamma(concentration, 1.0 / rate, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.gamma(self.flat("concentration"), scale=1.0 / self.flat("rate"))


@dataclass(frozen=True)
class Beta(ScalarFamily):
    """Beta on (0, 1), of mean a / (a + b).

    Parameters
    ----------
    a, b : float or array_like, > 0
        Exponents of x and 1 - x, plus 1.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    a: npt.ArrayLike
    b: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("a", "b")

    @property
    def support(self) -> tuple[Array, Array]:
        return ends(0.0, 1.0, self.shape)

    @cached_property
    def log_constant(self) -> float:
        return -float(special.betaln(self.flat("a"), self.flat("b")).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.BETA, self.flat("a") - 1.0, self.flat("b") - 1.0)

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        a, b = parameters
        return rng.beta(a, b, size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.beta(self.flat("a"), self.flat("b"))


@dataclass(frozen=True)
class Cauchy(ScalarFamily):
    """Cauchy.

    Parameters
    ----------
    location : float or array_like
        Median.
    scale : float or array_like, > 0
        Half the width at half the maximum.
    shape : int or tuple of int, optional
        As in `Uniform`.
    """

    location: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive: ClassVar[tuple[str, ...]] = ("scale",)
    standard: ClassVar[Standard | None] = Standard("location", "scale", {"location": 0.0, "scale": 1.0})

    def _check(self) -> None:
        check_scale(("location", self.flat("location")), ("scale", self.flat("scale")))

    @cached_property
    def log_constant(self) -> float:
        return -float(np.log(np.pi * self.flat("scale")).sum())

    def _coefficients(self) -> Coefficients:
        return Coefficients(density_loops.CAUCHY, self.flat("location"), 1.0 / self.flat("scale"))

    def _draw(self, rng: np.random.Generator, size: tuple[int, ...], *parameters: Array) -> Array:
        location, scale = parameters
        return location + scale * rng.standard_cauchy(size)

    def scipy(self) -> FrozenDistribution:
        return scipy.stats.cauchy(self.flat("location"), self.flat("scale"))


@dataclass(frozen=True, eq=False)
class MultivariateNormal(Distribution):
    """Normal vector.

    Parameters
    ----------
    mean : array_like, shape (k,)
    covariance : array_like, shape (k, k)
        Symmetric and positive definite.

    Raises
    ------
    ValueError
        If a shape is wrong, a number not finite, or the covariance not symmetric positive definite.
    """

    mean: Any  # read-only arrays, whatever they are made of
    covariance: Any
    _factor: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        mean = np.array(array("mean", self.mean, ("k",)))
        covariance = np.array(array("covariance", self.covariance, (len(mean), len(mean))))
        if not _symmetric(covariance):
            raise ValueError("covariance must be symmetric, got a matrix that differs from its transpose")
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            smallest = np.linalg.eigvalsh(covariance)[0]
            raise ValueError(f"covariance must be positive definite, got smallest eigenvalue {smallest:g}") from None
        check_scale(("mean", mean), ("sds of the covariance", np.sqrt(np.diag(covariance))))
        # arrays, as tuples of millions of numbers take ten times their room
        for values in (mean, covariance):
            values.flags.writeable = False
        store(self, mean=mean, covariance=covariance, _factor=factor)

    def __eq__(self, other: object) -> bool:
        """Equal means and covariances."""
        if not isinstance(other, MultivariateNormal):
            return NotImplemented
        return np.array_equal(self.mean, other.mean) and np.array_equal(self.covariance, other.covariance)

    def __hash__(self) -> int:
        # + 0.0: the two zeros are equal
        return hash(tuple((values + 0.0).tobytes() for values in (self.mean, self.covariance)))

    @cached_property
    def _whitening(self) -> Array:
        inverse, _ = lapack.dtrtri(self._factor, lower=True)
        return np.ascontiguousarray(inverse.T)

    @cached_property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return np.shape(self.mean)

    @property
    def support(self) -> tuple[Array, Array]:
        return ends(-np.inf, np.inf, self.shape)

    @cached_property
    def log_constant(self) -> float:
        return -float((np.log(np.diag(self._factor)) + _HALF_LOG_TWO_PI).sum())

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        z = (columns - self.mean) @ self._whitening
        return -0.5 * np.einsum("ij,ij->i", z, z), -z @ self._whitening.T

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        generator("rng", rng), integer("n", n, least=0)
        return np.asarray(self.mean + rng.standard_normal((n, *self.shape)) @ self._factor.T)


def _symmetric(matrix: Array, rows: int = 256) -> bool:
    """Whether a matrix is its own transpose to rounding; some rows at a time, as a large one fills the memory."""
    blocks = (slice(i, i + rows) for i in range(0, len(matrix), rows))
    return all(np.allclose(matrix[block], matrix[:, block].T, rtol=1e-10, atol=0.0) for block in blocks)
