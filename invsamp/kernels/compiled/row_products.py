"""Products of rows with a matrix, in one order of summation for compiled loops and for NumPy's side.

BLAS sums in an order that depends on the library and on the number of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.protocols import Array

#: Multiplications up to which rows are multiplied here; beyond, BLAS is faster.
MOST = 2**16


class RowMatrix(NamedTuple):
    """A matrix (d, m), with the first and the last column, plus one, of each row that are not 0."""

    values: Array
    first: npt.NDArray[np.intp]
    last: npt.NDArray[np.intp]

    def small(self, rows: int) -> bool:
        """Whether products of so many rows are made here."""
        return rows * self.values.size <= MOST


#: In place of a matrix that there is none of.
NO_MATRIX = RowMatrix(np.empty((0, 0)), np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))


def row_matrix(matrix: Array) -> RowMatrix:
    """A matrix with what is known of its zeros: triangular ones take half the time."""
    values = np.ascontiguousarray(matrix)
    filled = values != 0.0
    some = filled.any(axis=1)
    first = np.where(some, filled.argmax(axis=1), 0)
    last = np.where(some, values.shape[1] - filled[:, ::-1].argmax(axis=1), 0)
    return RowMatrix(values, first.astype(np.intp), last.astype(np.intp))


def product(rows: Array, matrix: RowMatrix) -> Array:
    """The product (n, m) of rows (n, d) with a matrix."""
    if rows.ndim != 2 or not matrix.small(len(rows)):
        return rows @ matrix.values
    out = np.empty((len(rows), matrix.values.shape[1]))
    multiply(np.ascontiguousarray(rows, dtype=float), *matrix, out)
    return out


@njit(cache=True, error_model="numpy")
def multiply(rows: Array, matrix: Array, first: Array, last: Array, out: Array) -> None:
    """The same into ``out`` (n, m)."""
    for i in range(rows.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0.0
        for k in range(rows.shape[1]):
            factor = rows[i, k]
            for j in range(first[k], last[k]):
                out[i, j] += factor * matrix[k, j]
