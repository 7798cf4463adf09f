"""More distributions of independent numbers: heavy tails, positive numbers, intervals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy  # its stats take most of a second to import: not before they are wanted
from scipy import special

from invsamp.posing.compiled import density_loops
from invsamp.posing.distributions.base import (
    Family,
    FrozenDistribution,
    LocationScale,
    PositiveFamily,
    ScalarFamily,
    Shape,
    Standard,
    check_ends,
    check_width,
)
from invsamp.posing.distributions.shape_derivatives import log_beta
from invsamp.posing.distributions.univariate import Uniform
from invsamp.protocols import Array


@dataclass(frozen=True)
class StudentT(LocationScale):
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

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(slope=iv.StudentT(4.0, 0.0, 1.0))
    >>> prior.log_density([[1.0]]).round(3)
    array([-1.539])
    """

    degrees_of_freedom: npt.ArrayLike
    location: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("degrees_of_freedom", "scale")
    standard = Standard("location", "scale", {"location": 0.0, "scale": 1.0})
    family = Family(
        density_loops.STUDENT_T,
        coefficients=lambda nu, location, scale: (location, 1.0 / scale, nu),
        log_constant=lambda nu, location, scale: -(log_beta(0.5, 0.5 * nu) + 0.5 * np.log(nu) + np.log(scale)),
        draw=lambda rng, size, nu, location, scale: location + scale * rng.standard_t(nu, size),
        scipy=lambda nu, location, scale: scipy.stats.t(nu, location, scale),
    )


@dataclass(frozen=True)
class Laplace(LocationScale):
    """Laplace: the distance from the median is exponential.

    Parameters
    ----------
    location : float or array_like
        Median.
    scale : float or array_like, > 0
        Mean distance from it; the standard deviation is ``sqrt(2) * scale``.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Notes
    -----
    The gradient jumps at the median, where 0 is returned.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.distributions.Laplace(0, 1).log_density([0.0]).round(3)
    array([-0.693])
    """

    location: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("scale",)
    standard = Standard("location", "scale", {"location": 0.0, "scale": 1.0})
    family = Family(
        density_loops.LAPLACE,
        coefficients=lambda location, scale: (location, 1.0 / scale),
        log_constant=lambda location, scale: -np.log(2.0 * scale),
        draw=lambda rng, size, location, scale: rng.laplace(location, scale, size),
        scipy=lambda location, scale: scipy.stats.laplace(location, scale),
    )


@dataclass(frozen=True)
class LogLaplace(PositiveFamily):
    """The logarithm has a Laplace distribution.

    Parameters
    ----------
    log_location : float or array_like
        Median of the logarithm.
    log_scale : float or array_like, > 0
        Mean distance of the logarithm from it.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.distributions.LogLaplace(0, 1).log_density([1.0]).round(3)
    array([-0.693])
    """

    log_location: npt.ArrayLike
    log_scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("log_scale",)
    standard = Standard("log_location", "log_scale", {"location": 0.0, "scale": 1.0}, Laplace)
    family = Family(
        density_loops.LOG_LAPLACE,
        coefficients=lambda location, scale: (location, 1.0 / scale),
        log_constant=lambda location, scale: -np.log(2.0 * scale),
        draw=lambda rng, size, location, scale: np.exp(rng.laplace(location, scale, size)),
        scipy=lambda location, scale: scipy.stats.loglaplace(1.0 / scale, scale=np.exp(location)),
    )


@dataclass(frozen=True)
class HalfStudentT(PositiveFamily):
    """Absolute value of a variable with Student's t about 0.

    Parameters
    ----------
    degrees_of_freedom, scale : float or array_like, > 0
        As in `StudentT`.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(sd=iv.distributions.HalfStudentT(4.0, 1.0))
    >>> prior.log_density([[0.5]]).round(3)
    array([-0.439])
    """

    degrees_of_freedom: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("degrees_of_freedom", "scale")
    standard = Standard("0", "scale", {"scale": 1.0})
    family = Family(
        density_loops.STUDENT_T,
        coefficients=lambda nu, scale: (0.0, 1.0 / scale, nu),
        log_constant=lambda nu, scale: StudentT.family.log_constant(nu, 0.0, scale) + np.log(2.0),
        draw=lambda rng, size, nu, scale: np.abs(scale * rng.standard_t(nu, size)),
        scipy=lambda nu, scale: _Folded(scipy.stats.t(nu, 0.0, scale)),
    )


@dataclass(frozen=True)
class HalfCauchy(PositiveFamily):
    """Absolute value of a Cauchy variable about 0.

    Parameters
    ----------
    scale : float or array_like, > 0
        Median.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(tau=iv.HalfCauchy(5.0), effect=iv.Normal(0.0, "tau", shape=8))
    >>> prior.dimension
    9
    """

    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("scale",)
    standard = Standard("0", "scale", {"scale": 1.0})
    family = Family(
        density_loops.CAUCHY,
        coefficients=lambda scale: (0.0, 1.0 / scale),
        log_constant=lambda scale: -np.log(0.5 * np.pi * scale),
        draw=lambda rng, size, scale: np.abs(scale * rng.standard_cauchy(size)),
        scipy=lambda scale: scipy.stats.halfcauchy(scale=scale),
    )


