"""Distributions of independent numbers, conditioned on an interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance
from invsamp.axis_labels import freeze
from invsamp.posing.distributions.base import Coefficients, Distribution, ScalarFamily, joined_shape
from invsamp.protocols import Array


@dataclass(frozen=True)
class Truncated(Distribution):
    """A scalar distribution conditioned on an interval; see `truncated`."""

    distribution: ScalarFamily
    lower: npt.ArrayLike
    upper: npt.ArrayLike

    def __post_init__(self) -> None:
        instance("distribution", self.distribution, ScalarFamily, "one of independent numbers")
        for name in ("lower", "upper"):
            value = array(name, getattr(self, name), finite=False)
            if joined_shape(name, value, self.shape) != self.shape:
                raise ValueError(f"{name} must broadcast to shape {self.shape}, got shape {value.shape}")
            object.__setattr__(self, name, freeze(value))
        lower, upper = self.support
        if not np.all(lower < upper):
            raise ValueError(
                f"upper must be above lower inside the support of {self.distribution!r}, "
                f"got lower {self.lower!r} and upper {self.upper!r}"
            )
        if not np.all(self._masses[2] > 1e-280):
            raise ValueError(
                f"lower and upper must enclose some mass of {self.distribution!r}, "
                f"got lower {self.lower!r} and upper {self.upper!r}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.distribution.shape

    @cached_property
    def support(self) -> tuple[Array, Array]:  # type: ignore[override]
        lower, upper = self.distribution.support
        return np.maximum(lower, self.lower), np.minimum(upper, self.upper)

    @property
    def logarithmic(self) -> bool:
        """Whether the distribution is a distribution of the logarithm, and both ends are positive."""
        ends = np.concatenate([np.ravel(end) for end in self.support])
        return bool(self.distribution.logarithmic and (ends > 0.0).all())

    @property
    def compiled(self) -> Coefficients:
        """That of the distribution: truncation changes the constant and the support only."""
        return self.distribution.compiled

    @cached_property
    def _masses(self) -> tuple[Array, Array, Array, npt.NDArray[np.bool_]]:
        """Tail probabilities at both ends, the mass between, and where the tails are upper ones."""
        lower, upper = (end.ravel() for end in self.support)
        base = self.distribution.scipy()
        # differences of upper tails where the interval lies there: 1 - 1 would leave nothing
        above = base.sf(lower) < 0.5
        first = np.where(above, base.sf(upper), base.cdf(lower))
        last = np.where(above, base.sf(lower), base.cdf(upper))
        return first, last, last - first, above

    @cached_property
    def log_constant(self) -> float:
        return self.distribution.log_constant - float(np.log(self._masses[2]).sum())

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        return self.distribution.evaluate(columns)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        first, _, mass, above = self._masses
        probability = first + mass * rng.random((n, len(mass)))
        base = self.distribution.scipy()
        draws = np.where(above, base.isf(probability), base.ppf(probability)).reshape(n, *self.shape)
        return np.clip(draws, *self.support)


def truncated(distribution: ScalarFamily, lower: npt.ArrayLike = -np.inf, upper: npt.ArrayLike = np.inf) -> Truncated:
    """Distribution of independent numbers, conditioned on lying between ``lower`` and ``upper``.

    Parameters
    ----------
    distribution : scalar distribution
        Any of `invsamp.posing.distributions.univariate` except `MultivariateNormal`.
    lower, upper : float or array_like that broadcasts to the distribution's shape

    Raises
    ------
    ValueError
        If the interval is empty, has no mass (below 1e-280), or the distribution has dependent entries.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(rate=iv.truncated(iv.Normal(1.0, 0.5), lower=0.0))
    >>> prior.log_density([[1.0]]).round(3)
    array([-0.203])
    """
    return Truncated(distribution, lower, upper)
