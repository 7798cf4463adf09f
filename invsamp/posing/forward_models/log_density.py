"""Log likelihoods and log densities as functions of theta, where there is no forward model with data and noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from invsamp import arguments
from invsamp.arguments import integer, optional, store
from invsamp.errors import ModelError, WrongShapeError
from invsamp.posing.compiled import likelihood_loops
from invsamp.posing.compiled.energy_pointer import EnergySource, NotCompiled, jitted
from invsamp.posing.distributions.base import as_shape
from invsamp.posing.forward_models.adapters import (
    FiniteDifferenceModel,
    JacobianModel,
    RowFunction,
    TorchModel,
    parameter_names,
    product,
)
from invsamp.posing.forward_models.guarded_model import real_array
from invsamp.posing.noise.base import CompiledNoise
from invsamp.protocols import (
    Array,
    FunctionCalls,
    Plain,
    VectorJacobianProduct,
    derivative_error,
    function_calls,
)

NO_GRADIENT = (
    "the log density has no gradient. Give it, LogDensity(function, gradient), have differences taken, "
    "LogDensity(finite_differences(function)), or take a sampler without gradients, such as pcn()"
)
WRITE_GRADIENT = "a function (batch, p) -> (batch, p), True where the function returns both, or None"


@dataclass(frozen=True)
class LogDensity:
    r"""Log density as a function of theta, and its gradient: a log likelihood for `Posterior`, or all of a `Target`.

    As the ``log_likelihood`` of a posterior it leaves the prior to the posterior. As what `Target` or `sample` takes it
    is the whole density. Constants do not matter to the draws. Of functions of ``numba.njit`` a `Target` makes whole
    stretches of steps in compiled code, with the same draws. Minus infinity is zero density; NaN, or an exception, is
    a failed evaluation, counted.

    Parameters
    ----------
    function : callable
        theta (batch, p) -> log density (batch,). Or something that knows its own derivatives: what `from_torch`,
        `finite_differences` or `scalar_function` make of such a function, or any model with ``linearize``.
    gradient : callable or True, optional
        theta (batch, p) -> gradient (batch, p). True: the function returns the pair (log density, gradient). Without
        it, samplers that follow no gradient work (`pcn`), and the others refuse.
    data : int or tuple of int, optional
        The function returns the log likelihood of each datum, (batch, \*data), and they are summed: then there is
        leave-one-out cross-validation (`Run.loo`). The gradient may be that of the sum, (batch, p), or of each datum,
        (batch, \*data, p), which minibatches need.
    dimension : int, optional
        Number of parameters p, where neither a prior nor the names of a `Target` give it.
    parameters : names, optional
        Parameters of the prior that make up theta's columns, in that order. Default: all.

    Raises
    ------
    ValueError
        If an argument is not what it has to be, or a gradient is given beside derivatives that the function has itself.

    Examples
    --------
    >>> import invsamp as iv
    >>> bowl = iv.LogDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=2)
    >>> run = iv.sample(bowl, seed=1, progress=False)
    """

    function: Any
    gradient: Any = None
    data: Any = field(default=None, kw_only=True)
    dimension: int | None = field(default=None, kw_only=True)
    parameters: Iterable[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        function: Any = self.function
        gradient = self.gradient
        arguments.function("function", function)
        if isinstance(function, JacobianModel):  # of one row, it has no axis of observations
            function, gradient = function.function, function.jacobian_function
        own = _has_derivatives(function)
        if self.gradient is not None and _has_derivatives(self.function):
            raise ValueError(f"gradient must be None beside a function with derivatives, got {self.gradient!r}")
        if gradient is not None and gradient is not True:
            arguments.function("gradient", gradient, WRITE_GRADIENT)
        names = self.parameters if self.parameters is not None else getattr(function, "parameters", None)
        data = self.data
        if data is None and own and (known := getattr(function, "n_observations", None)) not in (None, 1):
            data = (known,)
        dimension = self.dimension
        if dimension is None and (sizes := getattr(function, "input_sizes", None)) is not None:
            dimension = sum(sizes)
        if isinstance(function, FiniteDifferenceModel | TorchModel):
            function = replace(function, function=_WithAxis(function.function))
        store(
            self,
            function=function,
            gradient=gradient,
            data=optional(_shape, "data", data),
            dimension=optional(integer, "dimension", dimension, least=1),
            parameters=parameter_names(names),
        )
        if self.dimension is not None and self.dimension < len(tuple(self.parameters or ())):
            raise ValueError(f"dimension must be at least one for each of {self.parameters}, got {self.dimension}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the log likelihoods of one theta, by datum; () if they are one number."""
        return () if self.data is None else tuple(self.data)

    @property
    def n_observations(self) -> int:
        """Their number."""
        return math.prod(self.shape)

    @property
    def no_derivatives(self) -> str | None:
        """Why there is no gradient; None if there is one."""
        return NO_GRADIENT if self.gradient is None and not _has_derivatives(self.function) else None

    @property
    def derivative_error(self) -> float:
        """The relative error of its derivatives that the function admits."""
        return derivative_error(self.function)

    @property
    def function_calls(self) -> FunctionCalls:
        """Calls of the function for one theta."""
        return function_calls(self.function)

    @property
    def message(self) -> str | None:
        """Message of the last failure, where the function keeps it."""
        return getattr(self.function, "message", None)

    def __call__(self, theta: Array) -> Array:
        """Log likelihood of each datum, (batch, m); m = 1 without data."""
        found = self.function(theta.copy())
        return self._values(found[0] if self.gradient is True else found, theta)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """The same and the vector-Jacobian product."""
        if (reason := self.no_derivatives) is not None:
            raise ModelError(reason)
        if self.gradient is None:
            values, vjp = self.function.linearize(theta)
            return self._values(values, theta), vjp
        if self.gradient is True:
            found, slope = self.function(theta.copy())
        else:
            found, slope = self.function(theta.copy()), self.gradient(theta.copy())
        values = self._values(found, theta)
        return values, self._product(real_array(slope, "the gradient"), theta)

    def energy(self, position: Array) -> Array:
        """Minus the log density, (batch,), at positions that are theta."""
        return -self(position).sum(axis=1)

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """The same and its gradient (batch, dimension)."""
        values, vjp = self.linearize(position)
        return -values.sum(axis=1), -vjp(np.ones(values.shape))

    def compiled_energy(self) -> EnergySource | NotCompiled:
        """As a compiled function, where numba compiles all that it is made of; see `CompiledPotential`."""
        function, gradient = self.function, None if self.gradient is True else self.gradient
        if self.no_derivatives is not None or self.data is not None:
            return NotCompiled("the log density is not one number with a gradient")
        by_row = isinstance(function, RowFunction) and (gradient is None or isinstance(gradient, RowFunction))
        if by_row:
            function, gradient = function.function, getattr(gradient, "function", None)
        if not jitted(function) or not (gradient is None or jitted(gradient)):
            return NotCompiled("the log density and its gradient are no functions of numba.njit")
        return EnergySource(function, gradient, -1.0, by_row)

    def _values(self, found: object, theta: Array) -> Array:
        batch = len(theta)
        if isinstance(found, tuple):
            raise ModelError(
                f"function must return log densities of shape {(batch, *self.shape)}, got a tuple of {len(found)}: a "
                "function that returns its gradient beside them is LogDensity(function, gradient=True)"
            )
        values = real_array(found, "the log density")
        if values.shape not in ((batch, *self.shape), (batch, self.n_observations)):
            each = "" if self.data is not None else "; a value for each datum is given by LogDensity(..., data=shape)"
            raise WrongShapeError(f"the log density must have shape {(batch, *self.shape)}, got {values.shape}{each}")
        values = values.reshape(batch, self.n_observations)
        if (values == np.inf).any():
            at = theta[(values == np.inf).any(axis=1)][0]
            raise ModelError(
                "the log density must be finite, or -inf where there is none, got +inf at theta "
                f"{at.tolist()}: draws cannot represent an infinite density. Exclude that region by a domain, "
                "or correct the function"
            )
        return values

    def _product(self, slope: Array, theta: Array) -> VectorJacobianProduct:
        batch, p = theta.shape
        if slope.shape in ((batch, *self.shape, p), (batch, self.n_observations, p)):
            each = slope.reshape(batch, self.n_observations, p)
            return lambda cotangent: product(cotangent, each)
        if slope.shape != (batch, p):
            raise WrongShapeError(f"the gradient must have shape {(batch, p)}, got {slope.shape}")

        def of_the_sum(cotangent: Array) -> Array:
            if np.any(cotangent != cotangent[:, :1]):
                raise ModelError(
                    f"gradient must have shape {(batch, *self.shape, p)}, of each datum, for minibatches, got "
                    f"{slope.shape}: that of the sum"
                )
            return np.asarray(cotangent[:, :1] * slope)

        return of_the_sum


