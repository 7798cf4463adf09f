"""Linear recurrences with a factored matrix: what a scheme in time marches through, forwards and backwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.matrices import Matrix


class Recurrence(NamedTuple):
    r"""States of k independent marches, :math:`A u^s = B u^{s-1} + \sum_t c_{st} r_t` in the free nodes.

    In the fixed nodes a state is the sum over t of what is added alone.
    """

    start: Array  # (n, k)
    added: Array  # r, (t, n, k)
    factors: Array  # c, (steps, t)
    keep: Sequence[int]  # which of the states 0 .. steps are wanted, in any order
    weights: Array  # (w, steps), of sums over the states from the first step on


class Marched(NamedTuple):
    """The wanted results of a recurrence."""

    kept: Array  # (len(keep), n, k), in the order of `keep`
    sums: Array  # (w, n, k)


class Factors(ABC):
    """A factored matrix A, some of whose nodes are fixed."""

    @abstractmethod
    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k); they are not changed.

        The matrix is that of the free nodes, with the identity for the fixed ones: symmetric, so that this is its own
        transpose. Fixed values v are lifted by the caller: subtract matrix @ v (v zero at the free nodes), put v at the
        fixed nodes, solve.

        A solve that fails gives NaN, in the columns that failed or in all, and on every rank alike.
        """

    def march(self, explicit: Matrix, fixed: Numbers, recurrence: Recurrence) -> Marched:
        """Go through a recurrence.

        Parameters
        ----------
        explicit : Matrix
            B.
        fixed : array of int
            Numbers of the fixed nodes.
        recurrence : Recurrence
        """
        u = recurrence.start
        kept, sums = np.empty((len(recurrence.keep), *u.shape)), np.zeros((len(recurrence.weights), *u.shape))
        places = {step: k for k, step in enumerate(recurrence.keep)}
        if 0 in places:
            kept[places[0]] = u
        for step, row in enumerate(recurrence.factors):
            added = np.zeros(u.shape)
            for factor, term in zip(row, recurrence.added, strict=True):
                if factor != 0:
                    added += factor * term
            right = explicit @ u
            right += added
            right[fixed] = added[fixed]
            u = self.solve(right)
            if step + 1 in places:
                kept[places[step + 1]] = u
            for weight, total in zip(recurrence.weights[:, step], sums, strict=True):
                if weight != 0:
                    total += weight * u
        return Marched(kept, sums)
