"""Functions of the states of an ODE that are observed, with derivatives by tracing, complex step, or as given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.foreign import Called, Term
from invsamp.solvers.ode.codegen.compile_rhs import is_large, prepare_outputs
from invsamp.solvers.ode.codegen.operation_graph import trace_graph
from invsamp.solvers.ode.codegen.rebind_globals import copied
from invsamp.solvers.ode.codegen.sympy_tracing import symbolic, vector, vector_entries
from invsamp.solvers.ode.integrators.function_pointers import call

Array = npt.NDArray[np.float64]
#: ``function(t, x, p)`` -> sequence of outputs.
Function = Callable[[Term, Term, Term], Sequence[Term]]

_STEP = 1e-20  # imaginary: no difference is taken, so nothing cancels however small it is


class _WrongJacobian(ValueError):
    """The given Jacobian has the wrong shape."""


@dataclass(frozen=True, eq=False)
class StateFunction:
    """Outputs ``function(t, x, p)`` along trajectories, and their derivatives by states and parameters.

    Parameters
    ----------
    function : callable
        With a float and two sequences, of n_states and n_parameters numbers, returning a sequence of outputs.
    n_states, n_parameters : int
    jacobian : callable, optional
        ``jacobian(t, x, p)`` -> array (n_outputs, n_states + n_parameters).

    Attributes
    ----------
    n_outputs : int
    derivatives : {"given", "symbolic", "complex step"}
        Where the derivatives come from: ``jacobian`` if there is one; else SymPy if the function can be traced (no
        branches on its arguments), which is evaluated on whole arrays; else a complex step, which takes an
        analytic function and, as a given Jacobian does, one Python call for each time and trajectory.

    Raises
    ------
    ValueError
        If the function does not return a sequence of outputs, or can neither be traced nor take complex numbers.
    """

    function: Function
    n_states: int
    n_parameters: int
    jacobian: Callable[[Term, Term, Term], npt.ArrayLike] | None = None
    n_outputs: int = field(init=False)
    derivatives: Literal["given", "symbolic", "complex step"] = field(init=False)
    _values: Called | None = field(init=False, repr=False)
    _slopes: Called | None = field(init=False, repr=False)
    #: What makes it again, where that is not what it was made of.
    _origin: tuple[Called, tuple[object, ...]] | None = field(default=None, init=False, repr=False)

    def __reduce__(self) -> tuple[Called, tuple[object, ...]]:
        """What was compiled or traced is made again where it is read: functions without a name cannot be pickled."""
        return self._origin or (type(self), (self.function, self.n_states, self.n_parameters, self.jacobian))

    def __post_init__(self) -> None:
        for name, value in (("of", self.function), ("jacobian", self.jacobian)):
            if not callable(value) and (name == "of" or value is not None):
                raise ValueError(f"{name} must be a callable {name}(t, x, p), got {value!r}")
        large = _large(self.function, self.n_states, self.n_parameters)
        traced = large or _trace(self.function, self.n_states, self.n_parameters)
        values: Called | None
        slopes: Called | None
        if isinstance(traced, Exception):
            count = self._probe(traced)
            values = slopes = None
            source = "complex step"
        else:
            count, values, slopes = traced
            source = "symbolic"
        object.__setattr__(self, "n_outputs", count)
        object.__setattr__(self, "derivatives", "given" if self.jacobian is not None else source)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_slopes", slopes)

    def __call__(self, times: Array, states: Array, parameters: Array) -> Array:
        """Outputs (batch, n_times, n_outputs).

        At times (n_times,), for states (batch, n_times, n_states) and parameters (batch, n_parameters).
        """
        if self._values is None:
            return self._looped(self._value_at, times, states, parameters, self.n_outputs)
        return self._vectorized(self._values, times, states, parameters, self.n_outputs)

    def jacobians(self, times: Array, states: Array, parameters: Array) -> Array:
        """Derivatives (batch, n_times, n_outputs, n_states + n_parameters), for the same arguments."""
        columns = self.n_states + self.n_parameters
        size = self.n_outputs * columns
        if self.derivatives == "symbolic":
            assert self._slopes is not None
            flat = self._vectorized(self._slopes, times, states, parameters, size)
        else:
            flat = self._looped(self._jacobian_at, times, states, parameters, size)
        return flat.reshape(*flat.shape[:2], self.n_outputs, columns)

    @property
    def parameters_read(self) -> frozenset[int]:
        """Parameters on which the outputs may depend."""
        try:
            traced = trace_graph(self.function, self.n_states, self.n_parameters, whole=False)
        except ValueError:
            return frozenset(range(self.n_parameters))
        return frozenset(traced.by_parameters.columns)

    def _vectorized(self, compiled: Called, times: Array, states: Array, parameters: Array, size: int) -> Array:
        out = np.empty((*states.shape[:2], size))
        if isinstance(compiled, _Compiled):
            compiled(times, states, parameters, out)
            return out
        with np.errstate(all="ignore"):
            entries = compiled(times, np.moveaxis(states, 2, 0), parameters.T[:, :, None])
        for k, entry in enumerate(entries):
            out[:, :, k] = entry
        return out

    def _looped(
        self, function: Callable[..., Array], times: Array, states: Array, parameters: Array, size: int
    ) -> Array:
        out = np.full((*states.shape[:2], size), np.nan)
        with np.errstate(all="ignore"), _complex_stays():
            for row, (trajectory, p) in enumerate(zip(states, parameters, strict=True)):
                for k, (t, x) in enumerate(zip(times.tolist(), trajectory, strict=True)):
                    try:
                        out[row, k] = function(t, x, p).ravel()
                    except _WrongJacobian:
                        raise
                    except (ArithmeticError, ValueError):  # 1/0, overflow or math's domain error: not finite
                        continue
        return out

    def _value_at(self, t: float, x: Array, p: Array) -> Array:
        return np.array(self.function(t, x, p), dtype=float)

    def _jacobian_at(self, t: float, x: Array, p: Array) -> Array:
        shape = (self.n_outputs, self.n_states + self.n_parameters)
        if self.jacobian is not None:
            matrix = np.asarray(self.jacobian(t, x, p), dtype=float)
            if matrix.shape != shape:
                raise _WrongJacobian(f"jacobian must return an array of shape {shape}, got {matrix.shape}")
            return matrix
        matrix = np.empty(shape)
        for column in range(shape[1]):
            point = np.concatenate([x, p]).astype(complex)
            point[column] += 1j * _STEP
            moved = self.function(t, point[: self.n_states], point[self.n_states :])
            matrix[:, column] = np.imag(np.array(moved, dtype=complex)) / _STEP
        return matrix

    def _probe(self, untraceable: Exception) -> int:
        """Number of outputs; makes sure that derivatives can be had."""
        # no round numbers: those are where quotients and logarithms of differences are not defined
        point = 1.37 + 0.11 * np.arange(self.n_states), 1.61 + 0.07 * np.arange(self.n_parameters)
        try:
            with np.errstate(divide="raise", invalid="raise"), _complex_stays():
                count = len(self.function(0.0, *point))
                if self.jacobian is None:
                    self.function(0.0, *(values + 1j * _STEP for values in point))
        except ArithmeticError as error:
            raise ValueError(
                f"of must be defined at t = 0, x = {point[0].tolist()}, p = {point[1].tolist()}, but raised {error!r}"
            ) from error
        except Exception as error:
            raise ValueError(
                f"of(t, x, p) must take {self.n_states} states and {self.n_parameters} parameters and be traceable "
                f"(no branches), or take complex numbers, or come with jacobian=; tracing raised "
                f"{type(untraceable).__name__}: {untraceable}, and the call {type(error).__name__}: {error}"
            ) from error
        return count


@contextmanager
def _complex_stays() -> Iterator[None]:
    """A function of `math` takes the real part of NumPy's complex numbers with a warning: no derivative is left."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        yield


