"""Linear recurrences with a factored matrix: what a scheme in time marches through, forwards and backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from invsamp.solvers.fem.contract import Array, Factors, Numbers
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
    """What is wanted of a recurrence."""

    kept: Array  # (len(keep), n, k), in the order of `keep`
    sums: Array  # (w, n, k)


@runtime_checkable
class CompiledFactors(Protocol):
    """Factors that have a compiled loop over the steps for one column."""

    def march(self, explicit: Matrix, recurrence: Recurrence) -> Marched:
        """As `march`, for a recurrence with k = 1; every bit is the same."""
        ...


def march(factors: Factors, explicit: Matrix, fixed: Numbers, recurrence: Recurrence) -> Marched:
    """Go through a recurrence.

    Parameters
    ----------
    factors : Factors
        Of A.
    explicit : Matrix
        B.
    fixed : array of int
        Numbers of the fixed nodes.
    recurrence : Recurrence
    """
    u = recurrence.start
    # on coarse meshes the calls of a loop in Python cost more than what they do
    if u.shape[1] == 1 and isinstance(factors, CompiledFactors):
        return factors.march(explicit, recurrence)
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
        u = factors.solve(right)
        if step + 1 in places:
            kept[places[step + 1]] = u
        for weight, total in zip(recurrence.weights[:, step], sums, strict=True):
            if weight != 0:
                total += weight * u
    return Marched(kept, sums)
