"""Batches of trajectories by any method in a bounded number of steps; a failure is a `Status`, not an exception."""

from __future__ import annotations

import enum
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import scipy  # its integrators take half a second to import: not before they are wanted
from numba import njit

from invsamp.solvers.ode.integrators.amplification import amplify
from invsamp.solvers.ode.integrators.batch import integrate
from invsamp.solvers.ode.integrators.event_handling import inset, leave
from invsamp.solvers.ode.integrators.explicit_rk import stepper
from invsamp.solvers.ode.integrators.function_pointers import call
from invsamp.solvers.ode.integrators.initial_step import Stretch, longest_first_step
from invsamp.solvers.ode.integrators.lsoda_jacobian import MOST_DENSE, bands, whole
from invsamp.solvers.ode.integrators.rosenbrock import RODAS
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.tableau_dormand_prince import FIVE, eight
from invsamp.solvers.ode.integrators.taylor import TAYLOR
from invsamp.solvers.ode.integrators.trajectories import Array, Control, Course, Outcome


class Status(enum.IntEnum):
    """How the integration of one trajectory ended."""

    OK = 0
    TOO_MANY_STEPS = 1
    NON_FINITE = 2
    STEP_TOO_SMALL = 3
    STOPPED = 4  # by the model's `stop`: what comes before is good
    NO_SENSITIVITIES = 5  # the states are good, their derivatives cannot be had
    STIFF = 6  # an explicit method does not get there because of stiffness: Rodas5P and LSODA are for that
    TOO_MANY_EVENTS = 7  # they follow ever faster, or each other without end


def lsoda(
    rhs: int, parameters: Array, initial: Array, times: Array, start: Array, course: Course, control: Control
) -> Outcome:
    """LSODA by SciPy's `odeint`, row by row; arguments as of `.batch.integrate`, without a stopping function."""
    batch, m = initial.shape
    outcome = Outcome(
        np.full((batch, times.shape[1], m), np.nan),
        np.zeros(batch, dtype=np.int64),
        np.zeros(batch, dtype=np.int64),
        np.zeros(batch, dtype=np.int64),
        np.array(start, dtype=float),
        np.abs(initial, dtype=float),
        control.absolute[:, : control.n_states].copy(),
    )
    control.trail[control.rows, :1] = np.nan  # its steps are not kept
    with _ODEPACK, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", scipy.integrate.ODEintWarning)
        for row in range(batch):
            wanted = times[row if len(times) > 1 else 0]
            wanted = wanted[np.isfinite(wanted)]
            p = np.ascontiguousarray(parameters[row], dtype=float)
            own, y = course.of_rows(np.array([row])), initial[row].astype(float)
            trajectory = _Lsoda(rhs, p, own, control, control.absolute[row], y)
            values = trajectory.run(y, wanted, float(start[row]))
            outcome.status[row] = trajectory.status
            outcome.evaluations[row] = trajectory.evaluations
            outcome.steps[row] = trajectory.steps
            outcome.ended[row] = trajectory.ended
            outcome.peaks[row] = trajectory.trail[_PEAKS, :m]
            outcome.needed[row] = trajectory.trail[_NEEDED, : control.n_states]
            if trajectory.status == Status.OK:
                outcome.values[row, : len(wanted)] = values
    return outcome


def with_fallback(
    solved: Callable[[str, npt.NDArray[np.intp] | slice], Outcome],
    methods: Sequence[str],
    batch: int,
    switched: npt.NDArray[np.bool_] | None,
) -> tuple[Outcome, npt.NDArray[np.bool_]]:
    """Trajectories by one method, and by the next where that fails.

    Parameters
    ----------
    solved : callable
        From the name of a method and some rows, or all of them as a slice, to their outcome.
    methods : sequence of str
        Their names, in the order in which they are tried.
    batch : int
        Number of rows.
    switched : array of bool, shape (batch,), optional
        Rows that are not left to the first method.

    Returns
    -------
    outcome, switched
        Which rows another method solved. Where all fail it is the first one's failure, if there is one.
    """
    known = np.zeros(batch, dtype=bool) if switched is None else switched
    every = switched is None or not known.any()
    first = solved(methods[0], slice(None) if every else np.flatnonzero(~known))
    if every and len(methods) == 1:
        return first, known.copy()
    failed = known.copy()
    failed[~known] = ~_got_through(first)
    if len(methods) == 1 or not failed.any():
        return first, failed & known
    rows = np.flatnonzero(failed)
    second, _ = with_fallback(lambda method, some: solved(method, rows[some]), methods[1:], len(rows), None)
    taken = known[rows] | _got_through(second)
    parts = []
    for one, two in zip(first, second, strict=True):
        whole = np.empty((batch, *two.shape[1:]), dtype=two.dtype)
        whole[~known] = one
        whole[rows[taken]] = two[taken]
        parts.append(whole)
    now = known.copy()
    now[rows[taken]] = True
    return Outcome(*parts), now


def _got_through(outcome: Outcome) -> npt.NDArray[np.bool_]:
    return np.asarray((outcome.status == _OK) | (outcome.status == _STOPPED))