class _Compiled:
    """A function that is compiled on its first call."""

    def __init__(self, function: Function, n: int, q: int, count: int, slopes: bool) -> None:
        self.of, self.count, self.slopes = (function, n, q), count, slopes

    def __call__(self, times: Array, states: Array, parameters: Array, out: Array) -> None:
        """Values, or slopes, to ``out`` (batch, n_times, size)."""
        address = prepare_outputs(*self.of, self.slopes).address
        skipped = self.count if self.slopes else 0
        every = np.empty((out.shape[0] * out.shape[1], skipped + out.shape[2]))
        _fill(address, times, np.ascontiguousarray(states), np.ascontiguousarray(parameters), every)
        out[...] = every[:, skipped:].reshape(out.shape)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(address: int, times: Array, states: Array, parameters: Array, out: Array) -> None:
    for row in range(states.shape[0]):
        for k in range(states.shape[1]):
            call(address, times[k], states[row, k], parameters[row], out, row * states.shape[1] + k)


def _large(function: Function, n: int, q: int) -> tuple[int, _Compiled, _Compiled] | None:
    """Number of outputs, and compiled functions for them and their derivatives, of what SymPy would take long for."""
    try:
        count = len(trace_graph(function, n, q, whole=False).outputs)
    except ValueError:  # whether SymPy can do it is for it to say
        return None
    if not count or not is_large(n, q, count):
        return None
    return count, _Compiled(function, n, q, count, False), _Compiled(function, n, q, count, True)


def _trace(
    function: Function, n_states: int, n_parameters: int
) -> tuple[int, Callable[..., object], Callable[..., object]] | Exception:
    """Number of outputs, and NumPy functions for them and for their derivatives; or what kept it from being traced."""
    import sympy  # a quarter of a second, which observing states does not need

    t = sympy.Symbol("time", real=True)
    x = list(sympy.symbols(f"state0:{n_states}", real=True, seq=True))
    p = list(sympy.symbols(f"parameter0:{n_parameters}", real=True, seq=True))
    try:
        result = copied(function, symbolic)(t, vector(x), vector(p))
        outputs = [sympy.sympify(entry) for entry in vector_entries(result)]
        slopes = list(sympy.Matrix(len(outputs), 1, outputs).jacobian([*x, *p]))
    except Exception as error:
        return error
    if not outputs:
        raise ValueError(f"of must return a sequence of at least one output, got {result!r}")
    compiled = (
        sympy.lambdify([t, x, p], entries, modules=["scipy", "numpy"], cse=True) for entries in (outputs, slopes)
    )
    return len(outputs), *compiled