@dataclass(frozen=True)
class Exponential(PositiveFamily):
    """Exponential, of mean 1 / rate.

    Parameters
    ----------
    rate : float or array_like, > 0
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(delay=iv.Exponential(rate=0.5))
    >>> prior.log_density([[1.0]]).round(3)
    array([-1.193])
    """

    rate: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("rate",)
    standard = Standard("0", "1 / rate", {"rate": 1.0})
    family = Family(
        density_loops.GAMMA,
        coefficients=lambda rate: (0.0, rate),
        log_constant=lambda rate: np.log(rate),
        draw=lambda rng, size, rate: rng.exponential(1.0 / rate, size),
        scipy=lambda rate: scipy.stats.expon(scale=1.0 / rate),
    )


@dataclass(frozen=True)
class InverseGamma(PositiveFamily):
    """One over a Gamma variable: of mean rate / (concentration - 1) where the concentration is above 1.

    Parameters
    ----------
    concentration, rate : float or array_like, > 0
        Of the Gamma variable, as in `Gamma`.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(variance=iv.distributions.InverseGamma(3.0, 2.0))
    >>> prior.log_density([[1.0]]).round(3)
    array([-0.614])
    """

    concentration: npt.ArrayLike
    rate: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("concentration", "rate")
    standard = Standard("0", "rate", {"rate": 1.0})
    family = Family(
        density_loops.INVERSE_GAMMA,
        coefficients=lambda a, rate: (a + 1.0, rate),
        log_constant=lambda a, rate: a * np.log(rate) - special.loggamma(a),
        draw=lambda rng, size, a, rate: rate / rng.gamma(a, 1.0, size),
        scipy=lambda a, rate: scipy.stats.invgamma(a, scale=rate),
    )


@dataclass(frozen=True)
class LogUniform(ScalarFamily):
    """The logarithm is uniform: density 1 / x between two positive ends. It is sampled as its logarithm.

    Parameters
    ----------
    lower, upper : float or array_like, > 0
        Ends, lower < upper.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(diffusivity=iv.LogUniform(1e-4, 1e-1))
    >>> prior.log_density([[1e-2]]).round(3)
    array([2.673])
    """

    lower: npt.ArrayLike
    upper: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("lower", "upper")
    standard = Standard("log(lower)", "log(upper / lower)", {"lower": 0.0, "upper": 1.0}, Uniform)
    interval = ("lower", "upper")
    family = Family(
        density_loops.GAMMA,
        coefficients=lambda lower, upper: (-1.0, 0.0),
        log_constant=lambda lower, upper: -np.log(np.log(upper / lower)),
        draw=lambda rng, size, lower, upper: np.clip(
            np.exp(rng.uniform(np.log(lower), np.log(upper), size)), lower, upper
        ),
        scipy=lambda lower, upper: scipy.stats.loguniform(lower, upper),
    )

    def _check(self) -> None:
        check_ends(self)


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

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(lifetime=iv.distributions.Weibull(exponent=1.5, scale=10.0))
    >>> prior.log_density([[10.0]]).round(3)
    array([-2.897])
    """

    exponent: npt.ArrayLike
    scale: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    positive = ("exponent", "scale")
    standard = Standard("0", "scale", {"scale": 1.0})
    family = Family(
        density_loops.WEIBULL,
        coefficients=lambda exponent, scale: (exponent, 1.0 / scale),
        log_constant=lambda exponent, scale: np.log(exponent / scale),
        draw=lambda rng, size, exponent, scale: scale * rng.weibull(exponent, size),
        scipy=lambda exponent, scale: scipy.stats.weibull_min(exponent, scale=scale),
    )


@dataclass(frozen=True)
class Triangular(ScalarFamily):
    """Density that rises along a line from ``lower`` to ``mode`` and falls to ``upper``.

    Parameters
    ----------
    lower, mode, upper : float or array_like
        lower <= mode <= upper, and lower < upper.
    shape : int or tuple of int, optional
        As in `Uniform`.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(porosity=iv.distributions.Triangular(0.1, 0.2, 0.4))
    >>> prior.log_density([[0.2]]).round(3)
    array([1.897])
    """

    lower: npt.ArrayLike
    mode: npt.ArrayLike
    upper: npt.ArrayLike
    shape: Shape = field(default=(), kw_only=True)
    interval = ("lower", "upper")
    family = Family(
        density_loops.TRIANGULAR,
        coefficients=lambda lower, mode, upper: (lower, mode, upper),
        log_constant=lambda lower, mode, upper: np.log(2.0 / (upper - lower)),
        draw=lambda rng, size, lower, mode, upper: rng.triangular(lower, mode, upper, size),
        scipy=lambda lower, mode, upper: scipy.stats.triang((mode - lower) / (upper - lower), lower, upper - lower),
    )

    def _check(self) -> None:
        lower, mode, upper = (self.flat(name) for name in ("lower", "mode", "upper"))
        if not np.all((lower <= mode) & (mode <= upper) & (lower < upper)):
            raise ValueError(
                f"mode must lie between lower and upper, and upper above lower, got lower {self.lower!r}, "
                f"mode {self.mode!r} and upper {self.upper!r}"
            )
        check_width(lower, upper)


class _Folded:
    """The absolute value of a symmetric distribution about 0, with what `Truncated` asks of it."""

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
