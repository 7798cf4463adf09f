r"""The diagonal of the inverse of a factored sparse matrix, without the inverse.

With :math:`P A P' = L D L'`, the entries of :math:`A^{-1}` where L has entries follow from each other, from the last
column back. The inverse's other entries are never needed.

References
----------
A. M. Erisman and W. F. Tinney (1975), "On computing certain elements of the inverse of a sparse matrix", Communications
of the ACM 18(3), 177-179, after Takahashi, Fagan and Chin (1973).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.factors.triangular import SymmetricFactors


def inverse_diagonal(factors: SymmetricFactors) -> Array:
    """Diagonal of the inverse at all nodes, shape (n,), of a matrix without fixed nodes; NaN if it was not factored."""
    size = len(factors.order)
    if not factors.good:
        return np.full(size, np.nan)
    diagonal = np.empty(size)
    _selected(factors.starts, factors.rows, factors.entries, factors.diagonal, diagonal)
    found = np.empty(size)
    found[factors.order] = diagonal
    return found


@njit(cache=True)
def _selected(starts, rows, lower, pivots, diagonal):  # type: ignore[no-untyped-def]
    """Fill the diagonal of the inverse, in the order of elimination."""
    n = len(pivots)
    inverse = np.zeros(len(lower))
    place = np.full(n, -1)
    for j in range(n - 1, -1, -1):
        first, end = int(starts[j]), int(starts[j + 1])
        for p in range(first, end):
            place[rows[p]] = p
        for p in range(first, end):
            k, value = rows[p], lower[p]
            inverse[p] -= value * diagonal[k]
            for q in range(starts[k], starts[k + 1]):
                r = place[rows[q]]
                if r >= 0:
                    inverse[r] -= value * inverse[q]
                    inverse[p] -= lower[r] * inverse[q]
        total = 1.0 / pivots[j]
        for p in range(first, end):
            total -= lower[p] * inverse[p]
            place[rows[p]] = -1
        diagonal[j] = total
