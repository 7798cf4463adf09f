r"""Factors :math:`P A P' = L L'` of large symmetric, positive definite matrices with one sparsity pattern, by fronts.

Of each front the triangle over its own nodes is kept inverted, so that solves are products. Products of dense blocks
are those of BLAS in one thread; solves are compiled loops, in which a column gets the same bits alone and in a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numba import njit
from threadpoolctl import threadpool_limits

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.factors.nested_dissection import Fronts, fronts
from invsamp.solvers.fem.factors.recurrence import Factors
from invsamp.solvers.foreign import Sparse

#: Columns that are solved for at a time, and rows of a front that are updated at a time.
BLOCK, ROWS = 32, 128


@dataclass(frozen=True, eq=False)
class Multifrontal:
    """How the free nodes of all matrices with one pattern are eliminated.

    Attributes
    ----------
    fronts : Fronts
        Of the free nodes.
    order : array of int, shape (free,)
        Numbers of the free nodes among all, in the order of elimination.
    offsets : array of int, shape (fronts + 1,)
        Where the panel of each front begins among all numbers of L.
    chosen, places, entry_starts : arrays of int
        Entries of the pattern on and below the diagonal, their places in the panels, and where those of each front
        begin.
    relative : array of int
        Of each row of a front its place in the front of the parent.
    """

    fronts: Fronts
    order: Numbers
    offsets: Numbers
    chosen: Numbers
    places: Numbers
    entry_starts: Numbers
    relative: Numbers

    @classmethod
    def make(cls, pattern: Sparse, free: Numbers, points: Array) -> Multifrontal:
        """From a symmetric pattern with the whole diagonal, a CSR matrix, the free nodes, and all nodes' points."""
        free = np.asarray(free)
        # counted from 1: an explicit zero would be dropped
        numbered = sparse.csr_matrix((np.arange(1.0, pattern.nnz + 1), pattern.indices, pattern.indptr), pattern.shape)
        graph = sparse.csr_matrix(numbered[free][:, free])
        found = fronts(graph, points[free])
        count = len(found.parents)
        widths, heights = np.diff(found.starts), np.diff(found.row_starts)
        offsets = np.concatenate([[0], np.cumsum((widths + heights) * widths)])
        place = np.empty(len(free), dtype=np.intp)
        place[found.order] = np.arange(len(free))
        row, column = place[np.repeat(np.arange(len(free)), np.diff(graph.indptr))], place[graph.indices]
        lower = row >= column
        row, column, entries = row[lower], column[lower], graph.data[lower].astype(np.intp) - 1
        front = np.repeat(np.arange(count), widths)[column]
        local = _local(found, widths, front, row)
        places = offsets[front] + local * widths[front] + column - found.starts[front]
        order = np.lexsort((places, front))
        entry_starts = np.searchsorted(front[order], np.arange(count + 1))
        parents = np.repeat(found.parents, heights)
        relative = np.where(parents >= 0, _local(found, widths, np.maximum(parents, 0), found.rows), 0)
        return cls(
            found, free[found.order], offsets, entries[order], places[order], entry_starts, relative.astype(np.intp)
        )

    def factor(self, entries: Array) -> MultifrontalFactors:
        """Factor the matrix with these entries in the pattern; not `good` if it is not finite or positive definite."""
        panels = np.zeros(self.offsets[-1])
        given = np.ascontiguousarray(entries, dtype=float)
        good = bool(np.isfinite(given).all())
        if good:
            try:
                # what several threads make of a large product differs in its last digits
                with threadpool_limits(1, "blas"):
                    _factor(
                        given,
                        self.chosen,
                        self.places,
                        self.entry_starts,
                        self.fronts.starts,
                        self.fronts.row_starts,
                        self.fronts.parents,
                        self.relative,
                        self.offsets,
                        panels,
                    )
            except np.linalg.LinAlgError:
                good = False
        return MultifrontalFactors(self, panels, good and bool(np.isfinite(panels).all()))


