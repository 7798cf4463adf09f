r"""One trajectory by an adaptive pair of Dormand and Prince or by Rodas5P, compiled once for every right-hand side.

The starting step and the controller are those of Hairer, Norsett and Wanner (Solving Ordinary Differential Equations I,
section II.4) as in SciPy's ``RK45`` and ``DOP853``: the same steps are taken. Stiffness is told as in their codes
(Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.2, eq. (2.26)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.integrators.amplification import amplify
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
    turning,
)
from invsamp.solvers.ode.integrators.explicit_rk import error_norm, step
from invsamp.solvers.ode.integrators.function_pointers import INNER, call
from invsamp.solvers.ode.integrators.initial_step import Stretch, first_step
from invsamp.solvers.ode.integrators.rosenbrock import (
    Workspace,
    attempt,
    interpolate,
    interpolation_errors,
    linearize,
    weighted_errors,
    workspace,
)
from invsamp.solvers.ode.integrators.tableau_dormand_prince import EIGHT, FIVE
from invsamp.solvers.ode.integrators.tableau_rodas5p import STAGES
from invsamp.solvers.ode.integrators.trajectories import Control, Course, Outcome

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.2, 10.0
OK, TOO_MANY_STEPS, NON_FINITE, STEP_TOO_SMALL, STOPPED = range(5)
STIFF, TOO_MANY_EVENTS = 6, 7
#: Events on the way to a failure from which on they are what it comes from, if there is one in so many steps.
_MANY_EVENTS, _STEPS_PER_EVENT = 100, 10
#: Steps in a row at the edge of stability that tell stiffness, and within it that take the word back.
_STIFF_STEPS, _OTHER_STEPS = 15, 6
#: How far on either side of an event, in parts of a step, the right-hand side is asked: it may switch there.
_ASIDE = 1e-12
#: How often an interval is halved in which an event's function may pass zero and turn back.
_HALVINGS = 40
#: Every so many steps the edge of stability is looked for.
_LOOK_EVERY = 50
# rows of the work array
_Y, _NEXT, _K, _Q, _SCRATCH, _GROWTH, _ROWS = 0, 1, 2, 18, 25, 26, 27
#: Within those of the interpolant: the first after that of Rodas5P.
_SQUARES = 4

_attempt5, _errors5, _interpolate5, _write5, _before_last5 = step(FIVE)
_attempt8, _errors8, _interpolate8, _write8, _before_last8 = step(EIGHT)
_LAST5, _LAST8 = len(FIVE.stages) - 1, len(EIGHT.stages) - 1
_POWERS5, _POWERS8 = len(FIVE.interpolant), len(EIGHT.interpolant)
_EXTRA8 = len(EIGHT.extra_stages)
_STABLE5, _STABLE8 = FIVE.most_stable, EIGHT.most_stable


class Row(NamedTuple):
    """Arrays of one trajectory of n states and m components."""

    p: Array  # (q,)
    times: Array  # (n_times,), may end in NaN
    absolute: Array  # (m,)
    out: Array  # (n_times, m)
    peaks: Array  # (m,)
    needed: Array  # (n,)
    work: Array  # (rows, m)
    space: Workspace


@njit(cache=True, nogil=True, error_model="numpy")
def march_rows(
    order: int,
    rhs: int,
    parameters: Array,
    initial: Array,
    times: Array,
    start: Array,
    course: Course,
    control: Control,
    outcome: Outcome,
    first: int,
    last: int,
) -> None:
    """The trajectories of the rows from ``first`` to ``last``, written into ``outcome``.

    By the pair of this order, 5 or 8, or by Rodas5P where there are functions in ``control.linear``. A trajectory that
    is stiff and has more than ``control.patience`` steps of its size before it, or more than are left, is given up;
    never if it is negative.
    """
    m = initial.shape[1]
    work, space = np.empty((_ROWS, m)), workspace(control.n_states, m if control.linear.jacobian != 0 else 0)
    for row in range(first, last):
        t = times[0] if len(times) == 1 else times[row]
        own = Row(
            parameters[row], t, control.absolute[row], outcome.values[row], outcome.peaks[row], outcome.needed[row],
            work, space,
        )  # fmt: skip
        k = 0 if len(course.pauses) == 1 else row
        outcome.status[row], outcome.evaluations[row], outcome.steps[row], outcome.ended[row] = _trajectory(
            order, rhs, initial[row], start[row], k, course, control, own
        )


# Both are inlined by numba: LLVM would get their code again with every caller's, and optimize it each time.
@njit(**INNER, inline="always")
def _trajectory(
    order: int, rhs: int, initial: Array, t: float, row: int, course: Course, control: Control, own: Row
) -> tuple[int, int, int, float]:
    """One trajectory, restarted at every pause and event: (status, evaluations, steps, time reached)."""
    n, p, times, out, peaks, work = control.n_states, own.p, own.times, own.out, own.peaks, own.work
    pauses, stop, events = course.pauses[row], course.stop, course.events
    y = work[_Y]
    for i in range(len(y)):
        y[i] = initial[i]
        peaks[i] = abs(initial[i])
    for i in range(n):
        work[_GROWTH, i], own.needed[i] = 0.0, own.absolute[i]
    wanted = len(times)
    while wanted > 0 and math.isnan(times[wanted - 1]):
        wanted -= 1
    done = 0
    while done < wanted and times[done] <= t:
        for i in range(len(y)):
            out[done, i] = y[i]
        done += 1
    status = OK if _is_finite(y) and _is_finite(p) else NON_FINITE
    evaluations = steps = pause = happened = 0
    if len(pauses) > 0 and math.isnan(pauses[-1]):  # they are sorted: NaN comes last
        status = NON_FINITE
    while pause < len(pauses) and pauses[pause] < t:
        pause += 1
    side = 0.0 if stop == 0 else _value(stop, t, y, p, work)
    sides, fired = np.empty((2, len(events.roots))), -1
    look_around(events, t, y, p, sides[0])
    while done < wanted and status == OK:
        # the right-hand side may switch at a pause: it is never asked for its value there
        lower, upper, target, changed = -math.inf, math.inf, times[wanted - 1], fired >= 0
        if fired >= 0:
            # int(...) here and below: literals are types of their own, for which numba would compile once more
            more = happen(rhs, n, events, int(fired), t, p, sides, work)
            if more < 0:
                status = TOO_MANY_EVENTS
                break
            evaluations += more
            happened += 1
        while pause < len(pauses) and pauses[pause] == t:
            lower, changed = t + inset(t), True
            evaluations += leave(
                rhs, n, events, course.which[row, pause], t, p, course.jumps[row, pause], course.shifts[row, pause],
                sides, work,
            )  # fmt: skip
            pause += 1
        if changed:
            steps += int(len(events.roots) > 0)  # events without end come to the bound on steps
            if not _is_finite(y):
                status = NON_FINITE
                break
            if stop != 0:
                before = side
                side = _value(stop, t, y, p, work)
                if crosses(before, side):
                    status = STOPPED
                    break
        if pause < len(pauses) and pauses[pause] <= target:
            target = pauses[pause]
            upper = target - inset(target)
        status, done, evaluated, stepped, t, side, fired = _stretch(
            order, rhs, control, stop, events, own, wanted, done, t, target, lower, upper, side, sides,
            control.max_steps - steps,
        )  # fmt: skip
        evaluations += evaluated
        steps += stepped
    lost = status in (TOO_MANY_STEPS, STEP_TOO_SMALL)
    if lost and happened >= _MANY_EVENTS and happened * _STEPS_PER_EVENT >= steps:
        status = TOO_MANY_EVENTS
    for row in range(done if status == OK or status == STOPPED else 0, len(times)):  # noqa: SIM109
        for i in range(len(y)):
            out[row, i] = math.nan
    return status, evaluations, steps, t


@njit(**INNER, inline="always")
def _stretch(
    order: int,
    rhs: int,
    control: Control,
    stop: int,
    events: Events,
    own: Row,
    wanted: int,
    done: int,
    t: float,
    target: float,
    lower: float,
    upper: float,
    side: float,
    sides: Array,
    max_steps: int,
) -> tuple[int, int, int, int, float, float, int]:
    """From t to target without a pause, or to the first event on the way.

    Returns status, outputs done, evaluations, steps, time reached, side of ``stop``, and the event or -1. At an event
    y is that just after it, without what it changes, and the first stage holds the derivative just before it.
    """
    n, linear, rtol, weight, patience = (
        control.n_states, control.linear, control.rtol, control.weight, control.patience
    )  # fmt: skip
    p, times, absolute, out, peaks, work, space = (
        own.p, own.times, own.absolute, own.out, own.peaks, own.work, own.space
    )  # fmt: skip
    y, z, k, q = work[_Y], work[_NEXT], work[_K:_Q], work[_Q:_SCRATCH]
    implicit = linear.jacobian != 0
    stages, exponent = (_LAST5, -1 / 5) if order == 5 else (_LAST8, -1 / 8)
    if implicit:
        stages = STAGES
    call(rhs, min(max(t, lower), upper), y, p, k, 0)
    if not _is_finite(k[0]):
        return NON_FINITE, done, 1, 0, t, side, -1
    step = first_step(order, Stretch(rhs, n, p, t, target, lower, upper, rtol, absolute), y, z, k)
    evaluations, steps, rejected = 2, 0, False
    stiff = other = 0
    speeds = np.empty((2, len(events.roots)))
    look_ahead(events, n, t, y, k[0], p, speeds[0])
    while t < target:
        if steps >= max_steps:
            return STIFF if stiff >= _STIFF_STEPS else TOO_MANY_STEPS, done, evaluations, steps, t, side, -1
        least = 10 * (np.nextafter(t, math.inf) - t)
        if not rejected:
            step = max(step, least)
        t_new = min(t + min(step, control.max_step), target)
        h = t_new - t
        if implicit:
            if not rejected:
                linearize(linear, n, min(max(t, lower), upper), y, p, space)
            attempt(rhs, linear, n, t, h, lower, upper, y, p, k, z, space)
            weighted_errors(y, z, k[STAGES - 1], rtol, absolute, q[_SQUARES:])
            error = error_norm(1, n, h, len(absolute), weight, q[_SQUARES:])
            if error < 1:
                interpolate(y, z, k, q)
                within = interpolation_errors(rhs, linear, n, t, h, lower, upper, y, p, k, q, space)
                weighted_errors(y, z, within, rtol, absolute, q[_SQUARES:])
                error = max(error, error_norm(1, n, h, len(absolute), weight, q[_SQUARES:]))
        elif order == 5:
            _attempt5(rhs, t, h, lower, upper, y, p, k, z)
            _errors5(h, y, z, k, rtol, absolute, q)
            error = error_norm(1, n, h, len(absolute), weight, q)
        else:
            _attempt8(rhs, t, h, lower, upper, y, p, k, z)
            _errors8(h, y, z, k, rtol, absolute, q)
            error = error_norm(2, n, h, len(absolute), weight, q)
        evaluations += stages
        if not error < 1:
            step = h * (max(LEAST_FACTOR, SAFETY * error**exponent) if error < math.inf else LEAST_FACTOR)
            rejected = True
            if step < least:
                return STEP_TOO_SMALL if error < math.inf else NON_FINITE, done, evaluations, steps, t, side, -1
            continue
        for i in range(n, len(y)):
            if not math.isfinite(z[i]):
                return NON_FINITE, done, evaluations, steps, t, side, -1
        last, status, before, interpolated = t_new, OK, side, False
        if stop != 0:
            side = _value(stop, t_new, z, p, work)
            if crosses(before, side):
                evaluations += _interpolate(order, implicit, rhs, t, h, lower, upper, p, work)
                interpolated = True
                last, status = _locate(order, stop, n, t, h, before, p, work), STOPPED
        fired, low, high = -1, 0.0, 1.0
        if len(events.roots) > 0:
            look_around(events, t_new, z, p, sides[1])
            look_ahead(events, n, t_new, z, k[stages], p, speeds[1])
            if crossing(events, sides[0], sides[1]) >= 0 or approach(h, sides, speeds):
                if not interpolated:
                    evaluations += _interpolate(order, implicit, rhs, t, h, lower, upper, p, work)
                    interpolated = True
                fired, low, high = _first_event(order, n, events, t, h, p, sides, speeds, work)
                if fired >= 0 and t + high * h <= last:
                    last, status, side = t + high * h, OK, before
                else:
                    fired = -1
        first = done
        while done < wanted and times[done] <= last:
            done += 1
        if done > first:
            if not interpolated:
                evaluations += _interpolate(order, implicit, rhs, t, h, lower, upper, p, work)
            if order == 5:
                _write5(first, done, t, h, times, y, q, out)
            else:
                _write8(first, done, t, h, times, y, q, out)
        steps += 1
        if fired >= 0:
            _inside(order, n, low, work, z)
            call(rhs, min(max(t + low * h, lower), upper), z, p, k, 0)
            _inside(order, len(y), high, work, z)
            for i in range(len(y)):
                y[i] = z[i]
                peaks[i] = max(peaks[i], abs(z[i]))
            return OK, done, evaluations + 1, steps, last, side, fired
        keep(sides)
        keep(speeds)
        if status == STOPPED:
            return status, done, evaluations, steps, last, side, -1
        if not implicit and (stiff > 0 or steps % _LOOK_EVERY == 0):
            stiff, other = _look(order, n, len(absolute), h, int(stiff), int(other), work)
            left = min(max_steps - steps, patience)
            if patience >= 0 and stiff >= _STIFF_STEPS and target - t_new > left * h:
                return STIFF, done, evaluations, steps, t_new, side, -1
        if len(y) == n:  # with sensitivities, tolerances are known
            if implicit:
                _last_rates(n, h, q, work[_SCRATCH])
                amplify(n, y, z, space.slopes[0], work[_SCRATCH], rtol, absolute, work[_GROWTH], own.needed)
            else:
                amplify(n, y, z, k[0], k[stages], rtol, absolute, work[_GROWTH], own.needed)
        factor = MOST_FACTOR if error == 0 else min(MOST_FACTOR, SAFETY * error**exponent)
        step = h * (min(factor, 1.0) if rejected else factor)
        rejected = False
        t = t_new
        for i in range(len(y)):
            y[i] = z[i]
            peaks[i] = max(peaks[i], abs(z[i]))
            k[0, i] = k[stages, i]
    return OK, done, evaluations, steps, t, side, -1


@njit(**INNER)
def _interpolate(
    order: int, implicit: bool, rhs: int, t: float, h: float, lower: float, upper: float, p: Array, work: Array
) -> int:
    """Write the coefficients of the step's interpolant to the work array; evaluations that it takes."""
    y, k, q = work[_Y], work[_K:_Q], work[_Q:_SCRATCH]
    if implicit:  # they are there already
        return 0
    if order == 5:
        _interpolate5(rhs, t, h, lower, upper, y, p, k, q)
        return 0
    _interpolate8(rhs, t, h, lower, upper, y, p, k, q)
    return _EXTRA8


