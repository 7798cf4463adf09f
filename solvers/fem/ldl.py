r"""Compiled triangular solves of a factored symmetric matrix.

SuperLU without off-diagonal pivots factors a symmetric, positive definite matrix as :math:`P A P' = L D L'`. Its own
solve goes column by column through a block; these loops read L once for all columns, and a column gets the same bits
alone and in a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.sparse.linalg import splu

from invsamp.solvers.fem.contract import Array, Numbers

#: Columns that are taken through the triangles at a time: their part of the work array stays in the cache.
BLOCK = 32


@dataclass(frozen=True, eq=False)
class SymmetricFactors:
    """L D L' of the free nodes' matrix; made by `factor`."""

    # unsigned, or numba looks for negative indices in the innermost loops
    starts: npt.NDArray[np.uint32]  # of what stands below the diagonal in each column of L
    ends: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.uint32]
    entries: Array
    diagonal: Array
    order: Numbers  # nodes in the order of elimination

    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k); rows of nodes that are not free are copied."""
        solution = np.array(right, dtype=float, order="C")
        columns, first = solution.shape[1], 0
        while first < columns:
            width = min(columns - first, BLOCK)
            # a few columns at a time go through loops of their own
            width = width if width >= 8 else min(width, 4)
            march = _solve_one if width == 1 else _solve_four if width <= 4 else _solve_block
            work = np.zeros((len(self.order), max(width, 4) if width > 1 else 1))
            march(
                self.starts, self.ends, self.rows, self.entries, self.diagonal, self.order, work, solution, first, width
            )
            first += width
        return solution


def factor(matrix: Any, free: Numbers) -> SymmetricFactors | None:
    """Factor the matrix (CSC) of the free nodes; None if it is not finite or not positive definite.

    Parameters
    ----------
    matrix : scipy.sparse.csc_matrix, shape (len(free), len(free))
    free : array of int
        Numbers of the free nodes.
    """
    if not np.isfinite(matrix.data).all():
        return None
    try:
        # no off-diagonal pivots: they would make U another matrix than D L'
        found = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # exactly singular
        return None
    diagonal = found.U.diagonal()
    if not (diagonal > 0).all() or not np.array_equal(found.perm_r, found.perm_c):
        return None
    lower, eliminated = found.L, np.arange(len(free))
    if not np.array_equal(lower.indices[lower.indptr[:-1]], eliminated):
        lower.sort_indices()  # SuperLU happens to put the diagonal first
    order = np.empty_like(eliminated)
    order[found.perm_c] = eliminated
    starts = lower.indptr.astype(np.uint32)
    return SymmetricFactors(
        starts[:-1] + np.uint32(1), starts[1:], lower.indices.astype(np.uint32), lower.data, diagonal, free[order]
    )


@njit(cache=True)
def _solve_one(starts, ends, rows, entries, diagonal, order, work, solution, first, width):  # type: ignore[no-untyped-def]
    x = work[:, 0]
    for j in range(len(order)):
        x[j] = solution[order[j], first]
    for j in range(len(order)):
        pivot = x[j]
        for p in range(starts[j], ends[j]):
            x[rows[p]] -= entries[p] * pivot
    for j in range(len(order) - 1, -1, -1):
        value = x[j] / diagonal[j]
        for p in range(starts[j], ends[j]):
            value -= entries[p] * x[rows[p]]
        x[j] = value
        solution[order[j], first] = value


@njit(cache=True)
def _solve_four(starts, ends, rows, entries, diagonal, order, x, solution, first, width):  # type: ignore[no-untyped-def]
    """Two to four columns, filled up by zeros to one vector register."""
    for j in range(len(order)):
        for k in range(width):
            x[j, k] = solution[order[j], first + k]
    for j in range(len(order)):
        a, b, c, d = x[j, 0], x[j, 1], x[j, 2], x[j, 3]
        for p in range(starts[j], ends[j]):
            entry, row = entries[p], rows[p]
            x[row, 0] -= entry * a
            x[row, 1] -= entry * b
            x[row, 2] -= entry * c
            x[row, 3] -= entry * d
    for j in range(len(order) - 1, -1, -1):
        pivot = diagonal[j]
        a, b, c, d = x[j, 0] / pivot, x[j, 1] / pivot, x[j, 2] / pivot, x[j, 3] / pivot
        for p in range(starts[j], ends[j]):
            entry, row = entries[p], rows[p]
            a -= entry * x[row, 0]
            b -= entry * x[row, 1]
            c -= entry * x[row, 2]
            d -= entry * x[row, 3]
        x[j, 0], x[j, 1], x[j, 2], x[j, 3] = a, b, c, d
        for k in range(width):
            solution[order[j], first + k] = x[j, k]


@njit(cache=True)
def _solve_block(starts, ends, rows, entries, diagonal, order, x, solution, first, width):  # type: ignore[no-untyped-def]
    for j in range(len(order)):
        for k in range(width):
            x[j, k] = solution[order[j], first + k]
    for j in range(len(order)):
        for p in range(starts[j], ends[j]):
            entry, row = entries[p], rows[p]
            for k in range(width):
                x[row, k] -= entry * x[j, k]
    for j in range(len(order) - 1, -1, -1):
        for k in range(width):
            x[j, k] /= diagonal[j]
        for p in range(starts[j], ends[j]):
            entry, row = entries[p], rows[p]
            for k in range(width):
                x[j, k] -= entry * x[row, k]
        for k in range(width):
            solution[order[j], first + k] = x[j, k]