#: As numbers: an enumeration's members take a microsecond each.
_OK, _STOPPED = int(Status.OK), int(Status.STOPPED)


@cache
def _dop853() -> Stepper:
    return stepper("DOP853", eight())


#: From the name of a method to its integrator of batches.
INTEGRATORS: dict[str, Callable[[int, Array, Array, Array, Array, Course, Control], Outcome]] = {
    "DOP853": lambda *arguments: integrate(_dop853(), *arguments),
    "LSODA": lsoda,
    "RK45": partial(integrate, stepper("RK45", FIVE)),
    "Rodas5P": partial(integrate, RODAS),
    "Taylor": partial(integrate, TAYLOR),
}


#: ODEPACK keeps its state in common blocks: one solve at a time.
_ODEPACK = threading.Lock()
#: LSODA shortens its step after a bad value of the right-hand side; it does not notice that there are only such.
_PATIENCE = 200
#: Evaluations per step, beside those for Jacobians: the corrector takes at most three, and fails at most ten times.
_MOST_PER_STEP = 40


#: Rows of what is known of the way: see `follow`.
_PEAKS, _WEIGHTS, _NEEDED, _GROWTH, _TIMES, _OLD, _OLD_RATES, _NEW, _NEW_RATES = range(9)


class _GaveUp(Exception):
    """Raised within LSODA to get out of it."""


class _Lsoda:
    """One trajectory, restarted at every pause."""

    def __init__(self, rhs: int, p: Array, course: Course, control: Control, absolute: Array, y: Array) -> None:
        self.rhs, self.p, self.course, self.control = rhs, p, course, control
        self.rtol = np.full(len(y), control.rtol)
        self.weights = absolute.copy()
        for tolerances in (self.rtol, self.weights):
            tolerances[control.n_states :] /= control.weight
        self.trail = np.zeros((9, max(len(y), 2)))
        self.trail[_PEAKS, : len(y)] = np.abs(y)
        self.trail[_WEIGHTS, : len(y)] = self.trail[_NEEDED, : len(y)] = self.weights
        self.status, self.evaluations, self.steps, self.ended = Status.OK, 0, 0, math.nan
        self.bad = 0  # values of the right-hand side in succession that were not finite
        self.seen_bad = False

    def run(self, y: Array, times: Array, start: float) -> Array:
        """Values at ``times``; good if the status is then OK."""
        out = np.empty((len(times), len(y)))
        done, t, self.ended = int(np.searchsorted(times, start, side="right")), start, start
        out[:done] = y
        pauses = self.course.pauses[0]
        if not (np.isfinite(y).all() and np.isfinite(self.p).all()) or np.isnan(pauses).any():
            self.status = Status.NON_FINITE
        pause = int(np.searchsorted(pauses, start))
        while done < len(times) and self.status == Status.OK:
            lower, upper, target, last = -math.inf, math.inf, float(times[-1]), len(times)
            while pause < len(pauses) and pauses[pause] == t:
                lower = t + inset(t)
                y = self._left(y, t, pause)
                pause += 1
            stops_at_target = pause < len(pauses) and bool(pauses[pause] <= target)
            if stops_at_target:
                target = float(pauses[pause])
                upper = target - inset(target)
                last = int(np.searchsorted(times, target, side="right"))
            nodes = np.concatenate([[t], times[done:last]])
            if nodes[-1] < target:
                nodes = np.append(nodes, target)
            values = self._stretch(y, nodes, lower, upper, stops_at_target)
            if values is None:
                break
            out[done:last] = values[1 : 1 + last - done]
            y, t, done, self.ended = values[-1], target, last, target
        return out

    def _left(self, y: Array, t: float, pause: int) -> Array:
        """y after a pause."""
        _, jumps, shifts, which, _, events = self.course
        if which[0, pause] < 0 and not shifts[0, pause].any():
            return np.asarray(y + jumps[0, pause])
        work, sides = np.stack([y, y, y]), np.empty((2, 0))
        arguments = which[0, pause], t, self.p, jumps[0, pause], shifts[0, pause]
        self.evaluations += leave(self.rhs, self.control.n_states, events, *arguments, sides, work)
        return np.array(work[0])

    def _stretch(self, y: Array, nodes: Array, lower: float, upper: float, critical: bool) -> Array | None:
        rtol, max_steps = self.control.rtol, self.control.max_steps
        budget = max_steps - self.steps
        flat = self._guarded(len(y), lower, upper, budget * _MOST_PER_STEP + len(y) * (budget + 1))
        self.trail[_TIMES] = math.nan  # states or rates may have jumped: nothing is compared with what came before
        # LSODA counts steps to its limit when the first derivative is infinite
        if not np.isfinite(flat(nodes[0], y)).all():
            self.status = Status.NON_FINITE
            return None
        if budget < 1:
            self.status = Status.TOO_MANY_STEPS
            return None
        n, begin, end = self.control.n_states, float(nodes[0]), float(nodes[-1])
        most = longest_first_step(Stretch(self.rhs, n, self.p, begin, end, lower, upper, rtol, self.weights), y)
        try:
            values, info = scipy.integrate.odeint(
                flat,
                y,
                nodes,
                h0=most if most < math.inf else 0.0,  # 0: LSODA's own
                tfirst=True,
                rtol=self.rtol,
                atol=self.weights,
                mxstep=budget,
                hmax=self.control.max_step if self.control.max_step < math.inf else 0.0,  # 0: any
                **self._newton(len(y), lower, upper),
                tcrit=nodes[-1:] if critical else None,
                full_output=True,
            )
        except _GaveUp:
            return None
        succeeded = info["message"] == "Integration successful."
        if succeeded:  # the counters are not set otherwise
            self.steps += int(info["nst"][-1])
        # mxstep bounds each output interval; the promise is about the whole trajectory
        if info["message"].startswith("Excess work") or self.steps > max_steps:
            self.status = Status.TOO_MANY_STEPS
        # LSODA may call values that are not finite a success; in SciPy 1.15 and older, steps past such rates, too
        elif (succeeded and not np.isfinite(values).all()) or (
            self.seen_bad and not (succeeded and self._finite_at(nodes, values, lower, upper))
        ):
            self.status = Status.NON_FINITE
        elif not succeeded:
            self.status = Status.STEP_TOO_SMALL
        return values if self.status == Status.OK else None

    def _finite_at(self, times: Array, values: Array, lower: float, upper: float) -> bool:
        """Whether the right-hand side is finite at all values (times, m)."""
        peaks, out = np.zeros(values.shape[1]), np.empty((1, values.shape[1]))
        return all(
            evaluate(self.rhs, t, lower, upper, y, self.p, peaks, out) for t, y in zip(times, values, strict=True)
        )

    def _newton(self, m: int, lower: float, upper: float) -> dict[str, object]:
        """The Jacobian as a setting of `odeint`, if there is one."""
        rhs, variations, n, p, rtol = (
            self.rhs,
            self.control.variations,
            self.control.n_states,
            self.p,
            self.control.rtol,
        )
        if not variations:
            return {}
        if m > max(n, MOST_DENSE):
            return {
                "Dfun": lambda t, y: bands(variations, n, min(max(t, lower), upper), y, p),
                **{"ml": n - 1, "mu": n - 1},
            }
        floor = self.weights[:n] / rtol
        return {"Dfun": lambda t, y: whole(rhs, variations, n, min(max(t, lower), upper), y, p, floor)}

    def _guarded(self, m: int, lower: float, upper: float, most: int) -> Callable[[float, Array], Array]:
        """The right-hand side as LSODA wants it; leaves LSODA when it goes on without end or without numbers."""
        rhs, p, out = self.rhs, self.p, np.empty((1, m))
        followed = m if m == self.control.n_states else 0  # with sensitivities, tolerances are known
        rtol, trail = self.control.rtol, self.trail
        row, limit = out[0], self.evaluations + most

        def flat(t: float, y: Array) -> Array:
            self.evaluations += 1
            if follow(rhs, t, lower, upper, y, p, out, followed, rtol, trail):
                self.bad = 0
            else:
                self.bad += 1
                self.seen_bad = True
                if self.bad > _PATIENCE:
                    self.status = Status.NON_FINITE
                    raise _GaveUp
            if self.evaluations > limit:
                self.status = Status.TOO_MANY_STEPS
                raise _GaveUp
            return row

        return flat