@njit(**INNER)
def _last_rates(n: int, h: float, q: Array, rates: Array) -> None:
    """Rates of change (n,) at the end of a step of Rodas5P, by its interpolant."""
    for i in range(n):
        rates[i] = (q[0, i] + 2.0 * q[1, i] + 3.0 * q[2, i] + 4.0 * q[3, i]) / h


@njit(**INNER)
def _look(order: int, n: int, count: int, h: float, stiff: int, other: int, work: Array) -> tuple[int, int]:
    """Steps at the edge of stability, in a row but for ``other``: h |lambda| from the last two stages of a step.

    From the states, or where they rest from the sensitivities, which have the same Jacobian.
    """
    y, z, k, q = work[_Y], work[_NEXT], work[_K:_Q], work[_Q:_SCRATCH]
    if order == 5:
        stages, bound = _LAST5, _STABLE5
        _before_last5(h, y, k, q[0])
    else:
        stages, bound = _LAST8, _STABLE8
        _before_last8(h, y, k, q[0])
    above = below = 0.0
    for i in range(count):
        if i == n and below > 0.0:
            break
        above += (k[stages, i] - k[stages - 1, i]) ** 2
        below += (z[i] - q[0, i]) ** 2
    if below > 0.0 and h * math.sqrt(above / below) > bound:
        return stiff + 1, 0
    if stiff == 0 or other + 1 >= _OTHER_STEPS:
        return 0, 0
    return stiff, other + 1


