"""Noise of numbers, with a scale: Gaussian, log-normal, Student's t."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from invsamp.arguments import real, store
from invsamp.axis_labels import Axis
from invsamp.expression import Value
from invsamp.posing.compiled import likelihood_loops
from invsamp.posing.distributions.base import LARGEST
from invsamp.posing.noise.base import CompiledNoise, Link, Noise, half_square_cumulant, quantity
from invsamp.posing.noise.error_covariance import Covariance, as_covariance
from invsamp.protocols import Array

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class ScaleFamily(CompiledNoise):
    """Base of the noises of a location and a scale; a subclass is a dataclass with a ``scale``."""

    #: Numbers, the name of the prior's parameter that is the scale, or a formula.
    scale: Value

    def __post_init__(self) -> None:
        store(self, scale=quantity("scale", self.scale))
        entries = self.scale if isinstance(self.scale, tuple) else (self.scale,)
        least = min((np.min(entry) for entry in entries if not isinstance(entry, str)), default=1.0)
        if least < 1.0 / LARGEST:
            raise ValueError(
                f"scale must be at least {1.0 / LARGEST:g}, got {least:g}: the squares of the data in units "
                "of it overflow double precision. Give the data in other units"
            )

    def __repr__(self) -> str:
        """The scale in short where there is one for each of thousands of data."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "scale"}  # type: ignore[arg-type]
        words = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join([*words, f'scale={_short(self.scale)}'])})"

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"scale": self.scale}

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter, and constant of one datum's log-likelihood, for the compiled loop."""
        return self.family, 0.0, -_HALF_LOG_TWO_PI

    def standardize(self, x: Array, y: Array, scale: Array) -> tuple[Array, Array, Array]:
        """Where x is in units of the scale from y, and the derivatives of that with respect to y and scale."""
        z = (x - y) / scale
        return z, -1.0 / scale, -z / scale

    def locate(self, z: Array, y: Array, scale: Array) -> Array:
        """The data that are z scales from y."""
        return y + scale * z

    def log_cdf(self, z: Array) -> tuple[Array, Array]:
        """Logarithm of the standard distribution function, which is symmetric, and its derivative."""
        value = special.log_ndtr(z)
        return value, np.exp(-0.5 * z * z - _HALF_LOG_TWO_PI - value)

    def quantile(self, probability: Array) -> Array:
        """Inverse of the standard distribution function."""
        return np.asarray(special.ndtri(probability))


