"""Exchanging positions between rungs. Positions move; rungs stay, with their variances, streams and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.engine.exchange.replica_pair import Pair
from invsamp.engine.exchange.round_trips import ReplicaIndices
from invsamp.engine.exchange.vectorized_swaps import VectorizedSwaps
from invsamp.engine.rungs.compatibility import ensemble_size
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.requests import EvaluationRequests, Request, gathered, watched
from invsamp.ladder import Swap
from invsamp.protocols import Array, Facts
from invsamp.stored import stored
from invsamp.swaps.rules import SwapRule
from invsamp.swaps.schemes import pairs_within

#: Probability of an attempt after a step, where a swap costs solves: a tenth costs almost no relaxation.
COSTLY = 0.1
#: Rounds of attempts after a step, of even and odd pairs in turn, where swaps are free.
PARITIES = 3


@stored
class Measured(NamedTuple):
    """Rates of rejected swaps."""

    rejections: Array  # (pairs,) mean chances; NaN where there was no attempt
    first_stage: Array  # (pairs,) the same of the first stage, which the distance of the targets decides
    barrier_error: float  # standard error of the sum of the latter, by the chains; NaN for one chain


class Exchange(
    Lasting,
    lasting=(
        *("_when", "_who", "_due", "_next", "_attempt", "_free_attempt", "_free_who", "every", "parities", "measured"),
        *("_all", "replica_indices", "solves"),
    ),
):
    """All swaps of a run: the schedule of attempts, the pairs, and the replica at each rung.

    Parameters
    ----------
    swap : Swap
    rungs : sequence of RungChains
    seed : SeedSequence
    """

    def __init__(self, swap: Swap, rungs: Sequence[RungChains], seed: np.random.SeedSequence) -> None:
        self._swap, self._rungs = swap, rungs
        when, who, *seeds, free = seed.spawn(2 + len(rungs))
        self._when, self._who = np.random.default_rng(when), np.random.default_rng(who)
        #: The rungs of each pair that may attempt a swap: neighbors, and then those farther apart.
        self._ends = pairs_within(swap.scheme.reach, len(rungs))
        seeds += seed.spawn(len(self._ends) - len(seeds))
        self._all = [Pair(k, swap, rungs[i], rungs[j], seeds[k]) for k, (i, j) in enumerate(self._ends)]
        self._number = {ends: k for k, ends in enumerate(self._ends)}
        #: Of neighbors.
        self.pairs = self._all[: len(rungs) - 1]
        #: The replica at each rung.
        self.replica_indices = ReplicaIndices.at(len(rungs), len(rungs[0].position))
        self._attempt = 0
        #: Steps from one attempt to the next of pairs that cost solves; None: at random steps.
        self.every = swap.every
        self._due = np.zeros(0, dtype=bool)  # after which steps to come, if `every` does not say so
        self._next = 0
        # pairs with attempts after every step, by a schedule of their own, as it costs nothing
        every = swap.fraction is None
        self._free = [k for k, pair in enumerate(self._all) if every and pair.vectorized]
        self._fraction = swap.fraction or (COSTLY if len(self._free) < len(self._all) else 0.0)
        self._free_attempt, self._free_who = 0, np.random.default_rng(free)
        self._vectorized = VectorizedSwaps(rungs, self._all, self._ends)
        together = sorted({k for free in self._free for k in self._ends[free]})
        alone = [[k] for k in range(len(rungs)) if k not in together]
        #: Rungs with attempts after every step as one group, and each of the others by itself, from cold to hot.
        self.groups = sorted([together, *alone] if together else alone)
        #: Rounds of attempts of the free pairs after a step.
        self.parities = PARITIES if len(self._free) > 1 else len(self._free)
        self._met = False
        #: Of the time before the last reset.
        self.measured: Measured
        self.reset()

    def reset(self) -> None:
        """Set every count to zero (at the end of warm-up), and keep what was measured."""
        self.measured = self._measured()
        for pair in self._all:
            pair.reset()
        self.replica_indices = self.replica_indices.reset()
        #: Evaluations that swaps took, by fidelity.
        self.solves = {e.fidelity: 0 for rung in self._rungs for e in rung.potentials}

    def begin_count(self) -> None:
        """Begin the intervals anew: the next attempt, and the first of the scheme, follow after ``every`` steps."""
        self._next, self._attempt, self.every = 0, 0, self._swap.every

    def due(self) -> bool:
        """Whether swaps are attempted after this step; asked once after each."""
        if not self._fraction:
            return True
        if self.every is not None:
            self._next = (self._next + 1) % self.every
            self._met = not self._next
            return self._met or bool(self._free)
        if self._next == len(self._due):
            self._due, self._next = self._when.random(4096) < self._fraction, 0
        self._met = met = bool(self._due[self._next])
        self._next += 1
        return met or bool(self._free)

    def ahead(self, most: int) -> int:
        """Steps, at most so many, until an attempt of rungs that have none after every step; in place of `due`."""
        for steps in range(1, most):
            self.due()
            if self._met:
                return steps
        self.due()
        return most

    def attempt_swaps(self) -> EvaluationRequests[None]:
        """Make the attempts that are due."""
        if self._met:
            yield from self._meet_in_turn()
        self.swap_vectorized()

    def swap_vectorized(self) -> None:
        """Make the attempts that follow every step."""
        if self._free:
            meetings = [apart for _ in range(self.parities) for apart in self._apart(self._next_free())]
            self.replica_indices = self._vectorized.attempt_swaps(meetings, self.replica_indices)

    @property
    def all_pairs(self) -> Sequence[Pair]:
        """Of neighbors, and then of rungs farther apart."""
        return self._all

    @property
    def ends(self) -> npt.NDArray[np.intp]:
        """The rungs (pairs, 2) of each."""
        return np.array(self._ends, dtype=np.intp)

    @property
    def factors(self) -> Array:
        """Of prior energy and misfit in the rungs' targets (rungs, 2)."""
        return np.array([rung.target.factors for rung in self._rungs])

    @property
    def free_place(self) -> tuple[int, Facts]:
        """State of the schedule of the pairs with attempts after every step."""
        return self._free_attempt, self._free_who.bit_generator.state

    @free_place.setter
    def free_place(self, place: tuple[int, Facts]) -> None:
        self._free_attempt, self._free_who.bit_generator.state = place

    def next_free_attempts(self) -> list[int]:
        """Numbers of the pairs of the next round of attempts, of those with attempts after every step."""
        return [k for _ in range(self.parities) for k in self._next_free()]

    def _meet_in_turn(self) -> EvaluationRequests[None]:
        """The next pairs of the schedule, at the given fraction of the steps, or at that which solves allow."""
        if self._attempt % self._swap.scheme.window == 0:
            for pair in self._all:
                pair.open()
        costly = [k for k in range(len(self._all)) if k not in self._free]
        meeting = self._next_by_scheme(self._attempt, self._who)
        if self._swap.every is not None and len(costly) == 1:
            meeting = costly  # where the scheme would let it wait for pairs with attempts anyway
        for apart in self._apart([k for k in meeting if k in costly]):
            vectorized = [k for k in apart if self._all[k].vectorized]
            if asking := [self._meet(k) for k in apart if k not in vectorized and self._all[k].ready]:
                yield from gathered(asking)
            if vectorized:
                self.replica_indices = self._vectorized.attempt_swaps([vectorized], self.replica_indices)
        self._attempt += 1

    def _next_free(self) -> list[int]:
        if len(self._free) == 1:
            return self._free
        meeting = self._next_by_scheme(self._free_attempt, self._free_who)
        self._free_attempt += 1
        return [k for k in meeting if k in self._free]

    def _next_by_scheme(self, attempt: int, rng: np.random.Generator) -> list[int]:
        """Numbers of the pairs of an attempt."""
        meeting = list(self._swap.scheme.pairs(attempt, len(self._rungs), rng))
        try:
            return [self._number[i, j] for i, j in meeting]
        except (KeyError, TypeError, ValueError):
            scheme, rungs = self._swap.scheme, len(self._rungs)
            known = "any i < j" if scheme.reach is None else f"i < j <= i + {scheme.reach} (its reach)"
            raise ValueError(
                f"scheme must give pairs (i, j) of the {rungs} rungs with {known}, got {meeting!r} from {scheme}"
            ) from None

    def resolve(self) -> None:
        """Fill in the variances and discrepancies that the rules take from warm-up, which is over."""
        means = [self._mean_variance(rung) for rung in self._rungs]
        for pair, (i, j) in zip(self._all, self._ends, strict=True):
            pair.resolve(means[i], means[j])

    @property
    def rules(self) -> list[SwapRule]:
        """The rule of each pair."""
        return [pair.rule for pair in self.pairs]

    @property
    def apart(self) -> list[tuple[int, int, int, int]]:
        """For pairs that are no neighbors: their rungs, and the numbers of attempts and of swaps."""
        beyond = list(zip(self._ends, self._all, strict=True))[len(self.pairs) :]
        return [(i, j, pair.attempts, pair.accepts) for (i, j), pair in beyond]

    @property
    def attempts(self) -> npt.NDArray[np.int64]:
        """Attempts of chains, by pair."""
        return np.array([pair.attempts for pair in self.pairs], dtype=int)

    @property
    def accepts(self) -> npt.NDArray[np.int64]:
        """Chains that exchanged their positions, by pair."""
        return np.array([pair.accepts for pair in self.pairs], dtype=int)

    @property
    def rejections(self) -> Array:
        """Mean chance of each pair that an attempt is rejected (pairs,); NaN where none was made."""
        return np.array([pair.rejection for pair in self.pairs])

    @property
    def round_trips(self) -> int:
        """Since the last reset."""
        return self.replica_indices.round_trips

    def _apart(self, pairs: Sequence[int]) -> list[list[int]]:
        """The pairs in their order, in groups of which no two share a rung."""
        groups: list[list[int]] = []
        for k in pairs:
            if not groups or any(set(self._ends[k]) & set(self._ends[other]) for other in groups[-1]):
                groups.append([])
            groups[-1].append(k)
        return groups

    def _meet(self, k: int) -> EvaluationRequests[None]:
        """An attempt of one pair, its solves counted."""
        rows = yield from watched(self._all[k].attempt(), self._count)
        if len(rows):
            source = np.tile(np.arange(len(self._rungs))[:, None], len(self.replica_indices.replica[0]))
            i, j = self._ends[k]
            source[i, rows], source[j, rows] = j, i
            self.replica_indices = self.replica_indices.arrive(source)

    def _count(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self.solves[request.fidelity] += len(request.position) * request.of_each_row

    def _measured(self) -> Measured:
        first = np.array([pair.first_stage_rejections for pair in self.pairs])
        size = ensemble_size([rung.settings.kernel for rung in self._rungs], first.shape[1])
        sums = first.sum(axis=0).reshape(-1, size).mean(axis=1)  # of independent chains or ensembles
        error = float(sums.std(ddof=1)) / math.sqrt(len(sums)) if len(sums) > 1 else math.nan
        return Measured(self.rejections, first.mean(axis=1), error)

    def _mean_variance(self, rung: RungChains) -> float:
        if self._swap.energies == "exact":
            return 0.0
        variance = rung.energy_variance(rung.position, rung.estimate.energy_variance)
        return 0.0 if variance is None else float(np.mean(variance))
