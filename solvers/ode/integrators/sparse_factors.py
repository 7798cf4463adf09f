"""Sparse factors L U without pivoting, in a pattern that is found once: those of 1 / (h gamma) - J of a large system.

A step's matrix has large diagonal entries for short steps. So pivots are taken from the diagonal, as codes for chemical
kinetics do (Sandu et al. 1997, "Benchmarking stiff ODE solvers for atmospheric chemistry problems I"). A pivot of zero
gives stages that are not finite, and a shorter step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
from numba import njit
from scipy.sparse.linalg import splu

from invsamp.solvers.ode.integrators.function_pointers import BORROWING

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Up to so many states the matrix is dense, and where sparse factors save less than this factor of its operations.
_MOST_DENSE, _LEAST_SAVED = 16, 4.0


class Pattern(NamedTuple):
    """Where a matrix (n, n) has entries, and where its factors do, which are stored by rows; dense without `starts`."""

    rows: Integers  # (entries,)
    columns: Integers  # (entries,)
    order: Integers  # (n,): row and column of the matrix that come k-th in the factors
    starts: Integers  # (n + 1,): where rows of the factors begin
    diagonal: Integers  # (n,): where their diagonal entries are
    indices: Integers  # (stored,): columns, increasing in each row
    places: Integers  # (entries,): where each entry of the matrix is among the factors'


def dense_pattern(rows: npt.ArrayLike, columns: npt.ArrayLike) -> Pattern:
    """Of a matrix whose factors are dense."""
    none = np.empty(0, dtype=np.int64)
    return Pattern(np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64), none, none, none, none, none)


def pattern_of(n: int, rows: npt.ArrayLike, columns: npt.ArrayLike) -> Pattern:
    """Of a matrix with entries there; with sparse factors if these save work.

    The order is SuperLU's minimum degree of the symmetric pattern; the factors' entries are those of its elimination
    tree (Davis 2006, "Direct Methods for Sparse Linear Systems", section 4).
    """
    dense = dense_pattern(rows, columns)
    if n <= _MOST_DENSE:
        return dense
    i, j = dense.rows, dense.columns
    ones = scipy.sparse.csc_array((np.ones(len(i)), (i, j)), shape=(n, n))
    both = ones + ones.T + scipy.sparse.identity(n) * float(4 * n)
    ordered = splu(
        both.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    ).perm_c
    place = np.asarray(ordered, dtype=np.int64)  # of each row in the order of the factors
    order = np.argsort(place)
    lower = _columns_below(both.tocsc()[order][:, order])
    counts = np.array([len(below) for below in lower])
    if _LEAST_SAVED * 2.0 * float((counts * (counts + 1.0)).sum()) > 2.0 / 3.0 * n**3:
        return dense
    row, column = np.concatenate(lower), np.repeat(np.arange(n), counts)
    every = scipy.sparse.csr_array(
        (
            np.ones(2 * len(row) + n),
            (np.concatenate([row, column, np.arange(n)]), np.concatenate([column, row, np.arange(n)])),
        ),
        shape=(n, n),
    )
    every.sort_indices()
    starts, indices = every.indptr.astype(np.int64), every.indices.astype(np.int64)
    keys = np.repeat(np.arange(n), np.diff(starts)) * n + indices
    return Pattern(
        i,
        j,
        order,
        starts,
        np.searchsorted(keys, np.arange(n) * (n + 1)),
        indices,
        np.searchsorted(keys, place[i] * n + place[j]),
    )


def _columns_below(matrix: scipy.sparse.csc_array) -> list[Integers]:
    """Rows of the entries of L below the diagonal, for each column, from a symmetric pattern."""
    n = matrix.shape[0]
    below: list[Integers] = []
    children: list[list[Integers]] = [[] for _ in range(n)]
    for k in range(n):
        own = matrix.indices[matrix.indptr[k] : matrix.indptr[k + 1]].astype(np.int64)
        found = np.unique(np.concatenate([own, *children[k]]))
        found = found[found > k]
        below.append(found)
        if len(found):
            children[found[0]].append(found)
        children[k] = []
    return below


@njit(**BORROWING)
def factorize_sparse(pattern: Pattern, shift: float, entries: Array, first: int, values: Array, w: Array) -> None:
    """Factors of shift - J to ``values``, from J's entries in the first row from ``first`` on; ``w`` (n,) is scratch.

    L has ones on its diagonal; that of U is inverted.
    """
    _, _, _, starts, diagonal, indices, places = pattern
    for e in range(len(values)):
        values[e] = 0.0
    for e in range(len(places)):
        values[places[e]] -= entries[0, first + e]
    for i in range(len(diagonal)):
        begin, middle, end = starts[i], diagonal[i], starts[i + 1]
        for e in range(begin, end):
            w[indices[e]] = values[e]
        w[i] += shift
        for e in range(begin, middle):
            k = indices[e]
            factor = w[k] * values[diagonal[k]]
            values[e] = factor
            if factor != 0.0:
                for f in range(diagonal[k] + 1, starts[k + 1]):
                    w[indices[f]] -= factor * values[f]
        values[middle] = 1.0 / w[i]
        for e in range(middle + 1, end):
            values[e] = w[indices[e]]


@njit(**BORROWING)
def solve_sparse(pattern: Pattern, values: Array, w: Array, b: Array, first: int) -> None:
    """Solve for the block b[first : first + n], in place; ``w`` (n,) is scratch."""
    _, _, order, starts, diagonal, indices, _ = pattern
    n = len(order)
    for i in range(n):
        total = b[first + order[i]]
        for e in range(starts[i], diagonal[i]):
            total -= values[e] * w[indices[e]]
        w[i] = total
    for i in range(n - 1, -1, -1):
        total = w[i]
        for e in range(diagonal[i] + 1, starts[i + 1]):
            total -= values[e] * w[indices[e]]
        w[i] = total * values[diagonal[i]]
        b[first + order[i]] = w[i]


@njit(**BORROWING)
def solve_sparse_transposed(pattern: Pattern, values: Array, w: Array, b: Array) -> None:
    """Solve with the transposed matrix, in place; b and ``w`` (n,)."""
    _, _, order, starts, diagonal, indices, _ = pattern
    n = len(order)
    for i in range(n):
        w[i] = b[order[i]]
    for i in range(n):
        w[i] *= values[diagonal[i]]
        for e in range(diagonal[i] + 1, starts[i + 1]):
            w[indices[e]] -= values[e] * w[i]
    for i in range(n - 1, -1, -1):
        for e in range(starts[i], diagonal[i]):
            w[indices[e]] -= values[e] * w[i]
        b[order[i]] = w[i]
