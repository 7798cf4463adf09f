"""Uses of the interpolant of a step: values at output times, times of events, where a trajectory stops.

A step's interpolant is y + sum_r q_r x^(r + 1) with x in [0, 1] and coefficients q (powers, m).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.foreign import Jitted
from invsamp.solvers.ode.integrators.event_handling import (
    Events,
    crosses,
    crossing,
    inset,
    look_ahead,
    look_around,
    turning,
)
from invsamp.solvers.ode.integrators.function_pointers import INNER, call, function_of

Array = npt.NDArray[np.float64]

#: How far on either side of an event, in parts of a step, the right-hand side is asked: it may switch there.
_ASIDE = 1e-12
#: How often an interval is halved in which an event's function may pass zero and turn back.
_HALVINGS = 40
# rows of the work array
_Y, _NEXT = 0, 1


def writer(powers: int) -> Jitted:
    """Compiled ``write(...)`` of a `Stepper`: the interpolant at output times."""
    return function_of(
        "control, absolute, first, last, t, h, lower, upper, times, y, p, z, q, space, out", _write(powers), {}
    )


@njit(**INNER)
def is_finite(values: Array) -> bool:
    """Whether all are."""
    finite = True
    for i in range(len(values)):
        finite = finite and math.isfinite(values[i])
    return finite


@njit(**INNER)
def value(stop: int, t: float, y: Array, p: Array, scratch: Array) -> float:
    """That of a stopping function, 0 where there is none; ``scratch`` (1, 1) is written to."""
    if stop == 0:
        return 0.0
    call(stop, t, y, p, scratch, 0)
    return scratch[0, 0]


@njit(**INNER)
def locate(
    powers: int, stop: int, n: int, t: float, h: float, before: float, p: Array, work: Array, q: Array, scratch: Array
) -> float:
    """Time within the step at which the stopping function changes its sign on the interpolant, by bisection."""
    y, z = work[_Y], work[_NEXT]
    low, high = 0.0, 1.0
    for _ in range(54):
        x = (low + high) / 2
        inside(powers, n, x, y, q, z)
        if crosses(before, value(stop, t + x * h, z, p, scratch)):
            high = x
        else:
            low = x
    return t + high * h


@njit(**INNER)
def first_event(
    powers: int,
    n: int,
    events: Events,
    t: float,
    h: float,
    p: Array,
    sides: Array,
    speeds: Array,
    work: Array,
    q: Array,
) -> tuple[int, float, float]:
    """The first event within the step, and the parts of the step just before and just after it; -1 if there is none.

    By bisection of the first part of the step at whose end a function has another sign than before: parts end where
    one turns back that has passed zero, and with the step.
    """
    y, z, kept, here = work[_Y], work[_NEXT], work[_NEXT].copy(), np.empty(len(events.roots))
    turns = _turns(powers, n, events, t, h, p, sides, speeds, work, q)
    low, high, fired = 0.0, 1.0, -1
    while fired < 0:
        first = 0
        for e in range(1, len(turns)):
            if turns[e] < turns[first]:
                first = e
        high = min(turns[first], 1.0)
        turns[first] = math.inf
        if high < 1.0:
            inside(powers, n, high, y, q, z)
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
        inside(powers, n, x, y, q, z)
        look_around(events, t + x * h, z, p, here)
        crossed = crossing(events, sides[0], here)
        if crossed >= 0:
            high, fired = x, crossed
        else:
            low = x
    # steps may have become so short before a jump that such a part of one is no other state
    aside, before = max(_ASIDE, inset(t) / abs(h)), 0.0
    while fired >= 0 and aside < 1 and (before == 0 or here[fired] == 0):
        inside(powers, n, max(low - aside, 0.0), y, q, z)
        look_around(events, t + low * h, z, p, here)
        before = here[fired]
        inside(powers, n, min(high + aside, 1.0), y, q, z)
        look_around(events, t + high * h, z, p, here)
        low, high, aside = max(low - aside, 0.0), min(high + aside, 1.0), 8 * aside
    for i in range(len(z)):
        z[i] = kept[i]
    return fired, low, high


@njit(**INNER)
def _turns(
    powers: int,
    n: int,
    events: Events,
    t: float,
    h: float,
    p: Array,
    sides: Array,
    speeds: Array,
    work: Array,
    q: Array,
) -> Array:
    """The part of the step at which each function turns back after it has passed zero, infinite where none does.

    The extremum of the interpolant is where its speed changes sign, between those of a cubic with the step's ends.
    """
    turns, here, y, z = np.full(len(events.roots), math.inf), np.empty((2, len(events.roots))), work[_Y], work[_NEXT]
    slope = np.empty(n)
    for e in range(len(turns)):
        low, high = turning(h, sides[0, e], sides[1, e], speeds[0, e], speeds[1, e])
        for _ in range(_HALVINGS if low < high else 0):
            x = (low + high) / 2
            inside(powers, n, x, y, q, z)
            _slope_inside(powers, n, x, h, q, slope)
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
def inside(powers: int, count: int, x: float, y: Array, q: Array, z: Array) -> None:
    """The first components at a part x of the step, on the interpolant, to z."""
    for i in range(count):
        value = q[powers - 1, i]
        for r in range(powers - 2, -1, -1):
            value = q[r, i] + x * value
        z[i] = y[i] + x * value


@njit(**INNER)
def _slope_inside(powers: int, count: int, x: float, h: float, q: Array, slope: Array) -> None:
    """Derivatives by time of the first components at a part x of the step, on the interpolant."""
    for i in range(count):
        value = powers * q[powers - 1, i]
        for r in range(powers - 2, -1, -1):
            value = (r + 1) * q[r, i] + x * value
        slope[i] = value / h


def _write(powers: int) -> list[str]:
    def polynomial(constant: str, *coefficients: str) -> str:
        nested = coefficients[-1]
        for each in coefficients[-2::-1]:
            nested = f"({each} + x * {nested})"
        return f"{constant} + x * {nested}"

    c, e = ([f"{letter}{r}" for r in range(powers + 1)] for letter in "ce")
    return [
        "m = len(y)",
        "per_length = 1 / h",
        "if m < 4:",
        # few components: two at a time, with their coefficients in registers
        "    for i in range(0, m, 2):",
        "        other = min(i + 1, m - 1)",
        f"        {', '.join(c)} = y[i], {', '.join(f'q[{r}, i]' for r in range(powers))}",
        f"        {', '.join(e)} = y[other], {', '.join(f'q[{r}, other]' for r in range(powers))}",
        "        for j in range(first, last):",
        "            x = (times[j] - t) * per_length",
        f"            out[j, i] = {polynomial(*c)}",
        f"            out[j, other] = {polynomial(*e)}",
        "else:",
        "    for j in range(first, last):",
        "        x = (times[j] - t) * per_length",
        "        for i in range(m):",
        f"            out[j, i] = {polynomial('y[i]', *(f'q[{r}, i]' for r in range(powers)))}",
    ]
