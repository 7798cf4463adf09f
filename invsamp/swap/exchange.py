"""Exchanging positions between rungs. Positions move; rungs stay, with their variances, streams and counts.

When rungs meet is drawn from streams that every process has, and costs no message. The rest belongs to a pair, which is
the business of the process that holds its colder rung, or to a rung.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from invsamp.engine.replica import Replica
from invsamp.ladder import Swap
from invsamp.swap.pair import Pair
from invsamp.swap.rules import SwapRule
from invsamp.swap.side import LocalSide, Outset, Side
from invsamp.swap.walkers import Walkers


class Link(Protocol):
    """The way to the neighbouring rung of another process, at one attempt."""

    def greet(self, outset: Outset) -> Side:
        """Tell what there is here and learn what there is there."""
        ...

    def serve(self, side: LocalSide, other: Outset) -> None:
        """Answer what the colder rung asks of this one, until the meeting is over."""
        ...

    def resolve(self, variance: float) -> float:
        """The mean energy variance there, after telling that of here."""
        ...


class Neighbours(Protocol):
    """Which rungs this process holds, and the ways to those next to them."""

    rungs: range
    #: Which of its two outer pairs the process sees to first, so that no two wait for each other in a row.
    colder_first: bool

    def link(self, pair: int) -> Link:
        """The way across a pair of which one rung is held here and one is not."""
        ...


class Exchange:
    """All swaps of a run: the schedule of attempts, the pairs, who is where.

    Parameters
    ----------
    swap : Swap
    replicas : sequence of Replica
        All rungs; those of other processes have settings only.
    seed : SeedSequence
    neighbours : optional
        Where not all rungs are held here (`invsamp.parallel`).
    """

    def __init__(
        self,
        swap: Swap,
        replicas: Sequence[Replica],
        seed: np.random.SeedSequence,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._swap, self._replicas, self._neighbours = swap, replicas, neighbours
        when, who, *seeds = seed.spawn(2 + len(replicas) - 1)
        self._when, self._who = np.random.default_rng(when), np.random.default_rng(who)
        #: Numbers of the rungs held here.
        self.rungs = range(len(replicas)) if neighbours is None else neighbours.rungs
        #: Pairs whose colder rung is held here, by number.
        self.pairs = {
            k: Pair(k, swap, replicas[k], replicas[k + 1], seeds[k]) for k in self.rungs if k < len(replicas) - 1
        }
        # a pair is told apart from its other side too: whether estimates go with positions
        colder = self.rungs[0] - 1
        self._colder = (
            Pair(colder, swap, replicas[colder], replicas[colder + 1], seeds[colder]) if colder >= 0 else None
        )
        chains = len(replicas[self.rungs[0]].position)
        #: Who is at each rung held here, by its number.
        self.walkers = {k: Walkers.at(k, len(replicas), chains) for k in self.rungs}
        self._attempt = 0
        self._due = np.empty(0, dtype=bool)
        self._next = 0
        self.reset()

    def reset(self) -> None:
        """Set every count to zero (at the end of warm-up)."""
        for pair in self.pairs.values():
            pair.reset()
        self.walkers = {k: walkers.reset(k, len(self._replicas)) for k, walkers in self.walkers.items()}
        #: Evaluations that swaps took here, by fidelity.
        self.solves = {e.fidelity: 0 for k in self.rungs for e in self._replicas[k].evaluators}

    def step(self) -> None:
        """After a step: attempt swaps, or not."""
        if self._next == len(self._due):
            self._due = self._when.random(4096) < self._swap.fraction
            self._next = 0
        self._next += 1
        if not self._due[self._next - 1]:
            return
        meeting = self._swap.scheme.pairs(self._attempt, len(self._replicas), self._who)
        for k in self._in_order(meeting):
            if k < self.rungs[0]:
                self._answer(k)
            elif k == self.rungs[-1]:
                self._meet_across(k)
            else:
                self._meet(k)
        self._attempt += 1

    def resolve(self) -> None:
        """Fill in what the rules take from warm-up, which is over: variances and discrepancies."""
        means = {k: self._mean_variance(self._replicas[k]) for k in self.rungs}
        for k in self._in_order(range(-1, len(self._replicas) - 1)):
            if k < self.rungs[0]:
                self._link(k).resolve(means[k + 1])
                continue
            hot = self._link(k).resolve(means[k]) if k == self.rungs[-1] else means[k + 1]
            self.pairs[k].resolve(means[k], hot)

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on, and the counts: what is common, and what is held here by pair and rung."""
        common = {
            "when": copy.deepcopy(self._when),
            "who": copy.deepcopy(self._who),
            "due": self._due.copy(),
            "next": self._next,
            "attempt": self._attempt,
        }
        return {
            "exchange": common,
            "pairs": [pair.state() for pair in self.pairs.values()],
            "walkers": list(self.walkers.values()),
            "swap_solves": dict(self.solves),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of all pairs and rungs, whatever processes held them."""
        common = state["exchange"]
        self._when, self._who = copy.deepcopy(common["when"]), copy.deepcopy(common["who"])
        self._due, self._next, self._attempt = common["due"].copy(), common["next"], common["attempt"]
        for k, pair in self.pairs.items():
            pair.restore(state["pairs"][k])
        self.walkers = {k: state["walkers"][k] for k in self.rungs}
        # counts of all processes are carried on by the one that holds the cold rung
        if self.rungs[0] == 0:
            self.solves = dict(state["swap_solves"])

    @property
    def rules(self) -> list[SwapRule]:
        """The rule of each pair whose colder rung is held here."""
        return [pair.rule for pair in self.pairs.values()]

    @property
    def attempts(self) -> npt.NDArray[np.int64]:
        """Chains that met, by pair held here."""
        return np.array([pair.attempts for pair in self.pairs.values()], dtype=int)

    @property
    def accepts(self) -> npt.NDArray[np.int64]:
        """Chains that exchanged their positions, by pair held here."""
        return np.array([pair.accepts for pair in self.pairs.values()], dtype=int)

    @property
    def first_stage_accepts(self) -> npt.NDArray[np.int64]:
        """Chains that passed the first stage of their rule, by pair held here."""
        return np.array([pair.first_stage_accepts for pair in self.pairs.values()], dtype=int)

    @property
    def log_ratio_sd(self) -> npt.NDArray[np.float64]:
        """Sum over the chains that met of the sd of their log ratio's noise, by pair held here."""
        return np.array([pair.log_ratio_sd for pair in self.pairs.values()])

    @property
    def round_trips(self) -> int:
        """Since the last reset, of the walkers that are here now."""
        return sum(walkers.round_trips for walkers in self.walkers.values())

    def _in_order(self, pairs: range) -> list[int]:
        """Those of the pairs that concern this process, an outer one first as its neighbours expect it."""
        concerned = [k for k in pairs if 0 <= k < len(self._replicas) - 1 and self.rungs[0] - 1 <= k <= self.rungs[-1]]
        if self._neighbours is not None and not self._neighbours.colder_first:
            concerned.reverse()
        return concerned

    def _meet(self, k: int) -> None:
        cold, hot = self._replicas[k], self._replicas[k + 1]
        if not (cold.variance_ready and hot.variance_ready):
            return  # early in warm-up: a rule without its variances would be another rule
        before = self._counts(cold, hot)
        sides = self._side(k, self.pairs[k].same), self._side(k + 1, self.pairs[k].same)
        if len(self.pairs[k].attempt(*sides)):
            self.walkers[k], self.walkers[k + 1] = (side.walkers for side in sides)
        self._add_solves(before, self._counts(cold, hot))

    def _meet_across(self, k: int) -> None:
        """The hotter rung is another process's."""
        before, cold = self._counts(self._replicas[k]), self._side(k, self.pairs[k].same)
        hot = self._link(k).greet(cold.outset)
        if cold.outset.ready and hot.outset.ready:
            self.pairs[k].attempt(cold, hot)
            self.walkers[k] = cold.walkers
        self._add_solves(before, self._counts(self._replicas[k]))

    def _answer(self, k: int) -> None:
        """The colder rung is another process's, which decides."""
        assert self._colder is not None
        before, hot = self._counts(self._replicas[k + 1]), self._side(k + 1, self._colder.same)
        link = self._link(k)
        cold = link.greet(hot.outset).outset
        if cold.ready and hot.outset.ready:
            link.serve(hot, cold)
            self.walkers[k + 1] = hot.walkers
        self._add_solves(before, self._counts(self._replicas[k + 1]))

    def _side(self, k: int, same: bool) -> LocalSide:
        whole = self._swap.energies == "exact"
        return LocalSide(self._replicas[k], self.walkers[k], k, len(self._replicas), whole=whole, same=same)

    def _link(self, k: int) -> Link:
        assert self._neighbours is not None  # a rung is missing here
        return self._neighbours.link(k)

    def _mean_variance(self, replica: Replica) -> float:
        if self._swap.energies == "exact":
            return 0.0
        variance = replica.energy_variance(replica.position, replica.estimate.energy_variance)
        return 0.0 if variance is None else float(np.mean(variance))

    def _counts(self, *replicas: Replica) -> dict[str, int]:
        return {e.fidelity: e.evaluations for replica in replicas for e in replica.evaluators}

    def _add_solves(self, before: dict[str, int], after: dict[str, int]) -> None:
        for name, count in after.items():
            self.solves[name] += count - before[name]
