"""Swaps after every step of a ladder, as a compiled loop over steps makes them."""

from __future__ import annotations

import numpy as np

from invsamp.engine.exchange.round_trips import ReplicaIndices
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.compiled_steps import BlockSwaps
from invsamp.kernels.compiled.swaps import SwapPlan


class LadderSwaps(BlockSwaps):
    """The swaps of an exchange whose rungs all have attempts after every step; the same as those in Python."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def plan(self, steps: int) -> SwapPlan:
        """The attempts after each of so many steps but the last; of fewer, if there are too few random numbers."""
        exchange = self._exchange
        self._place = exchange.free_place
        ahead = {k: pair.thresholds_ahead() for k, pair in enumerate(exchange.all_pairs) if pair.vectorized}
        taken = dict.fromkeys(ahead, 0)
        begins, numbers, places = [0], list[int](), list[int]()
        for _ in range(steps - 1):
            attempts = exchange.next_free_attempts()
            new = [(k, taken[k] + attempts[:i].count(k)) for i, k in enumerate(attempts)]
            if any(place >= len(ahead[k]) for k, place in new):
                break
            for k, place in new:
                numbers.append(k)
                places.append(place)
                taken[k] = place + 1
            begins.append(len(numbers))
        begins.append(len(numbers))  # after the last step Python makes them
        first = dict(zip(ahead, np.cumsum([0, *(taken[k] for k in ahead)]).tolist(), strict=False))
        pairs, chains = exchange.all_pairs, exchange.replica_indices.replica.shape[1]
        of = np.array(numbers, dtype=np.intp)
        thresholds = [ahead[k][: taken[k]] for k in ahead]
        return SwapPlan(
            np.array(begins, dtype=np.intp),
            exchange.ends[of].reshape(-1, 2),
            of,
            np.array([first[k] + place for k, place in zip(numbers, places, strict=True)], dtype=np.intp),
            np.concatenate([*thresholds, np.empty((0, chains))]),
            exchange.factors,
            np.array([pair.chances for pair in pairs]),
            np.array([pair.first_stage_chances for pair in pairs]),
            np.zeros(len(pairs), dtype=np.intp),
            exchange.replica_indices.replica.copy(),
            exchange.replica_indices.last_end.copy(),
            exchange.replica_indices.crossings.copy(),
            np.empty((len(exchange.replica_indices.replica), len(begins) - 1, chains), dtype=np.intp),
        )

    def record(self, plan: SwapPlan, steps: int) -> None:
        """Take the results of the attempts after the first so many steps of a plan."""
        exchange = self._exchange
        exchange.free_place = self._place
        for _ in range(min(steps, len(plan.begins) - 2)):
            exchange.next_free_attempts()
        attempts = np.bincount(plan.pairs[: plan.begins[steps]], minlength=len(exchange.all_pairs)).tolist()
        for k, pair in enumerate(exchange.all_pairs):
            if attempts[k]:
                pair.record(attempts[k], int(plan.accepts[k]), plan.chances[k], plan.first_chances[k])
        exchange.replica_indices = ReplicaIndices(plan.replica, plan.last_end, plan.crossings)

    def attempt_swaps(self) -> None:
        """Make the attempts after a step by Python."""
        self._exchange.swap_vectorized()
