"""Times before and after pulses: where a function of time becomes active, and where it becomes idle.

A function that may make a pulse is bounded over intervals. These are halved where the bounds are furthest apart, until
the values at their ends show what it does within. So a pulse of any width is found, in a number of intervals that grows
with the logarithm of its width. The function is *idle* where it changes by less than `_IDLE` of its range. The
integration pauses where it becomes active and where it becomes idle, so that a pulse contains all stages of a step or
none.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.events.interval_arithmetic import Scan, enclose
from invsamp.solvers.ode.integrators.function_pointers import INNER

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Changes within an interval, in units of a function's range: up to which it is not halved, and is idle.
_RESOLVED, _IDLE = 0.5, 1e-3
#: Part of the horizon above which what is active is no pulse: no two stages of a step are further apart.
_LONG = 0.5
#: Intervals of one function at most, and the shortest as part of the horizon.
MOST_INTERVALS, _SHORTEST = 1024, 1e-13


@njit(**INNER)
def add_pulse(scan: Scan, pulse: Integers, start: float, end: float, parts: Array, pauses: Array, count: int) -> int:
    """Add the times at which a function becomes active or idle; how many pauses there are then.

    ``parts`` (most, 3) are intervals of time with the change within each.
    """
    known, shortest = 1, _SHORTEST * (end - start)
    parts[0, 0], parts[0, 1], parts[0, 2] = start, end, _change(scan, pulse, start, end)
    least, most = math.inf, -math.inf
    time = start
    while known < len(parts):
        value = _value_used(scan, pulse, time)
        least, most = min(least, value), max(most, value)
        if time == start:
            time = end
            continue
        k = 0
        for each in range(1, known):
            if parts[each, 2] > parts[k, 2]:
                k = each
        if not parts[k, 2] > max(_RESOLVED * (most - least), 0.0):
            break
        time = 0.5 * (parts[k, 0] + parts[k, 1])
        if parts[k, 1] - parts[k, 0] <= shortest:
            parts[k, 2] = 0.0
        else:
            one, other = _halves(scan, pulse, parts[k, 0], parts[k, 1])
            _insert(k, known, one, other, parts)
            known += 1
    idle, k = _IDLE * (most - least), 0
    if not 0.0 < idle < math.inf:
        return count
    begun = start if parts[0, 2] > idle else math.nan
    while k < known:
        first, last = parts[k, 0], parts[k, 1]
        if parts[k, 2] > idle and last - first > shortest and known < len(parts):
            one, other = _halves(scan, pulse, first, last)
            if min(one, other) <= idle:
                _insert(k, known, one, other, parts)
                known += 1
                continue
        if parts[k, 2] > idle and math.isnan(begun):
            begun = first
        elif parts[k, 2] <= idle and not math.isnan(begun):
            count = _beside(begun, first, start, end, pauses, count)
            begun = math.nan
        k += 1
    return count if math.isnan(begun) else _beside(begun, end, start, end, pauses, count)


@njit(**INNER)
def _beside(first: float, last: float, start: float, end: float, pauses: Array, count: int) -> int:
    """Add the ends of what is active, unless it is active for long."""
    if start < first and last - first < _LONG * (end - start):
        for time in (first, last):
            if start < time < end and count < len(pauses):
                pauses[count] = time
                count += 1
    return count


@njit(**INNER)
def _halves(scan: Scan, pulse: Integers, first: float, last: float) -> tuple[float, float]:
    """Changes within both halves of an interval."""
    middle = 0.5 * (first + last)
    one = _change(scan, pulse, first, middle)
    return one, _change(scan, pulse, middle, last)


@njit(**INNER)
def _insert(k: int, known: int, one: float, other: float, parts: Array) -> None:
    """Put the halves of part ``k`` in its place; of the parts, of which so many are known, those after it move on."""
    for each in range(known, k + 1, -1):
        for j in range(3):
            parts[each, j] = parts[each - 1, j]
    middle = 0.5 * (parts[k, 0] + parts[k, 1])
    parts[k + 1, 0], parts[k + 1, 1], parts[k + 1, 2] = middle, parts[k, 1], other
    parts[k, 1], parts[k, 2] = middle, one


@njit(**INNER)
def _change(scan: Scan, pulse: Integers, first: float, last: float) -> float:
    """Difference of the bounds over an interval; 0 where the function is not used."""
    bounds = scan.bounds
    enclose(scan, first, last)
    if pulse[1] >= 0 and bounds[pulse[1], 1] == 0.0:
        return 0.0
    change = bounds[pulse[0], 1] - bounds[pulse[0], 0]
    return 0.0 if math.isnan(change) else change


@njit(**INNER)
def _value_used(scan: Scan, pulse: Integers, time: float) -> float:
    """Value of a function; NaN, which is left out of extremes, where it is none or not used."""
    bounds = scan.bounds
    enclose(scan, time, time)
    if (pulse[1] >= 0 and bounds[pulse[1], 1] == 0.0) or not math.isfinite(bounds[pulse[0], 0]):
        return math.nan
    return bounds[pulse[0], 0]
