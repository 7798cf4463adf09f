r"""Adjoints of discrete steps: from weights of values at output times to derivatives by the start and the parameters.

The steps of a solve are repeated backwards, each from the stored state at its beginning. The stages of a step are
differentiated in reverse (Hager 2000, "Runge-Kutta methods in optimal control and the transformed adjoint system",
section 2). For linearly implicit ones see Daescu, Carmichael and Sandu 2000, "Adjoint implementation of Rosenbrock
methods applied to variational data assimilation problems". The steps are fixed: the derivatives are those of the
discrete solution, without the dependence of the steps on it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.integrators.explicit_rk import Tableau
from invsamp.solvers.ode.integrators.function_pointers import INNER, call
from invsamp.solvers.ode.integrators.rosenbrock import RODAS, factorize, solve_factors, solve_transposed, workspace
from invsamp.solvers.ode.integrators.tableau_rodas5p import BY_TIME, NODES, STAGES, A, C, H
from invsamp.solvers.ode.integrators.trajectories import HEAD, Control

Array = npt.NDArray[np.float64]


_workspace, _begin = njit(**INNER)(workspace), RODAS.begin
_NODES, _BY_TIME, _H = np.array(NODES), np.array(BY_TIME), np.array(H)


class Table(NamedTuple):
    """An explicit method as arrays."""

    nodes: Array  # (stages,)
    stages: Array  # (stages, stages)
    interpolant: Array  # (powers, stages)
    last: int  # the stage whose argument is the end of the step


def table_of(method: Tableau) -> Table:
    """That of an explicit method, with the stages of its interpolant."""
    rows = (*method.stages, *method.extra_stages)
    stages, interpolant = np.zeros((len(rows), len(rows))), np.zeros((len(method.interpolant), len(rows)))
    for matrix, given in ((stages, rows), (interpolant, method.interpolant)):
        for k, row in enumerate(given):
            matrix[k, list(row)] = list(row.values())
    return Table(np.array([*method.nodes, *method.extra_nodes]), stages, interpolant, len(method.stages) - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def explicit_sweep(
    table: Table, rhs: int, pull: int, n: int, trail: Array, times: Array, weights: Array, p: Array, slopes: Array
) -> None:
    """Derivatives (n + q,) of the sum of ``weights`` (n_times, n) times values at ``times`` by the start, then by p.

    ``trail`` (steps, 4 + n) has the beginning of each step, its length, the bounds of time, and the states there.
    """
    nodes, a, powers, last = table
    stages, q = len(nodes), len(p)
    k, bar, z = np.empty((stages, n)), np.empty((stages, n)), np.empty((stages, n))
    pair, out, old = np.empty(2 * n), np.empty((1, n + q)), np.empty(n)
    adjoint = slopes[:n]
    done = len(times) - 1
    while done >= 0 and math.isnan(times[done]):
        done -= 1
    for step in range(len(trail) - 1, -1, -1):
        t, h, lower, upper, y = trail[step, 0], trail[step, 1], trail[step, 2], trail[step, 3], trail[step, HEAD:]
        inside = done >= 0 and times[done] > t
        count = stages if inside else last + 1
        for s in range(count):
            _add_rows(n, y, h, a[s], int(s), k, z[s])
            call(rhs, min(max(t + nodes[s] * h, lower), upper), z[s], p, k, s)
        for s in range(count):
            for i in range(n):
                bar[s, i] = 0.0
        for i in range(n):
            old[i] = 0.0
        while done >= 0 and times[done] > t:
            x = (times[done] - t) / h
            for s in range(count):
                weight = 0.0
                for r in range(len(powers) - 1, -1, -1):
                    weight = (weight + powers[r, s]) * x
                for i in range(n):
                    bar[s, i] += h * weight * weights[done, i]
            for i in range(n):
                old[i] += weights[done, i]
            done -= 1
        for s in range(count - 1, -1, -1):
            for i in range(n):
                pair[i], pair[n + i] = z[s, i], bar[s, i]
            call(pull, min(max(t + nodes[s] * h, lower), upper), pair, p, out, 0)
            for i in range(n):
                out[0, i] += adjoint[i] if s == last else 0.0
                old[i] += out[0, i]
            for j in range(s):
                for i in range(n):
                    bar[j, i] += h * a[s, j] * out[0, i]
            for c in range(q):
                slopes[n + c] += out[0, n + c]
        for i in range(n):
            adjoint[i] = old[i]
    for j in range(done + 1):
        for i in range(n):
            adjoint[i] += weights[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def rodas_sweep(
    a: Array,
    c: Array,
    rhs: int,
    pull: int,
    second: int,
    control: Control,
    trail: Array,
    times: Array,
    weights: Array,
    p: Array,
    slopes: Array,
) -> None:
    """As `explicit_sweep`, of Rodas5P: ``a`` and ``c`` are its rows of a_ij and C_ij, (8, 8) each."""
    n, q, linear = control.n_states, len(p), control.linear
    space, absolute = _workspace(control, n), np.empty(n)
    k, bar, z = np.empty((STAGES + 2, n)), np.empty((STAGES, n)), np.empty((STAGES, n))
    pair, out, old, end = np.empty(2 * n), np.empty((1, n + q)), np.empty(n), np.empty(n)
    triple, empty = np.empty(3 * n + 1), np.empty((5, n))
    adjoint = slopes[:n]
    done = len(times) - 1
    while done >= 0 and math.isnan(times[done]):
        done -= 1
    for step in range(len(trail) - 1, -1, -1):
        t, h, lower, upper, y = trail[step, 0], trail[step, 1], trail[step, 2], trail[step, 3], trail[step, HEAD:]
        begin = min(max(t, lower), upper)
        _begin(rhs, control, absolute, t, lower, upper, y, p, k, empty, space)
        factorize(n, h, linear.pattern, space)
        for s in range(STAGES):
            _add_rows(n, y, 1.0, a[s], int(s), k, z[s])
            call(rhs, min(max(t + _NODES[s] * h, lower), upper), z[s], p, k, s)
            _add_rows(n, k[s], 1.0 / h, c[s], int(s), k, k[s])
            for i in range(n):
                k[s, i] += _BY_TIME[s] * h * space.by_time[i]
            solve_factors(n, linear.pattern, space, k[s])
        for i in range(n):
            end[i], old[i] = adjoint[i], 0.0
        for s in range(STAGES):
            for i in range(n):
                bar[s, i] = 0.0
        while done >= 0 and times[done] > t:
            x = (times[done] - t) / h
            for s in range(STAGES):
                weight = x * (1.0 - x) * (_H[0, s] + x * (_H[1, s] + x * _H[2, s]))
                for i in range(n):
                    bar[s, i] += weight * weights[done, i]
            for i in range(n):
                old[i] += (1.0 - x) * weights[done, i]
                end[i] += x * weights[done, i]
            done -= 1
        for i in range(n):
            old[i] += end[i]
            bar[STAGES - 1, i] += end[i]
        for s in range(STAGES - 1):
            for i in range(n):
                bar[s, i] += a[STAGES - 1, s] * end[i]
        for s in range(STAGES - 1, -1, -1):
            v = bar[s]
            solve_transposed(n, linear.pattern, space, v)
            for i in range(n):
                pair[i], pair[n + i] = z[s, i], v[i]
                triple[i], triple[n + i], triple[2 * n + 1 + i] = y[i], k[s, i], v[i]
            triple[2 * n] = _BY_TIME[s] * h
            call(pull, min(max(t + _NODES[s] * h, lower), upper), pair, p, out, 0)
            for i in range(n):
                old[i] += out[0, i]
            for j in range(s):
                for i in range(n):
                    bar[j, i] += a[s, j] * out[0, i] + c[s, j] / h * v[i]
            for j in range(q):
                slopes[n + j] += out[0, n + j]
            call(second, begin, triple, p, out, 0)
            for i in range(n):
                old[i] += out[0, i]
            for j in range(q):
                slopes[n + j] += out[0, n + j]
        for i in range(n):
            adjoint[i] = old[i]
    for j in range(done + 1):
        for i in range(n):
            adjoint[i] += weights[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_rows(n: int, base: Array, factor: float, row: Array, count: int, k: Array, target: Array) -> None:
    """The first rows of k, weighted, added to a base."""
    for i in range(n):
        target[i] = base[i]
    for j in range(count):
        weight = factor * row[j]
        if weight != 0.0:
            for i in range(n):
                target[i] += weight * k[j, i]


def rodas_rows() -> tuple[Array, Array]:
    """Rows of a_ij and C_ij."""
    a, c = np.zeros((STAGES, STAGES)), np.zeros((STAGES, STAGES))
    for matrix, rows in ((a, A), (c, C)):
        for s, row in enumerate(rows):
            matrix[s, : len(row)] = row
    return a, c