@dataclass(frozen=True, eq=False)
class MultifrontalFactors(Factors):
    """L of the free nodes' matrix; made by `Multifrontal.factor`."""

    elimination: Multifrontal
    panels: Array
    good: bool  # otherwise all solutions are NaN: the matrix is not positive definite

    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k); rows of nodes that are not free are copied."""
        if not self.good:
            return np.full(right.shape, np.nan)
        solution = np.array(right, dtype=float, order="C")
        made = self.elimination
        shape = (made.fronts.starts, made.fronts.rows, made.fronts.row_starts, made.offsets, self.panels)
        for first in range(0, solution.shape[1], BLOCK):
            columns = slice(first, min(first + BLOCK, solution.shape[1]))
            x = np.ascontiguousarray(solution[made.order, columns])
            if x.shape[1] == 1:
                _solve_one(*shape, x.reshape(-1))
            else:
                _solve_block(*shape, x)
            solution[made.order, columns] = x
        return solution


def _local(found: Fronts, widths: Numbers, front: Numbers, row: Numbers) -> Numbers:
    """Places in fronts of rows of the order: among the front's nodes, or after them among the rows that it reaches."""
    size = len(found.order) + 1
    keys = np.repeat(np.arange(len(widths)), np.diff(found.row_starts)) * size + found.rows
    beyond = widths[front] + np.searchsorted(keys, front * size + row) - found.row_starts[front]
    own = (row >= found.starts[front]) & (row < found.starts[front] + widths[front])
    return np.where(own, row - found.starts[front], beyond)


@njit(cache=True)
def _factor(entries, chosen, places, entry_starts, starts, row_starts, parents, relative, offsets, panels):  # type: ignore[no-untyped-def]
    """Fill the panels, front by front: of each the inverse of its triangle, and the rows below it."""
    count = len(parents)
    nothing = np.empty((0, 0))
    updates = [nothing for _ in range(count)]
    first_child, next_child = np.full(count, -1), np.full(count, -1)
    for k in range(count):
        width, height = starts[k + 1] - starts[k], row_starts[k + 1] - row_starts[k]
        panel = panels[offsets[k] : offsets[k + 1]].reshape(width + height, width)
        for e in range(entry_starts[k], entry_starts[k + 1]):
            panels[places[e]] = entries[chosen[e]]
        update = np.zeros((height, height))
        child = first_child[k]
        while child >= 0:
            below = updates[child]
            begin = row_starts[child]
            for a in range(len(below)):
                i = relative[begin + a]
                for b in range(a + 1):
                    j = relative[begin + b]
                    if j < width:
                        panel[i, j] += below[a, b]
                    else:
                        update[i - width, j - width] += below[a, b]
            updates[child] = nothing
            child = next_child[child]
        if width:
            square = np.empty((width, width))
            for i in range(width):
                for j in range(i + 1):
                    square[i, j] = panel[i, j]
                    square[j, i] = panel[i, j]
            inverse = _inverted(np.linalg.cholesky(square))
            for i in range(width):
                for j in range(width):
                    panel[i, j] = inverse[i, j]
            if height:
                lower = np.dot(panel[width:], inverse.T)
                panel[width:] = lower
                for begin in range(0, height, ROWS):
                    end = min(begin + ROWS, height)
                    update[begin:end, :end] -= np.dot(lower[begin:end], lower[:end].T)
        updates[k] = update
        if parents[k] >= 0:
            next_child[k] = first_child[parents[k]]
            first_child[parents[k]] = k


@njit(cache=True)
def _inverted(lower):  # type: ignore[no-untyped-def]
    """Inverse of a lower triangle, by halves."""
    n = len(lower)
    found = np.zeros((n, n))
    if n <= 32:
        for j in range(n):
            found[j, j] = 1.0 / lower[j, j]
            for i in range(j + 1, n):
                total = 0.0
                for k in range(j, i):
                    total += lower[i, k] * found[k, j]
                found[i, j] = -total / lower[i, i]
        return found
    half = n // 2
    first = _inverted(np.ascontiguousarray(lower[:half, :half]))
    second = _inverted(np.ascontiguousarray(lower[half:, half:]))
    found[:half, :half] = first
    found[half:, half:] = second
    found[half:, :half] = -np.dot(second, np.dot(np.ascontiguousarray(lower[half:, :half]), first))
    return found


