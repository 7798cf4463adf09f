"""Two rungs of a run: their rule, random streams, estimated discrepancy, and counts."""

from __future__ import annotations

import math

import numpy as np

from invsamp.engine.exchange.swap_acceptance import SwapAttempt, estimates_alike, variances_may_differ
from invsamp.engine.rungs.lasting_state import Lasting, LastingState
from invsamp.engine.rungs.random_streams import Stream, log_uniform
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.contract import Pairing
from invsamp.evaluate.requests import EvaluationRequests, Rows
from invsamp.ladder import Swap
from invsamp.protocols import Array
from invsamp.swaps.discrepancy import Discrepancy
from invsamp.swaps.rules import SwapRule, delayed_acceptance, state_dependent_penalty
from invsamp.warning_codes import coded

#: Chains that are named by their numbers.
WORST = 8


class Pair(
    Lasting,
    lasting=(
        *("_thresholds", "_added", "rule", "discrepancy", "learning", "_open"),
        *("attempts", "accepts", "first_stage_accepts", "log_ratio_sd", "chances", "first_stage_chances"),
    ),
):
    """Two rungs that attempt swaps. Its random streams are its own: no draw depends on what another pair did.

    Parameters
    ----------
    number : int
        k of rungs k and k + 1; of rungs further apart, the next numbers.
    swap : Swap
    cold, hot : RungChains
    seed : SeedSequence
        The pair's own.
    """

    def __init__(
        self, number: int, swap: Swap, cold: RungChains, hot: RungChains, seed: np.random.SeedSequence
    ) -> None:
        self.number, self._swap, self._cold, self._hot = number, swap, cold, hot
        accept, added = seed.spawn(2)
        self._thresholds = Stream(np.random.default_rng(accept), (len(cold.position),), log_uniform)
        self._added = np.random.default_rng(added)
        self.rule = _rule(swap, cold, hot)
        self.same = estimates_alike(cold, hot)
        self._unequal = self.rule.equalize and swap.energies == "estimated" and variances_may_differ(cold, hot)
        self._gated = swap.scheme.window > 1
        self._every = np.arange(len(cold.position))
        self._open = np.ones(len(self._every), dtype=bool)  # which chains may swap in this window
        self.learning = True
        self.discrepancy = self.rule.discrepancy.init() if self.rule.discrepancy else None
        #: Whether all that an attempt takes is known before: exact energies of one fidelity, in one stage.
        self.vectorized = self._is_vectorized()
        self.reset()

    def reset(self) -> None:
        """Set every count to zero (at the end of warm-up)."""
        self.attempts = self.accepts = self.first_stage_accepts = 0
        self.log_ratio_sd = 0.0  # sum over attempts of the noise's sd
        #: Sums over the attempts of each chain of the chance to be accepted, in all and by the first stage.
        self.chances, self.first_stage_chances = np.zeros((2, len(self._cold.position)))

    def resolve(self, cold_variance: float, hot_variance: float) -> None:
        """Fill in what the rule takes from warm-up, which is over: mean variances, and the discrepancy."""
        self.rule = self.rule.resolve(cold_variance, hot_variance)
        if self.rule.discrepancy and self.discrepancy:
            self.discrepancy = self.rule.discrepancy.fitted(self.discrepancy)
        self.learning, self.vectorized = False, self._is_vectorized()

    def attempt(self) -> EvaluationRequests[Rows]:
        """Make an attempt; the chains that exchange their positions."""
        added, whole = self._added if self._unequal else None, self._swap.energies == "exact"
        paired = self._swap.energies == "paired"
        attempt = SwapAttempt(
            self._cold,
            self._hot,
            self.rule,
            same=self.same,
            whole=whole,
            paired=paired,
            learned=self.discrepancy,
            added=added,
        )
        stages = self.rule.stages()
        rows = np.flatnonzero(self._open) if self._gated else self._every
        tried = len(rows)
        for number, stage in enumerate(stages):
            log_ratio, noise = yield from attempt.log_ratio(stage, rows)
            self.log_ratio_sd += noise
            at = rows if len(rows) < len(self._every) else slice(None)  # a third of the time where it is all
            accept = self._thresholds.draw()[at] < log_ratio
            chances = np.exp(np.minimum(log_ratio, 0.0))
            if number == 0:
                self.first_stage_accepts += int(np.count_nonzero(accept))
                self.first_stage_chances[at] += chances
            if number == len(stages) - 1:
                self.chances[at] += chances
            rows = rows[accept]
            if not len(rows):
                break
        if self.learning:
            self._learn(attempt)
        self.attempts += tried
        self.accepts += len(rows)
        if len(rows):
            self._open[rows] = not self._gated
            yield from attempt.exchange(rows)
        return rows

    def open(self) -> None:
        """Let all chains swap, including those that did in the last window."""
        self._open[:] = True

    def log_uniform(self) -> Array:
        """Logs of fresh uniform numbers (chains,), for an attempt."""
        return self._thresholds.draw()

    def thresholds_ahead(self) -> Array:
        """Logs of uniform numbers (n, chains) for the next attempts, for as many as are drawn already."""
        return self._thresholds.ahead()

    def record(self, attempts: int, accepts: int, chances: Array, first_stage_chances: Array) -> None:
        """Count so many attempts, made elsewhere with those numbers; the sums of chances (chains,) are given."""
        self._thresholds.skip(attempts)
        self.attempts += attempts * len(chances)
        self.accepts += accepts
        self.first_stage_accepts += accepts
        self.chances, self.first_stage_chances = chances.copy(), first_stage_chances.copy()

    def count(self, chances: Array, accepts: int) -> None:
        """Count an attempt that had these chances (chains,) to be accepted, and was in some chains."""
        self.attempts += len(chances)
        self.accepts += accepts
        self.first_stage_accepts += accepts
        self.chances += chances
        self.first_stage_chances += chances

    @property
    def ready(self) -> bool:
        """Whether both rungs' variances are known by now: a rule without them would be another rule."""
        return self._cold.variance_ready and self._hot.variance_ready

    @property
    def rejection(self) -> float:
        """Mean chance that an attempt is rejected; NaN without one."""
        return 1.0 - float(self.chances.sum()) / self.attempts if self.attempts else math.nan

    @property
    def least_chance(self) -> float:
        """Mean chance of the chain whose attempts are accepted least; NaN without any."""
        chains = len(self.chances)
        return float(self.chances.min()) / (self.attempts / chains) if self.attempts else math.nan

    @property
    def worst_chains(self) -> dict[str, float]:
        """The chains whose attempts are accepted least, up to `WORST`, with their mean chances."""
        if not self.attempts:
            return {}
        means = self.chances / (self.attempts / len(self.chances))
        return {str(k): float(means[k]) for k in np.argsort(means, kind="stable")[:WORST].tolist()}

    @property
    def first_stage_rejections(self) -> Array:
        """Mean chance (chains,) that the first stage of an attempt rejects; NaN without one."""
        chains = len(self.first_stage_chances)
        return 1.0 - self.first_stage_chances / (self.attempts / chains if self.attempts else math.nan)

    @property
    def residual_sd(self) -> float | None:
        """Sd of what the learned discrepancy leaves unexplained; None where nothing was learned."""
        return self.discrepancy.residual_sd if self.discrepancy else None

    @property
    def doubt(self) -> str | None:
        """Known faults of the chosen swaps, in words."""
        if self._gated and self.number == 0:
            return coded(
                "IV-SWAP-BIAS",
                f"swaps are by {self._swap.scheme}. A pair that has swapped waits until its window ends, "
                "which depends on the state, and the draws are biased where moves are slow. Use deo(), with "
                "more attempts.",
            )
        if self._swap.energies == "exact" or all(r.estimator.exact_energy for r in (self._cold, self._hot)):
            return None
        where = f"rungs {self.number} and {self.number + 1} swap by {self.rule}"
        if math.isinf(self.rule.factor):
            return coded(
                "IV-SWAP-BIAS",
                f"{where}, which treats noisy energies as exact: the draws are biased. Use "
                "state_dependent_penalty() or noise_penalty(), or exact energies for swaps.",
            )
        if (
            self._swap.energies == "estimated"
            and _own_energies(self.rule)
            and not self.rule.equalize
            and variances_may_differ(self._cold, self._hot)
        ):
            return coded(
                "IV-SWAP-BIAS",
                f"{where}, and the variance of their energies may change at a swap: the draws are biased. "
                "Use state_dependent_penalty(), which equalizes it, or a rule with all four energies (multi_variance, "
                "product_target).",
            )
        return None

    def restore(self, state: LastingState) -> None:
        """Continue from a state."""
        super().restore(state)
        self.vectorized = self._is_vectorized()

    def _is_vectorized(self) -> bool:
        linear = self._cold.target.factors is not None and self._hot.target.factors is not None
        exact = self.same and self._cold.estimator.exact
        return exact and linear and not self._gated and len(self.rule.stages()) == 1

    def _learn(self, attempt: SwapAttempt) -> None:
        if not (self.rule.discrepancy and self.discrepancy):
            return
        for position, difference in attempt.differences():
            self.discrepancy = self.rule.discrepancy.update(self.discrepancy, position, difference)


