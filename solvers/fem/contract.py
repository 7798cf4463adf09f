"""Names of array types, and what factors of a matrix must offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import Given

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.intp]

#: Of a mesh: a name that it knows, or a predicate, points (k, 2) -> mask (k,).
Part = str | Callable[[Array], Given]


@runtime_checkable
class Factors(Protocol):
    """A factored matrix, some of whose nodes are fixed."""

    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k); they are not changed.

        The matrix is that of the free nodes, with the identity for the fixed ones: symmetric, so that this is its own
        transpose. Fixed values v are lifted by the caller: subtract matrix @ v (v zero at the free nodes), put v at the
        fixed nodes, solve.

        A solve that fails gives NaN, in the columns that failed or in all, and on every rank alike.
        """
        ...
