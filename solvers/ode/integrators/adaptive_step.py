r"""Trajectories by an adaptive one-step method, compiled once for every right-hand side.

The starting step and the controller are those of Hairer, Norsett and Wanner (Solving Ordinary Differential Equations I,
section II.4) as in SciPy's ``RK45`` and ``DOP853``: the same steps are taken. Stiffness is detected as in their codes
(Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.2, eq. (2.26)).
"""

from __future__ import annotations

import hashlib
import math
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import Jitted
from invsamp.solvers.ode.integrators.amplification import amplify
from invsamp.solvers.ode.integrators.dense_output import first_event, inside, is_finite, locate, value
from invsamp.solvers.ode.integrators.event_handling import (
    Events,
    approach,
    crosses,
    crossing,
    happen,
    inset,
    keep,
    leave,
    look_ahead,
    look_around,
)
from invsamp.solvers.ode.integrators.function_pointers import INNER, bound, call
from invsamp.solvers.ode.integrators.initial_step import DECADES, Stretch, first_step
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.trajectories import HEAD, Control, Course, Outcome

Array = npt.NDArray[np.float64]

SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.2, 10.0
OK, TOO_MANY_STEPS, NON_FINITE, STEP_TOO_SMALL, STOPPED = range(5)
STIFF, TOO_MANY_EVENTS = 6, 7
#: Events on the way to a failure from which on they are what it comes from, if there is one in so many steps.
_MANY_EVENTS, _STEPS_PER_EVENT = 100, 10
#: Steps in a row at the edge of stability that indicate stiffness, and within it that take the word back.
_STIFF_STEPS, _OTHER_STEPS = 15, 6
#: Every so many steps the edge of stability is looked for.
_LOOK_EVERY = 50
# rows of the work array
_Y, _NEXT, _K = 0, 1, 2
#: What `march` gives to the templates below, beside a method: whether there are pauses, and events or a stopping
#: function; what the method has.
_PAUSED = _EVENTFUL = _HAS_BEGIN = _HAS_FINISH = _HAS_EDGE = True
_order = _stages = _last = _rows = _powers = _extra = 0
_exponent = 0.0
_begin: Jitted = None
_attempt: Jitted = None
_interpolate: Jitted = None
_finish: Jitted = None
_edge: Jitted = None
_write: Jitted = None


class Scratch(NamedTuple):
    """Work arrays, used for one trajectory after the other: m components, e events."""

    work: Array  # (rows, m)
    q: Array  # (powers + 1, m)
    growth: Array  # (m,)
    one: Array  # (1, 1)
    rates: Array  # (`initial_step.DECADES`,)
    sides: Array  # (2, e)
    speeds: Array  # (2, e)
    space: Any  # the method's own


class Row(NamedTuple):
    """Arrays of one trajectory of n states and m components."""

    p: Array  # (q,)
    times: Array  # (n_times,), may end in NaN
    absolute: Array  # (m,)
    out: Array  # (n_times, m)
    peaks: Array  # (m,)
    needed: Array  # (n,)
    trail: Array  # (kept, HEAD + n)


def scratch_of(method: Stepper, control: Control, m: int, e: int) -> Scratch:
    """Arrays for one call of `march`. Compiled code would make them in the same time, and take long to compile it."""
    work, q = np.zeros((_K + method.rows, m)), np.zeros((method.powers + 1, m))
    growth, one, rates = np.empty(m), np.empty((1, 1)), np.empty(DECADES)
    return Scratch(work, q, growth, one, rates, np.empty((2, e)), np.empty((2, e)), method.workspace(control, m))


@cache
def march(method: Stepper, paused: bool, eventful: bool) -> Jitted:
    """Compiled ``march(rhs, parameters, initial, times, start, course, control, outcome, scratch, first, last)``.

    The trajectories of the rows from ``first`` to ``last`` by a method, written into ``outcome``. What happens at
    pauses, and at events or by a stopping function, is compiled where there are some: the latter with the former.

    A trajectory that is stiff and has more than ``control.patience`` steps of its size before it, or more than are
    left, is given up; never if it is negative.
    """
    kind = f"{method.name}{'_eventful' if eventful else '_paused' if paused else ''}_{_edition()}"
    scope: dict[str, object] = {"_PAUSED": paused, "_EVENTFUL": eventful}
    scope |= {f"_{name}": value for name, value in method._asdict().items()}
    scope |= {f"_HAS_{name.upper()}": getattr(method, name) is not None for name in ("begin", "finish", "edge")}
    for template in (_stretch, _march_rows):
        name = template.__name__
        outermost = template is _march_rows
        options: dict[str, bool | str] = {**({} if outermost else INNER), "nogil": True, "error_model": "numpy"}
        options["cache"] = outermost
        options["_nrt"] = False
        scope[name] = bound(template, scope, options, f"{name}_{kind}")
    return scope["_march_rows"]


