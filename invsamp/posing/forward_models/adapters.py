"""Adapters: forward models from simpler functions.

A model maps theta (batch, p) to observations (batch, m), and linearizes. Users often have less: a function
and its Jacobian, a function for one theta, a torch function, or a function alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from invsamp import arguments
from invsamp.arguments import array, one_of, optional, real, text
from invsamp.errors import ModelError, WrongShapeError
from invsamp.posing.forward_models.guarded_model import ONE_THETA, own_array, real_array
from invsamp.protocols import AnyArray, Array, FunctionCalls, Tensor, VectorJacobianProduct

Derived = TypeVar("Derived")
Function = Callable[[Array], object]


@dataclass(frozen=True)
class JacobianModel:
    """Model made of a function (batch, p) -> (batch, m) and its Jacobian (batch, p) -> (batch, m, p)."""

    function: Function
    jacobian_function: Function
    parameters: tuple[str, ...] | None = None

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        return real_array(self.function(theta.copy()), "the result of the function")

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and Jacobian (batch, m, p)."""
        y = self(theta)
        matrix = real_array(self.jacobian_function(theta), "the jacobian")
        if matrix.shape != (*y.shape, theta.shape[1]):
            raise WrongShapeError(f"the jacobian must have shape {(*y.shape, theta.shape[1])}, got {matrix.shape}")
        return y, matrix

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product."""
        y, matrix = self.jacobian(theta)
        return y, lambda cotangent: product(cotangent, matrix)


@dataclass(frozen=True)
class FiniteDifferenceModel:
    """Model made of a function alone; see `finite_differences`."""

    function: Function
    scheme: str
    relative_step: float
    scale: float | tuple[float, ...]
    parameters: tuple[str, ...] | None = None

    @property
    def derivative_error(self) -> float:
        """The root of what step and rounding leave of the derivative of a function that varies over ``scale``."""
        order = {"central": 2, "forward": 1}.get(self.scheme)
        rounding = np.finfo(float).eps / self.relative_step
        return 0.0 if order is None else float(min(0.1, np.sqrt(self.relative_step**order + rounding)))

    @property
    def function_calls(self) -> FunctionCalls:
        """Calls for one theta: linearized, 2p + 1 of the central scheme, p + 1 of the forward one, p complex steps."""
        return FunctionCalls(1, *{"central": (1, 2), "forward": (1, 1)}.get(self.scheme, (0, 1)))

    @property
    def input_sizes(self) -> tuple[int, ...] | None:
        """Numbers that the function takes, where it knows."""
        return getattr(self.function, "input_sizes", None)

    @property
    def n_observations(self) -> int | None:
        """Length of a row of observations, where the function knows."""
        return getattr(self.function, "n_observations", None)

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """How these are arranged, where the function knows."""
        return getattr(self.function, "output_shape", None)

    @property
    def times(self) -> Iterable[float] | None:
        """As the function says."""
        return getattr(self.function, "times", None)

    @property
    def message(self) -> str | None:
        """Message of the last failure, where the function keeps it."""
        return getattr(self.function, "message", None)

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        return real_array(self.function(theta), "the result of the function")

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and Jacobian (batch, m, p), with one call of the function."""
        batch, p = theta.shape
        step = self.relative_step * np.maximum(np.abs(theta), self.scale)
        if self.scheme == "complex_step":
            shifted = theta[:, None, :] + 1j * step[:, :, None] * np.eye(p)
            y = _rows(np.asarray(self.function(shifted.reshape(-1, p))), batch * p, "the function")
            if not np.iscomplexobj(y):
                raise WrongShapeError(
                    f"under scheme='complex_step' the function must return complex numbers, got {y.dtype}: an "
                    "operation that drops the imaginary part drops the derivatives"
                )
            y = y.reshape(batch, p, -1)
            with np.errstate(all="ignore"):
                return np.ascontiguousarray(y[:, 0].real), np.swapaxes(y.imag / step[:, :, None], 1, 2)
        step = (theta + step) - theta  # the step that is taken after rounding
        moves = step[:, :, None] * np.eye(p)
        signs = (0.0, 1.0, -1.0) if self.scheme == "central" else (0.0, 1.0)
        stacked = np.concatenate([theta[:, None, :]] + [theta[:, None, :] + s * moves for s in signs[1:]], axis=1)
        y = _rows(self(stacked.reshape(-1, p)), batch * stacked.shape[1], "the function")
        y = y.reshape(batch, stacked.shape[1], -1)
        with np.errstate(all="ignore"):  # far off, values overflow: that is a failed solve
            if self.scheme == "central":
                difference = (y[:, 1 : 1 + p] - y[:, 1 + p :]) / (2.0 * step[:, :, None])
            else:
                difference = (y[:, 1:] - y[:, :1]) / step[:, :, None]
        return np.ascontiguousarray(y[:, 0]), np.swapaxes(difference, 1, 2)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product."""
        y, matrix = self.jacobian(theta)
        return y, lambda cotangent: product(cotangent, matrix)


@dataclass(frozen=True)
class RowFunction:
    """Function of one theta (p,), looped over the rows of a batch. It cannot be linearized."""

    function: Callable[[Array], object]
    parameters: tuple[str, ...] | None = None

    @property
    def row_by_row(self) -> bool:
        """Always: rows that were solved before one that raises are not solved again."""
        return True

    def __call__(self, theta: Array) -> Array:
        """Stacked results, shape (batch, ...)."""
        # copies: the function may write into its argument, and use the memory of its result again
        return np.stack([_copied(self.function(row.copy())) for row in theta])


@dataclass(frozen=True)
class TorchModel:
    """Model made of a torch function; see `from_torch`."""

    function: Callable[[Tensor], Tensor]
    parameters: tuple[str, ...] | None = None
    dtype: str = "float64"
    device: str = "cpu"

    @property
    def derivative_error(self) -> float:
        """Relative error of derivatives in single precision; 0 in double precision."""
        return 0.0 if self.dtype == "float64" else 1e-3

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        torch = _torch()
        with torch.no_grad():
            return self._numbers(self.function(self._tensor(theta)))

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product by reverse-mode differentiation."""
        torch = _torch()
        leaf = self._tensor(theta).requires_grad_()
        y = self.function(leaf)

        def vjp(cotangent: Array) -> Array:
            weights = torch.from_numpy(np.array(cotangent)).to(device=y.device, dtype=y.dtype)
            # kept, so that the product may be asked for again, datum by datum
            (gradient,) = torch.autograd.grad(y, leaf, weights, retain_graph=True)
            return np.asarray(gradient.cpu().numpy(), dtype=float)

        return self._numbers(y.detach()), vjp

    def _tensor(self, theta: Array) -> Tensor:
        torch = _torch()
        held = torch.from_numpy(np.array(theta))
        try:
            return held.to(device=self.device, dtype=getattr(torch, self.dtype))
        except torch.OutOfMemoryError:  # fewer rows may fit
            raise
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            said = str(error).splitlines()[0]
            raise ModelError(f"device must be one that this machine has, got {self.device!r}: {said}") from error

    def _numbers(self, y: Tensor) -> Array:
        return real_array(y.cpu().numpy(), "the result of the function")


