"""Trajectories that an integrator of another package makes, which is restarted at every pause.

What is promised of every method is kept here: bounds on steps and evaluations, values that are finite, and the
amplification of errors. A package adds the integration of one stretch without a pause: `RestartedTrajectory.solved`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
from numba import njit

from invsamp.solvers.ode.integrators.amplification import amplify
from invsamp.solvers.ode.integrators.event_handling import inset, leave
from invsamp.solvers.ode.integrators.function_pointers import call
from invsamp.solvers.ode.integrators.initial_step import Stretch, longest_first_step
from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.integrators.trajectories import Array, Control, Course, Outcome

#: An integrator shortens its step after a bad value of the right-hand side, also where there are only such.
_PATIENCE = 200
#: Evaluations per step, beside those for Jacobians: the corrector takes at most three, and fails at most ten times.
_MOST_PER_STEP = 40


#: Rows of what is known of the way: see `follow`.
_PEAKS, _WEIGHTS, _NEEDED, _GROWTH, TIMES, _OLD, _OLD_RATES, _NEW, _NEW_RATES = range(9)


class GaveUp(Exception):
    """Raised within an integrator to get out of it, after the status is set."""


class Piece(NamedTuple):
    """A stretch without a pause, for an integrator of another package."""

    flat: Callable[[float, Array], Array]  # the right-hand side; its array is overwritten by the next call
    y: Array  # (m,), at the beginning
    nodes: Array  # (k,), the beginning, output times and the end
    lower: float  # bounds between which the right-hand side may be asked
    upper: float
    critical: bool  # whether no step may go beyond the end
    first_step: float  # at most; 0: any
    budget: int  # of accepted steps


class Solved(NamedTuple):
    """The result of an integrator for a `Piece`."""

    values: Array  # (k, m), at the nodes, if it succeeded
    steps: int
    succeeded: bool
    exhausted: bool  # whether it ran out of steps


class RestartedTrajectory(ABC):
    """One trajectory, restarted at every pause."""

    def __init__(self, rhs: int, p: Array, course: Course, control: Control, absolute: Array, y: Array) -> None:
        self.rhs, self.p, self.course, self.control = rhs, p, course, control
        self.rtol = np.full(len(y), control.rtol)
        self.weights = absolute.copy()
        for tolerances in (self.rtol, self.weights):
            tolerances[control.n_states :] /= control.weight
        self.trail = np.zeros((9, max(len(y), 3)))
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

    @abstractmethod
    def solved(self, piece: Piece) -> Solved:
        """A stretch by the package's integrator; it may raise `GaveUp`, after it has set the status."""

    @classmethod
    @abstractmethod
    def alone(cls) -> AbstractContextManager[object]:
        """Within it the integrator may be called."""

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
        self.trail[TIMES] = math.nan  # states or rates may have jumped: nothing is compared with what came before
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
            values, steps, succeeded, exhausted = self.solved(
                Piece(flat, y, nodes, lower, upper, critical, most if most < math.inf else 0.0, budget)
            )
        except GaveUp:
            return None
        self.steps += steps
        if exhausted or self.steps > max_steps:
            self.status = Status.TOO_MANY_STEPS
        # a package may call values that are not finite a success; SciPy 1.15 and older, steps past such rates, too
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

    def _guarded(self, m: int, lower: float, upper: float, most: int) -> Callable[[float, Array], Array]:
        """The right-hand side as the package needs it; leaves it if it does not end or is not finite."""
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
                    raise GaveUp
            if self.evaluations > limit:
                self.status = Status.TOO_MANY_STEPS
                raise GaveUp
            return row

        return flat


def by_rows(
    kind: type[RestartedTrajectory],
    rhs: int,
    parameters: Array,
    initial: Array,
    times: Array,
    start: Array,
    course: Course,
    control: Control,
) -> Outcome:
    """A batch of trajectories, row by row; arguments as of `.batch.integrate`, without a stopping function."""
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
    with kind.alone(), np.errstate(all="ignore"):
        for row in range(batch):
            wanted = times[row if len(times) > 1 else 0]
            wanted = wanted[np.isfinite(wanted)]
            p = np.ascontiguousarray(parameters[row], dtype=float)
            own, y = course.of_rows(np.array([row])), initial[row].astype(float)
            trajectory = kind(rhs, p, own, control, control.absolute[row], y)
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
    """As `evaluate` in the course of steps, with the amplification of errors in the first n components.

    The last evaluation ends a step as soon as one comes later; others are trials. In the rows of ``trail`` are peaks,
    what `amplify` takes and updates, the times of the last step and of the last evaluation with the number of steps
    before them, their states and rates.
    """
    finite = evaluate(rhs, t, lower, upper, y, p, trail[_PEAKS], out)
    if finite:
        times, old, new, weights, growth = trail[TIMES], trail[_OLD], trail[_NEW], trail[_WEIGHTS], trail[_GROWTH]
        if t > times[1]:
            if times[0] < times[1]:
                times[2] += 1.0
                amplify(n, old, new, trail[_OLD_RATES], trail[_NEW_RATES], rtol, weights, growth, trail[_NEEDED])
            times[0] = times[1]
            for i in range(n):
                old[i], trail[_OLD_RATES, i] = new[i], trail[_NEW_RATES, i]
        times[1] = t
        for i in range(n):
            new[i], trail[_NEW_RATES, i] = y[i], out[0, i]
    return finite