@dataclass(frozen=True)
class _WithAxis:
    """A function of a batch whose results have an axis of observations: NumPy's or torch's."""

    function: Callable[[Any], Any]

    def __call__(self, theta: Any) -> object:
        return self.function(theta).reshape(len(theta), -1)


class GivenLikelihood(CompiledNoise):
    """The noise of a posterior whose model predicts log likelihoods themselves."""

    family = likelihood_loops.GIVEN

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Refuses: a likelihood does not say what else might have been seen."""
        raise ValueError("posterior must have a forward model, data and noise to draw data, got a log likelihood alone")


def _as_density(name: str, value: object) -> LogDensity:
    """A `LogDensity`, made of a function or model if it is none."""
    return value if isinstance(value, LogDensity) else LogDensity(arguments.function(name, value))


def densities_by_fidelity(log_likelihood: object) -> Plain:
    """Log likelihoods by fidelity."""
    if not isinstance(log_likelihood, Mapping):
        return {"model": _as_density("log_likelihood", log_likelihood)}
    if not log_likelihood:
        raise ValueError("log_likelihood must hold at least one function, got an empty mapping")
    return {name: _as_density(f"log_likelihood[{name!r}]", one) for name, one in log_likelihood.items()}


def _shape(name: str, value: object) -> tuple[int, ...]:
    return as_shape(value, name) or as_shape(None, name)


def _has_derivatives(function: object) -> bool:
    return callable(getattr(function, "linearize", None))
