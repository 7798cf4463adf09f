"""What travels with a walker through the ladder: which one it is, and how often it crossed from end to end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.evaluate.requests import Rows

Integers = npt.NDArray[np.intp]


class Walkers(NamedTuple):
    """The walkers that are at one rung, one for each chain; they move with the positions at a swap.

    Two crossings are a round trip: the same count as `invsamp.diagnostics.round_trips` of the full path, without
    storing the path, and without any process knowing more than its own rungs.
    """

    replica: Integers  # (chains,): which walker is here, by the rung where it began
    last_end: Integers  # (chains,): the end of the ladder where it was last, as a rung; -1 before the first
    crossings: Integers  # (chains,): from one end to the other

    @classmethod
    def at(cls, rung: int, rungs: int, chains: int) -> Walkers:
        """Those that begin at a rung."""
        return cls(np.full(chains, rung), np.empty(chains, dtype=np.intp), np.empty(chains, dtype=np.intp)).reset(
            rung, rungs
        )

    def take(self, rows: Rows) -> Walkers:
        """Those of the chains ``rows`` alone."""
        return Walkers(*(part[rows] for part in self))

    def arrive(self, rows: Rows, others: Walkers, rung: int, rungs: int) -> Walkers:
        """The walkers at ``rung`` after ``others`` (k,) have come in place of those of the chains ``rows`` (k,)."""
        parts = [part.copy() for part in self]
        for part, new in zip(parts, others, strict=True):
            part[rows] = new
        if rung in (0, rungs - 1):
            parts[2][rows] += (others.last_end >= 0) & (others.last_end != rung)
            parts[1][rows] = rung
        return Walkers(*parts)

    def reset(self, rung: int, rungs: int) -> Walkers:
        """The same walkers at ``rung``, their trips forgotten (at the end of warm-up)."""
        end = rung if rung in (0, rungs - 1) else -1
        return Walkers(self.replica, np.full_like(self.last_end, end), np.zeros_like(self.crossings))

    @property
    def round_trips(self) -> int:
        """Made by those that are here now."""
        return int((self.crossings // 2).sum())
