"""Distributions given by functions: a log density and a sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array, generator, integer, store, wrong
from invsamp.axis_labels import freeze
from invsamp.posing.distributions.base import Distribution, as_shape, ends, joined_shape
from invsamp.protocols import Array

NO_GRADIENT = (
    "the prior has a Custom distribution without a gradient. Give it, Custom(function, sampler, gradient), "
    "or take a sampler without gradients, such as pcn()"
)


@dataclass(frozen=True, init=False)
class Custom(Distribution):
    r"""Distribution given by its log density and a sampler.

    Parameters
    ----------
    function : callable
        x (batch, \*shape) -> log density (batch,). A constant that is left out changes no draws, but the evidence.
        Minus infinity is zero density.
    sampler : callable
        ``sampler(rng, n)`` -> n independent draws (n, \*shape), by the NumPy generator ``rng``. Starts, scales and the
        hottest temperature of a ladder come from it. It must belong to ``function``: nothing checks that.
    gradient : callable or True, optional
        x (batch, \*shape) -> gradient of the log density (batch, \*shape). True: the function returns the pair (log
        density, gradient). Without it, samplers that follow no gradient work (`pcn`), and the others refuse.
    shape : int or tuple of int
        Of the parameter, () for a number. For several parameters by name see `Prior`.
    lower, upper : float or array_like that broadcasts to the shape
        Ends of the support. What is bounded below only is sampled as its logarithm.

    Raises
    ------
    ValueError
        If an argument is not what it has to be; at the first evaluation, if a function returns another shape.

    Examples
    --------
    A Gaussian copula of two parameters, with exponential and uniform marginals:

    >>> import numpy as np
    >>> from scipy import special, stats
    >>> import invsamp as iv
    >>> R = 0.8
    >>> def log_density(x):
    ...     z = special.ndtri(np.stack([-np.expm1(-x[:, 0]), x[:, 1]], axis=1))
    ...     cross = R**2 * (z**2).sum(axis=1) - 2 * R * z.prod(axis=1)
    ...     return -cross / (2 - 2 * R**2) - 0.5 * np.log(1 - R**2) - x[:, 0]
    >>> def sampler(rng, n):
    ...     z = rng.multivariate_normal([0, 0], [[1, R], [R, 1]], n)
    ...     return np.stack([-np.log(special.ndtr(-z[:, 0])), special.ndtr(z[:, 1])], axis=1)
    >>> copula = iv.distributions.Custom(log_density, sampler, shape=2, lower=0, upper=[np.inf, 1])
    >>> iv.Prior({("delay", "share"): copula}).names
    ('delay', 'share')
    """

    function: Callable[[Array], Any]
    sampler: Callable[[np.random.Generator, int], npt.ArrayLike]
    gradient_function: Any = None
    shape: Any = ()
    lower: Any = -np.inf
    upper: Any = np.inf

    def __init__(
        self,
        function: Callable[[Array], Any],
        sampler: Callable[[np.random.Generator, int], npt.ArrayLike],
        gradient: Callable[[Array], npt.ArrayLike] | bool | None = None,
        *,
        shape: int | tuple[int, ...] = (),
        lower: npt.ArrayLike = -np.inf,
        upper: npt.ArrayLike = np.inf,
    ) -> None:
        arguments.function("function", function, "x (batch, *shape) -> log density (batch,)")
        arguments.function("sampler", sampler, "(rng, n) -> draws (n, *shape)")
        if gradient is not None and gradient is not True:
            arguments.function("gradient", gradient, "x (batch, *shape) -> (batch, *shape), True, or None")
        found = as_shape(shape)
        limits = {name: array(name, end, finite=False) for name, end in (("lower", lower), ("upper", upper))}
        for name, end in limits.items():
            if joined_shape(name, end, found) != found:
                raise ValueError(f"{name} must broadcast to shape {found}, got shape {end.shape}")
        if not np.all(limits["lower"] < limits["upper"]):
            raise ValueError(f"upper must be above lower, got lower {lower!r} and upper {upper!r}")
        store(self, function=function, sampler=sampler, gradient_function=gradient, shape=found)
        store(self, **{name: freeze(end) for name, end in limits.items()})

    @property
    def support(self) -> tuple[Array, Array]:
        """Lower and upper end of the support of every entry."""
        return ends(self.lower, self.upper, self.shape)

    @property
    def log_constant(self) -> float:
        """0: the function is taken as it is."""
        return 0.0

    @property
    def no_derivatives(self) -> str | None:
        """Why there is no gradient; None if there is one."""
        return NO_GRADIENT if self.gradient_function is None else None

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Log density (batch,) and its gradient (batch, size), NaN where there is none."""
        x = columns.reshape(len(columns), *self.shape).copy()
        found = self.function(x)
        if self.gradient_function is None:
            return self._checked("function", found, (len(x),)), np.full(columns.shape, np.nan)
        slope = None if self.gradient_function is True else self.gradient_function(x)
        if self.gradient_function is True:
            if not isinstance(found, tuple) or len(found) != 2:
                raise wrong("function", "one that returns (log density, gradient), as gradient=True says", found)
            found, slope = found
        value = self._checked("function", found, (len(x),))
        return value, self._checked("gradient", slope, x.shape).reshape(columns.shape)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, *shape)."""
        generator("rng", rng)
        size = integer("n", n, least=0), *self.shape
        return self._checked("sampler", self.sampler(rng, n), size)

    def _checked(self, name: str, value: object, shape: tuple[int, ...]) -> Array:
        values = array(name, value, finite=False, nan=True, empty=True)
        if values.shape != shape:
            raise ValueError(f"{name} of a Custom distribution must return shape {shape}, got {values.shape}")
        return np.array(values, dtype=float)