@njit(cache=True, error_model="numpy")
def evaluate(rhs: int, t: float, lower: float, upper: float, y: Array, p: Array, peaks: Array, out: Array) -> bool:
    """Right-hand side at y (m,) and t within its bounds, to out (1, m); whether it is finite. Peaks (m,) follow y."""
    call(rhs, min(max(t, lower), upper), y, p, out, 0)
    finite = True
    for i in range(out.shape[1]):
        finite = finite and math.isfinite(out[0, i])
        peaks[i] = max(peaks[i], abs(y[i]))
    return finite


@njit(cache=True, error_model="numpy")
def follow(
    rhs: int, t: float, lower: float, upper: float, y: Array, p: Array, out: Array, n: int, rtol: float, trail: Array
) -> bool:
    """As `evaluate` in the course of LSODA's steps, with the amplification of errors in the first n components.

    The last evaluation ends a step as soon as one comes later; others are trials. In the rows of ``trail`` are peaks,
    what `amplify` takes and updates, the times of the last step and of the last evaluation, their states and rates.
    """
    finite = evaluate(rhs, t, lower, upper, y, p, trail[_PEAKS], out)
    if finite and n > 0:
        times, old, new, weights, growth = trail[_TIMES], trail[_OLD], trail[_NEW], trail[_WEIGHTS], trail[_GROWTH]
        if t > times[1]:
            if times[0] < times[1]:
                amplify(n, old, new, trail[_OLD_RATES], trail[_NEW_RATES], rtol, weights, growth, trail[_NEEDED])
            times[0] = times[1]
            for i in range(n):
                old[i], trail[_OLD_RATES, i] = new[i], trail[_NEW_RATES, i]
        times[1] = t
        for i in range(n):
            new[i], trail[_NEW_RATES, i] = y[i], out[0, i]
    return finite
