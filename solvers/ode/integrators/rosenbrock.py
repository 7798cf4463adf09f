r"""A linearly implicit Runge-Kutta method for stiff systems, as a table and its compiled step.

With the Jacobian J at the beginning of a step of length h the stages solve

.. math:: \Bigl(\frac{1}{h \gamma} - J\Bigr) U_i = f\Bigl(t + c_i h, y + \sum_j a_{ij} U_j\Bigr)
          + \frac{1}{h} \sum_j C_{ij} U_j + h d_i f_t

(Hairer and Wanner, "Solving Ordinary Differential Equations II", IV.7, eq. (7.25)). For states and sensitivities
together J is block triangular. All columns share the factors of the states' block. The part below it acts on a stage of
the states as the directional derivative of `invsamp.solvers.ode.codegen.rosenbrock_jacobians`. Sensitivities are those
of the discrete step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.foreign import Jitted
from invsamp.solvers.ode.integrators.dense_output import writer
from invsamp.solvers.ode.integrators.explicit_rk import error_norm
from invsamp.solvers.ode.integrators.function_pointers import BORROWING, call, function_of
from invsamp.solvers.ode.integrators.sparse_factors import (
    Pattern,
    factorize_sparse,
    solve_sparse,
    solve_sparse_transposed,
)
from invsamp.solvers.ode.integrators.stage_programs import Call, Place, Sum, program
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.tableau_rodas5p import BY_TIME, GAMMA, NODES, STAGES, A, C, H
from invsamp.solvers.ode.integrators.trajectories import Control, Linear

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


#: Row of the stages with the slopes at the end of a step, and row of the coefficients q for the error test.
_LAST, _SQUARES = STAGES, 4


class Workspace(NamedTuple):
    """Arrays that a trajectory of n states and m components needs."""

    slopes: Array  # (1, n + entries): f and the entries of J
    factors: Array  # (n, n), or empty
    values: Array  # of sparse factors
    scratch: Array  # (n,)
    pivots: Integers  # (n,)
    direction: Array  # (m + n + 1,): x, u, tau, S
    by_time: Array  # (n,): df/dt
    extra: Array  # (2, m)


def workspace(control: Control, m: int) -> Workspace:
    """Arrays for trajectories of m components; not compiled, but that it could be."""
    n = control.n_states
    pattern = control.linear.pattern
    dense = n if len(pattern.starts) == 0 else 0
    return Workspace(
        np.empty((1, n + len(pattern.rows))),
        np.empty((dense, dense)),
        np.empty(len(pattern.indices)),
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.empty(m + n + 1),
        np.empty(n),
        np.empty((2, m)),
    )


@njit(**BORROWING)
def _begin(
    rhs: int, control: Control, absolute: Array, t: float, lower: float, upper: float, y: Array, p: Array, k: Array,
    q: Array, space: Workspace,
) -> float:  # fmt: skip
    """Take the derivatives at the beginning of steps from y (m,) at t."""
    n, linear, t = control.n_states, control.linear, min(max(t, lower), upper)
    call(linear.jacobian, t, y, p, space.slopes, 0)
    direction = space.direction
    for i in range(n):
        direction[i], direction[n + i] = y[i], 0.0
    direction[2 * n] = 1.0
    for i in range(n, len(y)):
        direction[n + 1 + i] = y[i]
    call(linear.tangents, t, direction, p, space.extra, 0)
    for i in range(n):
        space.by_time[i] = space.extra[0, i]
    return math.inf


@njit(**BORROWING)
def _finish(n: int, h: float, k: Array, q: Array) -> None:
    """Rates of change at the end of a step, by its interpolant."""
    for i in range(n):
        k[_LAST, i] = (q[0, i] + 2.0 * q[1, i] + 3.0 * q[2, i] + 4.0 * q[3, i]) / h


@njit(**BORROWING)
def _interpolation_errors(
    rhs: int,
    linear: Linear,
    n: int,
    t: float,
    h: float,
    lower: float,
    upper: float,
    y: Array,
    p: Array,
    k: Array,
    q: Array,
    space: Workspace,
) -> None:
    r"""Estimates (m,) of the error of the interpolant :math:`\eta` in the middle of a step, to ``space.extra[0]``.

    They are the defect there, :math:`(1 / (h \gamma) - J)^{-1} (f(\eta) - \eta')`. Components that are slaved to others
    come out right at the end of however long a step, and the method's own estimate is about that: within the step it
    knows nothing. Steinebach (2023), section 5, looks at the defect, too, without the matrix.
    """
    m = len(y)
    right, middle = space.extra[0], k[STAGES]
    for i in range(m):
        middle[i] = y[i] + 0.5 * (q[0, i] + 0.5 * (q[1, i] + 0.5 * (q[2, i] + 0.5 * q[3, i])))
    call(rhs, min(max(t + 0.5 * h, lower), upper), middle, p, k, STAGES + 1)
    for i in range(m):
        right[i] = k[STAGES + 1, i] - (q[0, i] + q[1, i] + 0.75 * q[2, i] + 0.5 * q[3, i]) / h
    _solve_stage(linear, n, min(max(t, lower), upper), 0.0, p, space)


@njit(**BORROWING)
def factorize(n: int, h: float, pattern: Pattern, space: Workspace) -> None:
    """1 / (h gamma) - J as L U, the diagonal inverted; with partial pivoting where it is dense."""
    slopes, factors, pivots = space.slopes, space.factors, space.pivots
    if len(pattern.starts) > 0:
        factorize_sparse(pattern, 1.0 / (h * GAMMA), slopes, n, space.values, space.scratch)
        return
    for i in range(n):
        for j in range(n):
            factors[i, j] = 0.0
    for e in range(len(pattern.rows)):
        factors[pattern.rows[e], pattern.columns[e]] = -slopes[0, n + e]
    for i in range(n):
        factors[i, i] += 1.0 / (h * GAMMA)
    for j in range(n):
        best, largest = j, abs(factors[j, j])
        for i in range(j + 1, n):
            if abs(factors[i, j]) > largest:
                best, largest = i, abs(factors[i, j])
        pivots[j] = best
        if best != j:
            for k in range(n):
                factors[j, k], factors[best, k] = factors[best, k], factors[j, k]
        inverse = 1.0 / factors[j, j]
        factors[j, j] = inverse
        for i in range(j + 1, n):
            factor = factors[i, j]
            if factor != 0.0:
                factor *= inverse
                factors[i, j] = factor
                for k in range(j + 1, n):
                    factors[i, k] -= factor * factors[j, k]


@njit(**BORROWING)
def _solve(n: int, first: int, factors: Array, pivots: Integers, b: Array) -> None:
    """Solve for the block b[first : first + n], in place."""
    for j in range(n):
        other = pivots[j]
        if other != j:
            b[first + j], b[first + other] = b[first + other], b[first + j]
    for i in range(1, n):
        total = b[first + i]
        for j in range(i):
            total -= factors[i, j] * b[first + j]
        b[first + i] = total
    for i in range(n - 1, -1, -1):
        total = b[first + i]
        for j in range(i + 1, n):
            total -= factors[i, j] * b[first + j]
        b[first + i] = total * factors[i, i]


@njit(**BORROWING)
def solve_factors(n: int, pattern: Pattern, space: Workspace, b: Array) -> None:
    """Solve for b (n,), in place."""
    if len(pattern.starts) > 0:
        solve_sparse(pattern, space.values, space.scratch, b, 0)
    else:
        _solve(n, 0, space.factors, space.pivots, b)


@njit(**BORROWING)
def solve_transposed(n: int, pattern: Pattern, space: Workspace, b: Array) -> None:
    """Solve with the transposed matrix for b (n,), in place."""
    if len(pattern.starts) > 0:
        solve_sparse_transposed(pattern, space.values, space.scratch, b)
        return
    factors, pivots = space.factors, space.pivots
    for i in range(n):
        total = b[i]
        for j in range(i):
            total -= factors[j, i] * b[j]
        b[i] = total * factors[i, i]
    for i in range(n - 1, -1, -1):
        total = b[i]
        for j in range(i + 1, n):
            total -= factors[j, i] * b[j]
        b[i] = total
    for i in range(n - 1, -1, -1):
        other = pivots[i]
        if other != i:
            b[i], b[other] = b[other], b[i]


@njit(**BORROWING)
def _solve_four(n: int, first: int, last: int, factors: Array, pivots: Integers, b: Array) -> None:
    """The same for four blocks at once, of which the last begins at ``last`` at most."""
    second, third, fourth = min(first + n, last), min(first + 2 * n, last), min(first + 3 * n, last)
    for j in range(n):
        other = pivots[j]
        if other != j:
            for block in range(first, fourth + 1, n):
                b[block + j], b[block + other] = b[block + other], b[block + j]
    for i in range(1, n):
        v0, v1, v2, v3 = b[first + i], b[second + i], b[third + i], b[fourth + i]
        for j in range(i):
            factor = factors[i, j]
            v0 -= factor * b[first + j]
            v1 -= factor * b[second + j]
            v2 -= factor * b[third + j]
            v3 -= factor * b[fourth + j]
        b[first + i], b[second + i], b[third + i], b[fourth + i] = v0, v1, v2, v3
    for i in range(n - 1, -1, -1):
        v0, v1, v2, v3 = b[first + i], b[second + i], b[third + i], b[fourth + i]
        for j in range(i + 1, n):
            factor = factors[i, j]
            v0 -= factor * b[first + j]
            v1 -= factor * b[second + j]
            v2 -= factor * b[third + j]
            v3 -= factor * b[fourth + j]
        inverse = factors[i, i]
        b[first + i], b[second + i] = v0 * inverse, v1 * inverse
        b[third + i], b[fourth + i] = v2 * inverse, v3 * inverse


@njit(**BORROWING)
def _solve_stage(linear: Linear, n: int, begin: float, weight: float, p: Array, space: Workspace) -> None:
    """A stage from its right-hand sides, in extra[0]; ``weight`` is h times the sum of its gamma_ij."""
    right, moved, direction, pattern = space.extra[0], space.extra[1], space.direction, linear.pattern
    m, is_sparse = len(right), len(linear.pattern.starts) > 0
    solve_factors(n, pattern, space, right)
    if m > n:
        for i in range(n):
            direction[n + i] = right[i]
        direction[2 * n] = weight
        call(linear.tangents, begin, direction, p, space.extra, 1)
        for i in range(n, m):
            right[i] += moved[i]
        if is_sparse:
            for first in range(n, m, n):
                solve_sparse(pattern, space.values, space.scratch, right, first)
        else:
            for first in range(n, m, 4 * n):
                _solve_four(n, first, m - n, space.factors, space.pivots, right)


@njit(**BORROWING)
def _finish_stage(
    linear: Linear, n: int, begin: float, weight: float, p: Array, k: Array, stage: int, space: Workspace
) -> None:
    """A stage from its right-hand sides in extra[0], which lack df/dt, to its row of k."""
    right = space.extra[0]
    for i in range(n):
        right[i] += weight * space.by_time[i]
    _solve_stage(linear, n, begin, weight, p, space)
    for i in range(len(right)):
        k[stage, i] = right[i]


@njit(**BORROWING)
def _accept(control: Control, absolute: Array, y: Array, z: Array, errors: Array, q: Array) -> float:
    """Norm of the errors of a step from y to z."""
    squares = q[_SQUARES:]
    for i in range(len(absolute)):
        part = errors[i] / (absolute[i] + control.rtol * max(abs(y[i]), abs(z[i])))
        squares[0, i] = part * part
    return error_norm(1, control.n_states, 1.0, len(absolute), control.weight, squares)


def _attempt() -> Jitted:
    """The step, with the stages U in k[:8], the last of which is its error, and its interpolant."""
    arguments = "rhs, t, h, lower, upper, y, p, k"
    lines = [
        "n, m, linear = control.n_states, len(y), control.linear",
        "factorize(n, h, linear.pattern, space)",
        "begin, right = min(max(t, lower), upper), space.extra[0]",
    ]
    scope: dict[str, object] = {"factorize": factorize, "_finish_stage": _finish_stage, "_accept": _accept}
    for s in range(STAGES):
        states: Place = ("z", 0) if s else ("y", 0)
        moved = [Sum(("z", 0), ("y", 0), "1", _row(A[s]))] if s else []
        scope[f"stage{s}"] = program([*moved, Call(NODES[s], states, s)])
        scope[f"earlier{s}"] = program([Sum(("z", 0), ("k", s), "1 / h", _row(C[s]))])
        lines += [
            f"stage{s}({arguments}, z, q)",
            f"earlier{s}({arguments}, right, q)",
            f"_finish_stage(linear, n, begin, {BY_TIME[s]!r} * h, p, k, {s}, space)",
        ]
    lines += [
        "for i in range(m):",
        f"    z[i] += k[{STAGES - 1}, i]",
        f"error = _accept(control, absolute, y, z, k[{STAGES - 1}], q)",
        "if error < 1:",
        f"    coefficients({arguments}, z, q)",
        "    for i in range(m):",
        "        b0, b1, b2 = q[0, i], q[1, i], q[2, i]",
        "        q[0, i], q[1, i], q[2, i], q[3, i] = z[i] - y[i] + b0, b1 - b0, b2 - b1, -b2",
        "    errors_within(rhs, linear, n, t, h, lower, upper, y, p, k, q, space)",
        "    error = max(error, _accept(control, absolute, y, z, space.extra[0], q))",
        "return error",
    ]
    scope["coefficients"] = program([Sum(("q", r), None, "1", _row(row)) for r, row in enumerate(H)])
    scope["errors_within"] = _interpolation_errors
    return function_of("rhs, control, absolute, t, h, lower, upper, y, p, k, z, q, space", lines, scope)


def _row(values: Sequence[float]) -> dict[int, float]:
    return {j: value for j, value in enumerate(values) if value}


_values = writer(4)


@njit(**BORROWING)
def _interpolate(
    rhs: int, control: Control, t: float, h: float, lower: float, upper: float, y: Array, p: Array, k: Array, z: Array,
    q: Array, space: Workspace,
) -> None:  # fmt: skip
    return  # it is done where its error is asked for


@njit(**BORROWING, inline="always")
def _write(
    rhs: int, control: Control, absolute: Array, first: int, last: int, t: float, h: float, lower: float, upper: float,
    times: Array, y: Array, p: Array, k: Array, z: Array, q: Array, space: Workspace, out: Array, known: bool,
) -> None:  # fmt: skip
    _values(first, last, t, h, times, y, q, out)


#: Rodas5P.
RODAS = Stepper(
    name="Rodas5P",
    order=5,
    exponent=-1 / 5,
    stages=STAGES,
    last=_LAST,
    rows=STAGES + 2,
    powers=4,
    workspace=workspace,
    begin=_begin,
    attempt=_attempt(),
    interpolate=_interpolate,
    extra=0,
    finish=_finish,
    write=_write,
    edge=None,
)
