"""Exchanging positions between rungs. Positions move; rungs stay, with their variances, streams and counts."""

from __future__ import annotations

import itertools
import math

import numpy as np

from invsamp.estimators import Rows
from invsamp.ladder import Swap
from invsamp.replica import Replica
from invsamp.swap.discrepancy import Discrepancy
from invsamp.swap.meeting import Meeting, variances_may_differ
from invsamp.swap.rules import SwapRule, delayed_acceptance, fast


class RoundTrips:
    """Where every replica is, and how often it went from one end of the ladder to the other and back.

    The same count as `invsamp.diagnostics.round_trips` of the full path, without storing the path.
    """

    def __init__(self, rungs: int, chains: int) -> None:
        self.replica = np.tile(np.arange(rungs)[:, None], (1, chains))  # (rungs, chains): who is there
        self.reset()

    @property
    def count(self) -> int:
        """Round trips of all replicas since the last reset."""
        return int((self._crossings // 2).sum())

    def swapped(self, cold: int, rows: Rows) -> None:
        """Rungs ``cold`` and ``cold + 1`` exchanged their chains ``rows``."""
        pair = self.replica[cold : cold + 2, rows]
        self.replica[cold : cold + 2, rows] = pair[::-1]
        hottest = len(self.replica) - 1
        for rung in (cold, cold + 1):
            if rung in (0, hottest):
                arrived = self.replica[rung, rows]
                before = self._last_end[arrived, rows]
                self._crossings[arrived, rows] += (before >= 0) & (before != rung)
                self._last_end[arrived, rows] = rung

    def reset(self) -> None:
        """Forget the trips made so far (at the end of warm-up)."""
        self._crossings = np.zeros_like(self.replica)  # by replica
        self._last_end = np.full_like(self.replica, -1)
        columns = np.arange(self.replica.shape[1])
        for rung in (0, len(self.replica) - 1):
            self._last_end[self.replica[rung], columns] = rung


class Exchange:
    """All swaps of a run: the schedule of attempts, the rule, the counts."""

    def __init__(self, swap: Swap, replicas: list[Replica], seed: np.random.SeedSequence) -> None:
        self._swap, self._replicas = swap, replicas
        self._when, self._who, self._accept, self._added = (np.random.default_rng(s) for s in seed.spawn(4))
        pairs = list(itertools.pairwise(replicas))
        self.rules = [_rule(swap, *pair) for pair in pairs]
        self._unequal = [
            rule.equalise and swap.energies == "estimated" and variances_may_differ(*pair)
            for rule, pair in zip(self.rules, pairs, strict=True)
        ]
        self._learning = True
        self.discrepancies = [rule.discrepancy.init() if rule.discrepancy else None for rule in self.rules]
        self.trips = RoundTrips(len(replicas), len(replicas[0].position))
        self._attempt = 0
        self._due = np.empty(0, dtype=bool)
        self._next = 0
        self.reset()

    def reset(self) -> None:
        """Set every count to zero (at the end of warm-up)."""
        pairs = len(self._replicas) - 1
        self.attempts, self.accepts = np.zeros(pairs, dtype=int), np.zeros(pairs, dtype=int)
        self.first_stage_accepts = np.zeros(pairs, dtype=int)
        self.log_ratio_sd = np.zeros(pairs)  # sum over attempts of the noise's sd
        self.solves = {e.fidelity: 0 for r in self._replicas for e in r.evaluators}
        self.trips.reset()

    @property
    def doubts(self) -> list[str]:
        """What is known to be wrong with the rules as they were chosen, in words."""
        found = []
        for k, (rule, pair) in enumerate(zip(self.rules, itertools.pairwise(self._replicas), strict=True)):
            if self._swap.energies == "exact" or all(r.estimator.exact_energy for r in pair):
                continue
            where = f"rungs {k} and {k + 1} swap by {rule}"
            if math.isinf(rule.factor):
                found.append(
                    f"{where}, which takes noisy energies for exact ones: the draws are biased. Use fast() or "
                    "corrected(), or exact energies for swaps."
                )
            elif _own_energies(rule, pair) and not rule.equalise and variances_may_differ(*pair):
                found.append(
                    f"{where}, and the variance of their energies may change at a swap: the draws are biased. "
                    "Use fast(), which equalises it, or a rule with all four energies (multi_variance, product_target)."
                )
        return found

    @property
    def residual_sds(self) -> list[float | None]:
        """Sd of what each pair's learnt discrepancy leaves unexplained; None where nothing was learnt."""
        return [state.residual_sd if state else None for state in self.discrepancies]

    def resolve(self) -> None:
        """Fill in what the rules take from warm-up, which is over: variances and discrepancies."""
        whole = self._swap.energies == "exact"
        variances = [
            None if whole else r.energy_variance(r.position, r.estimate.energy_variance) for r in self._replicas
        ]
        means = [0.0 if variance is None else float(np.mean(variance)) for variance in variances]
        self.rules = [rule.resolve(means[k], means[k + 1]) for k, rule in enumerate(self.rules)]
        self.discrepancies = [
            rule.discrepancy.fitted(state) if rule.discrepancy and state else None
            for rule, state in zip(self.rules, self.discrepancies, strict=True)
        ]
        self._learning = False

    def step(self) -> None:
        """After a step: attempt swaps, or not."""
        if self._next == len(self._due):
            self._due = self._when.random(4096) < self._swap.fraction
            self._next = 0
        self._next += 1
        if not self._due[self._next - 1]:
            return
        for k in self._swap.scheme.pairs(self._attempt, len(self._replicas), self._who):
            self._attempt_pair(k)
        self._attempt += 1

    def _attempt_pair(self, k: int) -> None:
        cold, hot = self._replicas[k], self._replicas[k + 1]
        if not (cold.variance_ready and hot.variance_ready):
            return  # early in warm-up: a rule without its variances would be another rule
        evaluators = {e.fidelity: e for r in (cold, hot) for e in r.evaluators}
        before = {name: evaluator.evaluations for name, evaluator in evaluators.items()}
        rule, learnt = self.rules[k], self.discrepancies[k]
        added = self._added if self._unequal[k] else None
        meeting = Meeting(cold, hot, rule, learnt, added, self._swap.energies == "exact")
        rows = np.arange(len(cold.position))
        for number, stage in enumerate(rule.stages(cold.temperature, hot.temperature)):
            log_ratio, noise = meeting.log_ratio(stage, rows)
            self.log_ratio_sd[k] += noise
            uniform = self._accept.random(len(cold.position))[rows]
            rows = rows[np.log1p(-uniform) < log_ratio]
            if number == 0:
                self.first_stage_accepts[k] += len(rows)
            if not len(rows):
                break
        if self._learning and rule.discrepancy and learnt:
            for position, difference in meeting.differences():
                learnt = rule.discrepancy.update(learnt, position, difference)
            self.discrepancies[k] = learnt
        self.attempts[k] += len(cold.position)
        self.accepts[k] += len(rows)
        if len(rows):
            meeting.exchange(rows)
            self.trips.swapped(k, rows)
        for name, evaluator in evaluators.items():
            self.solves[name] += evaluator.evaluations - before[name]


def _own_energies(rule: SwapRule, pair: tuple[Replica, Replica]) -> bool:
    """Whether no rung's energy is taken at both positions, so that the noise depends on who is where."""
    stages = rule.stages(*(replica.temperature for replica in pair))
    return all(stage.cold_at_hot == stage.hot_at_cold == 0.0 for stage in stages)


def _rule(swap: Swap, cold: Replica, hot: Replica) -> SwapRule:
    if swap.rule is not None:
        return swap.rule
    return fast() if cold.evaluator is hot.evaluator else delayed_acceptance(Discrepancy())
