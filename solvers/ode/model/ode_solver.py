"""How trajectories of ordinary differential equations x' = f(t, x, p) are solved, in batches, with sensitivities.

One that fails gets a status and NaN, never an exception. What of them is observed:
`invsamp.solvers.ode.model.ode_model`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import function, integer, names, numbers, one_of, optional, real, sequence, shown, store
from invsamp.solvers.foreign import OfState
from invsamp.solvers.ode.codegen.compile_rhs import (
    Jacobian,
    Prepared,
    parameters_read,
    prepare_jacobian,
    prepare_sensitivities,
    prepare_states,
    prepare_stop,
)
from invsamp.solvers.ode.codegen.discontinuity_detection import set_jumps
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.rosenbrock_jacobians import (
    is_traced,
    jacobian_entries,
    prepare_entries,
    prepare_linearized,
)
from invsamp.solvers.ode.codegen.signature_check import probe
from invsamp.solvers.ode.codegen.taylor_series import prepare_series, taylor_obstacle
from invsamp.solvers.ode.events.breakpoints import with_own_breakpoints
from invsamp.solvers.ode.events.doses_and_events import (
    Dose,
    Event,
    check_breakpoints,
    check_doses,
    check_events,
    course,
)
from invsamp.solvers.ode.events.explicit_time import ExplicitTime, explicit_time, may_jump
from invsamp.solvers.ode.events.parameter_functions import Quantities, Quantity
from invsamp.solvers.ode.integrators.amplification import amplified, first_tolerances
from invsamp.solvers.ode.integrators.cvode import Newton, check_installed, newton_of
from invsamp.solvers.ode.integrators.failure_messages import failure
from invsamp.solvers.ode.integrators.methods import INTEGRATORS, with_fallback
from invsamp.solvers.ode.integrators.output_times import check_times
from invsamp.solvers.ode.integrators.solution import BoolArray, SensitiveSolution, Solution
from invsamp.solvers.ode.integrators.sparse_factors import Pattern, pattern_of
from invsamp.solvers.ode.integrators.taylor import order_of
from invsamp.solvers.ode.integrators.trajectories import Array, Control, Integers, Linear, Outcome
from invsamp.solvers.ode.model.state_agreement import warn_of_disagreement
from invsamp.solvers.ode.sensitivities.forward_sensitivities import differentiate, is_final


@dataclass(frozen=True, repr=False)
class OdeSolver:
    """An ODE and the settings by which it is solved; `invsamp.solvers.ode.OdeModel` has what each of them means."""

    rhs: Rhs
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    method: Literal["auto", "RK45", "DOP853", "Taylor", "Rodas5P", "LSODA", "CVODE"] = "auto"
    rtol: float = 1e-6
    atol: float = 1e-9
    max_steps: int = 10_000
    jacobian: Jacobian | None = None
    stop: OfState | None = None
    breakpoints: tuple[Quantity, ...] = ()
    doses: tuple[Dose, ...] = ()
    threads: int = 1
    error_control: Literal["full", "states"] = "full"
    events: tuple[Event, ...] = ()
    max_step: float | None = None

    def __post_init__(self) -> None:
        _check_settings(self)
        _check_functions(self)
        n, q = len(self.states), len(self.parameters)
        prepare_states(self.rhs, n, q)
        if self.method == "CVODE":
            check_installed()
        if self.method == "Rodas5P" and not is_traced(self.rhs, n, q):
            raise ValueError(
                "method='Rodas5P' needs a rhs that traces (arithmetic, arrays and elementary functions, no "
                "branches): method='LSODA' accepts others"
            )
        if self.method == "Taylor" and self.jacobian is not None:
            raise ValueError("method='Taylor' has the derivatives of rhs from its series: leave jacobian= out")
        if self.method == "Taylor" and (obstacle := taylor_obstacle(self.rhs, n, q)) is not None:
            raise ValueError(f"method='Taylor' needs a rhs with Taylor series, but {obstacle}: use method='auto'")
        if self.stop is not None:
            prepare_stop(self.stop, n, q)

    def __repr__(self) -> str:
        name = getattr(self.rhs, "__name__", repr(self.rhs))
        shown = [f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self)[1:7]]
        return f"OdeModel({name}, {', '.join(shown)}, derivatives={self.derivatives!r})"

    @property
    def evaluations_expected(self) -> float:
        """Of the right-hand side, up to a factor that is the problem's: they go with a root of the tolerance."""
        stages, order = _STEPS[self._methods(self.rtol)[0]]
        return stages * float(self.rtol) ** (-1.0 / order)

    @property
    def derivatives(self) -> str:
        """Where sensitivities come from: "given", "traced" or "complex step"; "none" if they cannot be had."""
        found = prepare_jacobian(self.rhs, self.jacobian, len(self.states), len(self.parameters))
        return "none" if isinstance(found, ValueError) else found.derivatives

    @property
    def no_derivatives(self) -> str | None:
        """Why sensitivities cannot be had; None if they can."""
        found = prepare_jacobian(self.rhs, self.jacobian, len(self.states), len(self.parameters))
        return str(found) if isinstance(found, ValueError) else None

    def solve(
        self,
        parameters: npt.ArrayLike,
        initial: npt.ArrayLike,
        times: npt.ArrayLike,
        *,
        t0: npt.ArrayLike | None = None,
    ) -> Solution:
        """Integrate a batch of trajectories.

        Parameters
        ----------
        parameters : array, shape (batch, n_parameters)
        initial : array, shape (batch, n_states) or (n_states,)
            States at ``t0``.
        times : array, shape (n_times,) or (batch, n_times)
            Output times, increasing, not before ``t0``. A row of its own for each trajectory may end in NaN; so do
            the states then.
        t0 : float or array, shape (batch,), optional
            Initial times; the first output times by default.

        Returns
        -------
        Solution
            States (batch, n_times, n_states), NaN in rows that failed and after an event that stopped the
            trajectory; status, numbers of evaluations and of steps, the time reached, and whether another method
            took over, each (batch,).

        Raises
        ------
        ValueError
            For wrong shapes or times that do not increase. Never for a trajectory that fails.
        """
        p, x0, grid, start = self._check(parameters, initial, times, t0)
        outcome, switched, _, _ = self.integrated(p, x0, grid, start)
        return Solution(*outcome[:5], switched)

    def solve_with_sensitivities(
        self,
        parameters: npt.ArrayLike,
        initial: npt.ArrayLike,
        times: npt.ArrayLike,
        *,
        t0: npt.ArrayLike | None = None,
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
            As `Solution`, with the same states, and with sensitivities (batch, n_times, n_states,
            n_parameters + n_initial) whose columns are in the order of `parameters` then ``initial_states``. Where
            they overflow, need more than `max_steps`, or keep no accuracy, they are NaN and the status is
            NO_SENSITIVITIES. The time of an event is not differentiated. Evaluations and steps are those of all
            integrations; `max_steps` bounds each.

        Raises
        ------
        ValueError
            As in `solve`; also for unknown ``initial_states``, and where `derivatives` is "none".
        """
        p, x0, grid, start = self._check(parameters, initial, times, t0)
        columns = self.state_indices("initial_states", initial_states)
        q = len(self.parameters)
        seeds = _seeds(len(self.states), q, columns)[None].repeat(len(x0), axis=0)
        quantities = np.concatenate([p, x0[:, columns]], axis=1) if columns else p
        return self.solve_from(p, x0, seeds, quantities, grid, start)

    def solve_from(
        self,
        p: Array,
        x0: Array,
        seeds: Array,
        quantities: Array,
        grid: Array,
        start: Array,
        own: tuple[int, ...] | None = None,
    ) -> SensitiveSolution:
        """As `solve_with_sensitivities`, for initial values that depend on any quantities; arguments are not checked.

        Parameters
        ----------
        p, x0, grid, start : arrays
            Parameters (batch, q), initial values (batch, n), output times (1 or batch, n_times), initial times
            (batch,).
        seeds : array, shape (batch, q + n_more, n)
            Derivatives of the initial values by the parameters, then by other quantities.
        quantities : array, shape (batch, q + n_more)
            Their values, for the scale of absolute tolerances.
        own : tuple of int, optional
            The only parameters whose columns are wanted, and not known to be zero: `seeds`, `quantities` and the
            result have these columns alone. All by default.
        """
        n, q = len(self.states), len(self.parameters)
        own = tuple(range(q)) if own is None else own
        if not self.events and not self.breakpoints:
            at_states, at_others = may_jump(self.rhs, n, q)
            if at_states:
                names = (*self.states, *self.parameters)
                set_jumps(self.rhs, names, names if at_others else self.states, p, x0, grid, start, self._states_at)
        y0 = np.concatenate([x0, seeds.reshape(len(x0), -1)], axis=1)
        sizes = np.maximum(np.abs(quantities), 1.0)
        arguments = p, y0, sizes, quantities, grid, start, own
        happens = self.stop is not None or any(event.when is not None for event in self.events)
        if self.method_used != "Taylor" or happens:
            return self._after_states(*arguments)
        found = self._with_states(*arguments)
        if found.status.any():
            failed = np.flatnonzero(found.status)
            rows = grid if len(grid) == 1 else grid[failed]
            some = p[failed], y0[failed], sizes[failed], quantities[failed], rows, start[failed], own
            for entries, others in zip(found, self._after_states(*some), strict=True):
                entries[failed] = others
        return found

    def _with_states(
        self, p: Array, y0: Array, sizes: Array, quantities: Array, grid: Array, start: Array, own: tuple[int, ...]
    ) -> SensitiveSolution:
        """States and sensitivities by steps of Taylor's method that are those of the states alone.

        Rows in which sensitivities need others fail.
        """
        n, columns = len(self.states), sizes.shape[1]
        found, switched, absolute, _ = self.integrated(p, y0, grid, start, sizes=sizes, own=own)
        if is_final(found, n, absolute, self.rtol, self.error_control == "full"):
            return SensitiveSolution(found.values[:, :, :n], _slopes(found, n, columns), *found[1:5], switched)
        states = found._replace(values=found.values[:, :, :n])

        def run(rows: npt.NDArray[np.intp], factor: float) -> Outcome:
            if factor == 1.0:
                return found if len(rows) == len(p) else Outcome._make(each[rows] for each in found)
            common = grid if len(grid) == 1 else grid[rows]
            tolerances = self.rtol * factor, absolute[rows] * factor
            rhs = self._variations(columns, own)
            return self._integrate(rhs, p[rows], y0[rows], common, start[rows], *tolerances, switched[rows], own)[0]

        floor = self._floor(absolute)
        slopes, status, evaluations, steps = differentiate(states, run, columns, self.rtol, floor)
        given = states.values, slopes.swapaxes(2, 3), status, evaluations, steps, states.ended, switched
        return SensitiveSolution(*given)

    def _after_states(
        self, p: Array, y0: Array, sizes: Array, quantities: Array, grid: Array, start: Array, own: tuple[int, ...]
    ) -> SensitiveSolution:
        """The states alone, then sensitivities together with them once more, by steps of their own."""
        n, columns = len(self.states), sizes.shape[1]
        rhs = self._variations(columns, own)
        states, switched, atol, _ = self.integrated(p, y0[:, :n], grid, start)
        absolute = _with_columns(atol, sizes)
        known: Outcome | None = None

        def run(rows: npt.NDArray[np.intp], factor: float) -> Outcome:
            if factor == 1.0 and known is not None:
                return known
            tolerances = self.rtol * factor, absolute[rows] * factor
            common = grid if len(grid) == 1 else grid[rows]
            found, _ = self._integrate(rhs, p[rows], y0[rows], common, start[rows], *tolerances, switched[rows], own)
            if factor == 1.0:
                warn_of_disagreement(
                    self.rhs, states.values[rows], found.values, quantities[rows], self.rtol, self.atol
                )
            return found

        if not states.status.any():
            known = run(np.arange(len(p)), 1.0)
            if is_final(known, n, absolute, self.rtol, self.error_control == "full"):
                work = states.evaluations + known.evaluations, states.steps + known.steps
                return SensitiveSolution(
                    states.values, _slopes(known, n, columns), states.status, *work, states.ended, switched
                )
        floor = self._floor(absolute)
        discrete = switched if self.method == "auto" else np.full(len(p), self.method == "Rodas5P")
        slopes, status, evaluations, steps = differentiate(states, run, columns, self.rtol, floor, discrete)
        return SensitiveSolution(
            states.values,
            slopes.swapaxes(2, 3),
            status,
            states.evaluations + evaluations,
            states.steps + steps,
            states.ended,
            switched,
        )

    def _variations(self, columns: int, own: tuple[int, ...]) -> int:
        """Address of the right-hand side of states and sensitivities."""
        n, q = len(self.states), len(self.parameters)
        return prepare_sensitivities(self.rhs, self.jacobian, n, q, columns - len(own), own).compiled.address

    def _floor(self, absolute: Array) -> Array | None:
        """Size of a sensitivity (batch, columns, n) below which it does not count, if it is controlled."""
        n = len(self.states)
        if self.error_control != "full":
            return None
        return np.asarray((absolute[:, n:] / self.rtol).reshape(len(absolute), -1, n))

    def with_tolerances(self, rtol: float | None, atol: float | None) -> Self:
        """The same with other tolerances; itself if there are none."""
        settings = {name: value for name, value in (("rtol", rtol), ("atol", atol)) if value is not None}
        return replace(self, **settings) if settings else self  # type: ignore[arg-type]

    def failure(self, solution: Solution | SensitiveSolution, until: float) -> str | None:
        """The message of the first failed trajectory of a solution, and what to try; None if none failed.

        ``until`` is the last of the times that were wanted.
        """
        return failure(solution.status, solution.ended, until, method=self.method, max_steps=self.max_steps)

    def moving(self, among: Sequence[int]) -> tuple[int, ...]:
        """Parameters out of some on which trajectories from given initial values may depend."""
        q = len(self.parameters)
        if self.events or self.jacobian is not None:
            return tuple(range(q))  # what happens at events is written for all of them
        given = (entry for time, amounts in self.doses for entry in (time, *dict(amounts).values()))
        read = Quantities((*self.breakpoints, *given), self.parameters).parameters_read
        read |= self._explicit_time.parameters_read
        return tuple(sorted((read | parameters_read(self.rhs, len(self.states), q)) & set(among)))

    def state_indices(self, argument: str, names: Sequence[str] | None) -> tuple[int, ...]:
        """Positions of states by name, all by default; ``argument`` is what an error calls them."""
        chosen = self.states if names is None else sequence(argument, names, "a sequence of names", least=0)
        chosen = arguments.names(argument, chosen) if chosen else ()
        if not set(chosen) <= set(self.states):
            raise ValueError(f"{argument} must be distinct names out of {self.states}, got {chosen}")
        return tuple(self.states.index(name) for name in chosen)

    def _check(
        self, parameters: npt.ArrayLike, initial: npt.ArrayLike, times: npt.ArrayLike, t0: npt.ArrayLike | None
    ) -> tuple[Array, Array, Array, Array]:
        p = numbers("parameters", parameters)
        if p.ndim != 2 or p.shape[1] != len(self.parameters):
            raise ValueError(f"parameters must have shape (batch, {len(self.parameters)}), got {p.shape}")
        x0 = numbers("initial", initial)
        n = len(self.states)
        if x0.shape != (n,) and x0.shape != (len(p), n):
            raise ValueError(f"initial must have shape ({n},) or ({len(p)}, {n}), got {x0.shape}")
        if x0.ndim == 1:
            x0 = x0[None] if len(p) == 1 else np.repeat(x0[None], len(p), axis=0)
        return p, x0, *check_times(times, t0, len(p))

    def _states_at(self, p: Array, x0: Array, times: Array, start: Array) -> Array:
        return self.integrated(p, x0, times, start)[0].values

    def integrated(
        self,
        p: Array,
        y0: Array,
        times: Array,
        start: Array,
        trail: Array | None = None,
        sizes: Array | None = None,
        own: tuple[int, ...] = (),
    ) -> tuple[Outcome, BoolArray, Array, Integers]:
        """Trajectories, which an implicit method made, absolute tolerances (batch, m), and steps of the last solves.

        They are solved again with smaller tolerances for as long as an error is amplified beyond the tolerance; the
        first steps of the last solve are written to ``trail``. With ``sizes`` (batch, columns) of what they are
        differentiated by, the first of it the parameters ``own``, ``y0`` (batch, m) goes on with sensitivities, and
        Taylor's method integrates them by the steps of the states. Arguments are not checked.
        """
        n = len(self.states)
        rhs = prepare_states(self.rhs, n, len(self.parameters)).compiled.address
        atol = first_tolerances(self.atol, self.rtol, n, y0)
        absolute = atol if sizes is None else _with_columns(atol, sizes)
        joint = sizes is not None
        outcome, switched = self._integrate(
            rhs, p, y0, times, start, self.rtol, absolute, own=own, trail=trail, states_lead=joint
        )
        last = outcome.steps.copy()
        while True:
            needed = amplified(self.atol, self.rtol, y0, outcome.needed, outcome.peaks)
            smaller = needed < atol
            if not np.logical_or.reduce(smaller, axis=None):
                return outcome, switched, absolute, last
            rows = np.flatnonzero(smaller.any(axis=1))
            atol = needed
            absolute = atol if sizes is None else _with_columns(atol, sizes)
            common = times if len(times) == 1 else times[rows]
            again, switched[rows] = self._integrate(
                rhs,
                p[rows],
                y0[rows],
                common,
                start[rows],
                self.rtol,
                absolute[rows],
                switched[rows],
                own,
                trail,
                rows,
                joint,
            )
            last[rows] = again.steps
            again.evaluations[:] += outcome.evaluations[rows]
            again.steps[:] += outcome.steps[rows]
            for old, new in zip(outcome, again, strict=True):
                old[rows] = new

    def _integrate(
        self,
        rhs: int,
        p: Array,
        y0: Array,
        times: Array,
        start: Array,
        rtol: float,
        absolute: Array,
        switched: BoolArray | None = None,
        own: tuple[int, ...] = (),
        trail: Array | None = None,
        trail_rows: npt.NDArray[np.intp] | None = None,
        states_lead: bool = False,
    ) -> tuple[Outcome, BoolArray]:
        """Trajectories, and which of them an implicit method made: at least those ``switched``."""
        n, q = len(self.states), len(self.parameters)
        way = course(self.breakpoints, self.doses, self.events, self.states, self.parameters, p, y0.shape[1], own)
        way = with_own_breakpoints(way, self._explicit_time, p, start, times, self.max_steps, own)
        if self.stop is not None:
            way = way._replace(stop=prepare_stop(self.stop, n, q).address)
        methods = ("Taylor",) if states_lead else self._methods(rtol)
        longest = math.inf if self.max_step is None else self.max_step
        patience = _patience(methods, self.max_steps)
        # with no control at all they would diverge where states rest: any step is right for those, and few are stable
        weight = 1.0 if self.error_control == "full" else math.sqrt(self.rtol)
        control = Control(n, rtol, absolute, self.max_steps, self.threads, weight, patience=patience, max_step=longest)

        def solved(method: str, rows: npt.NDArray[np.intp] | slice) -> Outcome:
            address, settings = rhs, control if isinstance(rows, slice) else control._replace(absolute=absolute[rows])
            if trail is not None:
                own_rows = (np.arange(len(p)) if trail_rows is None else trail_rows)[rows]
                settings = settings._replace(trail=trail, rows=own_rows.astype(np.int64))
            if method == "Rodas5P":
                settings = settings._replace(linear=linear_of(self.rhs, n, q, y0.shape[1] // n - 1, own))
            if method == "Taylor":
                series = prepare_series(self.rhs, n, q, y0.shape[1] // n - 1, own)
                settings = settings._replace(series=series.address, order=order_of(rtol), states_lead=states_lead)
                address = prepare_states(self.rhs, n, q).compiled.address
            if method == "CVODE" and self.jacobian is None and is_traced(self.rhs, n, q):
                settings = settings._replace(linear=_newton(self.rhs, n, q, y0.shape[1] // n))
            elif method in _WITHOUT_ROOTS:
                found = prepare_jacobian(self.rhs, self.jacobian, n, q)
                settings = settings._replace(variations=found.compiled.address if isinstance(found, Prepared) else 0)
            common = times if len(times) == 1 else times[rows]
            if isinstance(rows, slice):
                return INTEGRATORS[method](address, p, y0, times, start, way, settings)
            return INTEGRATORS[method](address, p[rows], y0[rows], common, start[rows], way.of_rows(rows), settings)

        return with_fallback(solved, methods, len(p), switched)

    @property
    def method_used(self) -> str:
        """The method that solves at first."""
        return self._methods(self.rtol)[0]

    @property
    def moves_no_times(self) -> bool:
        """Whether nothing happens on the way but at times that are the same for all parameters."""
        happens = self.events or self.doses or self.breakpoints or self.stop is not None
        return not happens and not self._explicit_time.parameters_read

    @property
    def _explicit_time(self) -> ExplicitTime:
        when = (*(event.when for event in self.events if event.when is not None), *filter(None, [self.stop]))
        return explicit_time(self.rhs, when, len(self.states), len(self.parameters))

    @property
    def _has_series(self) -> bool:
        """Whether Taylor's method can be had, and is no slower than the adjoint of another one."""
        n, q = len(self.states), len(self.parameters)
        few = n + q < MOST_SERIES and self.jacobian is None
        return few and taylor_obstacle(self.rhs, n, q) is None

    def _methods(self, rtol: float) -> tuple[str, ...]:
        """Methods in the order in which they are tried."""
        if self.method != "auto":
            return (self.method,)
        n = len(self.states)
        implicit = is_traced(self.rhs, n, len(self.parameters)) and _has_factors(self.rhs, n, len(self.parameters))
        smooth = self.stop is None and all(event.when is None for event in self.events)
        tight = rtol < LEAST_RTOL_OF_ORDER_5
        return (
            *(("Taylor",) if tight and self._has_series else ()),
            "DOP853" if tight else "RK45",
            *(("Rodas5P",) if implicit else ()),
            *(("LSODA",) if smooth and not (implicit and n > MOST_DENSE) else ()),
        )


#: Evaluations of a step, and the order with whose root of the tolerance its length goes; of Taylor's method what takes
#: as long.
_STEPS = {"CVODE": (2, 5), "DOP853": (12, 8), "LSODA": (2, 5), "RK45": (6, 5), "Rodas5P": (9, 5), "Taylor": (38, 15)}
#: Integrators of other packages, which do not look for zeros of functions.
_WITHOUT_ROOTS = ("CVODE", "LSODA")
#: Below this relative tolerance Taylor's method, or that of order 8, needs less time than that of order 5.
LEAST_RTOL_OF_ORDER_5 = 1e-7
#: With so many states and parameters in all, observations may have their gradients by the adjoint: no series then.
MOST_SERIES = 50
#: Up to so many states the implicit method is tried before LSODA if its factors are dense, whose cost grows with their
#: cube, and up to so many LSODA follows it, whose factors are.
MOST_IMPLICIT, MOST_DENSE = 100, 1000
#: Steps of a stiff trajectory that an explicit method may have before it where the implicit one is available.
_MOST_EXPLICIT = 1000


@lru_cache(maxsize=64)
def _pattern(rhs: Rhs, n: int, q: int) -> Pattern:
    return pattern_of(n, *jacobian_entries(rhs, n, q))


def linear_of(rhs: Rhs, n: int, q: int, columns: int, own: tuple[int, ...]) -> Linear:
    """Functions for Rodas5P: states and ``columns`` of sensitivities, the first of them to the parameters ``own``."""
    linearized = prepare_linearized(rhs, n, q, columns, own)
    return Linear(linearized.jacobian.address, linearized.tangents.address, _pattern(rhs, n, q))


@lru_cache(maxsize=64)
def _newton(rhs: Rhs, n: int, q: int, blocks: int) -> Newton:
    return newton_of(prepare_entries(rhs, n, q).address, _pattern(rhs, n, q), n, blocks)


@lru_cache(maxsize=256)
def _seeds(n: int, q: int, columns: tuple[int, ...]) -> Array:
    """Derivatives (q + columns, n) of the initial values by the parameters, then by some of them."""
    seeds = np.zeros((q + len(columns), n))
    seeds[range(q, len(seeds)), columns] = 1.0
    return seeds


def _slopes(found: Outcome, n: int, columns: int) -> Array:
    """Sensitivities (batch, n_times, n, columns) of an integration of n states and these."""
    return found.values[:, :, n:].reshape(*found.values.shape[:2], columns, n).swapaxes(2, 3)


def _with_columns(atol: Array, sizes: Array) -> Array:
    """Absolute tolerances (batch, m) of states and of sensitivities to quantities of some sizes (batch, columns)."""
    absolute = np.concatenate([atol[:, None], atol[:, None] / sizes[:, :, None]], axis=1)
    return np.asarray(absolute.reshape(len(atol), -1))


def _has_factors(rhs: Rhs, n: int, q: int) -> bool:
    """Whether the matrices of the implicit method are factorized at little cost."""
    return n <= MOST_IMPLICIT or len(_pattern(rhs, n, q).starts) > 0


def _patience(methods: Sequence[str], max_steps: int) -> int:
    """That of the first method with what would follow."""
    if len(methods) == 1:
        return -1
    return _MOST_EXPLICIT if "Rodas5P" in methods else max_steps


def _check_settings(model: OdeSolver) -> None:
    function("rhs", model.rhs, "rhs(t, x, p)")
    given = {"states": names("states", model.states)}
    given["parameters"] = names("parameters", model.parameters) if _has_entries(model.parameters) else ()
    if clash := set(given["states"]) & set(given["parameters"]):
        raise ValueError(f"parameters must be distinct names, none of a state, got {sorted(clash)} in both")
    one_of("method", model.method, ("auto", *sorted(INTEGRATORS)))
    one_of("error_control", model.error_control, ("full", "states"))
    for name in ("jacobian", "stop"):
        if getattr(model, name) is not None:
            function(name, getattr(model, name), f"{name}(t, x, p)")
    if model.stop is not None and model.method in _WITHOUT_ROOTS:
        raise ValueError(f"stop needs method='RK45', 'DOP853', 'Taylor', 'Rodas5P' or 'auto', got {model.method!r}")
    store(
        model,
        **given,
        rtol=real("rtol", model.rtol, least=1e-13, below=1.0),
        atol=real("atol", model.atol, above=0.0),
        max_steps=integer("max_steps", model.max_steps, least=1),
        max_step=optional(real, "max_step", model.max_step, above=0.0),
        threads=integer("threads", model.threads, least=1),
        breakpoints=check_breakpoints(model.breakpoints, given["parameters"]),
        doses=check_doses(model.doses, given["states"], given["parameters"]),
        events=check_events(model.events, len(given["states"]), given["parameters"]),
    )
    if model.method in _WITHOUT_ROOTS and any(event.when is not None for event in model.events):
        allowed = "'RK45', 'DOP853', 'Taylor', 'Rodas5P' or 'auto'"
        raise ValueError(f"events with when= need method={allowed}, got {model.method!r}")


def _has_entries(value: object) -> bool:
    return not (isinstance(value, list | tuple) and len(value) == 0)


def _check_functions(model: OdeSolver) -> None:
    """Call the functions once: a wrong number of values is a bug to report now, not a failed trajectory."""
    n, q = len(model.states), len(model.parameters)
    derivative = probe("rhs", model.rhs, n, q)
    if derivative is not None and _shape(derivative) != (n,):
        raise ValueError(f"rhs must return {n} values, one per state, got {shown(derivative)}")
    if model.stop is not None:
        value = probe("stop", model.stop, n, q)
        if value is not None and _shape(value) != ():
            raise ValueError(f"stop must return a number, got {shown(value)}")
    if model.jacobian is not None:
        rows = probe("jacobian", model.jacobian, n, q)
        wanted = [(n, n), (n, q)]
        if rows is not None and not (isinstance(rows, tuple | list) and list(map(_shape, rows)) == wanted):
            raise ValueError(
                f"jacobian must return the rows of df/dx and those of df/dp, of shapes {wanted[0]} and {wanted[1]}, "
                f"got {shown(rows)}"
            )


def _shape(value: npt.ArrayLike) -> tuple[int, ...] | None:
    try:
        return np.shape(value)
    except ValueError:  # rows of different lengths
        return None