@njit(**INNER)
def _is_finite(values: Array) -> bool:
    finite = True
    for i in range(len(values)):
        finite = finite and math.isfinite(values[i])
    return finite


@njit(**INNER)
def _value(stop: int, t: float, y: Array, p: Array, work: Array) -> float:
    scratch = work[_SCRATCH:]
    call(stop, t, y, p, scratch, 0)
    return scratch[0, 0]


@njit(**INNER)
def _locate(order: int, stop: int, n: int, t: float, h: float, before: float, p: Array, work: Array) -> float:
    """Time within the step at which the stopping function changes its sign on the interpolant, by bisection."""
    z = work[_NEXT]
    low, high = 0.0, 1.0
    for _ in range(54):
        x = (low + high) / 2
        _inside(order, n, x, work, z)
        if crosses(before, _value(stop, t + x * h, z, p, work)):
            high = x
        else:
            low = x
    return t + high * h


@njit(**INNER)
def _first_event(
    order: int, n: int, events: Events, t: float, h: float, p: Array, sides: Array, speeds: Array, work: Array
) -> tuple[int, float, float]:
    """The first event within the step, and the parts of the step just before and just after it; -1 if there is none.

    By bisection of the first part of the step at whose end a function has another sign than before: parts end where
    one turns back that has passed zero, and with the step.
    """
    z, kept, here = work[_NEXT], work[_NEXT].copy(), np.empty(len(events.roots))
    turns = _turns(order, n, events, t, h, p, sides, speeds, work)
    low, high, fired = 0.0, 1.0, -1
    while fired < 0:
        first = int(np.argmin(turns))
        high = min(turns[first], 1.0)
        turns[first] = math.inf
        if high < 1.0:
            _inside(order, n, high, work, z)
            look_around(events, t + high * h, z, p, here)
        else:
            for e in range(len(here)):
                here[e] = sides[1, e]
        fired = crossing(events, sides[0], here)
        if fired < 0:
            for e in range(len(here)):
                sides[0, e] = here[e]
            low = high
            if high >= 1.0:
                break
    for _ in range(54 if fired >= 0 else 0):
        x = (low + high) / 2
        _inside(order, n, x, work, z)
        look_around(events, t + x * h, z, p, here)
        crossed = crossing(events, sides[0], here)
        if crossed >= 0:
            high, fired = x, crossed
        else:
            low = x
    # steps may have become so short before a jump that such a part of one is no other state
    aside, before = max(_ASIDE, inset(t) / abs(h)), 0.0
    while fired >= 0 and aside < 1 and (before == 0 or here[fired] == 0):
        _inside(order, n, max(low - aside, 0.0), work, z)
        look_around(events, t + low * h, z, p, here)
        before = here[fired]
        _inside(order, n, min(high + aside, 1.0), work, z)
        look_around(events, t + high * h, z, p, here)
        low, high, aside = max(low - aside, 0.0), min(high + aside, 1.0), 8 * aside
    for i in range(len(z)):
        z[i] = kept[i]
    return fired, low, high


