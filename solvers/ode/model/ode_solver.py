"""How trajectories of ordinary differential equations x' = f(t, x, p) are solved, in batches, with sensitivities.

One that fails gets a status and NaN, never an exception. What of them is observed:
`invsamp.solvers.ode.model.ode_model`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, Self

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
from invsamp.solvers.ode.codegen.inlined_stages import prepare_steps
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
from invsamp.solvers.ode.integrators.amplification import of_sensitivities, set_tolerances
from invsamp.solvers.ode.integrators.batch import plain
from invsamp.solvers.ode.integrators.cvode import Newton, check_installed, newton_of
from invsamp.solvers.ode.integrators.failure_messages import failure
from invsamp.solvers.ode.integrators.methods import EXPLICIT, INTEGRATORS, explicit_method, with_fallback
from invsamp.solvers.ode.integrators.output_times import check_times
from invsamp.solvers.ode.integrators.row_integration import RowIntegration, row_integration
from invsamp.solvers.ode.integrators.solution import BoolArray, SensitiveSolution, Solution
from invsamp.solvers.ode.integrators.sparse_factors import Pattern, pattern_of
from invsamp.solvers.ode.integrators.tableau_dormand_prince import TABLES
from invsamp.solvers.ode.integrators.taylor import order_of
from invsamp.solvers.ode.integrators.trajectories import Array, Control, Course, Integers, Linear, Outcome
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
        seeds = _seeds(len(self.states), q, columns)[None]
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
        seeds : array, shape (batch, q + n_more, n) or (1, q + n_more, n)
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
        quantities = plain(quantities)
        y0 = np.empty((len(x0), n + n * quantities.shape[1]))
        y0[:, :n] = x0
        y0[:, n:] = seeds.reshape(len(seeds), -1)
        together = self.steps_of_states
        return (self._with_states if together else self._after_states)(p, y0, quantities, grid, start, own)

    def _with_states(
        self, p: Array, y0: Array, quantities: Array, grid: Array, start: Array, own: tuple[int, ...]
    ) -> SensitiveSolution:
        """States and sensitivities by steps of Taylor's method that are those of the states alone.

        Rows in which sensitivities need others have steps of their own.
        """
        n, columns = len(self.states), quantities.shape[1]
        found, switched, absolute, _ = self.integrated(p, y0, grid, start, quantities=quantities, own=own)
        if is_final(*found[:2], found.peaks, n, absolute, self.rtol, self.error_control == "full"):
            return SensitiveSolution(found.values[:, :, :n], _slopes(found, n, columns), *found[1:5], switched)
        states = found._replace(values=found.values[:, :, :n])

        def run(rows: npt.NDArray[np.intp], factor: float) -> Outcome:
            if factor == 1.0:
                return found if len(rows) == len(p) else Outcome._make(each[rows] for each in found)
            common = grid if len(grid) == 1 else grid[rows]
            tolerances = self.rtol * factor, absolute[rows] * factor
            return self._integrate(p[rows], y0[rows], common, start[rows], *tolerances, switched[rows], own)[0]

        floor = self._floor(absolute)
        slopes, status, evaluations, steps = differentiate(states, run, columns, self.rtol, floor)
        given = states.values, slopes.swapaxes(2, 3), status, evaluations, steps, states.ended, switched
        solution = SensitiveSolution(*given)
        if status.any():
            failed = np.flatnonzero(status)
            common = grid if len(grid) == 1 else grid[failed]
            again = self._after_states(p[failed], y0[failed], quantities[failed], common, start[failed], own)
            for entries, others in zip(solution, again, strict=True):
                entries[failed] = others
        return solution

    def _after_states(
        self, p: Array, y0: Array, quantities: Array, grid: Array, start: Array, own: tuple[int, ...]
    ) -> SensitiveSolution:
        """The states alone, then sensitivities together with them once more, by steps of their own."""
        n, columns = len(self.states), quantities.shape[1]
        states, switched, atol, _ = self.integrated(p, y0[:, :n], grid, start)
        absolute = np.empty(y0.shape)
        absolute[:, :n] = atol
        of_sensitivities(quantities, absolute)
        known: Outcome | None = None

        def run(rows: npt.NDArray[np.intp], factor: float) -> Outcome:
            if factor == 1.0 and known is not None:
                return known
            some = slice(None) if len(rows) == len(p) else rows  # a view of all
            tolerances = self.rtol * factor, absolute[some] * factor
            common = grid if len(grid) == 1 else grid[some]
            found, _ = self._integrate(p[some], y0[some], common, start[some], *tolerances, switched[some], own)
            if factor == 1.0:
                warn_of_disagreement(
                    self.rhs, states.values[some], found.values, quantities[some], self.rtol, self.atol
                )
            return found

        if not states.status.any():
            known = run(np.arange(len(p)), 1.0)
            if is_final(*known[:2], known.peaks, n, absolute, self.rtol, self.error_control == "full"):
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
        if isinstance(names, tuple) and not names:
            return ()
        chosen = self.states if names is None else sequence(argument, names, "a sequence of names", least=0)
        if not chosen:
            return ()
        chosen = arguments.names(argument, chosen)
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
        quantities: Array | None = None,
        own: tuple[int, ...] = (),
    ) -> tuple[Outcome, BoolArray, Array, Integers]:
        """Trajectories, which an implicit method made, absolute tolerances (batch, m), and steps of the last solves.

        They are solved again with smaller tolerances for as long as an error is amplified beyond the tolerance; the
        first steps of the last solve are written to ``trail``. With ``quantities`` (batch, columns) that they are
        differentiated by, the first of them the parameters ``own``, ``y0`` (batch, m) goes on with sensitivities, and
        Taylor's method integrates them by the steps of the states. Arguments are not checked.
        """
        joint = quantities is not None
        y0 = plain(y0)
        absolute, smaller = np.empty(y0.shape), np.empty(len(y0), dtype=np.bool_)

        def tolerances(needed: Array, peaks: Array) -> bool:
            found = set_tolerances(self.atol, self.rtol, y0, needed, peaks, absolute, smaller)
            if quantities is not None:
                of_sensitivities(quantities, absolute)
            return bool(found)

        tolerances(absolute[:0, : len(self.states)], y0)
        outcome, switched = self._integrate(p, y0, times, start, self.rtol, absolute, None, own, trail, None, joint)
        steps = outcome.steps.copy()
        while tolerances(outcome.needed, outcome.peaks):
            rows = np.flatnonzero(smaller)
            common = times if len(times) == 1 else times[rows]
            again, switched[rows] = self._integrate(
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
            steps[rows] = again.steps
            again.evaluations[:] += outcome.evaluations[rows]
            again.steps[:] += outcome.steps[rows]
            for old, new in zip(outcome, again, strict=True):
                old[rows] = new
        return outcome, switched, absolute, steps

    def _integrate(
        self,
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
        joint: bool = False,
    ) -> tuple[Outcome, BoolArray]:
        """Trajectories, and which of them an implicit method made: at least those ``switched``.

        With ``joint`` steps are those of the states alone, by Taylor's method.
        """
        known = _integration(self, y0.shape[1], own, rtol, joint)
        way = self._course(p, start, times, y0.shape[1], own) if known.course is None else known.course

        def solved(method: str, rows: npt.NDArray[np.intp] | slice) -> Outcome:
            if (prepared := known.prepared.get(method)) is None:
                prepared = known.prepared[method] = self._prepared(method, y0.shape[1], own, rtol, joint)
            address, control = prepared
            if trail is not None:
                own_rows = (np.arange(len(p)) if trail_rows is None else trail_rows)[rows]
                control = control._replace(trail=trail, rows=own_rows.astype(np.int64))
            if isinstance(rows, slice):
                control = control._replace(absolute=absolute)
                return INTEGRATORS[method](address, p, y0, times, start, way, control)
            common, control = times if len(times) == 1 else times[rows], control._replace(absolute=absolute[rows])
            return INTEGRATORS[method](address, p[rows], y0[rows], common, start[rows], way.of_rows(rows), control)

        return with_fallback(solved, known.methods, len(p), switched)

    def _integration(self, width: int, own: tuple[int, ...], rtol: float, joint: bool) -> _Integration:
        """See the function of this name, which keeps it."""
        timed, p, none = self._explicit_time, np.empty((1, len(self.parameters))), np.empty((1, 1))
        moves = self.doses or self.breakpoints or self.events or len(timed.switches) or len(timed.pulses)
        way = None if moves else self._course(p, none[0], none, width, own)
        return _Integration(("Taylor",) if joint else self._methods(rtol), way, {})

    def _course(self, p: Array, start: Array, times: Array, width: int, own: tuple[int, ...]) -> Course:
        """Interruptions of trajectories of ``width`` components, some of them found before the integration."""
        way = course(self.breakpoints, self.doses, self.events, self.states, self.parameters, p, width, own)
        way = with_own_breakpoints(way, self._explicit_time, p, start, times, self.max_steps, own)
        if self.stop is None:
            return way
        return way._replace(stop=prepare_stop(self.stop, len(self.states), len(self.parameters)).address)

    def _prepared(self, method: str, width: int, own: tuple[int, ...], rtol: float, joint: bool) -> tuple[int, Control]:
        """Address of the right-hand side of ``width`` components, and a method's control without tolerances."""
        n, q = len(self.states), len(self.parameters)
        columns = width // n - 1
        settings = Control(
            n,
            rtol,
            _NOTHING,
            self.max_steps,
            self.threads,
            # with no control at all they would diverge where states rest: any step is right for those, and few are
            # stable
            1.0 if self.error_control == "full" else math.sqrt(self.rtol),
            patience=-1 if joint else _patience(self._methods(rtol), self.max_steps),
            max_step=math.inf if self.max_step is None else self.max_step,
        )
        if method == "Rodas5P":
            settings = settings._replace(linear=linear_of(self.rhs, n, q, columns, own))
        if method == "CVODE" and self.jacobian is None and is_traced(self.rhs, n, q):
            settings = settings._replace(linear=_newton(self.rhs, n, q, columns + 1))
        elif method in _WITHOUT_ROOTS:
            found = prepare_jacobian(self.rhs, self.jacobian, n, q)
            settings = settings._replace(variations=found.compiled.address if isinstance(found, Prepared) else 0)
        if method == "Taylor":
            series = prepare_series(self.rhs, n, q, columns, own).address
            settings = settings._replace(series=series, order=order_of(rtol), states_lead=joint)
        if method in TABLES and (self.jacobian is None or not columns):
            steps = prepare_steps(self.rhs, n, q, columns, own, method)
            settings = settings._replace(steps=0 if steps is None else steps.address)
        if columns and method != "Taylor":
            variations = prepare_sensitivities(self.rhs, self.jacobian, n, q, columns - len(own), own)
            return variations.compiled.address, settings
        return prepare_states(self.rhs, n, q).compiled.address, settings

    @property
    def method_used(self) -> str:
        """The method that solves at first."""
        return self._methods(self.rtol)[0]

    @property
    def moves_no_times(self) -> bool:
        """Whether nothing happens on the way but at times that are the same for all parameters."""
        happens = self.events or self.doses or self.breakpoints or self.stop is not None
        return not happens and not self._explicit_time.parameters_read

    @cached_property
    def steps_of_states(self) -> bool:
        """Whether sensitivities are integrated with the states, by Taylor's method."""
        happens = self.stop is not None or any(event.when is not None for event in self.events)
        return self.method_used == "Taylor" and not happens

    @property
    def row_obstacle(self) -> str | None:
        """Why `row_integration` cannot take the place of `solve_from`; None if it can."""
        n, method = len(self.states), self.method_used
        known = _integration(self, n, (), self.rtol, False)
        if not type(self).__module__.startswith("invsamp."):
            return "the ODE has a class of its own"
        if self.no_derivatives is not None:
            return "the ODE has no sensitivities"
        if self.threads > 1:
            return "the ODE is solved in several threads"
        if method not in EXPLICIT:
            return f"the ODE is solved by {method}"
        if self.stop is not None or self.events or known.course is None:
            return "the ODE has events, doses, breakpoints or switches"
        if may_jump(self.rhs, n, len(self.parameters))[0]:
            return "the right-hand side of the ODE may jump"
        return None

    def row_integration(
        self, p: Array, width: int, own: tuple[int, ...], times: Array, t0: float
    ) -> tuple[RowIntegration, object]:
        """The integration by the first method of one trajectory of so many components, and what keeps it in memory.

        It reads its parameters from ``p`` (1, q); output times (1, n_times).
        """
        joint = self.steps_of_states
        known = _integration(self, width, own, self.rtol, joint)
        assert known.course is not None  # nothing is in the way
        rhs, control = self._prepared(known.methods[0], width, own, self.rtol, joint)
        method = explicit_method(known.methods[0], control)
        return row_integration(method, rhs, p, width, times, t0, known.course, control)

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
#: No tolerances, or no quantities.
_NOTHING = np.empty((0, 0))


class _Integration(NamedTuple):
    """Common part of all integrations of a model with the same number of components."""

    methods: tuple[str, ...]  # in the order in which they are tried
    course: Course | None  # if it is the same for all parameters and times
    prepared: dict[str, tuple[int, Control]]  # by method, those that were tried


@lru_cache(maxsize=256)
def _integration(model: OdeSolver, width: int, own: tuple[int, ...], rtol: float, joint: bool) -> _Integration:
    """That of trajectories of ``width`` components, whose first columns are of the parameters ``own``."""
    return model._integration(width, own, rtol, joint)  # noqa: SLF001 (its own class)


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
