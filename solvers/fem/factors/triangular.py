r"""Solves with a factored symmetric matrix, :math:`P A P' = L D L'`, in compiled loops.

L is read once for all columns of a block, and a column gets the same bits alone and in a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.factors.recurrence import Factors, Marched, Recurrence
from invsamp.solvers.fem.matrices import Matrix, Places

#: Columns that are taken through the triangles at a time: their part of the work array stays in the cache.
BLOCK = 32


@dataclass(frozen=True, eq=False)
class SymmetricFactors(Factors):
    """L D L' of the free nodes' matrix; made by `invsamp.solvers.fem.factors.ldl.Elimination.factor`."""

    starts: Places  # (free + 1,), of what stands below the diagonal in each column of L
    rows: Places
    entries: Array
    diagonal: Array
    order: Numbers  # nodes in the order of elimination
    good: bool  # otherwise all solutions are NaN: the matrix is not positive definite

    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k); rows of nodes that are not free are copied."""
        if not self.good:
            return np.full(right.shape, np.nan)
        solution = np.array(right, dtype=float, order="C")
        factors = (self.starts, self.rows, self.entries, self.diagonal, self.order)
        for first in range(0, solution.shape[1], BLOCK):
            width = min(solution.shape[1] - first, BLOCK)
            work = np.empty((len(self.order), width))
            (_solve_one if width == 1 else _solve_block)(*factors, work, solution, first)
        return solution

    def march(self, explicit: Matrix, fixed: Numbers, recurrence: Recurrence) -> Marched:
        """As `Factors.march`; of one column in a compiled loop, to the same bits."""
        # on coarse meshes the calls of a loop in Python cost more than what they do
        if recurrence.start.shape[1] > 1:
            return super().march(explicit, fixed, recurrence)
        start, added = recurrence.start[:, 0].copy(), np.ascontiguousarray(recurrence.added[:, :, 0])
        steps, n = len(recurrence.factors), len(start)
        places = np.full(steps + 1, -1)
        places[list(recurrence.keep)] = np.arange(len(recurrence.keep))
        kept, sums = np.full((len(recurrence.keep), n, 1), np.nan), np.zeros((len(recurrence.weights), n, 1))
        if not self.good:
            return Marched(kept, sums + np.nan)
        factors = (self.starts, self.rows, self.entries, self.diagonal, self.order)
        coefficients, weights = np.ascontiguousarray(recurrence.factors), np.ascontiguousarray(recurrence.weights)
        _march(
            *factors,
            *explicit.places,
            explicit.entries,
            start,
            added,
            coefficients,
            places,
            weights,
            kept[:, :, 0],
            sums[:, :, 0],
        )
        return Marched(kept, sums)


@njit(cache=True)
def _substitute(starts, rows, entries, diagonal, x):  # type: ignore[no-untyped-def]
    """Solve for one column in the order of elimination, in place."""
    for j in range(len(x)):
        pivot = x[j]
        for p in range(starts[j], starts[j + 1]):
            x[rows[p]] -= entries[p] * pivot
    for j in range(len(x) - 1, -1, -1):
        value = x[j] / diagonal[j]
        for p in range(starts[j], starts[j + 1]):
            value -= entries[p] * x[rows[p]]
        x[j] = value


@njit(cache=True)
def _solve_one(starts, rows, entries, diagonal, order, work, solution, first):  # type: ignore[no-untyped-def]
    x = work.reshape(-1)
    for j in range(len(order)):
        x[j] = solution[order[j], first]
    _substitute(starts, rows, entries, diagonal, x)
    for j in range(len(order)):
        solution[order[j], first] = x[j]


@njit(cache=True)
def _solve_block(starts, rows, entries, diagonal, order, x, solution, first):  # type: ignore[no-untyped-def]
    width = x.shape[1]
    for j in range(len(order)):
        for k in range(width):
            x[j, k] = solution[order[j], first + k]
    for j in range(len(order)):
        for p in range(starts[j], starts[j + 1]):
            entry, row = entries[p], rows[p]
            for k in range(width):
                x[row, k] -= entry * x[j, k]
    for j in range(len(order) - 1, -1, -1):
        for k in range(width):
            x[j, k] /= diagonal[j]
        for p in range(starts[j], starts[j + 1]):
            entry, row = entries[p], rows[p]
            for k in range(width):
                x[j, k] -= entry * x[row, k]
        for k in range(width):
            solution[order[j], first + k] = x[j, k]


@njit(cache=True)
def _march(  # type: ignore[no-untyped-def]
    starts,
    rows,
    entries,
    diagonal,
    order,
    row_starts,
    columns,
    explicit,
    u,
    added,
    factors,
    places,
    weights,
    kept,
    sums,
):
    """The recurrence in the steps of `Factors.march`; u is overwritten."""
    x, right, free = np.empty(len(order)), np.empty(len(u)), np.zeros(len(u), np.bool_)
    free[order] = True
    if places[0] >= 0:
        kept[places[0]] = u
    for step in range(len(factors)):
        right[:] = 0.0
        for t in range(len(added)):
            if factors[step, t] != 0.0:
                for i in range(len(u)):
                    right[i] += factors[step, t] * added[t, i]
        for row in range(len(u)):
            if free[row]:
                total = 0.0
                for p in range(row_starts[row], row_starts[row + 1]):
                    total += explicit[p] * u[columns[p]]
                right[row] += total
        for j in range(len(order)):
            x[j] = right[order[j]]
        _substitute(starts, rows, entries, diagonal, x)
        for j in range(len(order)):
            right[order[j]] = x[j]
        u, right = right, u
        if places[step + 1] >= 0:
            kept[places[step + 1]] = u
        for w in range(len(weights)):
            if weights[w, step] != 0.0:
                for i in range(len(u)):
                    sums[w, i] += weights[w, step] * u[i]