@njit(**INNER)
def _turns(
    order: int, n: int, events: Events, t: float, h: float, p: Array, sides: Array, speeds: Array, work: Array
) -> Array:
    """The part of the step at which each function turns back after it has passed zero, infinite where none does.

    The extremum of the interpolant is where its speed changes sign, between those of a cubic with the step's ends.
    """
    turns, here, z = np.full(len(events.roots), math.inf), np.empty((2, len(events.roots))), work[_NEXT]
    slope = np.empty(n)
    for e in range(len(turns)):
        low, high = turning(h, sides[0, e], sides[1, e], speeds[0, e], speeds[1, e])
        for _ in range(_HALVINGS if low < high else 0):
            x = (low + high) / 2
            _inside(order, n, x, work, z)
            _slope_inside(order, n, x, h, work, slope)
            look_around(events, t + x * h, z, p, here[0])
            if crosses(sides[0, e], here[0, e]):
                turns[e] = x
                break
            look_ahead(events, n, t + x * h, z, slope, p, here[1])
            if here[1, e] * sides[0, e] > 0:
                high = x
            else:
                low = x
    return turns


@njit(**INNER)
def _inside(order: int, count: int, x: float, work: Array, z: Array) -> None:
    """The first components at a part x of the step, on the interpolant, to z."""
    y, q = work[_Y], work[_Q:_SCRATCH]
    powers = _POWERS5 if order == 5 else _POWERS8
    for i in range(count):
        value = q[powers - 1, i]
        for r in range(powers - 2, -1, -1):
            value = q[r, i] + x * value
        z[i] = y[i] + x * value


@njit(**INNER)
def _slope_inside(order: int, count: int, x: float, h: float, work: Array, slope: Array) -> None:
    """Derivatives by time of the first components at a part x of the step, on the interpolant."""
    q = work[_Q:_SCRATCH]
    powers = _POWERS5 if order == 5 else _POWERS8
    for i in range(count):
        value = powers * q[powers - 1, i]
        for r in range(powers - 2, -1, -1):
            value = (r + 1) * q[r, i] + x * value
        slope[i] = value / h