def with_jacobian(function: Function, jacobian: Function, parameters: Iterable[str] | None = None) -> JacobianModel:
    """Forward model from a function and its Jacobian, both on a batch.

    Parameters
    ----------
    function : callable
        theta (batch, p) -> observations (batch, m).
    jacobian : callable
        theta (batch, p) -> derivatives (batch, m, p).
    parameters : names, optional
        Parameters of the prior that make up theta's columns, in that order.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> def decay(theta):
    ...     return theta[:, :1] * np.exp(-theta[:, 1:] * [1.0, 2.0])
    ...
    >>> def jacobian(theta):
    ...     y = decay(theta)
    ...     return np.stack([y / theta[:, :1], -y * [1.0, 2.0]], axis=2)
    ...
    >>> model = iv.with_jacobian(decay, jacobian, parameters=["a", "k"])
    >>> y, vjp = model.linearize(np.array([[2.0, 0.5]]))
    >>> vjp(np.ones((1, 2))).round(3)
    array([[ 0.974, -2.685]])
    """
    arguments.function("function", function), arguments.function("jacobian", jacobian)
    return JacobianModel(function, jacobian, parameter_names(parameters))


def finite_differences(
    function: Function,
    relative_step: float | None = None,
    parameters: Iterable[str] | None = None,
    scheme: str = "central",
    scale: float | Sequence[float] = 1.0,
) -> FiniteDifferenceModel:
    """Forward model whose derivatives are finite differences of a function on a batch.

    The function is called once per linearization, on all shifted points, which may lie outside the domain
    by one step.

    Parameters
    ----------
    function : callable
        theta (batch, p) -> observations (batch, m). Under ``"complex_step"`` it must be analytic and take
        and return complex arrays.
    relative_step : float, > 0, optional
        The step in column j is ``relative_step * max(|theta_j|, scale_j)``. By default eps^(1/3) (central),
        eps^(1/2) (forward) and 1e-20 (complex step).
    parameters : names, optional
        As in `with_jacobian`. Default: those of the function, where it has some.
    scheme : {"central", "forward", "complex_step"}
        Errors of second and first order in the step, and none but rounding; 2p + 1, p + 1 and p evaluations.
    scale : float or sequence of p floats, > 0
        Size of theta over which the observations change.

    Raises
    ------
    ValueError
        If the scheme is unknown or a step is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> model = iv.finite_differences(lambda theta: theta**2, parameters=["a", "b"])
    >>> y, vjp = model.linearize(np.array([[1.0, 3.0]]))
    >>> vjp(np.ones((1, 2))).round(6)
    array([[2., 6.]])
    """
    defaults = {"central": np.finfo(float).eps ** (1 / 3), "forward": np.finfo(float).eps ** 0.5, "complex_step": 1e-20}
    one_of("scheme", scheme, defaults)
    step = defaults[scheme] if relative_step is None else real("relative_step", relative_step, above=0)
    sizes = array("scale", scale, above=0)
    if sizes.ndim > 1:
        raise ValueError(f"scale must be a number or one per column, got shape {sizes.shape}")
    frozen = float(sizes) if sizes.ndim == 0 else tuple(sizes.tolist())
    arguments.function("function", function)
    known = getattr(function, "parameters", None) if parameters is None else parameters
    return FiniteDifferenceModel(function, scheme, float(step), frozen, parameter_names(known))