@njit(cache=True)
def _solve_one(starts, rows, row_starts, offsets, panels, x):  # type: ignore[no-untyped-def]
    """Solve for one column in the order of elimination, in place."""
    count = len(starts) - 1
    widest = 0
    for k in range(count):
        widest = max(widest, starts[k + 1] - starts[k])
    work = np.empty(widest)
    for k in range(count):
        begin, width = starts[k], starts[k + 1] - starts[k]
        panel = panels[offsets[k] : offsets[k + 1]].reshape(-1, max(width, 1))
        for i in range(width):
            total = 0.0
            for j in range(i + 1):
                total += panel[i, j] * x[begin + j]
            work[i] = total
        for i in range(width):
            x[begin + i] = work[i]
        for a in range(row_starts[k], row_starts[k + 1] if width else row_starts[k]):
            i = width + a - row_starts[k]
            total = 0.0
            for j in range(width):
                total += panel[i, j] * work[j]
            x[rows[a]] -= total
    for k in range(count - 1, -1, -1):
        begin, width = starts[k], starts[k + 1] - starts[k]
        panel = panels[offsets[k] : offsets[k + 1]].reshape(-1, max(width, 1))
        for a in range(row_starts[k], row_starts[k + 1] if width else row_starts[k]):
            i, value = width + a - row_starts[k], x[rows[a]]
            for j in range(width):
                x[begin + j] -= panel[i, j] * value
        for j in range(width):
            work[j] = 0.0
        for i in range(width):
            value = x[begin + i]
            for j in range(i + 1):
                work[j] += panel[i, j] * value
        for j in range(width):
            x[begin + j] = work[j]


@njit(cache=True)
def _solve_block(starts, rows, row_starts, offsets, panels, x):  # type: ignore[no-untyped-def]
    """The same for several columns, each with the operations that it has by itself, in their order."""
    count, columns = len(starts) - 1, x.shape[1]
    widest = 0
    for k in range(count):
        widest = max(widest, starts[k + 1] - starts[k])
    work, total = np.empty((widest, columns)), np.empty(columns)
    for k in range(count):
        begin, width = starts[k], starts[k + 1] - starts[k]
        panel = panels[offsets[k] : offsets[k + 1]].reshape(-1, max(width, 1))
        for i in range(width):
            total[:] = 0.0
            for j in range(i + 1):
                entry = panel[i, j]
                for c in range(columns):
                    total[c] += entry * x[begin + j, c]
            for c in range(columns):
                work[i, c] = total[c]
        for i in range(width):
            for c in range(columns):
                x[begin + i, c] = work[i, c]
        for a in range(row_starts[k], row_starts[k + 1] if width else row_starts[k]):
            i = width + a - row_starts[k]
            total[:] = 0.0
            for j in range(width):
                entry = panel[i, j]
                for c in range(columns):
                    total[c] += entry * work[j, c]
            for c in range(columns):
                x[rows[a], c] -= total[c]
    for k in range(count - 1, -1, -1):
        begin, width = starts[k], starts[k + 1] - starts[k]
        panel = panels[offsets[k] : offsets[k + 1]].reshape(-1, max(width, 1))
        for a in range(row_starts[k], row_starts[k + 1] if width else row_starts[k]):
            i = width + a - row_starts[k]
            for j in range(width):
                entry = panel[i, j]
                for c in range(columns):
                    x[begin + j, c] -= entry * x[rows[a], c]
        for j in range(width):
            for c in range(columns):
                work[j, c] = 0.0
        for i in range(width):
            for j in range(i + 1):
                entry = panel[i, j]
                for c in range(columns):
                    work[j, c] += entry * x[begin + i, c]
        for j in range(width):
            for c in range(columns):
                x[begin + j, c] = work[j, c]