@lru_cache(maxsize=1)
def _edition() -> str:
    """Changes with what the loop is compiled from: numba, which stores its code, looks at this file alone."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def _march_rows(
    rhs: int,
    parameters: Array,
    initial: Array,
    times_of_rows: Array,
    start: Array,
    course: Course,
    control: Control,
    outcome: Outcome,
    scratch: Scratch,
    first: int,
    last: int,
) -> None:
    m, n, stop, events = initial.shape[1], control.n_states, course.stop, course.events
    work, growth, sides, one = scratch.work, scratch.growth, scratch.sides, scratch.one
    y = work[_Y]
    for row in range(first, last):
        t, p, times = start[row], parameters[row], times_of_rows[0 if len(times_of_rows) == 1 else row]
        absolute, out, peaks, needed = (
            control.absolute[row],
            outcome.values[row],
            outcome.peaks[row],
            outcome.needed[row],
        )
        trail = control.trail[control.rows[row] if len(control.rows) > 0 else 0]
        own = Row(p, times, absolute, out, peaks, needed, trail)
        for i in range(m):
            y[i] = initial[row, i]
            peaks[i] = abs(y[i])
        for i in range(n):
            growth[i], needed[i] = 0.0, absolute[i]
        wanted = len(times)
        while wanted > 0 and math.isnan(times[wanted - 1]):
            wanted -= 1
        done = 0
        while done < wanted and times[done] <= t:
            for i in range(m):
                out[done, i] = y[i]
            done += 1
        status = OK if is_finite(y) and is_finite(p) else NON_FINITE
        evaluations = steps = pause = happened = 0
        side, fired, where = 0.0, -1, 0
        if _PAUSED:
            where = 0 if len(course.pauses) == 1 else row
            pauses = course.pauses[where]
            if len(pauses) > 0 and math.isnan(pauses[-1]):  # they are sorted: NaN comes last
                status = NON_FINITE
            while pause < len(pauses) and pauses[pause] < t:
                pause += 1
        if _EVENTFUL:
            side = value(stop, t, y, p, one)
            look_around(events, t, y, p, sides[0])
        while done < wanted and status == OK:
            # the right-hand side may switch at a pause: it is never asked for its value there
            lower, upper, target, changed = -math.inf, math.inf, times[wanted - 1], fired >= 0
            if _EVENTFUL and fired >= 0:
                # int(...) here and below: literals are types of their own, for which numba would compile once more
                more = happen(rhs, n, events, int(fired), t, p, sides, work)
                if more < 0:
                    status = TOO_MANY_EVENTS
                    break
                evaluations += more
                happened += 1
            if _PAUSED:
                while pause < len(pauses) and pauses[pause] == t:
                    lower, changed = t + inset(t), True
                    evaluations += leave(
                        rhs, n, events, course.which[where, pause], t, p, course.jumps[where, pause],
                        course.shifts[where, pause], sides, work,
                    )  # fmt: skip
                    pause += 1
            if (_PAUSED or _EVENTFUL) and changed:
                if not is_finite(y):
                    status = NON_FINITE
                    break
                if _EVENTFUL:
                    steps += int(len(events.roots) > 0)  # endless events reach the bound on steps
                    before = side
                    side = value(stop, t, y, p, one)
                    if crosses(before, side):
                        status = STOPPED
                        break
            if _PAUSED and pause < len(pauses) and pauses[pause] <= target:
                target = pauses[pause]
                upper = target - inset(target)
            status, done, evaluated, stepped, t, side, fired = _stretch(
                rhs, control, stop, events, own, scratch, wanted, done, t, target, lower, upper, side,
                control.max_steps - steps,
            )  # fmt: skip
            evaluations += evaluated
            steps += stepped
        lost = status == TOO_MANY_STEPS or status == STEP_TOO_SMALL  # numba compiles it sooner
        if lost and happened >= _MANY_EVENTS and happened * _STEPS_PER_EVENT >= steps:
            status = TOO_MANY_EVENTS
        for j in range(done if status == OK or status == STOPPED else 0, len(times)):  # noqa: SIM109
            for i in range(m):
                out[j, i] = math.nan
        outcome.status[row], outcome.evaluations[row], outcome.steps[row] = status, evaluations, steps
        outcome.ended[row] = t


def _stretch(
    rhs: int,
    control: Control,
    stop: int,
    events: Events,
    own: Row,
    scratch: Scratch,
    wanted: int,
    done: int,
    t: float,
    target: float,
    lower: float,
    upper: float,
    side: float,
    max_steps: int,
) -> tuple[int, int, int, int, float, float, int]:
    """From t to target without a pause, or to the first event on the way.

    Returns status, outputs done, evaluations, steps, time reached, side of ``stop``, and the event or -1. At an event
    y is that just after it, without what it changes, and the first stage holds the derivative just before it.
    """
    n, rtol, patience = control.n_states, control.rtol, control.patience
    p, times, absolute, out, peaks, needed, trail = own
    work, q, growth, one, rates, sides, speeds, space = scratch
    y, z, k = work[_Y], work[_NEXT], work[_K:]
    call(rhs, min(max(t, lower), upper), y, p, k, 0)
    if not is_finite(k[0]):
        return NON_FINITE, done, 1, 0, t, side, -1
    step = first_step(_order, Stretch(rhs, n, p, t, target, lower, upper, rtol, absolute), y, z, k, rates)
    evaluations, steps, rejected, before_it = 2, 0, False, control.max_steps - max_steps
    stiff = other = 0
    if _EVENTFUL:
        look_ahead(events, n, t, y, k[0], p, speeds[0])
    while t < target:
        if steps >= max_steps:
            return STIFF if stiff >= _STIFF_STEPS else TOO_MANY_STEPS, done, evaluations, steps, t, side, -1
        least = 10 * (np.nextafter(t, math.inf) - t)
        if not rejected:
            if _HAS_BEGIN:
                step = min(step, _begin(rhs, control, absolute, t, lower, upper, y, p, k, q, space))
            step = max(step, least)
        t_new = min(t + min(step, control.max_step), target)
        h = t_new - t
        error = _attempt(rhs, control, absolute, t, h, lower, upper, y, p, k, z, q, space)
        evaluations += _stages
        if not error < 1:
            step = h * (max(LEAST_FACTOR, SAFETY * error**_exponent) if error < math.inf else LEAST_FACTOR)
            rejected = True
            if step < least:
                return STEP_TOO_SMALL if error < math.inf else NON_FINITE, done, evaluations, steps, t, side, -1
            continue
        for i in range(n, len(y)):
            if not math.isfinite(z[i]):
                return NON_FINITE, done, evaluations, steps, t, side, -1
        if steps + before_it < len(trail):
            kept = trail[steps + before_it]
            kept[0], kept[1], kept[2], kept[3] = t, h, lower, upper
            for i in range(n):
                kept[HEAD + i] = y[i]
        if _HAS_FINISH:
            _finish(n, h, k, q)
        last, status, before, interpolated, fired, low, high = t_new, OK, side, False, -1, 0.0, 1.0
        if _EVENTFUL:
            side = value(stop, t_new, z, p, one)
            look_around(events, t_new, z, p, sides[1])
            look_ahead(events, n, t_new, z, k[_last], p, speeds[1])
            stopped = crosses(before, side)
            happens = crossing(events, sides[0], sides[1]) >= 0 or approach(h, sides, speeds)
            if stopped or happens:
                _interpolate(rhs, control, t, h, lower, upper, y, p, k, z, q, space)
                evaluations += _extra
                interpolated = True
                if stopped:
                    last, status = locate(_powers, stop, n, t, h, before, p, work, q, one), STOPPED
                if happens:
                    fired, low, high = first_event(_powers, n, events, t, h, p, sides, speeds, work, q)
                    if fired >= 0 and t + high * h <= last:
                        last, status, side = t + high * h, OK, before
                    else:
                        fired = -1
        first = done
        while done < wanted and times[done] <= last:
            done += 1
        if done > first:
            if not interpolated:
                evaluations += _extra
            _write(
                rhs, control, absolute, first, done, t, h, lower, upper, times, y, p, k, z, q, space, out, interpolated
            )  # fmt: skip
        steps += 1
        if _EVENTFUL:
            if fired >= 0:
                inside(_powers, n, low, y, q, z)
                call(rhs, min(max(t + low * h, lower), upper), z, p, k, 0)
                inside(_powers, len(y), high, y, q, z)
                for i in range(len(y)):
                    y[i] = z[i]
                    peaks[i] = max(peaks[i], abs(z[i]))
                return OK, done, evaluations + 1, steps, last, side, fired
            keep(sides)
            keep(speeds)
            if status == STOPPED:
                return status, done, evaluations, steps, last, side, -1
        if _HAS_EDGE and (stiff > 0 or steps % _LOOK_EVERY == 0):
            if _edge(control, h, y, z, k, q, space) > 1:
                stiff, other = stiff + 1, 0
            elif stiff == 0 or other + 1 >= _OTHER_STEPS:
                stiff = other = 0
            else:
                other += 1
            left = patience if patience < max_steps - steps else max_steps - steps
            if patience >= 0 and stiff >= _STIFF_STEPS and target - t_new > left * h:
                return STIFF, done, evaluations, steps, t_new, side, -1
        if len(y) == n or control.states_lead:  # where sensitivities come later, tolerances are known
            amplify(n, y, z, k[0], k[_last], rtol, absolute, growth, needed)
        factor = MOST_FACTOR if error == 0 else min(MOST_FACTOR, SAFETY * error**_exponent)
        step = h * (min(factor, 1.0) if rejected else factor)
        rejected = False
        t = t_new
        for i in range(len(y)):
            y[i] = z[i]
            peaks[i] = max(peaks[i], abs(z[i]))
            k[0, i] = k[_last, i]
    return OK, done, evaluations, steps, t, side, -1