class LogScaleFamily(ScaleFamily):
    """Base of those whose logarithm has a location, that of y, and a scale."""

    wanted: ClassVar[str] = "positive"

    @property
    def link(self) -> Link:
        """The logarithm."""
        return "log"

    def standardize(self, x: Array, y: Array, scale: Array) -> tuple[Array, Array, Array]:
        """Where x is in units of the scale from y, and the derivatives of that with respect to y and scale."""
        z = (np.log(np.maximum(x, 0.0)) - np.log(y)) / scale
        return z, -1.0 / (scale * y), -z / scale

    def locate(self, z: Array, y: Array, scale: Array) -> Array:
        """The data that are z scales from y."""
        return np.asarray(y * np.exp(scale * z))

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data are positive."""
        return np.asarray((data > 0) & np.isfinite(data))


@dataclass(frozen=True, repr=False)
class GaussianNoise(ScaleFamily):
    """data = y + scale * e, with e standard normal, or of a given covariance.

    Parameters
    ----------
    scale : float, array_like or str
        Standard deviation, in units of the data; broadcasts to the data's shape. A string names the
        parameter of the prior that is the unknown standard deviation, or is a formula of parameters and of the
        noise-free observation ``y``, such as ``"sqrt(a**2 + (b * y)**2)"``: additive and proportional. A list of
        names, formulas and numbers has one for each entry of the data's last axis. Labels of a table have to come in
        the order of the data's.
    covariance : array_like (m, m), `Precision`, `AutoRegressive` or `ExponentialCorrelation`, optional
        Of e, for all m data in C order, by default the identity. A matrix, or a precision, is that of the data
        themselves, and no numbers are given for ``scale`` beside it; an unknown factor may be, by its name. A matrix is
        factorized once. Data that depend on each other have no terms of their own, so that minibatches are refused.

    Raises
    ------
    ValueError
        If a number is not positive, or a matrix not symmetric positive definite; if numbers for ``scale`` would
        multiply a matrix. In a posterior, if labels of the data come in another order.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> sds, correlations = np.array([0.1, 0.2]), np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> iv.GaussianNoise(covariance=sds[:, None] * correlations * sds)
    GaussianNoise(covariance=Matrix([[0.01 0.01] [0.01 0.04]]), scale=1.0)
    """

    scale: npt.ArrayLike | str = 1.0
    covariance: Value = None
    family: ClassVar[int] = likelihood_loops.GAUSSIAN

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.covariance is not None:
            store(self, covariance=as_covariance(self.covariance))
            if self.covariance.has_units and self.scale != 1.0 and not _names(self.scale):
                raise ValueError(
                    "scale must be left out beside a covariance, which has the data's variances already, got "
                    f"{_short(self.scale)}. With standard deviations s and a correlation matrix R, the "
                    "covariance is s[:, None] * R * s. An unknown factor is named, GaussianNoise('s', "
                    "covariance=...)"
                )

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"scale": self.scale} | (self.covariance.quantities if self.covariance is not None else {})

    @property
    def labeled(self) -> Mapping[str, Sequence[Axis]]:
        """As in `invsamp.extending.Noise`."""
        return {**super().labeled, **(self.covariance.labeled if self.covariance is not None else {})}

    @property
    def independent(self) -> bool:  # type: ignore[override]
        """Whether each datum's term depends on its own y alone."""
        return self.covariance is None

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:
        return {} if self.covariance is None else self.covariance.limits

    def bind(self, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> Noise:
        """The noise of the data ``chosen``, indices (m,) in C order, of all those of this shape."""
        if self.covariance is None:
            return self
        covariance: Covariance = self.covariance
        return covariance.bind(shape, chosen)

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
        return y + scale * rng.standard_normal(y.shape)

    def cumulant(self, rate: Array) -> Array:
        """That of half the square of a standard normal number."""
        return half_square_cumulant(rate)


@dataclass(frozen=True, repr=False)
class LogNormalNoise(LogScaleFamily):
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

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.LogNormalNoise(0.2)  # errors of about 20%
    >>> posterior = iv.Posterior(iv.Prior(a=iv.LogNormal(0.0, 1.0)), lambda a: a, data=[2.0], noise=noise)
    >>> posterior.log_likelihood([[2.0]]).round(3)
    array([[-0.003]])
    """

    scale: npt.ArrayLike | str
    family: ClassVar[int] = likelihood_loops.LOG_NORMAL

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
        return y * np.exp(scale * rng.standard_normal(y.shape))

    def cumulant(self, rate: Array) -> Array:
        """That of half the square of a standard normal number."""
        return half_square_cumulant(rate)

    def auxiliary(self, data: Array, value: Array) -> Array:
        """Logarithm of the data."""
        return np.asarray(np.log(data))


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

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.StudentTNoise(4.0, 0.1)  # robust against outliers
    >>> posterior = iv.Posterior(iv.Prior(a=iv.Normal(0.0, 1.0)), lambda a: a, data=[1.0], noise=noise)
    >>> posterior.log_likelihood([[0.0]]).round(3)
    array([[-6.823]])
    """

    degrees_of_freedom: float
    scale: npt.ArrayLike | str
    family: ClassVar[int] = likelihood_loops.STUDENT_T

    def __post_init__(self) -> None:
        store(self, degrees_of_freedom=real("degrees_of_freedom", self.degrees_of_freedom, above=0))
        super().__post_init__()

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter, and constant of one datum's log-likelihood, for the compiled loop."""
        nu = float(self.degrees_of_freedom)
        # the Beta function, because a difference of log Gammas loses its digits for many degrees of freedom
        return self.family, nu, float(-special.betaln(0.5, 0.5 * nu) - 0.5 * math.log(nu))

    def log_cdf(self, z: Array) -> tuple[Array, Array]:
        """Logarithm of the standard distribution function, which is symmetric, and its derivative."""
        nu = self.degrees_of_freedom
        value = np.log(special.stdtr(nu, z))
        return value, np.exp(self.compiled[2] - 0.5 * (nu + 1.0) * np.log1p(z * z / nu) - value)

    def quantile(self, probability: Array) -> Array:
        """Inverse of the standard distribution function."""
        return np.asarray(special.stdtrit(self.degrees_of_freedom, probability))

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        (scale,) = values
        return y + scale * rng.standard_t(self.degrees_of_freedom, y.shape)

    def cumulant(self, rate: Array) -> Array:
        """That of (nu + 1)/2 log(1 + z^2/nu): 1 / (1 + z^2/nu) has a beta distribution."""
        nu = float(self.degrees_of_freedom)
        shape = 0.5 * (nu - rate * (nu + 1.0))
        inside = np.where(shape > 0.0, shape, 1.0)
        return np.where(shape > 0.0, special.betaln(inside, 0.5) - special.betaln(0.5 * nu, 0.5), np.inf)


def _names(scale: Value) -> bool:
    """Whether a scale has names of parameters, or formulas, in it."""
    return isinstance(scale, str) or (isinstance(scale, tuple) and any(isinstance(entry, str) for entry in scale))


def _short(scale: Value) -> str:
    """A scale as text, abbreviated where it has more than a handful of entries."""
    if isinstance(scale, str) or np.size(scale) <= 8:
        return repr(scale)
    return np.array2string(np.asarray(scale), threshold=8, edgeitems=2, precision=4).replace("\n", "")