def check_paired(swap: Swap, cold: RungChains, hot: RungChains) -> None:
    """`ValueError` unless swaps of two rungs may take one batch for both positions, where they are to."""
    rule = _rule(swap, cold, hot)
    alike = cold.potential is hot.potential and cold.settings.estimator == hot.settings.estimator
    if swap.energies != "paired" or (alike and isinstance(cold.estimator, Pairing) and _own_energies(rule)):
        return
    raise ValueError(
        "swap energies 'paired' need rungs of one fidelity with equal estimators that take one batch for two positions "
        f"(minibatch, fixed_control), and state_dependent_penalty() or noise_penalty(), got "
        f"{cold.settings.estimator} of {cold.fidelity!r}, {hot.settings.estimator} of {hot.fidelity!r} and {rule}"
    )


def _own_energies(rule: SwapRule) -> bool:
    """Whether no rung's energy is taken at both positions, so that the noise depends on the positions' rungs."""
    return not any(any(stage.cold_at_hot) or any(stage.hot_at_cold) for stage in rule.stages())


def _rule(swap: Swap, cold: RungChains, hot: RungChains) -> SwapRule:
    if swap.rule is not None:
        return swap.rule
    if cold.potential is hot.potential:
        return state_dependent_penalty()
    # what was learned of a difference of misfits is no difference of a target's values where that is not linear
    return delayed_acceptance(Discrepancy() if cold.target.factors else None)
