r"""The pair of Dormand and Prince, 5(4), with its interpolant: one step, compiled once for every right-hand side.

The right-hand side comes in as the address of a compiled ``void f(double t, double *y, double *p, double *out)``, made
by `invsamp.solvers.ode.generated`: a new model compiles its own few lines and nothing else. Constants are those of
SciPy's ``RK45``: Dormand and Prince (1980, Table 2) with local extrapolation, and the quartic interpolant of Shampine
(1986).

What numba stores of `invsamp.solvers.ode.march` contains this module, and numba does not notice changes here:
delete the `__pycache__` after one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

Array = npt.NDArray[np.float64]

# (stage, earlier stage) and (stage,); the last row of A holds the weights: the last stage is the next step's first
C = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
A = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
#: Weights of the stages in the error: fifth order minus fourth order, up to the sign.
E = np.array([-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40])
#: (stage, power - 1): the interpolant is y + h sum_s k_s sum_r P[s, r] x^(r+1), x = (t - t_old) / h in [0, 1].
P = np.array(
    [
        [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
        [0, 0, 0, 0],
        [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
        [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
        [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
        [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
        [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
    ]
)


def _call(typingctx: Any, address: Any, t: Any, y: Any, p: Any, out: Any, row: Any) -> Any:  # pragma: no cover
    """Call the function at ``address``: ``f(t, &y[0], &p[0], &out[row, 0])``; all arrays C-contiguous."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, t, y, p, out, row = values
        double = ir.DoubleType()
        pointer = double.as_pointer()
        function = ir.FunctionType(ir.VoidType(), [double, pointer, pointer, pointer])
        y, p, out = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[2:5], (y, p, out), strict=True)
        )
        target = builder.gep(out.data, [builder.mul(row, builder.extract_value(out.shape, 1))])
        builder.call(builder.inttoptr(address, function.as_pointer()), [t, y.data, p.data, target])
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, y, p, out, types.intp), codegen


call: Any = intrinsic(_call)  # Any: what is called is not what is written


@njit(cache=True, nogil=True, error_model="numpy")
def attempt(rhs: int, t: float, h: float, lower: float, upper: float, y: Array, p: Array, k: Array, z: Array) -> None:
    """One step: z (m,) from y (m,), with the stages k (7, m), of which the first is there; t within its bounds."""
    m = len(y)
    for i in range(m):
        z[i] = y[i] + h * (A[1, 0] * k[0, i])
    call(rhs, min(max(t + C[1] * h, lower), upper), z, p, k, 1)
    for i in range(m):
        z[i] = y[i] + h * (A[2, 0] * k[0, i] + A[2, 1] * k[1, i])
    call(rhs, min(max(t + C[2] * h, lower), upper), z, p, k, 2)
    for i in range(m):
        z[i] = y[i] + h * (A[3, 0] * k[0, i] + A[3, 1] * k[1, i] + A[3, 2] * k[2, i])
    call(rhs, min(max(t + C[3] * h, lower), upper), z, p, k, 3)
    for i in range(m):
        z[i] = y[i] + h * (A[4, 0] * k[0, i] + A[4, 1] * k[1, i] + A[4, 2] * k[2, i] + A[4, 3] * k[3, i])
    call(rhs, min(max(t + C[4] * h, lower), upper), z, p, k, 4)
    for i in range(m):
        early = A[5, 0] * k[0, i] + A[5, 1] * k[1, i] + A[5, 2] * k[2, i]
        z[i] = y[i] + h * (early + A[5, 3] * k[3, i] + A[5, 4] * k[4, i])
    call(rhs, min(max(t + h, lower), upper), z, p, k, 5)
    for i in range(m):
        early = A[6, 0] * k[0, i] + A[6, 2] * k[2, i] + A[6, 3] * k[3, i]
        z[i] = y[i] + h * (early + A[6, 4] * k[4, i] + A[6, 5] * k[5, i])
    call(rhs, min(max(t + h, lower), upper), z, p, k, 6)


@njit(cache=True, nogil=True, error_model="numpy")
def error_norm(n: int, h: float, y: Array, z: Array, k: Array, rtol: float, absolute: Array, squares: Array) -> float:
    """Root mean square of the error in units of the tolerance, the largest over blocks of n components.

    ``absolute`` has the absolute tolerances of the components that count: a multiple of n, from the first on;
    ``squares`` (m,) is written to.
    """
    # all components first, then the blocks: short loops would not be vectorised
    for i in range(len(absolute)):
        early = E[0] * k[0, i] + E[2] * k[2, i] + E[3] * k[3, i]
        error = h * (early + E[4] * k[4, i] + E[5] * k[5, i] + E[6] * k[6, i])
        squares[i] = (error / (absolute[i] + rtol * max(abs(y[i]), abs(z[i])))) ** 2
    largest = 0.0
    for first in range(0, len(absolute), n):
        total = 0.0
        for i in range(first, first + n):
            total += squares[i]
        if not total < math.inf:
            return total
        largest = max(largest, total)
    return math.sqrt(largest / n)


@njit(cache=True, nogil=True, error_model="numpy")
def interpolant(h: float, k: Array, q: Array) -> None:
    """Coefficients q (4, m) of the powers 1..4 of x = (t - t_old) / h from the stages k (7, m)."""
    for i in range(k.shape[1]):
        for r in range(4):
            early = P[0, r] * k[0, i] + P[2, r] * k[2, i] + P[3, r] * k[3, i]
            q[r, i] = h * (early + P[4, r] * k[4, i] + P[5, r] * k[5, i] + P[6, r] * k[6, i])
