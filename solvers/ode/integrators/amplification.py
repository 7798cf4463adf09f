r"""Amplification of errors that are committed while a state is small.

An absolute tolerance a allows a state an error of a in every step. Where the state then grows by a factor G because
its rate of change is proportional to it, as an infection or a population does, the error grows by G too. It counts if
G a is large compared with the tolerance at the state's new size, a + r |x|, however small it was in the beginning. Two
kinds of growth are followed: from an initial value other than zero to the largest value on the way, and from a trough.

From a trough G is accumulated over the steps. From y to z it is multiplied by that of |z / y| and
:math:`|f(z) / f(y)|` which is closer to 1, or by 1 if only one of them is above 1. For x' = f(x) the latter is the
exact derivative of z with respect to y. The former excludes rates that pass through zero. G starts at 1 when a state
falls for the first time. It starts again when the state falls below the last trough, changes its sign, or has been so
large that the relative tolerance dominates, r |x| > a. Until then a state that starts at zero grows from what flows
into it, which amplifies nothing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.integrators.function_pointers import BORROWING

Array = npt.NDArray[np.float64]

#: An amplified error of so many tolerances asks for a smaller absolute tolerance.
MOST_AMPLIFIED = 30.0
#: Smallest absolute tolerance: for a state that is fed through ten others steps begin with its tenth root, and squares
#: of errors in units of it must not overflow.
LEAST_ATOL = 1e-100


@njit(**BORROWING)
def amplify(
    n: int, y: Array, z: Array, before: Array, after: Array, rtol: float, absolute: Array, growth: Array, needed: Array
) -> None:
    """A step from y to z, with the rates of change ``before`` and ``after`` it; all with n components at least.

    Updates the factors ``growth`` (0 in the beginning, and for a state that comes from zero), and the absolute
    tolerances ``needed`` at which no amplified error counts.
    """
    for i in range(n):
        old, new = abs(y[i]), abs(z[i])
        if rtol * min(old, new) > absolute[i]:  # the relative tolerance rules: nothing is amplified from here
            growth[i] = 1.0
            continue
        rate, next_rate = abs(before[i]), abs(after[i])
        if old == 0.0 or new == 0.0:
            growth[i] = 0.0
        elif y[i] * z[i] < 0.0:
            growth[i] = min(growth[i], 1.0)
        elif new < old:
            if growth[i] > 0.0 or old > absolute[i]:
                factor = max(new / old, next_rate / rate) if next_rate < rate else 1.0
                growth[i] = max(1.0, growth[i] * factor)
        elif growth[i] > 0.0 and next_rate > rate:
            growth[i] *= min(new / old, next_rate / rate)
        if growth[i] * absolute[i] > MOST_AMPLIFIED * (absolute[i] + rtol * new):
            needed[i] = min(needed[i], max(LEAST_ATOL, rtol * new / growth[i]))


@njit(cache=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)
def set_tolerances(
    atol: float,
    rtol: float,
    initial: Array,
    needed: Array,
    peaks: Array,
    absolute: Array,
    again: npt.NDArray[np.bool_],
) -> bool:
    """Set absolute tolerances at which no amplified error counts; returns whether any is smaller than before.

    Parameters
    ----------
    atol, rtol : float
    initial : array, shape (batch, m), m >= n
        Initial values. Those below ``atol`` have relative tolerances from the beginning: at ``atol`` they would be
        lost in the first steps, and nothing would show that they grow.
    needed, peaks : arrays, shape (batch, n), (batch, m)
        The tolerances that `amplify` found in the last solve, and the largest values on the way. ``needed`` has no
        rows before the first solve. States that start at zero have the smallest of their trajectory's tolerances: what
        grows from a small value feeds them, as in an epidemic that begins with one infected and no one exposed.
    absolute : array, shape (batch, m)
        Tolerances, whose first n columns, those of states, are written to.
    again : array of bool, shape (batch,)
        Rows with a smaller tolerance than in the last solve; written to.
    """
    n, solved, smaller = needed.shape[1], len(needed) > 0, False
    for row in range(len(absolute)):
        least = math.inf
        again[row] = False
        for i in range(n):
            start = abs(initial[row, i])
            found = first = _first(atol, rtol, start)
            if solved:
                peak, found = peaks[row, i], needed[row, i]
                grown = start > 0.0 and peak * atol > MOST_AMPLIFIED * start * (atol + rtol * peak)
                regrown = found < first
                if grown:
                    found = min(found, max(LEAST_ATOL, rtol * start))
                if grown or regrown:
                    least = min(least, found)
                again[row] |= found < absolute[row, i]
            absolute[row, i] = found
        for i in range(n):
            if initial[row, i] == 0.0 and peaks[row, i] > atol and least < absolute[row, i]:
                absolute[row, i] = least
                again[row] = True
        smaller |= again[row]
    return smaller


@njit(cache=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)
def of_sensitivities(quantities: Array, absolute: Array) -> None:
    """Into ``absolute`` (batch, n + n columns), after the tolerances of states, those of their sensitivities.

    They are those of the states over max(|quantity|, 1), with the ``quantities`` (batch, columns) that the states are
    differentiated by.
    """
    columns = quantities.shape[1]
    n = absolute.shape[1] // (1 + columns)
    for row in range(quantities.shape[0]):
        for c in range(columns):
            size = max(abs(quantities[row, c]), 1.0)
            for i in range(n):
                absolute[row, n + c * n + i] = absolute[row, i] / size


@njit(**BORROWING)
def _first(atol: float, rtol: float, start: float) -> float:
    return max(LEAST_ATOL, rtol * start) if 0.0 < start < atol else atol
