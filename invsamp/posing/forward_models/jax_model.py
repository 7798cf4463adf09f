"""Forward models and log densities in JAX."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from invsamp import arguments
from invsamp.posing.forward_models.adapters import parameter_names
from invsamp.posing.forward_models.guarded_model import real_array
from invsamp.protocols import Array, Plain, VectorJacobianProduct
from invsamp.warning_codes import InvsampWarning

SINGLE = (
    "JAX computes in single precision: energies and gradients are checked to its precision, and differences of large "
    'energies are lost. Turn double precision on before anything else of JAX: jax.config.update("jax_enable_x64", True)'
)


@dataclass(frozen=True)
class JaxModel:
    """Model made of a JAX function of one theta; see `from_jax`."""

    function: Callable[[Any], Any]
    parameters: tuple[str, ...] | None = None

    @cached_property
    def single(self) -> bool:
        """Whether JAX computes in single precision."""
        return not _jax().config.jax_enable_x64

    @property
    def derivative_error(self) -> float:
        """Relative error of derivatives in single precision; 0 in double precision."""
        return 1e-3 if self.single else 0.0

    def __getstate__(self) -> Plain:
        # compiled functions cannot be pickled, and are made again
        return {name: getattr(self, name) for name in ("function", "parameters")}

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        return _numbers(self._solve(_padded(theta)), len(theta))

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product by reverse-mode differentiation.

        What the forward pass leaves for it stays on the device; of one number for each theta, such as a log density,
        the derivative is computed at once.
        """
        n, padded = len(theta), _padded(theta)
        if self._scalar(theta.shape[1]):
            values, slopes = self._value_and_slope(padded)
            slope = real_array(np.asarray(slopes), "the gradient")[:n]
            return _numbers(values, n), lambda cotangent: cotangent * slope
        y, residuals = self._linearize(padded)

        def vjp(cotangent: Array) -> Array:
            weights = np.zeros(y.shape)
            weights[:n] = cotangent
            return np.array(self._pull_back(residuals, weights.astype(y.dtype)), dtype=float)[:n]

        return _numbers(y, n), vjp

    def _scalar(self, columns: int) -> bool:
        """Whether the function gives one number."""
        if columns not in self._sizes:
            jax = _jax()
            kind = jax.numpy.float32 if self.single else jax.numpy.float64
            found = jax.eval_shape(self._row, jax.ShapeDtypeStruct((columns,), kind))
            self._sizes[columns] = found.size
        return self._sizes[columns] == 1

    @cached_property
    def _sizes(self) -> dict[int, int]:
        """Observations by the number of columns."""
        return {}

    def _row(self, theta: Any) -> Any:
        return _jax().numpy.ravel(self.function(theta))

    @cached_property
    def _solve(self) -> Callable[[Array], Any]:
        jax = _jax()
        return jax.jit(jax.vmap(self._row))

    @cached_property
    def _value_and_slope(self) -> Callable[[Array], Any]:
        jax = _jax()
        return jax.jit(jax.vmap(jax.value_and_grad(lambda theta: self._row(theta)[0])))

    @cached_property
    def _linearize(self) -> Callable[[Array], Any]:
        jax = _jax()
        return jax.jit(lambda theta: jax.vjp(jax.vmap(self._row), theta))

    @cached_property
    def _pull_back(self) -> Callable[[Any, Array], Any]:
        jax = _jax()
        return jax.jit(lambda residuals, weights: residuals(weights)[0])


def from_jax(function: Callable[[Any], Any], parameters: Iterable[str] | None = None) -> JaxModel:
    r"""Forward model, or log density, from a JAX function of one theta.

    The function is compiled once for each power of two of chains (`jax.jit`), mapped over the chains (`jax.vmap`), and
    differentiated in reverse mode (`jax.vjp`).

    Parameters
    ----------
    function : callable
        An array theta (p,) -> observations, an array of any shape, flattened in C order; or -> a number, a log density,
        for `LogDensity`. It must be one that JAX can trace.
    parameters : names, optional
        As in `with_jacobian`.

    Raises
    ------
    ValueError
        If it is no function.
    ModuleNotFoundError
        At the first evaluation, if JAX is not installed: ``pip install 'invsamp[jax]'``.

    Warns
    -----
    UserWarning
        If double precision is off in JAX, as it is by default.

    Notes
    -----
    The last bits of a row may depend on the number of rows that are evaluated together, as XLA compiles each number by
    itself. Runs are reproduced by a seed with the same chains, ladder and evaluator.

    Examples
    --------
    ``iv.from_jax(lambda theta: jnp.exp(-theta[0] * times))`` is a forward model of a decay,
    ``iv.LogDensity(iv.from_jax(lambda theta: -0.5 * jnp.sum(theta**2)))`` a log density.

    >>> from importlib.util import find_spec
    >>> import invsamp as iv
    >>> if find_spec("jax"):
    ...     model = iv.from_jax(lambda theta: theta[0] * theta[1])
    ...
    """
    made = JaxModel(arguments.function("function", function), parameter_names(parameters))
    if "jax" in sys.modules and made.single:  # who has a function in JAX has imported it
        warnings.warn(SINGLE, InvsampWarning, stacklevel=2)
    return made


def _jax() -> Any:
    return arguments.needed("from_jax needs", "jax", "jax")


def _padded(theta: Array) -> Array:
    """Theta with its last row again, up to a power of two of rows: each number of rows would be compiled anew."""
    rows = 1 << (len(theta) - 1).bit_length()
    return theta if rows == len(theta) else np.concatenate([theta, np.repeat(theta[-1:], rows - len(theta), axis=0)])


def _numbers(y: Any, rows: int) -> Array:
    """An array of this package's own, (rows, m)."""
    values = np.array(real_array(np.asarray(y), "the result of the function"), dtype=float)
    return values.reshape(len(values), -1)[:rows]
