r"""Jumps of a trajectory and its sensitivities at doses, resets, switches and events: compiled functions.

With the time :math:`\tau` of a happening, :math:`x^+ = g(\tau, x^-, p)`, and the right-hand side f on either side of
it, the columns S of sensitivities jump to

.. math:: S^+ = g_x (S^- + f^- \tau') + g_p + g_t \tau' - f^+ \tau'

where :math:`\tau'` are the derivatives of the time. They are those of a function of the parameters or, at a zero of
h(t, x, p), :math:`\tau' = -(h_x S^- + h_p) / (h_t + h_x f^-)`. The source is Rozenwasser and Yusupov 2000, "Sensitivity
of Automatic Control Systems", chapter 3. Without parameters its matrix is the saltation matrix.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.integrators.function_pointers import INNER, call

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Events that may follow from each other at one time.
_MOST_AT_ONCE = 100
#: A function that stays further from zero than this part of its values at a step's ends is taken not to pass it.
_NEAR = 0.5


class Events(NamedTuple):
    """Functions whose zeros are events, and what they change; addresses of functions of (t, x, p)."""

    roots: Integers  # (events,): out = (h,)
    gradients: Integers  # (events,): out = (h, h_t, h_x, h_p)
    directions: Integers  # (events,): of the change of sign that counts: 1, -1, or 0 for both
    changes: Integers  # (events + resets at given times,): out = (g, g_t, g_x, g_p); 0: no change


@njit(cache=True, nogil=True, error_model="numpy", _nrt=True)
def look_around(events: Events, t: float, x: Array, p: Array, sides: Array) -> None:
    """Values of the events' functions to ``sides`` (events,)."""
    out = np.empty((1, 1))
    for e in range(len(events.roots)):
        call(events.roots[e], t, x, p, out, 0)
        sides[e] = out[0, 0]


@njit(**INNER)
def look_ahead(events: Events, n: int, t: float, x: Array, slope: Array, p: Array, speeds: Array) -> None:
    """Derivatives of the events' functions along a trajectory with this slope to ``speeds`` (events,)."""
    if len(events.roots) == 0:
        return
    out = np.empty((1, 2 + n + len(p)))
    for e in range(len(events.roots)):
        speeds[e] = _speed(n, events.gradients[e], t, x, slope, p, out)


@njit(**INNER)
def approach(h: float, sides: Array, speeds: Array) -> bool:
    """Whether a function may pass zero and turn back within a step of length h."""
    for e in range(sides.shape[1]):
        low, high = turning(h, sides[0, e], sides[1, e], speeds[0, e], speeds[1, e])
        if low < high:
            return True
    return False


@njit(**INNER)
def turning(h: float, first: float, last: float, speed: float, last_speed: float) -> tuple[float, float]:
    """Parts of a step between which a function comes closest to zero, without having another sign at the step's end.

    By the cubic with the values and speeds at both ends. Both are 1 where that does not turn back, or where it stays
    further from zero than half of the smaller value at an end.
    """
    none = (1.0, 1.0)
    if first == 0.0 or crosses(first, last):
        return none
    sign = 1.0 if first > 0 else -1.0
    a, b = sign * first, sign * last
    c, d = sign * speed * h, sign * last_speed * h
    # a + c x + e x^2 + f x^3, least where its slope goes through zero upwards
    e, f = 3 * (b - a) - 2 * c - d, 2 * (a - b) + c + d
    discriminant = e * e - 3 * f * c
    if not discriminant > 0:
        return none
    root = math.sqrt(discriminant)
    # without cancellation; the other extremum is where the slope goes through zero downwards
    least, most = ((root - e) / (3 * f), -c / (root - e)) if e < 0 else (-c / (root + e), -(root + e) / (3 * f))
    if not 0 < least < 1 or a + least * (c + least * (e + least * f)) > _NEAR * min(a, b):
        return none
    return (most if 0 < most < least else 0.0), (most if least < most < 1 else 1.0)


@njit(**INNER)
def keep(sides: Array) -> None:
    """Make the values after a step those before the next one; ``sides`` (2, events)."""
    # not by slices, whose error message for other shapes takes seconds to compile
    for e in range(sides.shape[1]):
        sides[0, e] = sides[1, e]


@njit(**INNER)
def crossing(events: Events, before: Array, after: Array) -> int:
    """The first event whose function changes its sign in the direction that counts; -1 for none."""
    for e in range(len(before)):
        if crosses(before[e], after[e]) and events.directions[e] * (after[e] - before[e]) >= 0:
            return e
    return -1


@njit(**INNER)
def crosses(before: float, after: float) -> bool:
    """Whether a sign changed."""
    # a trajectory that starts at zero has not crossed it
    return (before < 0 <= after) or (before > 0 >= after)


