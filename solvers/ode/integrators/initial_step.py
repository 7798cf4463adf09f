"""How long the first step of a stretch may be: by states and slopes, and by what moves the slopes at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.integrators.function_pointers import BORROWING, call

Array = npt.NDArray[np.float64]

#: Decades below the length of a stretch in which it is asked what moves the slopes by themselves, and how many of the
#: shortest show that nothing does.
DECADES, _ENOUGH = 12, 4
_MOMENTS = np.array([1 / 10 ** (DECADES - j) for j in range(DECADES)])
#: In units of the tolerance, what states have to be moved by in a moment for it to count; and the share of the fastest
#: change by which it is still under way.
_COUNTS, _UNDER_WAY = 0.01, 0.3


class Stretch(NamedTuple):
    """A stretch without a pause that is to be integrated, and its tolerances."""

    rhs: int
    n: int
    p: Array
    t: float
    target: float
    lower: float  # bounds between which the right-hand side may be asked
    upper: float
    rtol: float
    absolute: Array


@njit(**BORROWING)
def first_step(order: int, stretch: Stretch, y: Array, z: Array, k: Array, rates: Array) -> float:
    """Starting step of Hairer, Norsett and Wanner, II.4, but never longer than `moment_of_change`.

    y are the states at t, and the first row of k their slopes; z, the second row and ``rates`` (DECADES,) are written
    to.
    """
    rhs, n, p, t, target, lower, upper, rtol, absolute = stretch
    size = slope = 0.0
    for i in range(n):
        scale = absolute[i] + rtol * abs(y[i])
        part, slant = y[i] / scale, k[0, i] / scale
        size += part * part
        slope += slant * slant
    size, slope = math.sqrt(size / n), math.sqrt(slope / n)
    longest = moment_of_change(stretch, y, k, rates)
    guess = min(1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope, target - t)
    for i in range(len(y)):
        z[i] = y[i] + guess * k[0, i]
    call(rhs, min(max(t + guess, lower), upper), z, p, k, 1)
    bend = _change(n, rtol, absolute, y, k) / guess
    if not bend < math.inf:
        return min(guess, longest)
    steepest = max(slope, bend)
    step = max(1e-6, guess * 1e-3) if steepest <= 1e-15 else (0.01 / steepest) ** (1 / order)
    return min(min(100 * guess, step), min(target - t, longest))


@njit(**BORROWING)
def moment_of_change(stretch: Stretch, y: Array, k: Array, rates: Array) -> float:
    """Time in which slopes change by themselves, states being what they are: how long a step may be at first.

    States at rest give no time scale, and a pulse that is over within the first step would be passed by in silence.
    What changes the slopes at once is looked for in moments of a hundred-billionth of the stretch and more. Infinite
    where nothing does, or by too little to count, or no faster than the stretch is long. The second row of k and
    ``rates`` (DECADES,) are written to.
    """
    rhs, n, p, t, target, lower, upper, rtol, absolute = stretch
    fastest, moving = 0.0, False
    for j in range(DECADES):
        moment = _MOMENTS[j] * (target - t)
        call(rhs, min(max(t + moment, lower), upper), y, p, k, 1)
        change = _change(n, rtol, absolute, y, k)
        rates[j] = change / moment
        if change * moment >= _COUNTS and rates[j] > fastest:
            fastest = rates[j]
        moving = moving or change > 0.0
        if j + 1 == _ENOUGH and not moving:
            return math.inf
    if fastest == 0.0:
        return math.inf
    for j in range(DECADES - 2, -1, -1):
        if rates[j] >= _UNDER_WAY * fastest:
            return _MOMENTS[j] * (target - t)
    return math.inf


@njit(**BORROWING)
def _change(n: int, rtol: float, absolute: Array, y: Array, k: Array) -> float:
    """Root mean square of the change from the first to the second slopes, in units of the tolerance at y."""
    total = 0.0
    for i in range(n):
        part = (k[1, i] - k[0, i]) / (absolute[i] + rtol * abs(y[i]))
        total += part * part
    return math.sqrt(total / n)


@njit(cache=True, error_model="numpy")
def longest_first_step(stretch: Stretch, y: Array) -> float:
    """`moment_of_change` at states y (m,), for those who are not compiled."""
    k, rates = np.empty((2, len(y))), np.empty(DECADES)
    call(stretch.rhs, min(max(stretch.t, stretch.lower), stretch.upper), y, stretch.p, k, 0)
    return moment_of_change(stretch, y, k, rates)
