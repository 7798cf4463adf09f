"""Swaps that cost nothing: neighbours of one fidelity whose energies, exact ones, are at hand.

All pairs that meet at a time are decided at once, and the positions move when the last of several meetings in a row is
over. What comes of it is what `invsamp.engine.swaps.pair.Pair.attempt` would make of each pair by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invsamp.contract import Array
from invsamp.engine.rung import RungAtWork
from invsamp.engine.swaps.pair import Pair
from invsamp.engine.swaps.walkers import Integers, Walkers
from invsamp.evaluate.requests import Estimate
from invsamp.kernels import Point


class AtHand:
    """A ladder's rungs, as they meet without solving anything.

    Parameters
    ----------
    rungs : sequence of RungAtWork
    pairs : sequence of Pair
        All of the ladder.
    """

    def __init__(self, rungs: Sequence[RungAtWork], pairs: Sequence[Pair]) -> None:
        self._rungs, self._pairs = rungs, pairs
        self._chains = np.arange(len(rungs[0].position))

    def meet(self, meetings: Sequence[Sequence[int]], walkers: list[Walkers]) -> list[Walkers]:
        """Let pairs meet, those of one meeting at the same time; the walkers at each rung afterwards.

        Parameters
        ----------
        meetings : sequence of sequences of int
            Lower rungs of the pairs, of which no two in a meeting share a rung, and all of which are `Pair.at_hand`.
        walkers : list of Walkers
            At each rung before.
        """
        rungs = self._rungs
        energy = np.stack([rung.estimate.energy for rung in rungs])
        priors = [rung.estimate.prior for rung in rungs]
        factors = np.array([rung.law.factors or (np.nan, np.nan) for rung in rungs])
        apart = bool((factors[:, 0] != factors[:, 1]).any())
        prior = np.stack(priors) if apart else None  # type: ignore[arg-type]  # told where a law needs it
        source = np.repeat(np.arange(len(rungs))[:, None], len(self._chains), axis=1)
        moved = False
        for meeting in meetings:
            if len(meeting):
                moved |= self._decide(np.asarray(meeting), factors, energy, prior, source)
        return self._move(source, walkers) if moved else walkers

    def _decide(self, cold: Integers, factors: Array, energy: Array, prior: Array | None, source: Integers) -> bool:
        """Exchange what is in the rows of the pairs' rungs where a swap is accepted; whether any was."""
        hot = cold + 1
        a, b = (factors[cold] - factors[hot]).T
        with np.errstate(invalid="ignore"):
            log_ratio = b[:, None] * (energy[cold] - energy[hot])
            if prior is not None:
                log_ratio += (a - b)[:, None] * (prior[cold] - prior[hot])
        # infinite energies on both sides give nan: no swap
        log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
        accept = np.array([self._pairs[k].log_uniform() for k in cold]) < log_ratio
        chances, counts = np.exp(np.minimum(log_ratio, 0.0)), accept.sum(axis=1).tolist()
        for k, own, count in zip(cold.tolist(), chances, counts, strict=True):
            self._pairs[k].count(own, count)
        if not accept.any():
            return False
        for values in (energy, source) if prior is None else (energy, prior, source):
            here, there = values[cold], values[hot]
            values[cold], values[hot] = np.where(accept, there, here), np.where(accept, here, there)
        return True

    def _move(self, source: Integers, walkers: list[Walkers]) -> list[Walkers]:
        """Bring the chains from the rungs ``source`` (rungs, chains), with what is known there."""
        rungs, last = self._rungs, len(self._rungs) - 1
        changed = np.flatnonzero((source != np.arange(len(rungs))[:, None]).any(axis=1))
        if not len(changed):  # all are back
            return walkers
        among = np.searchsorted(changed, source[changed])
        before = [rungs[k].point for k in changed.tolist()]
        position = np.stack([point.position for point in before])[among, self._chains]
        columns = zip(*(point.estimate.arrays for point in before), strict=True)
        estimates = [None if column[0] is None else np.stack(column)[among, self._chains] for column in columns]
        after = list(walkers)
        for i, k in enumerate(changed.tolist()):
            rung, rows = rungs[k], np.flatnonzero(source[k] != k)
            own = Estimate(*(None if part is None else part[i] for part in estimates))  # type: ignore[arg-type]
            rung.point = Point(position[i], own)
            if rung.memory:
                rung.arrived(rows, before[i].estimate)
            others = Walkers(*(np.stack(parts)[source[k, rows], rows] for parts in zip(*walkers, strict=True)))
            after[k] = walkers[k].arrive(rows, others, k, last + 1)
        return after
