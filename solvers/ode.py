"""Ordinary differential equations x' = f(t, x, p) from a plain right-hand side, with forward sensitivities.

Trajectories are integrated one by one with SciPy; a trajectory that fails gets a status and NaN, never an exception.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.integrate import ODEintWarning

from invsamp.solvers.integrators import Array, Control, FlatRhs, Status, lsoda, rk45
from invsamp.solvers.observation import OdeObservation, observe
from invsamp.solvers.state_functions import Function
from invsamp.solvers.tracing import Rhs, augmented_rhs


class Solution(NamedTuple):
    """States of a batch of trajectories; NaN where the status is not OK."""

    states: Array  # (batch, n_times, n_states)
    status: npt.NDArray[np.intp]  # (batch,), values of `Status`


class SensitiveSolution(NamedTuple):
    """States and their derivatives with respect to parameters, then initial values."""

    states: Array  # (batch, n_times, n_states)
    sensitivities: Array  # (batch, n_times, n_states, n_parameters + n_initial)
    status: npt.NDArray[np.intp]  # (batch,)


@dataclass(frozen=True)
class OdeModel:
    r"""An ODE with named states and parameters.

    Parameters
    ----------
    rhs : callable
        ``rhs(t, x, p)`` with a float and two sequences of floats, returning one derivative per state. For
        sensitivities it must be traceable: arithmetic and elementary functions of `math` or `numpy`, no branches.
    states, parameters : sequence of str
        Names, in the order of ``x`` and ``p``.
    method : {"LSODA", "RK45"}
        LSODA (Adams and BDF with automatic switching, ODEPACK) or Dormand-Prince 5(4) with dense output.
    rtol, atol : float, > 0
        Relative and absolute tolerance of the local error of the states.
    max_steps : int, >= 1
        Bound on the accepted steps of one trajectory.

    Raises
    ------
    ValueError
        For duplicate names, an unknown method, tolerances or ``max_steps`` out of range, or a ``rhs`` that does not
        take and return as many values as there are names.

    Notes
    -----
    Step sizes are chosen from the error of the states alone, also when sensitivities are integrated along
    (Hindmarsh and Serban, CVODES, "partial error control"). The states are then the same with and without
    sensitivities, and the sensitivities are the derivative of the computed trajectory at frozen step sizes.
    """

    rhs: Rhs
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    method: Literal["LSODA", "RK45"] = "LSODA"
    rtol: float = 1e-6
    atol: float = 1e-9
    max_steps: int = 10_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple(self.states))
        object.__setattr__(self, "parameters", tuple(self.parameters))
        if not callable(self.rhs):
            raise ValueError(f"rhs must be a callable rhs(t, x, p), got {self.rhs!r}")
        names = self.states + self.parameters
        if not self.states or len(set(names)) < len(names):
            raise ValueError(f"states and parameters must be distinct names, at least one state, got {names}")
        if self.method not in _INTEGRATORS:
            raise ValueError(f"method must be one of {sorted(_INTEGRATORS)}, got {self.method!r}")
        if not 1e-13 <= self.rtol < 1:
            raise ValueError(f"rtol must be in [1e-13, 1), got {self.rtol}")
        if not (0 < self.atol < math.inf):
            raise ValueError(f"atol must be positive and finite, got {self.atol}")
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}")
        _probe(self.rhs, len(self.states), len(self.parameters))

    def solve(self, parameters: Array, initial: Array, times: Array, *, t0: float | None = None) -> Solution:
        """Integrate a batch of trajectories.

        Parameters
        ----------
        parameters : array, shape (batch, n_parameters)
        initial : array, shape (batch, n_states) or (n_states,)
            States at ``t0``.
        times : array, shape (n_times,)
            Output times, increasing, not before ``t0``.
        t0 : float, optional
            Initial time; the first output time by default.

        Returns
        -------
        Solution
            States (batch, n_times, n_states) and status (batch,).

        Raises
        ------
        ValueError
            For wrong shapes or times that do not increase. Never for a trajectory that fails.
        """
        p, x0, times, start = self._check(parameters, initial, times, t0)
        rhs = self.rhs

        def flat(t: float, x: Array, p: tuple[float, ...]) -> Sequence[float]:
            return rhs(t, x.tolist(), p)

        return Solution(*self._integrate(flat, p, x0, times, start))

    def solve_with_sensitivities(
        self,
        parameters: Array,
        initial: Array,
        times: Array,
        *,
        t0: float | None = None,
        initial_states: Sequence[str] | None = None,
    ) -> SensitiveSolution:
        """Integrate a batch of trajectories together with their forward sensitivities.

        Parameters
        ----------
        parameters, initial, times, t0
            As in `solve`.
        initial_states : sequence of str, optional
            States whose initial value is differentiated; all by default.

        Returns
        -------
        SensitiveSolution
            States, sensitivities (batch, n_times, n_states, n_parameters + n_initial) with the columns in the
            order of `parameters` then ``initial_states``, and status.

        Raises
        ------
        ValueError
            As in `solve`; also for unknown ``initial_states`` and a ``rhs`` that cannot be traced.
        """
        p, x0, times, start = self._check(parameters, initial, times, t0)
        columns = self._state_indices("initial_states", initial_states)
        n, q = len(self.states), len(self.parameters)
        augmented = augmented_rhs(self.rhs, n, q, columns)

        def flat(t: float, y: Array, p: tuple[float, ...]) -> Sequence[float]:
            return augmented(t, y.tolist(), p)

        seed = np.zeros((n, q + len(columns)))
        seed[columns, range(q, q + len(columns))] = 1.0
        y0 = np.concatenate([x0, np.broadcast_to(seed.ravel(), (len(x0), seed.size))], axis=1)
        out, status = self._integrate(flat, p, y0, times, start)
        shape = (*out.shape[:2], *seed.shape)
        return SensitiveSolution(out[:, :, :n], out[:, :, n:].reshape(shape), status)

    def observe(
        self,
        times: npt.ArrayLike,
        initial: Sequence[str | float],
        *,
        t0: float | None = None,
        states: Sequence[str] | None = None,
        of: Function | None = None,
        jacobian: Callable[[Any, Any, Any], npt.ArrayLike] | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> OdeObservation:
        """Forward model that observes states, or functions of them, at given times.

        Parameters
        ----------
        times : array, shape (n_times,)
            Observation times, increasing.
        initial : sequence of n_states entries
            Per state its known initial value, or the name of the parameter that is its unknown initial value.
        t0 : float, optional
            Time of the initial values; the first observation time by default.
        states : sequence of str, optional
            The observed states; all by default.
        of, jacobian, mask
            Functions of states, and different outputs at different times: see `invsamp.solvers.observation.observe`.

        Raises
        ------
        ValueError
            For a wrong number of initial entries, names that clash or are unknown, or bad times.
        """
        return observe(self, times, initial, t0=t0, states=states, of=of, jacobian=jacobian, mask=mask)

    def _state_indices(self, argument: str, names: Sequence[str] | None) -> tuple[int, ...]:
        names = self.states if names is None else tuple(names)
        missing = [name for name in names if name not in self.states]
        if missing or len(set(names)) < len(names):
            raise ValueError(f"{argument} must be distinct names out of {self.states}, got {names}")
        return tuple(self.states.index(name) for name in names)

    def _check(
        self, parameters: Array, initial: Array, times: Array, t0: float | None
    ) -> tuple[Array, Array, Array, float]:
        p = np.asarray(parameters, dtype=float)
        if p.ndim != 2 or p.shape[1] != len(self.parameters):
            raise ValueError(f"parameters must have shape (batch, {len(self.parameters)}), got {p.shape}")
        x0 = np.asarray(initial, dtype=float)
        n = len(self.states)
        if x0.shape != (n,) and x0.shape != (len(p), n):
            raise ValueError(f"initial must have shape ({n},) or ({len(p)}, {n}), got {x0.shape}")
        return p, np.broadcast_to(x0, (len(p), n)), *_check_times(times, t0)

    def _integrate(
        self, flat: FlatRhs, p: Array, y0: Array, times: Array, start: float
    ) -> tuple[Array, npt.NDArray[np.intp]]:
        out = np.full((len(p), len(times), y0.shape[1]), np.nan)
        status = np.zeros(len(p), dtype=np.intp)
        integrate = _INTEGRATORS[self.method]
        control = Control(len(self.states), self.rtol, self.atol, self.max_steps)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", ODEintWarning)
            for row in range(len(p)):
                trajectory, status[row] = integrate(flat, tuple(p[row].tolist()), y0[row], times, start, control)
                if status[row] == Status.OK:
                    out[row] = trajectory
        return out, status


def _check_times(times: Array, t0: float | None) -> tuple[Array, float]:
    times = np.asarray(times, dtype=float)
    if times.ndim != 1 or not times.size or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise ValueError(f"times must be a non-empty, finite, increasing sequence, got {times}")
    start = float(times[0] if t0 is None else t0)
    if not start <= times[0]:
        raise ValueError(f"t0 must not be after the first of times, {times[0]}, got {t0}")
    return times, start


def _probe(rhs: Rhs, n_states: int, n_parameters: int) -> None:
    """Call rhs once with ones: a wrong number of values is a bug to report now, not a failed trajectory."""
    try:
        derivative = rhs(0.0, [1.0] * n_states, (1.0,) * n_parameters)
    except ArithmeticError:
        return
    except ValueError as error:
        if "unpack" not in str(error):
            return
        message = f"rhs must take {n_states} states and {n_parameters} parameters, but raised: {error}"
        raise ValueError(message) from error
    if np.shape(derivative) != (n_states,):
        raise ValueError(f"rhs must return {n_states} values, one per state, got {derivative!r}")


_INTEGRATORS = {"LSODA": lsoda, "RK45": rk45}
