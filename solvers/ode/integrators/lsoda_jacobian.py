"""Jacobians for LSODA's Newton iteration: of the states, and of states with their sensitivities.

Let y = (x, s_1 ... s_c) in blocks of n, with x' = f and s_k' = J s_k + f_k. The Jacobian has J on the diagonal, and the
second derivatives K_k of the k-th variational equation in its first n columns. Two forms are offered: the whole of it,
and the diagonal blocks alone as bands. The latter is CVODES' simultaneous corrector (Serban and Hindmarsh 2005,
"CVODES: the sensitivity-enabled ODE solver in SUNDIALS"). The iteration only has to converge: K is taken by forward
differences of the compiled variational equations, n evaluations whatever the number of sensitivities, and J is exact.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.integrators.function_pointers import call

Array = npt.NDArray[np.float64]

#: Up to so many components the whole matrix is factorized: its cost grows with their cube, but fewer steps are taken.
MOST_DENSE = 64
_STEP = math.sqrt(np.finfo(float).eps)


@njit(cache=True, nogil=True, error_model="numpy")
def state_jacobian(variations: int, t: float, x: Array, p: Array) -> Array:
    """df/dx (n, n) from the address of the variational equations without parameters, with the identity as S.

    What is not finite is 0.
    """
    n = len(x)
    y, out = np.zeros(n + n * n), np.empty((1, n + n * n))
    for i in range(n):
        y[i] = x[i]
        y[n + i * n + i] = 1.0
    call(variations, t, y, p, out, 0)
    result = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            entry = out[0, n + j * n + i]
            result[i, j] = entry if math.isfinite(entry) else 0.0
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def whole(rhs: int, variations: int, n: int, t: float, y: Array, p: Array, floor: Array) -> Array:
    """The Jacobian (m, m) of the function at ``rhs``; ``floor`` (n,) is the least size of a state for differences."""
    m = len(y)
    result, diagonal = np.zeros((m, m)), state_jacobian(variations, t, y[:n], p)
    for first in range(0, m, n):  # not by slices, whose error message for other shapes takes seconds to compile
        for i in range(n):
            for j in range(n):
                result[first + i, first + j] = diagonal[i, j]
    if m == n:
        return result
    out, moved = np.empty((2, m)), y.copy()
    call(rhs, t, y, p, out, 0)
    for j in range(n):
        moved[j] = y[j] + _STEP * max(abs(y[j]), floor[j])
        call(rhs, t, moved, p, out, 1)
        for i in range(n, m):
            slope = (out[1, i] - out[0, i]) / (moved[j] - y[j])
            result[i, j] = slope if math.isfinite(slope) else 0.0
        moved[j] = y[j]
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def bands(variations: int, n: int, t: float, y: Array, p: Array) -> Array:
    """The diagonal blocks as ODEPACK wants them: entry (i, j) of the matrix at [i - j + n - 1, j] of (2n - 1, m)."""
    result, diagonal = np.zeros((2 * n - 1, len(y))), state_jacobian(variations, t, y[:n], p)
    for first in range(0, len(y), n):
        for i in range(n):
            for j in range(n):
                result[i - j + n - 1, first + j] = diagonal[i, j]
    return result
