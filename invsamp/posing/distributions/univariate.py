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
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its stats take most of a second to import: not before they are wanted
from scipy import special
from scipy.linalg import lapack

from invsamp.arguments import array, generator, integer, store
from invsamp.axis_labels import check_same_order
from invsamp.posing.compiled import density_loops
from invsamp.posing.distributions.base import (
    Distribution,
    Family,
    LocationScale,
    PositiveFamily,
    ScalarFamily,
    Shape,
    Standard,
    check_ends,
    check_scale,
    check_width,
    ends,
)
from invsamp.posing.distributions.shape_derivatives import log_beta
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

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(x=iv.Uniform(0.0, 1.0), y=iv.Uniform("x", 1.0))  # y is above x
    >>> prior.log_density([[0.5, 0.7], [0.5, 0.2]]).round(3)
    array([0.693,  -inf])
    """

    lower: npt.ArrayLike
    upper: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    standard = Standard("lower", "upper - lower", {"lower": 0.0, "upper": 1.0})
    interval = ("lower", "upper")
    family = Family(
        density_loops.FLAT,
        coefficients=lambda lower, upper: (lower, upper),
        log_constant=lambda lower, upper: -np.log(upper - lower),
        draw=lambda rng, size, lower, upper: rng.uniform(lower, upper, size),
        scipy=lambda lower, upper: scipy.stats.uniform(lower, upper - lower),
    )

    def _check(self) -> None:
        check_ends(self)
        check_width(self.flat("lower"), self.flat("upper"))


@dataclass(frozen=True)
class Normal(LocationScale):
    """Normal.

    Parameters
    ----------
    mean : float or array_like
    sd : float or array_like, > 0
        Standard deviation.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(mu=iv.Normal(0.0, 5.0), effect=iv.Normal("mu", 1.0, shape=3))  # an unknown mean
    >>> prior.log_density([[0.0, 0.1, -0.2, 0.3]]).round(3)
    array([-5.355])
    """

    mean: npt.ArrayLike
    sd: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("sd",)
    standard = Standard("mean", "sd", {"mean": 0.0, "sd": 1.0})
    family = Family(
        density_loops.NORMAL,
        coefficients=lambda mean, sd: (mean, 1.0 / sd),
        log_constant=lambda mean, sd: -(np.log(sd) + _HALF_LOG_TWO_PI),
        draw=lambda rng, size, mean, sd: rng.normal(mean, sd, size),
        scipy=lambda mean, sd: scipy.stats.norm(mean, sd),
    )


@dataclass(frozen=True)
class LogNormal(PositiveFamily):
    """Log-normal: the logarithm is normal.

    Both arguments are of the logarithm, not of the variable: ``LogNormal(np.log(0.2), 0.5)`` has the median 0.2, and
    68% of its mass between 0.12 and 0.33. Its mean is ``exp(log_mean + log_sd**2 / 2)``.

    Parameters
    ----------
    log_mean : float or array_like
        Mean of the logarithm; the median is its exponential.
    log_sd : float or array_like, > 0
        Standard deviation of the natural logarithm; a small one is a relative sd of the variable.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> prior = iv.Prior(rate=iv.LogNormal(np.log(0.2), 0.5))
    >>> prior.log_density([[0.2]]).round(3)
    array([1.384])
    """

    log_mean: npt.ArrayLike
    log_sd: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("log_sd",)
    standard = Standard("log_mean", "log_sd", {"mean": 0.0, "sd": 1.0}, Normal)
    family = Family(
        density_loops.LOG_NORMAL,
        coefficients=lambda mean, sd: (mean, 1.0 / sd),
        log_constant=lambda mean, sd: -(np.log(sd) + _HALF_LOG_TWO_PI),
        draw=lambda rng, size, mean, sd: rng.lognormal(mean, sd, size),
        scipy=lambda mean, sd: scipy.stats.lognorm(sd, scale=np.exp(mean)),
    )


@dataclass(frozen=True)
class HalfNormal(PositiveFamily):
    """Absolute value of a normal variable with mean zero.

    Parameters
    ----------
    sd : float or array_like, > 0
        Standard deviation of that variable.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(sd=iv.HalfNormal(0.1))
    >>> prior.log_density([[0.05]]).round(3)
    array([1.952])
    """

    sd: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("sd",)
    standard = Standard("0", "sd", {"sd": 1.0})
    family = Family(
        density_loops.NORMAL,
        coefficients=lambda sd: (0.0, 1.0 / sd),
        log_constant=lambda sd: -(np.log(0.5 * sd) + _HALF_LOG_TWO_PI),
        draw=lambda rng, size, sd: np.abs(rng.normal(0.0, sd, size)),
        scipy=lambda sd: scipy.stats.halfnorm(scale=sd),
    )


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

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(rate=iv.Gamma(concentration=2.0, rate=1.0))
    >>> prior.log_density([[1.0]]).round(3)
    array([-1.])
    """

    concentration: npt.ArrayLike
    rate: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("concentration", "rate")
    standard = Standard("0", "1 / rate", {"rate": 1.0})
    family = Family(
        density_loops.GAMMA,
        coefficients=lambda a, rate: (a - 1.0, rate),
        log_constant=lambda a, rate: a * np.log(rate) - special.loggamma(a),
        draw=lambda rng, size, a, rate: rng.gamma(a, 1.0 / rate, size),
        scipy=lambda a, rate: scipy.stats.gamma(a, scale=1.0 / rate),
    )


@dataclass(frozen=True)
class Beta(ScalarFamily):
    """Beta on (0, 1), of mean a / (a + b).

    Parameters
    ----------
    a, b : float or array_like, > 0
        Exponents of x and 1 - x, plus 1.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(share=iv.Beta(2.0, 5.0))
    >>> prior.log_density([[0.3]]).round(3)
    array([0.771])
    """

    a: npt.ArrayLike
    b: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("a", "b")
    interval = (0.0, 1.0)
    family = Family(
        density_loops.BETA,
        coefficients=lambda a, b: (a - 1.0, b - 1.0),
        log_constant=lambda a, b: -log_beta(a, b),
        draw=lambda rng, size, a, b: rng.beta(a, b, size),
        scipy=lambda a, b: scipy.stats.beta(a, b),
    )


@dataclass(frozen=True)
class Cauchy(LocationScale):
    """Cauchy.

    Parameters
    ----------
    location : float or array_like
        Median.
    scale : float or array_like, > 0
        Half the width at half the maximum.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(offset=iv.Cauchy(0.0, 2.5))
    >>> prior.log_density([[1.0]]).round(3)
    array([-2.209])
    """

    location: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("scale",)
    standard = Standard("location", "scale", {"location": 0.0, "scale": 1.0})
    family = Family(
        density_loops.CAUCHY,
        coefficients=lambda location, scale: (location, 1.0 / scale),
        log_constant=lambda location, scale: -np.log(np.pi * scale),
        draw=lambda rng, size, location, scale: location + scale * rng.standard_cauchy(size),
        scipy=lambda location, scale: scipy.stats.cauchy(location, scale),
    )


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

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(beta=iv.MultivariateNormal([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]]))
    >>> prior.log_density([[0.0, 1.0]]).round(3)
    array([-2.118])
    """

    mean: Any  # read-only arrays, whatever they are made of
    covariance: Any
    _factor: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_same_order({"mean": self.mean, "covariance": self.covariance})
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
