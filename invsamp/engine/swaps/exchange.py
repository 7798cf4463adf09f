"""Exchanging positions between rungs. Positions move; rungs stay, with their variances, streams and counts."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from invsamp.engine.rung import RungAtWork
from invsamp.engine.streams import Saved
from invsamp.engine.swaps.pair import Pair
from invsamp.engine.swaps.walkers import Walkers
from invsamp.evaluate.requests import Asks, Rows, gathered
from invsamp.ladder import Swap
from invsamp.swap.rules import SwapRule


class Exchange:
    """All swaps of a run: the schedule of attempts, the pairs, who is where.

    Parameters
    ----------
    swap : Swap
    rungs : sequence of RungAtWork
    seed : SeedSequence
    """

    def __init__(self, swap: Swap, rungs: Sequence[RungAtWork], seed: np.random.SeedSequence) -> None:
        self._swap, self._rungs = swap, rungs
        when, who, *seeds = seed.spawn(2 + len(rungs) - 1)
        self._when, self._who = np.random.default_rng(when), np.random.default_rng(who)
        pairs = itertools.pairwise(rungs)
        self.pairs = [Pair(k, swap, *both, seeds[k]) for k, both in enumerate(pairs)]
        #: Who is at each rung.
        self.walkers = [Walkers.at(k, len(rungs), len(rung.position)) for k, rung in enumerate(rungs)]
        self._attempt = 0
        self._due = np.empty(0, dtype=bool)
        self._next = 0
        self.reset()

    def reset(self) -> None:
        """Set every count to zero (at the end of warm-up)."""
        for pair in self.pairs:
            pair.reset()
        self.walkers = [walkers.reset(k, len(self._rungs)) for k, walkers in enumerate(self.walkers)]
        #: Evaluations that swaps took, by fidelity.
        self.solves = {e.fidelity: 0 for rung in self._rungs for e in rung.potentials}

    def due(self) -> bool:
        """Whether rungs meet after this step; asked once after each."""
        if self._next == len(self._due):
            self._due = self._when.random(4096) < self._swap.fraction
            self._next = 0
        self._next += 1
        return bool(self._due[self._next - 1])

    def meet(self) -> Asks[None]:
        """Let those rungs meet whose turn it is."""
        meeting = self._swap.scheme.pairs(self._attempt, len(self._rungs), self._who)
        for apart in _apart(meeting):
            yield from gathered([self._meet(k) for k in apart if self.pairs[k].ready])
        self._attempt += 1

    def resolve(self) -> None:
        """Fill in what the rules take from warm-up, which is over: variances and discrepancies."""
        means = [self._mean_variance(rung) for rung in self._rungs]
        for k, pair in enumerate(self.pairs):
            pair.resolve(*means[k : k + 2])

    def state(self) -> Saved:
        """All that the next steps depend on, and the counts."""
        return {
            "when": copy.deepcopy(self._when),
            "who": copy.deepcopy(self._who),
            "due": self._due.copy(),
            "next": self._next,
            "attempt": self._attempt,
            "pairs": [pair.state() for pair in self.pairs],
            "walkers": list(self.walkers),
            "solves": dict(self.solves),
        }

    def restore(self, state: Saved) -> None:
        """Go on from a state."""
        self._when, self._who = copy.deepcopy(state["when"]), copy.deepcopy(state["who"])
        self._due, self._next, self._attempt = state["due"].copy(), state["next"], state["attempt"]
        for pair, own in zip(self.pairs, state["pairs"], strict=True):
            pair.restore(own)
        self.walkers, self.solves = list(state["walkers"]), dict(state["solves"])

    @property
    def rules(self) -> list[SwapRule]:
        """The rule of each pair."""
        return [pair.rule for pair in self.pairs]

    @property
    def attempts(self) -> npt.NDArray[np.int64]:
        """Chains that met, by pair."""
        return np.array([pair.attempts for pair in self.pairs], dtype=int)

    @property
    def accepts(self) -> npt.NDArray[np.int64]:
        """Chains that exchanged their positions, by pair."""
        return np.array([pair.accepts for pair in self.pairs], dtype=int)

    @property
    def round_trips(self) -> int:
        """Since the last reset."""
        return sum(walkers.round_trips for walkers in self.walkers)

    def _meet(self, k: int) -> Asks[None]:
        """An attempt of one pair, its solves counted."""
        asking = self.pairs[k].attempt()
        try:
            requests = next(asking)
            while True:
                for request in requests:
                    self.solves[request.fidelity] += len(request.position) * request.of_each_row
                requests = asking.send((yield requests))
        except StopIteration as end:
            rows: Rows = end.value
        if not len(rows):
            return
        cold, hot = (self.walkers[rung].take(rows) for rung in (k, k + 1))
        for rung, others in ((k, hot), (k + 1, cold)):
            self.walkers[rung] = self.walkers[rung].arrive(rows, others, rung, len(self._rungs))

    def _mean_variance(self, rung: RungAtWork) -> float:
        if self._swap.energies == "exact":
            return 0.0
        variance = rung.energy_variance(rung.position, rung.estimate.energy_variance)
        return 0.0 if variance is None else float(np.mean(variance))


def _apart(pairs: Sequence[int]) -> list[list[int]]:
    """The pairs in their order, in groups of which no two share a rung."""
    groups: list[list[int]] = []
    for k in pairs:
        if not groups or any(abs(k - other) < 2 for other in groups[-1]):
            groups.append([])
        groups[-1].append(k)
    return groups
