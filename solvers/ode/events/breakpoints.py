r"""Times at which an integration pauses because of what a right-hand side does by itself: switches and pulses.

Conditions of time and parameters change at times that are found to rounding, by bisection of intervals in which they
are not certain. Their derivatives by the parameters are :math:`-g_p / g_t`, with g what crosses zero there.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.events.explicit_time import ExplicitTime
from invsamp.solvers.ode.events.interval_arithmetic import Operations, Scan, enclose
from invsamp.solvers.ode.events.pulses import MOST_INTERVALS, add_pulse
from invsamp.solvers.ode.integrators.event_handling import inset
from invsamp.solvers.ode.integrators.function_pointers import INNER
from invsamp.solvers.ode.integrators.trajectories import Course

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: The shortest interval in which a condition is bounded, as part of the horizon.
_SHORTEST = 1e-13
#: Intervals in which one condition is bounded: at least, and per possible pause.
_LOOKS, _PER_PAUSE = 4096, 64
#: Pauses of a trajectory that there is room for at first.
_ROOM = 8


def with_own_breakpoints(
    course: Course, found: ExplicitTime, p: Array, start: Array, times: Array, most: int, own: tuple[int, ...]
) -> Course:
    """A course with pauses where the right-hand side switches, and before and after its pulses.

    Parameters
    ----------
    course : Course
    found : ExplicitTime
        What depends on time.
    p, start, times : arrays
        Parameters (batch, q), initial times (batch,), output times (1 or batch, n_times).
    most : int
        Pauses of one trajectory at most.
    own : tuple of int
        The parameters by which the states are differentiated.
    """
    rows, columns = len(p), course.shifts.shape[2]
    if not len(found.switches) and not len(found.pulses):
        return course
    ends = np.broadcast_to(np.fmax.reduce(times, axis=1), rows).astype(float)
    room = min(_ROOM, most)
    while True:
        pauses, shifts = np.full((rows, room), math.inf), np.zeros((rows, room, p.shape[1] if columns else 0))
        counts = np.zeros(rows, dtype=np.int64)
        _locate_rows(
            found.operations, found.switches, found.separated, found.pulses, np.ascontiguousarray(p), start, ends,
            course.pauses, course.shifts, pauses, shifts, counts,
        )  # fmt: skip
        if room == most or counts.max(initial=0) < room:
            break
        room = min(8 * room, most)
    if not (count := int(counts.max(initial=0))):
        return course
    jumps, moved = np.zeros((rows, count, course.jumps.shape[2])), np.zeros((rows, count, columns))
    if columns:
        moved[:, :, : len(own)] = shifts[:, :count, list(own)]
    return course.with_pauses(pauses[:, :count], jumps, moved, np.array(-1))


@njit(cache=True, nogil=True, error_model="numpy")
def _locate_rows(
    operations: Operations,
    switches: Integers,
    separated: int,
    pulses: Integers,
    p: Array,
    start: Array,
    ends: Array,
    given: Array,
    given_shifts: Array,
    pauses: Array,
    shifts: Array,
    counts: Integers,
) -> None:
    """Pauses (rows, room) of each trajectory in order, infinite after the last, and their derivatives by p."""
    bounds = np.empty((len(operations.codes), 3))
    space = np.empty((MOST_INTERVALS, 3))
    for row in range(len(p)):
        if not start[row] < ends[row] < math.inf or not np.isfinite(p[row]).all():
            continue
        scan, count = Scan(operations, p[row], bounds), 0
        for s in range(len(switches)):
            count = _switch(
                scan, switches[s], s < separated, start[row], ends[row], space, pauses[row], shifts[row], count
            )
        for s in range(len(pulses)):
            count = add_pulse(scan, pulses[s], start[row], ends[row], space, pauses[row], count)
        k = 0 if len(given) == 1 else row
        counts[row] = _in_order(pauses[row], shifts[row], count, given[k], given_shifts[k])


@njit(**INNER)
def _switch(
    scan: Scan,
    switch: Integers,
    separates: bool,
    start: float,
    end: float,
    stack: Array,
    pauses: Array,
    shifts: Array,
    count: int,
) -> int:
    """Add the times at which a condition changes, or times between them; how many pauses there are then."""
    place, level, slope, bounds = switch[0], switch[1], switch[2], scan.bounds
    looks, before, height = 0, math.nan, 1
    stack[0, 0], stack[0, 1] = start, end
    while height > 0 and count < len(pauses):
        height -= 1
        low, high = stack[height, 0], stack[height, 1]
        enclose(scan, low, high)
        looks += 1
        if bounds[place, 0] == bounds[place, 1]:
            continue
        once = slope >= 0 and bounds[level, 2] == 1.0 and (bounds[slope, 0] > 0.0 or bounds[slope, 1] < 0.0)
        middle = 0.5 * (low + high)
        at_low, of_low = _value(scan, low, place, level)
        at_high, of_high = _value(scan, high, place, level)
        once = once and abs(at_high - at_low) <= 1.0
        short = high - low <= _SHORTEST * (end - start) or not low < middle < high
        if not once and not short and looks < max(_LOOKS, _PER_PAUSE * len(pauses)) and height + 2 <= len(stack):
            stack[height, 0], stack[height, 1] = middle, high
            stack[height + 1, 0], stack[height + 1, 1] = low, middle
            height += 2
        elif at_low != at_high:
            time = _crossing(scan, place, level, low, high, at_low, at_high, of_low, of_high)
            aside = inset(time)
            enclose(scan, time - aside, time + aside)
            if bounds[level, 2] == 0.0:  # by another one's jump, which is found there
                continue
            if separates:
                if before < time:
                    pauses[count] = 0.5 * (before + time)
                    count += 1
                before = time
                continue
            enclose(scan, time, time)
            pauses[count] = time
            for j in range(len(shifts[count])):
                by = switch[3 + j]
                steep = slope >= 0 and by >= 0 and bounds[slope, 0] != 0.0
                shifts[count, j] = -bounds[by, 0] / bounds[slope, 0] if steep else 0.0
            count += 1
    return count


@njit(**INNER)
def _value(scan: Scan, t: float, place: int, level: int) -> tuple[float, float]:
    enclose(scan, t, t)
    return scan.bounds[place, 0], scan.bounds[level, 0]


@njit(**INNER)
def _crossing(
    scan: Scan,
    place: int,
    level: int,
    low: float,
    high: float,
    at_low: float,
    at_high: float,
    of_low: float,
    of_high: float,
) -> float:
    """Time at which the value of a condition or step changes between ``low`` and ``high``, to some roundings.

    By false position, which is exact where the time enters linearly, and by bisection in turns.
    """
    zero = 0.0 if max(at_low, at_high) == 1.0 and min(at_low, at_high) == 0.0 else max(at_low, at_high)
    for k in range(200):
        guess = low + (high - low) * ((of_low - zero) / (of_low - of_high))
        if k % 2 == 1 or not low <= guess <= high:
            guess = 0.5 * (low + high)
        aside = inset(guess)
        left, right = max(guess - aside, low), min(guess + aside, high)
        at, of = _value(scan, left, place, level)
        if at != at_low:
            high, of_high = left, of
        else:
            at, of = _value(scan, right, place, level)
            if at != at_low:
                return guess
            low, of_low = right, of
        if not low < 0.5 * (low + high) < high:
            break
    return 0.5 * (low + high)


@njit(**INNER)
def _in_order(pauses: Array, shifts: Array, count: int, given: Array, given_shifts: Array) -> int:
    """Sort pauses, and leave out those that come twice or are given; how many are left.

    Two are one where the sides on which the right-hand side is asked overlap: the jump between them would count twice.
    """
    order = np.argsort(pauses[:count])
    sorted_pauses, sorted_shifts = pauses[:count][order], shifts[:count][order]
    kept, columns = 0, given_shifts.shape[1]
    pauses[:count] = math.inf
    for k in range(count):
        time, moves = sorted_pauses[k], False
        for j in range(shifts.shape[1]):
            moves = moves or sorted_shifts[k, j] != 0.0
        once = True
        if kept > 0 and time - pauses[kept - 1] <= 2 * inset(time):
            known = False
            for j in range(shifts.shape[1]):
                known = known or shifts[kept - 1, j] != 0.0
            once = moves and not known
            if once:  # of a pulse's end and a switch at one time the switch is kept
                kept -= 1
                time = pauses[kept]
        for j in range(len(given)):
            if abs(given[j] - time) <= 2 * inset(time):
                time = given[j]
                for c in range(columns):
                    moves = moves and given_shifts[j, c] == 0.0
                once = once and moves and columns > 0
        if once:
            pauses[kept] = time
            for j in range(shifts.shape[1]):
                shifts[kept, j] = sorted_shifts[k, j]
            kept += 1
    for k in range(kept, count):
        pauses[k] = math.inf
    return kept
