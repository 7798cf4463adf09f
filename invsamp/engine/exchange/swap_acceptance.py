"""Two rungs at one swap attempt: its energies, its acceptance, and the exchange of positions."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from invsamp.engine.exchange.swap_energies import Side, Taken, energies
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.contract import Pairing, remembered
from invsamp.estimators.injected_noise import Noisy
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Rows, gathered
from invsamp.protocols import Array
from invsamp.swaps.discrepancy import DiscrepancyState
from invsamp.swaps.rules import Stage, SwapRule, Weights
from invsamp.tempering.linear_targets import combined
from invsamp.variances.models import Known, RunningAverage

_OTHER = {"cold": "hot", "hot": "cold"}


class SwapAttempt:
    """Two rungs at one attempt.

    Parameters
    ----------
    cold, hot : RungChains
    rule : SwapRule
    same : bool
        Both rungs' estimates are of one potential (`estimates_alike`).
    whole : bool
        Energies are those of the whole potentials, whatever the estimators say.
    paired : bool
        Energies are those of one batch for both positions.
    learned : DiscrepancyState, optional
        Of the pair, for a rule that uses it.
    added : Generator, optional
        Draws the noise that makes the variance of a log ratio that of the reverse swap; None: it is the same.
    """

    def __init__(
        self,
        cold: RungChains,
        hot: RungChains,
        rule: SwapRule,
        *,
        same: bool,
        whole: bool = False,
        paired: bool = False,
        learned: DiscrepancyState | None = None,
        added: np.random.Generator | None = None,
    ) -> None:
        self._cold, self._hot = Side(cold, hot, whole=whole), Side(hot, cold, whole=whole)
        self._sides = {"cold": self._cold, "hot": self._hot}
        self._factors = cold.target.factors, hot.target.factors
        self._rule, self._same, self._learned, self._added = rule, same, learned, added
        self._paired = paired
        # means of the learned difference, by position
        self._means: dict[str, Array] = {}
        # energies as far as they are known, by rung and position
        self._known: dict[tuple[str, str], tuple[Rows, Estimate]] = {}
        for name, side in self._sides.items():
            if side.estimate is not None:
                self._known[name, name] = np.arange(len(side.position)), side.estimate
                if same:
                    self._known[_OTHER[name], name] = self._known[name, name]

    def log_ratio(self, stage: Stage, rows: Rows) -> EvaluationRequests[tuple[Array, float]]:
        """Log ratio of one stage for the chains ``rows``, and the sum of the sds of its noise."""
        taken = yield from self._taken(stage, rows)
        total, noise, back = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
        with np.errstate(invalid="ignore"):
            for (rung, at), weights in _wanted(stage):
                estimate, variance, after = taken[rung, at]
                value, slope = self._value(weights, estimate)
                total = total + value
                if variance is not None:
                    noise = noise + slope**2 * variance
                    if after is not None:
                        back = back + slope**2 * after
            for at, weight in (("cold", stage.learned_at_cold), ("hot", stage.learned_at_hot)):
                if weight and self._factors[0] is not None:
                    total = total + weight * self._factors[0][1] * self._mean_difference(at, rows)
        if self._added is not None:
            missing = np.maximum(back - noise, 0.0)
            total = total + np.sqrt(missing) * self._added.standard_normal(len(rows))
            noise = noise + missing
        # infinite energies on both sides give nan: no swap
        ratio = np.where(np.isnan(total), -np.inf, total - noise / (2.0 * self._rule.factor))
        return ratio, float(np.sqrt(noise).sum())

    def exchange(self, rows: Rows) -> EvaluationRequests[None]:
        """Exchange the positions of the chains ``rows`` and the estimates there, at the end of the attempt."""
        sides = self._cold, self._hot
        here, there = (side.rung.estimate.take(rows) if self._same else None for side in sides)
        yield from gathered([self._cold.arrive(rows, there), self._hot.arrive(rows, here)])

    def differences(self) -> list[tuple[Array, Array]]:
        """Positions (n, d) at which both rungs' energies are known by now, and the colder's less the hotter's (n,)."""
        found = []
        for at, place in self._sides.items():
            cold, hot = self._known.get(("cold", at)), self._known.get(("hot", at))
            if cold is None or hot is None:
                continue
            rows, first, second = np.intersect1d(cold[0], hot[0], True, return_indices=True)
            with np.errstate(invalid="ignore"):  # inf - inf: no difference
                found.append((place.position[rows], cold[1].energy[first] - hot[1].energy[second]))
        return found

    def _value(self, weights: Weights, estimate: Estimate) -> tuple[Array, float]:
        """The term of an energy in the log ratio (k,), and that of a unit of misfit, by which its noise counts."""
        mine, other = self._factors
        if mine is None or other is None:
            # energies are exact, as others are refused
            rungs = self._cold.rung, self._hot.rung
            values = [w * rung.reduced_energy(estimate) for w, rung in zip(weights, rungs, strict=True) if w]
            return np.sum(values, axis=0), 0.0
        prior = weights.cold * mine[0] + weights.hot * other[0]
        misfit = weights.cold * mine[1] + weights.hot * other[1]
        if prior == misfit == 0.0:
            return np.zeros(len(estimate.energy)), 0.0
        return combined(prior, misfit, estimate.energy, estimate.prior), misfit

    def _taken(self, stage: Stage, rows: Rows) -> EvaluationRequests[dict[tuple[str, str], Taken]]:
        """Energies of a stage by rung and position, each with its variances before and after the swap."""
        if self._paired:
            return (yield from self._both(rows))
        missing: dict[str, list[str]] = {}
        found: dict[tuple[str, str], Taken] = {}
        for (rung, at), _ in _wanted(stage):
            if self._sides[rung].estimate is not None and (rung == at or self._same):
                found[rung, at] = energies(self._known[rung, at][1], rows), None, None
            else:
                missing.setdefault(rung, []).append(at)
        if not missing:
            return found
        after = self._added is not None
        asking = [self._sides[rung].answer([rung != at for at in ats], rows, after) for rung, ats in missing.items()]
        for (rung, ats), answers in zip(missing.items(), (yield from gathered(asking)), strict=True):
            for at, taken in zip(ats, answers, strict=True):
                found[rung, at] = taken
                # the first time it was for all the chains that a later stage may ask for
                if not (self._sides[rung].noise_free and (rung, at) in self._known):
                    self._known[rung, at] = rows, taken[0]
        return found

    def _both(self, rows: Rows) -> EvaluationRequests[dict[tuple[str, str], Taken]]:
        """Each rung's energy at its own position, by one batch: the difference is known, and its noise is at one of
        them."""
        cold, hot = self._cold, self._hot
        estimator, prior = cold.rung.estimator, hot.rung.estimate.prior
        assert isinstance(estimator, Pairing) and prior is not None  # others are refused; of batches it is known
        memory = [known for side in (cold, hot) for known in remembered(side.rung.estimator_memory, rows)]
        found = yield from estimator.pair(cold.rung.streams["swap"], cold.position[rows], hot.position[rows], *memory)
        there = Estimate(prior[rows], None, prior=prior[rows])  # type: ignore[arg-type]
        none = np.zeros(len(rows))
        return {("cold", "cold"): (found, found.energy_variance, None), ("hot", "hot"): (there, none, None)}

    def _mean_difference(self, at: str, rows: Rows) -> Array:
        if self._learned is None or self._learned.fit is None or self._rule.discrepancy is None:
            return np.zeros(len(rows))
        if not self._means:
            # both positions of all chains at once: the next stage needs them again
            positions = [side.position for side in self._sides.values()]
            means = self._rule.discrepancy.predict(self._learned, np.concatenate(positions))
            self._means = dict(zip(self._sides, np.split(means, 2), strict=True))
        return self._means[at][rows]


