"""Exchanging positions between rungs. Positions move; rungs stay, with their variances, streams and counts."""

from __future__ import annotations

import itertools

import numpy as np

from invsamp.contract import Array
from invsamp.estimators import Estimate, Noisy, Rows
from invsamp.ladder import Swap
from invsamp.replica import Replica
from invsamp.swap.discrepancy import DiscrepancyState
from invsamp.swap.rules import Coefficients, SwapRule, delayed_acceptance, fast
from invsamp.variance import Known, RunningAverage


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
            rule.equalise and _variances_may_differ(*pair) for rule, pair in zip(self.rules, pairs, strict=True)
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
    def residual_sds(self) -> list[float | None]:
        """Sd of what each pair's learnt discrepancy leaves unexplained; None where nothing was learnt."""
        return [state.residual_sd if state else None for state in self.discrepancies]

    def resolve(self) -> None:
        """Fill in what the rules take from warm-up, which is over: variances and discrepancies."""
        means = [
            0.0 if (v := r.energy_variance(r.position, r.estimate.energy_variance)) is None else float(np.mean(v))
            for r in self._replicas
        ]
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
        meeting = _Meeting(cold, hot, rule, learnt, self._added if self._unequal[k] else None)
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


def _rule(swap: Swap, cold: Replica, hot: Replica) -> SwapRule:
    if swap.rule is not None:
        return swap.rule
    return fast() if cold.evaluator is hot.evaluator else delayed_acceptance()


def _variances_may_differ(cold: Replica, hot: Replica) -> bool:
    """Whether the sum of the rungs' energy variances may change at a swap.

    It does not where both are constant, nor where they are the same function of the position.
    """
    if all(_constant_variance(replica) for replica in (cold, hot)):
        return False
    model = cold.rung.energy_variance
    one_model = isinstance(model, Known) and model == hot.rung.energy_variance
    stated = isinstance(model, Known) and model.stated
    one_noise = cold.evaluator is hot.evaluator and cold.rung.estimator == hot.rung.estimator
    noise_free = cold.estimator.exact_energy or hot.estimator.exact_energy
    return noise_free or not one_model or (stated and not one_noise)


def _constant_variance(replica: Replica) -> bool:
    """Whether the variance of the rung's energies is known to be the same at all positions."""
    model, estimator = replica.rung.energy_variance, replica.rung.estimator
    if replica.estimator.exact_energy or isinstance(model, RunningAverage):
        return True
    if isinstance(model, Known) and not model.stated:
        return not callable(model.value)
    return isinstance(model, Known) and isinstance(estimator, Noisy) and not callable(estimator.energy_sd)


