r"""Amplification of errors that are committed while a state is small.

An absolute tolerance a allows a state x an error of a in every step. Where x then grows by a factor G because its rate
of change is proportional to it, as an infection or a population does, the error grows by G too. It is not negligible
if G a is large compared with the tolerance a + r |x| there, whatever the size of a was in the beginning.

G is accumulated over the steps. From y to z it is, as far as both agree in direction, the smaller of |z / y| and
:math:`|f(z) / f(y)|`. For x' = f(x) the latter is the exact derivative of z with respect to y; the former excludes
rates that pass through zero. A state that comes from zero (at the start, or as it changes its sign) grows from what
flows into it, which amplifies nothing, until it falls for the first time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.pointers import INNER

Array = npt.NDArray[np.float64]

#: An amplified error of so many tolerances asks for a smaller absolute tolerance.
MOST_AMPLIFIED = 100.0
#: Smallest absolute tolerance: squares of errors in units of it must not overflow.
LEAST_ATOL = 1e-150


@njit(**INNER)
def no_amplification(n: int, y: Array, absolute: Array, growth: Array, needed: Array) -> None:
    """Begin at the initial values in y[:n]: write the growth so far, 0 for what comes from zero, and tolerances."""
    for i in range(n):
        growth[i] = 1.0 if y[i] != 0.0 else 0.0
        needed[i] = absolute[i]


@njit(**INNER)
def amplify(
    n: int, y: Array, z: Array, before: Array, after: Array, rtol: float, absolute: Array, growth: Array, needed: Array
) -> None:
    """A step from y to z, with the rates of change ``before`` and ``after`` it; all with n components at least.

    Updates growth (n,), and the absolute tolerances (n,) at which no amplified error would count.
    """
    for i in range(n):
        old, new, rate, next_rate = abs(y[i]), abs(z[i]), abs(before[i]), abs(after[i])
        if not (new < np.inf and next_rate < np.inf):
            continue
        if y[i] * z[i] < 0.0 or old == 0.0 or new == 0.0:
            growth[i] = 0.0
        elif new < old:
            factor = max(new / old, next_rate / rate) if next_rate < rate else 1.0
            growth[i] = max(1.0, growth[i] * factor)
        elif growth[i] > 0.0 and next_rate > rate:
            growth[i] *= min(new / old, next_rate / rate)
        if growth[i] * absolute[i] > MOST_AMPLIFIED * (absolute[i] + rtol * new):
            needed[i] = min(needed[i], max(LEAST_ATOL, rtol * new / growth[i]))


def smaller_tolerances(absolute: Array, needed: Array, initial: Array, peaks: Array) -> Array:
    """Absolute tolerances for another solve of trajectories; those of ``absolute`` where nothing was amplified.

    Parameters
    ----------
    absolute, needed, initial, peaks : arrays, shape (batch, n)
        Tolerances of the solve, those that `amplify` found, initial values, and largest values.

    Returns
    -------
    array, shape (batch, n)
        States that were amplified have their own. States that start at zero have the smallest of the trajectory's:
        what grows from a small value feeds them (the exposed of an epidemic that begins with one infected).
    """
    result = np.minimum(absolute, needed)
    least = np.where(needed < absolute, needed, np.inf).min(axis=1, keepdims=True)
    fed = (initial == 0.0) & (peaks > absolute)
    return np.where(fed, np.minimum(result, least), result)
