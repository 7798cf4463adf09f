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

from invsamp.arguments import store
from invsamp.solvers.foreign import Called, Term
from invsamp.solvers.ode.codegen.compile_rhs import MOST_ENTRIES, prepare_function
from invsamp.solvers.ode.codegen.operation_graph import Traced, run_graph, trace_graph
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
        Source of the derivatives: ``jacobian`` if there is one. Otherwise the function's operations if it traces (no
        branches on its arguments), which are evaluated on whole arrays. Otherwise a complex step, which needs an
        analytic function. Like a given Jacobian, it takes one Python call for each time and trajectory.

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
    _traced: _Compiled | _Interpreted | None = field(init=False, repr=False)
    #: What makes it again, where that is not what it was made of.
    _origin: tuple[Called, tuple[object, ...]] | None = field(default=None, init=False, repr=False)

    def __reduce__(self) -> tuple[Called, tuple[object, ...]]:
        """Compile or trace anew where it is read: functions without a name cannot be pickled."""
        return self._origin or (type(self), (self.function, self.n_states, self.n_parameters, self.jacobian))

    def __post_init__(self) -> None:
        for name, value in (("of", self.function), ("jacobian", self.jacobian)):
            if not callable(value) and (name == "of" or value is not None):
                raise ValueError(f"{name} must be a callable {name}(t, x, p), got {value!r}")
        try:
            traced = trace_graph(self.function, self.n_states, self.n_parameters, whole=False, name="of")
        except ValueError as error:
            count, evaluated, source = self._probe(error), None, "complex step"
        else:
            count, source = len(traced.outputs), "symbolic"
            if not count:
                raise ValueError("of must return a sequence of at least one output, got ()")
            n, q = self.n_states, self.n_parameters
            large = count * (n + q) > MOST_ENTRIES
            evaluated = _Compiled(self.function, n, q, count) if large else _Interpreted(traced, n, q)
        store(self, n_outputs=count, derivatives="given" if self.jacobian is not None else source, _traced=evaluated)

    def __call__(self, times: Array, states: Array, parameters: Array) -> Array:
        """Outputs (batch, n_times, n_outputs).

        At times (n_times,), for states (batch, n_times, n_states) and parameters (batch, n_parameters).
        """
        if self._traced is None:
            return self._looped(self._value_at, times, states, parameters, self.n_outputs)
        return self._traced.values(times, states, parameters)

    def jacobians(self, times: Array, states: Array, parameters: Array) -> Array:
        """Derivatives (batch, n_times, n_outputs, n_states + n_parameters), for the same arguments."""
        if self.derivatives == "symbolic":
            assert self._traced is not None
            return self._traced.slopes(times, states, parameters)
        columns = self.n_states + self.n_parameters
        flat = self._looped(self._jacobian_at, times, states, parameters, self.n_outputs * columns)
        return flat.reshape(*flat.shape[:2], self.n_outputs, columns)

    @property
    def parameters_read(self) -> frozenset[int]:
        """Parameters on which the outputs may depend."""
        try:
            traced = trace_graph(self.function, self.n_states, self.n_parameters, whole=False)
        except ValueError:
            return frozenset(range(self.n_parameters))
        return frozenset(traced.by_parameters.columns)

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
    """A large traced function, which is compiled on its first call."""

    def __init__(self, function: Function, n: int, q: int, count: int) -> None:
        self.of, self.count = (function, n, q), count

    def values(self, times: Array, states: Array, parameters: Array) -> Array:
        """(batch, n_times, outputs)."""
        return self._filled(False, self.count, times, states, parameters)

    def slopes(self, times: Array, states: Array, parameters: Array) -> Array:
        """(batch, n_times, outputs, n + q)."""
        (_, n, q), count = self.of, self.count
        every = self._filled(True, count * (2 + n + q), times, states, parameters)
        by_states, by_parameters = np.split(every[..., 2 * count :], [count * n], axis=-1)
        shape = (*every.shape[:2], count)
        return np.concatenate([by_states.reshape(*shape, n), by_parameters.reshape(*shape, q)], axis=-1)

    def _filled(self, slopes: bool, size: int, times: Array, states: Array, parameters: Array) -> Array:
        out = np.empty((states.shape[0] * states.shape[1], size))
        address = prepare_function(*self.of, slopes).address
        _fill(address, times, np.ascontiguousarray(states), np.ascontiguousarray(parameters), out)
        return out.reshape(*states.shape[:2], size)


class _Interpreted:
    """A small traced function, whose operations NumPy does one by one on whole arrays."""

    def __init__(self, traced: Traced, n: int, q: int) -> None:
        self.traced, self.n, self.q = traced, n, q

    def values(self, times: Array, states: Array, parameters: Array) -> Array:
        """(batch, n_times, outputs)."""
        found = run_graph(self.traced.graph, self.traced.outputs, times, states, parameters)
        out = np.empty((*states.shape[:2], len(self.traced.outputs)))
        for k, node in enumerate(self.traced.outputs):
            out[:, :, k] = found[node]
        return out

    def slopes(self, times: Array, states: Array, parameters: Array) -> Array:
        """(batch, n_times, outputs, n + q)."""
        by = self.traced.by_states, self.traced.by_parameters
        found = run_graph(self.traced.graph, [*by[0].nodes, *by[1].nodes], times, states, parameters)
        out = np.zeros((*states.shape[:2], len(self.traced.outputs), self.n + self.q))
        for first, entries in zip((0, self.n), by, strict=True):
            for row, column, node in zip(*entries, strict=True):
                out[:, :, row, first + column] = found[node]
        return out


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(address: int, times: Array, states: Array, parameters: Array, out: Array) -> None:
    for row in range(states.shape[0]):
        for k in range(states.shape[1]):
            call(address, times[k], states[row, k], parameters[row], out, row * states.shape[1] + k)
