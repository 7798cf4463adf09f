"""Swaps that cost nothing: rungs of one fidelity whose energies are exact and known.

All pairs of one round of attempts are decided at once, and the positions move after the last of several rounds in a
row. The result is that of `invsamp.engine.exchange.replica_pair.Pair.attempt` for each pair by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from invsamp.engine.exchange.replica_pair import Pair
from invsamp.engine.exchange.round_trips import ReplicaIndices
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.kernels.compiled.swaps import Integers, decide
from invsamp.kernels.contract import decided
from invsamp.tempering.target_distribution import TargetDistribution

#: In place of the factors of a target that has none; pairs of such targets are not vectorized.
_NEITHER = np.nan, np.nan


class VectorizedSwaps:
    """A ladder's rungs, for swap attempts that take no solves.

    Parameters
    ----------
    rungs : sequence of RungChains
    pairs : sequence of Pair
        All of the ladder.
    ends : sequence of (int, int)
        The rungs of each.
    """

    def __init__(self, rungs: Sequence[RungChains], pairs: Sequence[Pair], ends: Sequence[tuple[int, int]]) -> None:
        self._rungs, self._pairs = rungs, pairs
        self._ends = np.array(ends, dtype=np.intp).reshape(-1, 2)
        self._order = np.arange(len(rungs))[:, None]
        self._targets: list[TargetDistribution] = []
        self._factors = np.empty((0, 2))
        self._apart = False

    def attempt_swaps(self, meetings: Sequence[Sequence[int]], replica_indices: ReplicaIndices) -> ReplicaIndices:
        """Make attempts, those of one round at the same time; the replica at each rung afterwards.

        Parameters
        ----------
        meetings : sequence of sequences of int
            Numbers of the pairs of each round, of which no two share a rung, and all of which are `Pair.vectorized`.
        walkers : Walkers
            Before.
        """
        rungs = self._rungs
        energy = np.array([rung.estimate.energy for rung in rungs])
        targets = [rung.target for rung in rungs]
        if len(self._targets) != len(targets) or any(map(operator.is_not, targets, self._targets)):
            self._targets, self._factors = targets, np.array([target.factors or _NEITHER for target in targets])
            self._apart = bool((self._factors[:, 0] != self._factors[:, 1]).any())
        factors, prior = self._factors, np.empty((len(rungs), 0))
        if self._apart:  # known where a target needs it
            prior = np.array([rung.estimate.prior for rung in rungs])
        source = np.empty(energy.shape, dtype=np.intp)
        source[...] = self._order
        moved = 0
        for meeting in meetings:
            if len(meeting):
                thresholds = np.array([self._pairs[k].log_uniform() for k in meeting])
                chances, accepted = np.empty(thresholds.shape), np.empty(len(meeting), dtype=np.intp)
                decide(self._ends[list(meeting)], factors, energy, prior, source, thresholds, chances, accepted)
                counts = accepted.tolist()
                moved += sum(counts)
                for k, chance, count in zip(meeting, chances, counts, strict=True):
                    self._pairs[k].count(chance, count)
        if not moved:
            return replica_indices
        self._move(source)
        return replica_indices.arrive(source)

    def _move(self, source: Integers) -> None:
        """Move the chains from the rungs ``source`` (rungs, chains), with the estimates there."""
        before = [rung.point for rung in self._rungs]
        for k, (rung, origin) in enumerate(zip(self._rungs, source, strict=True)):
            others = set(origin.tolist()) - {k}
            for other in others:
                rung.point = decided(origin == other, before[other], rung.point)
            if others and rung.memory:
                rung.arrived(np.flatnonzero(origin != k), before[k].estimate)