class _Meeting:
    """Two rungs at one attempt. Noise-free energies are solved once and kept; noisy ones are drawn afresh.

    ``added`` draws the noise that makes the variance of a log ratio that of the reverse swap; None: it is the same.
    """

    def __init__(
        self,
        cold: Replica,
        hot: Replica,
        rule: SwapRule,
        learnt: DiscrepancyState | None = None,
        added: np.random.Generator | None = None,
    ) -> None:
        self._rungs = {"cold": cold, "hot": hot}
        self._rule, self._learnt, self._added = rule, learnt, added
        alike = cold.rung.estimator == hot.rung.estimator and (cold.estimator.exact or cold.structure == hot.structure)
        self._same = cold.evaluator is hot.evaluator and alike
        # estimates of one rung at the other's position, by rung: filled where they are solved
        self._crossed: dict[str, tuple[Rows, Estimate]] = {}
        # what an estimator that is not exact last said, by rung and position
        self._drawn: dict[tuple[str, str], tuple[Rows, Array]] = {}

    def log_ratio(self, stage: Coefficients, rows: Rows) -> tuple[Array, float]:
        """Log ratio of one stage for the chains ``rows``, and the sum of the sds of its noise."""
        total, noise, back = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
        with np.errstate(invalid="ignore"):
            for name, coefficient in stage._asdict().items():
                if coefficient == 0.0:
                    continue
                rung, at = name.split("_at_")
                if rung == "learnt":
                    total = total + coefficient * self._mean_difference(at, rows)
                    continue
                energy, variance = self._energy(rung, at, rows)
                total = total + coefficient * energy
                if variance is not None:
                    noise = noise + coefficient**2 * variance
                    if self._added is not None:
                        back = back + coefficient**2 * self._variance_after(rung, at, rows)
        if self._added is not None:
            missing = np.maximum(back - noise, 0.0)
            total = total + np.sqrt(missing) * self._added.standard_normal(len(rows))
            noise = noise + missing
        # infinite energies on both sides give nan: no swap
        ratio = np.where(np.isnan(total), -np.inf, total - noise / (2.0 * self._rule.factor))
        return ratio, float(np.sqrt(noise).sum())

    def exchange(self, rows: Rows) -> None:
        """Exchange the positions of the chains ``rows`` and what is known at them."""
        cold, hot = self._rungs["cold"], self._rungs["hot"]
        estimates = cold.estimate, hot.estimate
        moved = cold.position[rows], hot.position[rows]
        cold.position, hot.position = cold.position.copy(), hot.position.copy()
        cold.position[rows], hot.position[rows] = moved[1], moved[0]
        if self._same:
            for rung, other in ((cold, estimates[1]), (hot, estimates[0])):
                rung.set_estimate(rows, other.take(rows))
        else:
            for name, rung in self._rungs.items():
                # what was cached under another fidelity is of no use: take the crossed solve, or solve again
                if name in self._crossed:
                    solved, estimate = self._crossed[name]
                    where = np.searchsorted(solved, rows)
                    rung.set_estimate(rows, estimate.take(where))
                else:
                    rung.reevaluate(rows)
        for rung, before in zip((cold, hot), estimates, strict=True):
            rung.synchronise(rows, before.gradient)

    def differences(self) -> list[tuple[Array, Array]]:
        """Positions (n, d) at which both rungs' energies are known by now, and the colder's less the hotter's (n,)."""
        found = []
        for at, place in self._rungs.items():
            known = [self._known(rung, at) for rung in self._rungs]
            if known[0] is None or known[1] is None:
                continue
            rows, first, second = np.intersect1d(known[0][0], known[1][0], True, return_indices=True)
            with np.errstate(invalid="ignore"):  # inf - inf: no difference
                found.append((place.position[rows], known[0][1][first] - known[1][1][second]))
        return found

    def _known(self, rung: str, at: str) -> tuple[Rows, Array] | None:
        """Chains and energies of a rung at a position, as far as they have been evaluated."""
        replica = self._rungs[rung]
        if not replica.estimator.exact:
            return self._drawn.get((rung, at))
        if rung == at or self._same:
            energy = self._rungs[at].estimate.energy
            return np.arange(len(energy)), energy
        if rung not in self._crossed:
            return None
        solved, estimate = self._crossed[rung]
        return solved, estimate.energy

    def _energy(self, rung: str, at: str, rows: Rows) -> tuple[Array, Array | None]:
        replica, place = self._rungs[rung], self._rungs[at]
        if replica.estimator.exact_energy and (rung, at) in self._drawn:
            solved, energy = self._drawn[rung, at]
            return energy[np.searchsorted(solved, rows)], None
        if not replica.estimator.exact:
            position = place.position[rows]
            energy, stated = replica.estimator.energy(replica.streams["swap"], position)
            self._drawn[rung, at] = rows, energy
            return energy, replica.energy_variance(position, stated)
        if rung == at or self._same:
            return place.estimate.energy[rows], None
        if rung not in self._crossed:
            estimate = replica.estimator.estimate(replica.streams["swap"], place.position[rows])
            self._crossed[rung] = (rows, estimate)
        solved, estimate = self._crossed[rung]
        return estimate.energy[np.searchsorted(solved, rows)], None

    def _variance_after(self, rung: str, at: str, rows: Rows) -> Array:
        """Variance of the energy that takes the place of this one after the swap: the rung's, where it would be."""
        replica, place = self._rungs[rung], self._rungs["hot" if at == "cold" else "cold"]
        position, stated = place.position[rows], None
        model = replica.rung.energy_variance
        if isinstance(model, Known) and model.stated:
            _, stated = replica.estimator.energy(replica.streams["swap"], position)
        variance = replica.energy_variance(position, stated)
        assert variance is not None  # the rung's energies are noisy
        return variance

    def _mean_difference(self, at: str, rows: Rows) -> Array:
        if self._learnt is None or self._rule.discrepancy is None:
            return np.zeros(len(rows))
        return self._rule.discrepancy.predict(self._learnt, self._rungs[at].position[rows])
