"""What travels with a walker through the ladder: which one it is, and how often it crossed from end to end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.intp]


class Walkers(NamedTuple):
    """Who is where: all entries (rungs, chains), which move with the positions at a swap.

    Two crossings are a round trip: the same count as `invsamp.diagnostics.round_trips` of the full path, without
    storing the path.
    """

    replica: Integers  # which walker is here, by the rung where it began
    last_end: Integers  # the end of the ladder where it was last, as a rung; -1 before the first
    crossings: Integers  # from one end to the other

    @classmethod
    def at(cls, rungs: int, chains: int) -> Walkers:
        """Each where it begins."""
        replica = np.tile(np.arange(rungs)[:, None], chains)
        return cls(replica, replica, replica).reset()

    def arrive(self, source: Integers) -> Walkers:
        """After those of the rungs ``source`` (rungs, chains) have come, each in its chain."""
        columns = np.arange(source.shape[1])
        replica, last_end, crossings = [part[source, columns] for part in self]
        for end in (0, len(source) - 1):
            crossings[end] += (last_end[end] >= 0) & (last_end[end] != end)
            last_end[end] = end
        return Walkers(replica, last_end, crossings)

    def reset(self) -> Walkers:
        """The same, their trips forgotten (at the end of warm-up)."""
        last_end = np.full_like(self.last_end, -1)
        last_end[0], last_end[-1] = 0, len(last_end) - 1
        return Walkers(self.replica, last_end, np.zeros_like(self.crossings))

    @property
    def round_trips(self) -> int:
        """Made by all."""
        return int((self.crossings // 2).sum())
