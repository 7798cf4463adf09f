"""Replica indices: the number of each walker, and how often it crossed the ladder from end to end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from invsamp.kernels.compiled.swaps import Integers, arrive
from invsamp.stored import stored


@stored
class ReplicaIndices(NamedTuple):
    """The replica at each rung: all entries (rungs, chains), which move with the positions at a swap.

    Two crossings are a round trip: the same count as `invsamp.diagnostics.round_trips` of the full path, without
    storing the path.
    """

    replica: Integers  # which walker is here, by the rung where it began
    last_end: Integers  # the end of the ladder where it was last, as a rung; -1 before the first
    crossings: Integers  # from one end to the other

    @classmethod
    def at(cls, rungs: int, chains: int) -> ReplicaIndices:
        """Each at the rung where it begins."""
        replica = np.tile(np.arange(rungs)[:, None], chains)
        return cls(replica, replica, replica).reset()

    def arrive(self, source: Integers) -> ReplicaIndices:
        """After a move from the rungs ``source`` (rungs, chains), each in its chain."""
        after = ReplicaIndices(np.empty_like(source), np.empty_like(source), np.empty_like(source))
        arrive(source, *self, *after)
        return after

    def reset(self) -> ReplicaIndices:
        """The same, their trips forgotten (at the end of warm-up)."""
        last_end = np.full_like(self.last_end, -1)
        last_end[0], last_end[-1] = 0, len(last_end) - 1
        return ReplicaIndices(self.replica, last_end, np.zeros_like(self.crossings))

    @property
    def round_trips(self) -> int:
        """Round trips of all walkers."""
        return int((self.crossings // 2).sum())
