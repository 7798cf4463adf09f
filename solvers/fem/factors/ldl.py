r"""Sparse factors :math:`P A P' = L D L'` of symmetric, positive definite matrices that share one sparsity pattern.

What depends on the pattern alone (the order of elimination, where entries of L arise) is found once, by SuperLU; the
numbers of each matrix then follow from one compiled loop.

References
----------
T. A. Davis (2005), "Algorithm 849: a concise sparse Cholesky factorization package", ACM Transactions on Mathematical
Software 31(4): the loop row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numba import njit
from scipy.sparse.linalg import splu

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.factors.triangular import SymmetricFactors
from invsamp.solvers.fem.matrices import Places
from invsamp.solvers.foreign import Sparse

#: A pivot that is left with less of its diagonal entry is rounding: the matrix is singular.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Elimination:
    """How the free nodes of all matrices with one pattern are eliminated.

    Parameters
    ----------
    order : array of int, shape (free,)
        Nodes in the order of elimination.
    chosen, columns, rows : array of int, array of int, array of int (free + 1,)
        The matrix below and on the diagonal, row by row in this order: entries of the pattern, their columns, and the
        starts of the rows. The diagonal is the last of its row.
    starts, below : array of int (free + 1,), array of int
        Starts of the columns of L, whose unit diagonal is left out, and the rows of its entries.
    fill : array of int (free + 1,), array of int, array of int
        The same entries row by row: starts of the rows, columns, and places among those of ``below``.
    """

    order: Numbers
    chosen: Places
    columns: Places
    rows: Places
    starts: Places
    below: Places
    fill: tuple[Places, Places, Places]

    @classmethod
    def make(cls, pattern: Sparse, free: Numbers) -> Elimination:
        """From a symmetric pattern with the whole diagonal, a CSR matrix, and the numbers of the free nodes."""
        order, filled = _symbolic(pattern[free][:, free])
        order = np.asarray(free)[order]
        # counted from 1: an explicit zero would be dropped
        numbered = sparse.csr_matrix((np.arange(1.0, pattern.nnz + 1), pattern.indices, pattern.indptr), pattern.shape)
        lower = sparse.csr_matrix(sparse.tril(numbered[order][:, order]))
        lower.sort_indices()
        chosen, columns, rows = (
            found.astype(np.uint32) for found in (lower.data.astype(np.intp) - 1, lower.indices, lower.indptr)
        )
        counted = sparse.csc_matrix((np.arange(1.0, filled.nnz + 1), filled.indices, filled.indptr), filled.shape)
        by_row = counted.tocsr()
        starts, below, *fill = (
            found.astype(np.uint32)
            for found in (filled.indptr, filled.indices, by_row.indptr, by_row.indices, by_row.data - 1)
        )
        return cls(order, chosen, columns, rows, starts, below, tuple(fill))

    def factor(self, entries: Array) -> SymmetricFactors:
        """Factor the matrix with these entries in the pattern; not `good` if it is not finite or positive definite."""
        lower, diagonal = np.empty(len(self.below)), np.empty(len(self.order))
        good = _factor(
            entries, self.chosen, self.columns, self.rows, self.starts, self.below, *self.fill, lower, diagonal
        )
        return SymmetricFactors(self.starts, self.below, lower, diagonal, self.order, good)


def _symbolic(pattern: Sparse) -> tuple[Numbers, Sparse]:
    """SuperLU's minimum degree order of a pattern, as numbers of its rows, and L below the diagonal, a CSC matrix."""
    size = pattern.shape[0]
    if not size:
        return np.empty(0, dtype=np.intp), sparse.csc_matrix((0, 0))
    # hardly diagonally dominant: no pivots, nothing cancels, and entries of L far from the diagonal do not underflow
    graph = sparse.csc_matrix((-np.ones(pattern.nnz), pattern.indices, pattern.indptr), pattern.shape)
    graph = sparse.csc_matrix(graph + sparse.diags(np.diff(pattern.indptr) + 1e-4))
    found = splu(graph, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    lower = sparse.csc_matrix(sparse.tril(found.L, -1))
    lower.sort_indices()
    return np.argsort(found.perm_c), lower


@njit(cache=True)
def _factor(entries, chosen, columns, rows, starts, below, row_starts, row_columns, places, lower, diagonal):  # type: ignore[no-untyped-def]
    """Fill ``lower`` and ``diagonal``, row by row; whether all went well."""
    row = np.zeros(len(diagonal))
    for k in range(len(diagonal)):
        for p in range(rows[k], rows[k + 1]):
            row[columns[p]] = entries[chosen[p]]
        least, pivot = ROUNDING * row[k], row[k]
        row[k] = 0.0
        for q in range(row_starts[k], row_starts[k + 1]):
            i, place = row_columns[q], places[q]
            value = row[i]
            row[i] = 0.0
            for p in range(starts[i], place):
                row[below[p]] -= lower[p] * value
            lower[place] = value / diagonal[i]
            pivot -= lower[place] * value
        diagonal[k] = pivot
        # also what is not finite ends here: it reaches the pivot of its row
        if not (pivot > least and 0.0 < pivot < np.inf):
            return False
    return True
