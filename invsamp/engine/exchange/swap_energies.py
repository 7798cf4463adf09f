"""One rung at a swap attempt: the energies that it gives, and the positions and estimates that it takes over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.contract import remembered
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, Rows
from invsamp.kernels.contract import Point
from invsamp.protocols import Array, Gradients
from invsamp.variances.models import Known

#: An energy estimate (k,), its variance (None: it is exact), and the variance after the swap (None: not asked for).
Taken = tuple[Estimate, Array | None, Array | None]


class Side:
    """A rung at one attempt. Noise-free energies are solved once and kept; noisy ones drawn afresh.

    Parameters
    ----------
    rung : RungChains
    other : RungChains
        The other rung.
    whole : bool
        Energies are those of the whole potential, whatever the estimator says.
    """

    def __init__(self, rung: RungChains, other: RungChains, *, whole: bool = False) -> None:
        self.rung, self.position, self._there, self._whole = rung, rung.position, other.position, whole
        # what is remembered at the other rung's positions is its, if it says the same to this one
        self._memory, self._travels = rung.estimator_memory, memory_travels(rung, other)
        self._memory_there = other.estimator_memory if self._travels else rung.estimator_memory
        #: At its own position, where estimates are exact.
        self.estimate = rung.estimate if rung.estimator.exact else None
        #: Whether swaps get its energies without noise.
        self.noise_free = whole or rung.estimator.exact_energy
        # energies without noise, by whether they are at the other rung's positions
        self._solved: dict[bool, tuple[Rows, Estimate]] = {}

    def answer(self, where: Sequence[bool], rows: Rows, after: bool) -> EvaluationRequests[list[Taken]]:
        """Energies for the chains ``rows``, across or at its own positions; ``after``: with both variances."""
        answers: list[Taken] = []
        for across in where:
            estimate, variance = yield from self._estimate(across, rows)
            back = (yield from self._variance_after(across, rows)) if after and variance is not None else None
            answers.append((estimate, variance, back))
        return answers

    def arrive(self, rows: Rows, estimate: Estimate | None) -> EvaluationRequests[None]:
        """Take over the other rung's chains ``rows``, and its estimates if they are of the same potential."""
        rung, before = self.rung, self.rung.estimate
        position = rung.position.copy()
        position[rows] = self._there[rows]
        memory = remembered(self._memory_there, rows) if self._travels else ()
        # what was cached under another fidelity is of no use: take the crossed solve, or solve again
        if estimate is None and rung.estimator.exact and True in self._solved:
            solved, crossed = self._solved[True]
            estimate, memory = crossed.take(np.searchsorted(solved, rows)), ()
        if estimate is not None:
            rung.point = Point(position, before.replaced(rows, estimate))
            for known in memory:
                rung.remember(rows, known)
        else:
            rung.position = position
            yield from rung.reevaluate(rows, *memory)
        rung.arrived(rows, before)

    def _estimate(self, across: bool, rows: Rows) -> EvaluationRequests[tuple[Estimate, Array | None]]:
        rung, exact = self.rung, self.rung.estimator.exact
        if exact and not across:
            return energies(rung.estimate, rows), None
        if self.noise_free and across in self._solved:
            solved, known = self._solved[across]
            return energies(known, np.searchsorted(solved, rows)), None
        if self._whole and not exact:
            position = (self._there if across else self.position)[rows]
            (found,) = yield (Request(rung.fidelity, position, gradient=False),)
        else:
            found = yield from self._estimated(across, rows, rung.gradients if exact else False)
        if self.noise_free:
            self._solved[across] = rows, found
            return found, None
        position = (self._there if across else self.position)[rows]
        return found, rung.energy_variance(position, found.energy_variance)

    def _variance_after(self, across: bool, rows: Rows) -> EvaluationRequests[Array]:
        """Variance of the energy that takes the place of this one after the swap: the rung's, where it would be."""
        rung, position, stated = self.rung, (self.position if across else self._there)[rows], None
        model = rung.settings.energy_variance
        if isinstance(model, Known) and model.stated:
            found = yield from self._estimated(not across, rows)
            stated = found.energy_variance
        variance = rung.energy_variance(position, stated)
        assert variance is not None  # the rung's energies are noisy
        return variance

    def _estimated(self, across: bool, rows: Rows, gradient: Gradients = False) -> EvaluationRequests[Estimate]:
        position, known = (self._there, self._memory_there) if across else (self.position, self._memory)
        rung, memory = self.rung, remembered(known, rows)
        return rung.estimator.estimate(rung.streams["swap"], position[rows], gradient, *memory)


def memory_travels(rung: RungChains, other: RungChains) -> bool:
    """Whether the memory of one rung's estimator at a position is useful to the other's."""
    moves = rung.remembering is not None and rung.remembering.moves
    return moves and rung.potential is other.potential and rung.settings.estimator == other.settings.estimator


def energies(estimate: Estimate, rows: Rows) -> Estimate:
    """Energy and prior energy alone, of some chains: all that a swap takes of an estimate."""
    prior = None if estimate.prior is None else estimate.prior[rows]
    return Estimate(estimate.energy[rows], None, prior=prior)  # type: ignore[arg-type]