@njit(**INNER)
def happen(rhs: int, n: int, events: Events, e: int, t: float, p: Array, sides: Array, work: Array) -> int:
    """Event ``e`` at y = work[0], with the derivative before it in work[2]; evaluations of the right-hand side.

    Or -1 if the function moves the other way there: events have come too close to each other to be distinguished.
    """
    y, before = work[0], work[2]
    columns, q = len(y) // n - 1, len(p)
    shift, out = np.zeros(columns), np.empty((1, 2 + n + q))
    speed = _speed(n, events.gradients[e], t, y, before, p, out)
    if speed * sides[0, e] > 0:
        return -1
    for c in range(columns):
        moved = out[0, 2 + n + c] if c < q else 0.0
        for i in range(n):
            moved += out[0, 2 + i] * y[n + c * n + i]
        shift[c] = -moved / speed
    look_around(events, t, y, p, sides[0])
    _move(n, y, before, shift, 1.0)
    _change(n, events.changes[e], t, y, p, shift)
    return _settle(rhs, n, events, e, t, t, p, shift, sides, work)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=True)
def leave(
    rhs: int,
    n: int,
    events: Events,
    which: int,
    t: float,
    p: Array,
    jump: Array,
    shift: Array,
    sides: Array,
    work: Array,
) -> int:
    """At a given time y = work[0] gains ``jump`` (m,), then comes reset ``which`` (-1: none), and what follows from it.

    ``shift`` (columns,) are the derivatives of the time. Returns evaluations of the right-hand side.
    """
    y = work[0]
    moves = len(y) > n and _moves(shift)
    if moves:
        call(rhs, t - inset(t), y, p, work[2:], 0)
        _move(n, y, work[2], shift, 1.0)
    for i in range(len(y)):
        y[i] += jump[i]
    if which >= 0:
        _change(n, events.changes[which], t, y, p, shift)
    if not moves and len(events.roots) == 0:
        return 0
    none = min(which, -1)  # not a literal, which is a type of its own: numba would compile once more
    return _settle(rhs, n, events, none, t, t + inset(t), p, shift, sides, work) + int(moves)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=True)
def inset(t: float) -> float:
    """How far from a pause the right-hand side is evaluated: some roundings, as in ``t - dose_time < duration``."""
    return 8 * (np.nextafter(abs(t), math.inf) - abs(t))


@njit(**INNER)
def _settle(
    rhs: int,
    n: int,
    events: Events,
    fired: int,
    t: float,
    after: float,
    p: Array,
    shift: Array,
    sides: Array,
    work: Array,
) -> int:
    """Events that follow at once from a change, and the end of all of them: the derivative after is taken off."""
    y = work[0]
    for _ in range(_MOST_AT_ONCE if len(events.roots) > 0 else 0):
        look_around(events, t, y, p, sides[1])
        if fired >= 0 and abs(sides[1, fired]) <= 2 * abs(sides[0, fired]):
            # the change left it at its zero: on which side it is from now on, its slope shows
            call(rhs, after, y, p, work[2:], 0)
            slope = _speed(n, events.gradients[fired], t, y, work[2], p, np.empty((1, 2 + n + len(p))))
            sides[0, fired] = sides[1, fired] = math.copysign(1e-300, slope)
        following = crossing(events, sides[0], sides[1])
        keep(sides)
        if following < 0:
            break
        fired = following
        sides[0, fired] = 0.0
        _change(n, events.changes[fired], t, y, p, shift)
    if len(y) > n and _moves(shift):
        call(rhs, after, y, p, work[2:], 0)
        _move(n, y, work[2], shift, -1.0)
        return 1
    return 0


@njit(**INNER)
def _speed(n: int, gradient: int, t: float, x: Array, slope: Array, p: Array, out: Array) -> float:
    """Derivative of an event's function along the trajectory; ``out`` (1, 2 + n + q) is filled by ``gradient``."""
    call(gradient, t, x, p, out, 0)
    speed = out[0, 1]
    for i in range(n):
        speed += out[0, 2 + i] * slope[i]
    return speed


@njit(**INNER)
def _moves(shift: Array) -> bool:
    """Whether a time depends on what the states are differentiated by."""
    moves = False
    for c in range(len(shift)):
        moves = moves or shift[c] != 0.0
    return moves


@njit(**INNER)
def _move(n: int, y: Array, slope: Array, shift: Array, sign: float) -> None:
    for c in range(len(y) // n - 1):
        for i in range(n):
            y[n + c * n + i] += sign * slope[i] * shift[c]


@njit(**INNER)
def _change(n: int, change: int, t: float, y: Array, p: Array, shift: Array) -> None:
    """States and sensitivities after ``change``; the latter without those of the time before and after it."""
    if change == 0:
        return
    columns, q = len(y) // n - 1, len(p)
    out = np.empty((1, n * (2 + n + q)))
    call(change, t, y, p, out, 0)
    g, old = out[0], y.copy()
    for i in range(n):
        y[i] = g[i]
    for c in range(columns):
        for i in range(n):
            value = g[n + i] * shift[c]
            if c < q:
                value += g[2 * n + n * n + i * q + c]
            for j in range(n):
                value += g[2 * n + i * n + j] * old[n + c * n + j]
            y[n + c * n + i] = value
