r"""One trajectory by adaptive Dormand-Prince 5(4), compiled once for every right-hand side.

The starting step and the controller are those of Hairer, Norsett and Wanner (Solving Ordinary Differential Equations I,
section II.4) as in SciPy's ``RK45``: it takes the same steps.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.dormand_prince import attempt, call, error_norm, interpolant

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.2, 10.0
OK, TOO_MANY_STEPS, NON_FINITE, STEP_TOO_SMALL, STOPPED = range(5)
# rows of the work array
_Y, _NEXT, _K, _Q, _SCRATCH = 0, 1, 2, 9, 13


@njit(cache=True, nogil=True, error_model="numpy")
def march_rows(
    rhs: int,
    n: int,
    parameters: Array,
    initial: Array,
    times: Array,
    start: Array,
    pauses: Array,
    jumps: Array,
    stop: int,
    rtol: float,
    absolute: Array,
    max_steps: int,
    values: Array,
    status: Integers,
    evaluations: Integers,
    steps: Integers,
    ended: Array,
    peaks: Array,
    first: int,
    last: int,
) -> None:
    """The trajectories of the rows from ``first`` to ``last``; the outcome is written into the arrays before them."""
    work = np.empty((14, initial.shape[1]))
    for row in range(first, last):
        t = times[0] if len(times) == 1 else times[row]
        status[row], evaluations[row], steps[row], ended[row] = _trajectory(
            rhs, n, parameters[row], initial[row], t, start[row], pauses, jumps, stop, rtol, absolute[row],
            max_steps, values[row], peaks[row], work,
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _trajectory(
    rhs: int,
    n: int,
    p: Array,
    initial: Array,
    times: Array,
    t: float,
    pauses: Array,
    jumps: Array,
    stop: int,
    rtol: float,
    absolute: Array,
    max_steps: int,
    out: Array,
    peaks: Array,
    work: Array,
) -> tuple[int, int, int, float]:
    """One trajectory, restarted at every pause: (status, evaluations, steps, time reached)."""
    y = work[_Y]
    for i in range(len(y)):
        y[i] = initial[i]
        peaks[i] = abs(initial[i])
    wanted = len(times)
    while wanted > 0 and math.isnan(times[wanted - 1]):
        wanted -= 1
    done = 0
    while done < wanted and times[done] <= t:
        for i in range(len(y)):
            out[done, i] = y[i]
        done += 1
    status = OK if _is_finite(y) and _is_finite(p) else NON_FINITE
    evaluations = steps = pause = 0
    while pause < len(pauses) and pauses[pause] < t:
        pause += 1
    side = 0.0 if stop == 0 else _value(stop, t, y, p, work)
    while done < wanted and status == OK:
        # the right-hand side may switch at a pause: it is never asked for its value there
        lower, upper, target = -math.inf, math.inf, times[wanted - 1]
        if pause < len(pauses) and pauses[pause] == t:
            lower = t + inset(t)
            for i in range(len(y)):
                y[i] += jumps[pause, i]
            pause += 1
            if stop != 0:
                before = side
                side = _value(stop, t, y, p, work)
                if _crosses(before, side):
                    status = STOPPED
                    break
        if pause < len(pauses) and pauses[pause] <= target:
            target = pauses[pause]
            upper = target - inset(target)
        status, done, evaluated, stepped, t, side = _stretch(
            rhs, n, p, times, wanted, done, t, target, lower, upper, stop, side, rtol, absolute,
            max_steps - steps, out, peaks, work,
        )  # fmt: skip
        evaluations += evaluated
        steps += stepped
    for row in range(done if status == OK or status == STOPPED else 0, len(times)):  # noqa: SIM109
        for i in range(len(y)):
            out[row, i] = math.nan
    return status, evaluations, steps, t


@njit(cache=True, nogil=True, error_model="numpy")
def _stretch(
    rhs: int,
    n: int,
    p: Array,
    times: Array,
    wanted: int,
    done: int,
    t: float,
    target: float,
    lower: float,
    upper: float,
    stop: int,
    side: float,
    rtol: float,
    absolute: Array,
    max_steps: int,
    out: Array,
    peaks: Array,
    work: Array,
) -> tuple[int, int, int, int, float, float]:
    """From t to target without a pause: (status, outputs done, evaluations, steps, time reached, side of stop)."""
    y, z, k, q = work[_Y], work[_NEXT], work[_K:_Q], work[_Q:_SCRATCH]
    call(rhs, min(max(t, lower), upper), y, p, k, 0)
    if not _is_finite(k[0]):
        return NON_FINITE, done, 1, 0, t, side
    step = _first_step(rhs, n, p, t, target, lower, upper, rtol, absolute, work)
    evaluations, steps, rejected = 2, 0, False
    while t < target:
        if steps >= max_steps:
            return TOO_MANY_STEPS, done, evaluations, steps, t, side
        least = 10 * (np.nextafter(t, math.inf) - t)
        if not rejected:
            step = max(step, least)
        t_new = min(t + step, target)
        h = t_new - t
        attempt(rhs, t, h, lower, upper, y, p, k, z)
        evaluations += 6
        error = error_norm(n, h, y, z, k, rtol, absolute, q[0])
        if not error < 1:
            step = h * (max(LEAST_FACTOR, SAFETY * error**-0.2) if error < math.inf else LEAST_FACTOR)
            rejected = True
            if step < least:
                return STEP_TOO_SMALL if error < math.inf else NON_FINITE, done, evaluations, steps, t, side
            continue
        for i in range(n, len(y)):
            if not math.isfinite(z[i]):
                return NON_FINITE, done, evaluations, steps, t, side
        last, status = t_new, OK
        if stop != 0:
            before = side
            side = _value(stop, t_new, z, p, work)
            if _crosses(before, side):
                interpolant(h, k, q)
                last, status = _locate(stop, n, t, h, before, p, work), STOPPED
        first = done
        while done < wanted and times[done] <= last:
            done += 1
        if done > first:
            interpolant(h, k, q)
            _write(first, done, t, h, times, y, q, out)
        steps += 1
        if status == STOPPED:
            return status, done, evaluations, steps, last, side
        factor = MOST_FACTOR if error == 0 else min(MOST_FACTOR, SAFETY * error**-0.2)
        step = h * (min(factor, 1.0) if rejected else factor)
        rejected = False
        t = t_new
        for i in range(len(y)):
            y[i] = z[i]
            peaks[i] = max(peaks[i], abs(z[i]))
            k[0, i] = k[6, i]
    return OK, done, evaluations, steps, t, side


@njit(cache=True, nogil=True, error_model="numpy")
def _first_step(
    rhs: int,
    n: int,
    p: Array,
    t: float,
    target: float,
    lower: float,
    upper: float,
    rtol: float,
    absolute: Array,
    work: Array,
) -> float:
    """Starting step of Hairer, Norsett and Wanner, II.4, for an error estimate of order 4."""
    y, z, k = work[_Y], work[_NEXT], work[_K:_Q]
    size = slope = bend = 0.0
    for i in range(n):
        scale = absolute[i] + rtol * abs(y[i])
        size += (y[i] / scale) ** 2
        slope += (k[0, i] / scale) ** 2
    size, slope = math.sqrt(size / n), math.sqrt(slope / n)
    guess = min(1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope, target - t)
    for i in range(len(y)):
        z[i] = y[i] + guess * k[0, i]
    call(rhs, min(max(t + guess, lower), upper), z, p, k, 1)
    for i in range(n):
        bend += ((k[1, i] - k[0, i]) / (absolute[i] + rtol * abs(y[i]))) ** 2
    bend = math.sqrt(bend / n) / guess
    if not bend < math.inf:
        return guess
    steepest = max(slope, bend)
    step = max(1e-6, guess * 1e-3) if steepest <= 1e-15 else (0.01 / steepest) ** 0.2
    return min(100 * guess, step, target - t)


@njit(cache=True, nogil=True, error_model="numpy")
def _is_finite(values: Array) -> bool:
    finite = True
    for i in range(len(values)):
        finite = finite and math.isfinite(values[i])
    return finite


@njit(cache=True, nogil=True, error_model="numpy")
def _write(first: int, last: int, t: float, h: float, times: Array, y: Array, q: Array, out: Array) -> None:
    m = len(y)
    per_length = 1 / h
    if m < 4:
        # few components: two at a time, with their coefficients in registers
        for i in range(0, m, 2):
            e = min(i + 1, m - 1)
            c0, c1, c2, c3, c4 = y[i], q[0, i], q[1, i], q[2, i], q[3, i]
            e0, e1, e2, e3, e4 = y[e], q[0, e], q[1, e], q[2, e], q[3, e]
            for j in range(first, last):
                x = (times[j] - t) * per_length
                out[j, i] = c0 + x * (c1 + x * (c2 + x * (c3 + x * c4)))
                out[j, e] = e0 + x * (e1 + x * (e2 + x * (e3 + x * e4)))
    else:
        for j in range(first, last):
            x = (times[j] - t) * per_length
            for i in range(m):
                out[j, i] = y[i] + x * (q[0, i] + x * (q[1, i] + x * (q[2, i] + x * q[3, i])))


@njit(cache=True, nogil=True, error_model="numpy")
def inset(t: float) -> float:
    """How far from a pause the right-hand side is evaluated: some roundings, as in ``t - dose_time < duration``."""
    return 8 * (np.nextafter(abs(t), math.inf) - abs(t))


@njit(cache=True, nogil=True, error_model="numpy")
def _value(stop: int, t: float, y: Array, p: Array, work: Array) -> float:
    scratch = work[_SCRATCH:]
    call(stop, t, y, p, scratch, 0)
    return scratch[0, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def _crosses(before: float, after: float) -> bool:
    # a trajectory that starts at zero has not crossed it
    return (before < 0 <= after) or (before > 0 >= after)


@njit(cache=True, nogil=True, error_model="numpy")
def _locate(stop: int, n: int, t: float, h: float, before: float, p: Array, work: Array) -> float:
    """Time within the step at which the stopping function changes its sign on the interpolant, by bisection."""
    y, z, q = work[_Y], work[_NEXT], work[_Q:_SCRATCH]
    low, high = 0.0, 1.0
    for _ in range(54):
        x = (low + high) / 2
        for i in range(n):
            z[i] = y[i] + x * (q[0, i] + x * (q[1, i] + x * (q[2, i] + x * q[3, i])))
        if _crosses(before, _value(stop, t + x * h, z, p, work)):
            high = x
        else:
            low = x
    return t + high * h