def scalar_function(
    function: Callable[[Array], object],
    jacobian: Callable[[Array], object] | None = None,
    parameters: Iterable[str] | None = None,
) -> JacobianModel | RowFunction:
    """Forward model from a function of one theta, looped over the rows of a batch.

    Parameters
    ----------
    function : callable
        theta (p,) -> observations (m,).
    jacobian : callable, optional
        theta (p,) -> derivatives (m, p). Without it the result cannot be linearized: it will do for samplers that
        follow no gradients, and `finite_differences` makes a model for the others of it.
    parameters : names, optional
        As in `with_jacobian`.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> model = iv.scalar_function(lambda theta: np.array([theta[0] + theta[1], theta[0] * theta[1]]))
    >>> model(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 3.,  2.],
           [ 7., 12.]])
    """
    names = parameter_names(parameters)
    rows = RowFunction(arguments.function("function", function), names)
    if jacobian is None:
        return rows
    return JacobianModel(rows, RowFunction(arguments.function("jacobian", jacobian)), names)


def from_torch(
    function: Callable[[object], object],
    parameters: Iterable[str] | None = None,
    *,
    dtype: str = "float64",
    device: str = "cpu",
) -> TorchModel:
    """Forward model from a torch function, differentiated in reverse mode; torch is imported at the first evaluation.

    The function gets all chains of a rung as one batch, and those of all rungs of its fidelity where `iv.sample` has
    ``executor=iv.evaluate.together()``.

    Parameters
    ----------
    function : callable
        A tensor (batch, p) -> (batch, m), rows independent.
    parameters : names, optional
        As in `with_jacobian`.
    dtype : "float64" or "float32"
        Of the tensor. Derivatives in single precision are checked to its precision.
    device : str
        Where the tensor is, such as "cuda": what the function uses has to be there too.

    Raises
    ------
    ValueError
        If the precision is another one, or a device has no name. At the first evaluation, as `ModelError`, which ends a
        run: if this machine does not have the device.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import invsamp as iv
    >>> if find_spec("torch"):
    ...     model = iv.from_torch(lambda theta: theta**2, parameters=["a", "b"])
    ...
    """
    one_of("dtype", dtype, ("float64", "float32")), text("device", device)
    return TorchModel(arguments.function("function", function), parameter_names(parameters), dtype, device)


def _torch() -> Any:
    return arguments.needed("from_torch needs", "torch", "torch")


def parameter_names(parameters: Iterable[str] | None) -> tuple[str, ...] | None:
    """Names of the parameters of a model: one, several, or None for those of the prior."""
    if isinstance(parameters, str):
        return (text("parameters", parameters),)
    found: tuple[str, ...] | None = optional(arguments.names, "parameters", parameters)
    return found


def approximate_derivatives(model: Derived, error: float) -> Derived:
    """The same forward model or potential, which says of its derivatives that they are approximate.

    Then `Posterior.check_gradient`, and the check at the start of a run, hold it to that error in place of rounding.

    Parameters
    ----------
    model : ForwardModel or Potential
    error : float in [0, 1)
        By how much the derivatives may miss those of the values, relative to themselves.

    Raises
    ------
    ValueError
        If the error is out of range, or this is neither a forward model nor a potential.

    Examples
    --------
    >>> import invsamp as iv
    >>> exact = iv.with_jacobian(lambda t: t**2, lambda t: 1.9 * t[:, :, None])
    >>> model = iv.approximate_derivatives(exact, error=0.1)  # of 10%, on purpose
    >>> model.derivative_error
    0.1
    """
    if not any(callable(getattr(model, name, None)) for name in ("linearize", "energy_and_gradient")):
        raise arguments.wrong("model", "a forward model or a potential", model)
    admitted = arguments.real("error", error, least=0.0, below=1.0)
    changed = copy.copy(model)
    object.__setattr__(changed, "derivative_error", admitted)  # of a frozen model, too
    return changed


def product(cotangent: Array, matrix: Array) -> Array:
    """Vector-Jacobian product (batch, p); what overflows is a failed solve, which is counted."""
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(cotangent[:, None, :], matrix)[:, 0])


def _rows(y: AnyArray, rows: int, what: str) -> AnyArray:
    if y.ndim != 2 or len(y) != rows:
        flatten = y.ndim > 2 and len(y) == rows
        said = "flatten what belongs to each row, y.reshape(len(theta), -1)" if flatten else ONE_THETA
        raise WrongShapeError(
            f"{what} must return shape ({rows}, observations) for theta of {rows} rows, got {y.shape}: {said}"
        )
    return y


def _copied(value: Any) -> AnyArray:
    """A value that may be complex, for the sake of complex steps."""
    return np.array(value) if np.iscomplexobj(value) else own_array(value, "the result of the function")
