"""Two rungs at one attempt: which energies it takes, what it solves, and what it moves."""

from __future__ import annotations

import numpy as np

from invsamp.contract import Array
from invsamp.estimators import Estimate, Noisy, Rows
from invsamp.replica import Replica
from invsamp.swap.discrepancy import DiscrepancyState
from invsamp.swap.rules import Coefficients, SwapRule
from invsamp.variance import Known, RunningAverage


class Meeting:
    """Two rungs at one attempt. Noise-free energies are solved once and kept; noisy ones are drawn afresh.

    ``added`` draws the noise that makes the variance of a log ratio that of the reverse swap; None: it is the same.
    ``whole``: energies are those of the whole potential, whatever the estimators say.
    """

    def __init__(
        self,
        cold: Replica,
        hot: Replica,
        rule: SwapRule,
        learnt: DiscrepancyState | None = None,
        added: np.random.Generator | None = None,
        whole: bool = False,
    ) -> None:
        self._rungs, self._whole = {"cold": cold, "hot": hot}, whole
        self._rule, self._learnt, self._added = rule, learnt, added
        alike = cold.rung.estimator == hot.rung.estimator and (cold.estimator.exact or cold.structure == hot.structure)
        self._same = cold.evaluator is hot.evaluator and alike
        # estimates of one rung at the other's position, by rung: filled where they are solved
        self._crossed: dict[str, tuple[Rows, Estimate]] = {}
        # means of the learnt difference, by position
        self._means: dict[str, Array] = {}
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
        if not replica.estimator.exact:
            return self._fresh_energy(rung, at, rows)
        if rung == at or self._same:
            return place.estimate.energy[rows], None
        if rung not in self._crossed:
            estimate = replica.estimator.estimate(replica.streams["swap"], place.position[rows])
            self._crossed[rung] = (rows, estimate)
        solved, estimate = self._crossed[rung]
        return estimate.energy[np.searchsorted(solved, rows)], None

    def _fresh_energy(self, rung: str, at: str, rows: Rows) -> tuple[Array, Array | None]:
        """Energy and variance where the estimates at hand are noisy; kept for the next stage if it is not."""
        replica, position = self._rungs[rung], self._rungs[at].position[rows]
        noise_free = self._whole or replica.estimator.exact_energy
        if noise_free and (rung, at) in self._drawn:
            solved, energy = self._drawn[rung, at]
            return energy[np.searchsorted(solved, rows)], None
        stated = None
        if self._whole:
            energy = replica.evaluator.energy(position)
        else:
            energy, stated = replica.estimator.energy(replica.streams["swap"], position)
        self._drawn[rung, at] = rows, energy
        return energy, None if noise_free else replica.energy_variance(position, stated)

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
        if self._learnt is None or self._learnt.fit is None or self._rule.discrepancy is None:
            return np.zeros(len(rows))
        if not self._means:
            # both positions of all chains at once: the next stage needs them again
            positions = [replica.position for replica in self._rungs.values()]
            means = self._rule.discrepancy.predict(self._learnt, np.concatenate(positions))
            self._means = dict(zip(self._rungs, np.split(means, 2), strict=True))
        return self._means[at][rows]


def variances_may_differ(cold: Replica, hot: Replica) -> bool:
    """Whether the sum of the rungs' energy variances may change at a swap.

    It does not where both are constant, nor where they are the same function of the position.
    """
    # rungs that share a pilot predict by one function of the position
    if cold.noise is hot.noise or all(_constant_variance(replica) for replica in (cold, hot)):
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
