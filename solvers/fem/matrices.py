"""Symmetric matrices in the sparsity pattern of a space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from numba import njit

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.halo import Halo
from invsamp.solvers.foreign import Sparse

#: Unsigned, or numba looks for negative indices in the innermost loops.
Places = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Contribution of this rank's cells to a matrix: entries in the space's sparsity pattern over its local nodes."""

    pattern: Sparse
    places: tuple[Places, Places]  # starts of the rows, and columns, for compiled loops
    entries: Array
    halo: Halo | None

    def __matmul__(self, fields: Array) -> Array:
        """The product with fields (n, k)."""
        if self.halo is not None:
            return self.halo.collect(self._local @ self.halo.extend(fields))
        if fields.shape[1] == 1:
            single = np.empty(fields.shape)
            _product(*self.places, self.entries, fields[:, 0], single[:, 0])
            return single
        product: Array = self._local @ fields
        return product

    @cached_property
    def _local(self) -> Sparse:
        return sparse.csr_matrix((self.entries, self.pattern.indices, self.pattern.indptr), self.pattern.shape)


@njit(cache=True)
def _product(starts, columns, entries, field, product):  # type: ignore[no-untyped-def]
    """One column, without the calls that lead to SciPy's loop: on a coarse mesh they cost more than it."""
    for row in range(len(product)):
        total = 0.0
        for p in range(starts[row], starts[row + 1]):
            total += entries[p] * field[columns[p]]
        product[row] = total