@lru_cache
def _wanted(stage: Stage) -> list[tuple[tuple[str, str], Weights]]:
    """The energies that a stage takes, by rung and position."""
    keys = ("cold", "cold"), ("cold", "hot"), ("hot", "hot"), ("hot", "cold")
    return [(key, weights) for key, weights in zip(keys, stage[:4], strict=True) if any(weights)]


def estimates_alike(cold: RungChains, hot: RungChains) -> bool:
    """Whether one rung's estimate at a position is valid for the other: estimates move with positions.

    Energies that come with gradients may differ from those that do not, by an integrator's tolerance.
    """
    alike = (
        cold.gradients == hot.gradients
        and cold.settings.estimator == hot.settings.estimator
        and (cold.estimator.exact or cold.structure == hot.structure)
    )
    return cold.potential is hot.potential and alike


def variances_may_differ(cold: RungChains, hot: RungChains) -> bool:
    """Whether the sum of the rungs' energy variances may change at a swap.

    It does not where both are constant, nor where they are the same function of the position.
    """
    # rungs that share a pilot predict by one function of the position
    if cold.noise is hot.noise or all(_constant_variance(rung) for rung in (cold, hot)):
        return False
    model = cold.settings.energy_variance
    one_model = isinstance(model, Known) and model == hot.settings.energy_variance
    stated = isinstance(model, Known) and model.stated
    one_noise = cold.potential is hot.potential and cold.settings.estimator == hot.settings.estimator
    noise_free = cold.estimator.exact_energy or hot.estimator.exact_energy
    return noise_free or not one_model or (stated and not one_noise)


def _constant_variance(rung: RungChains) -> bool:
    """Whether the variance of the rung's energies is known to be the same at all positions."""
    model, estimator = rung.settings.energy_variance, rung.settings.estimator
    if rung.estimator.exact_energy or isinstance(model, RunningAverage):
        return True
    if isinstance(model, Known) and not model.stated:
        return not callable(model.value)
    return isinstance(model, Known) and isinstance(estimator, Noisy) and not callable(estimator.energy_sd)
