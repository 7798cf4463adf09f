"""Rounds of warm-up that find how many rungs a ladder has, and where (`invsamp.ladder.spacing`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from invsamp.diagnostics.report import FoundLadder, Round
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.rung_chains import Mapped, RungChains
from invsamp.kernels.metric import DenseMetric, DiagonalMetric, Metric
from invsamp.kernels.prior_sampler import PriorDraws
from invsamp.ladder import Rung, Sampler
from invsamp.ladder.spacing import AutoLadder, distances, flattened, respaced, rounds
from invsamp.protocols import Array
from invsamp.stored import stored
from invsamp.tempering.linear_targets import Tempered, TemperedLikelihood
from invsamp.tempering.target_distribution import TargetDistribution

#: Rejection between two fidelities above which the finer one goes one rung further up.
TOO_COARSE = 0.75
#: The hottest beta, where the path does not end at the prior, lies within these.
FLATTEST, STEEPEST = 1e-6, 0.5


@stored
class WarmStart(NamedTuple):
    """The initial state of a rung of the next round."""

    position: Array  # (chains, d)
    metric: Metric
    step_size: float | None  # None: to be found from the beginning
    mapped: Mapped | None = None


class LadderSearch(Lasting, lasting=("round", "betas", "_used_from", "measured_rounds", "_start_energy")):
    """The rounds, and the ladder of the present one.

    Parameters
    ----------
    sampler : Sampler
        With a ladder to be found: its rungs are the first round's, the first and the second stand for all colder and
        hotter ones.
    fidelities : sequence of str
        Of these rungs.
    split, drawable : bool
        Whether the problem separates prior and misfit, and whether its prior can be drawn from.
    warmup : int
        Steps of all rounds together.
    shortest : int
        Of the first one.
    """

    def __init__(
        self, sampler: Sampler, fidelities: Sequence[str], *, split: bool, drawable: bool, warmup: int, shortest: int
    ) -> None:
        assert sampler.ladder is not None
        self._settings: AutoLadder = sampler.ladder
        self._asked, self._split, self.to_prior = sampler, split, split and drawable
        self.lengths = rounds(warmup, shortest)
        betas = self._settings.start()
        if not self.to_prior:
            betas = tuple(np.geomspace(1.0, self._settings.min_beta, self._settings.first).tolist())
        self.betas = betas
        self._names = list(dict.fromkeys(fidelities))
        #: The beta from which on a fidelity is used, by how many it is below the finest.
        self._used_from = [1.0] * len(self._names)
        self.round = 0
        #: Of the rounds that are over, in plain types.
        self.measured_rounds: list[Round] = []
        self._start_energy = math.nan

    @property
    def last(self) -> bool:
        """Whether the present round is the last one."""
        return self.round == len(self.lengths) - 1

    @property
    def length(self) -> int:
        """Steps of the present round."""
        return self.lengths[self.round]

    def sampler(self) -> Sampler:
        """The composition of the present round, of rungs that are all there."""
        rungs = tuple(self._rung(k, beta) for k, beta in enumerate(self.betas))
        return replace(self._asked, rungs=rungs, ladder=None)

    def begun(self, rungs: Sequence[RungChains]) -> None:
        """Keep how high energies are where the chains begin."""
        self._start_energy = float(np.median(np.concatenate([self._taken(rung) for rung in rungs])))

    def advance(self, rungs: Sequence[RungChains], exchange: Exchange) -> list[WarmStart]:
        """End a round that was not the last; what the next one's rungs continue from."""
        rejections, apart = self.measured(exchange)
        betas, steps = list(self.betas), apart.tolist()
        self._grade(rejections, rungs)
        if not self.to_prior:
            betas, steps = flattened(betas, steps, self._hottest(rungs))
        count = self._settings.rungs(sum(steps))
        old = np.concatenate([[0.0], np.cumsum(apart)])
        self.betas = respaced(betas, steps, count)
        place = np.linspace(0.0, sum(steps), count)
        self.round += 1
        return [
            self._warm_start(z, beta, old, self.measured_rounds[-1]["betas"], rungs)
            for z, beta in zip(place.tolist(), self.betas, strict=True)
        ]

    def measured(self, exchange: Exchange) -> tuple[Array, Array]:
        """Rejections of the round that ends, and how far neighbors are apart; kept for the report."""
        rejections, first_stage, error = exchange.measured
        apart = distances(np.nan_to_num(first_stage, nan=0.5))  # where none met in so few steps
        barrier = float(apart.sum())
        self.measured_rounds.append(
            {
                "steps": self.length,
                "betas": list(self.betas),
                "rejections": rejections.tolist(),
                "barrier": barrier,
                "barrier_error": error * barrier / float(np.nansum(first_stage)),
            }
        )
        return rejections, apart

    def report(self) -> FoundLadder:
        """The result, in plain types."""
        return {
            "path": "likelihood" if self._split else "temperature",
            "betas": list(self.betas),
            "hottest_is_prior": self.to_prior,
            "limited": len(self.betas) == self._settings.max_rungs,
            "rounds": [one.copy() for one in self.measured_rounds],
        }

    def _rung(self, k: int, beta: float) -> Rung:
        last = k == len(self.betas) - 1
        template = self._asked.rungs[min(k, 1)]
        found = replace(template, target=self._target(beta), fidelity=self._names[self._level(k)])
        return replace(found, kernel=PriorDraws(), gradient_noise=None) if last and self.to_prior else found

    def _target(self, beta: float) -> TargetDistribution:
        return TemperedLikelihood(beta) if self._split else Tempered(1.0 / beta)

    def _level(self, k: int) -> int:
        """How many fidelities below the finest a rung is: one more from rung to rung, where they are good enough."""
        level = 0
        for beta in self.betas[1 : k + 1]:
            if level + 1 < len(self._names) and beta <= self._used_from[level + 1]:
                level += 1
        return level

    def _grade(self, rejections: Array, rungs: Sequence[RungChains]) -> None:
        """Let a fidelity begin hotter where hardly a swap passes between it and the one above."""
        for k, rejection in enumerate(rejections.tolist()):
            cold, hot = (self._names.index(rungs[j].fidelity) for j in (k, k + 1))
            if hot > cold and rejection > TOO_COARSE:
                for level in range(hot, len(self._names)):
                    self._used_from[level] = min(self._used_from[level], 0.5 * self.betas[k + 1])

    def _taken(self, rung: RungChains) -> Array:
        """Energies at the rung's chains that the path tempers: the misfit, or the whole energy."""
        energy = rung.estimate.energy
        prior = rung.estimate.prior if self._split else None
        with np.errstate(invalid="ignore"):
            found = energy if prior is None else energy - prior
        return found[np.isfinite(found)]

    def _hottest(self, rungs: Sequence[RungChains]) -> float:
        """The beta at which energies are as high as where the chains began: d/2 for each 1 / beta above the least."""
        half = 0.5 * rungs[0].position.shape[1]
        rise = self._start_energy - (float(np.median(self._taken(rungs[0]))) - half)
        return float(np.clip(half / rise, FLATTEST, STEEPEST)) if rise > half else STEEPEST

    def _warm_start(
        self, z: float, beta: float, old: Array, betas: list[float], rungs: Sequence[RungChains]
    ) -> WarmStart:
        nearest = rungs[int(np.argmin(np.abs(old - z)))]
        j = int(np.clip(np.searchsorted(-np.asarray(betas), -beta) - 1, 0, len(betas) - 2))
        share = float(np.clip((betas[j] - beta) / (betas[j] - betas[j + 1]), 0.0, 1.0))
        metric = between(rungs[j].metric, rungs[j + 1].metric, share)
        moving = [k for k, rung in enumerate(rungs) if rung.adjusted and not isinstance(rung.kernel, PriorDraws)]
        step = None
        if moving:
            steps = [math.log(float(np.mean(rungs[k].step_size))) for k in moving]
            step = math.exp(float(np.interp(z, old[moving], steps)))
        return WarmStart(nearest.position.copy(), metric, step)


def between(first: Metric, second: Metric, share: float) -> Metric:
    """The metric whose precision lies between those of two, as it does between two tempered likelihoods of a Gaussian.

    Of metrics of another kind, the nearer one.
    """
    if share in (0.0, 1.0) or not all(isinstance(metric, DenseMetric | DiagonalMetric) for metric in (first, second)):
        return first if share < 0.5 else second
    if isinstance(first, DiagonalMetric) and isinstance(second, DiagonalMetric):
        return DiagonalMetric(1.0 / np.sqrt((1.0 - share) / first.scale**2 + share / second.scale**2))
    d = len(np.asarray(first.matrix))
    roots = [math.sqrt(part) * metric.uncolor(np.eye(d)).T for part, metric in ((1.0 - share, first), (share, second))]
    # triangular from the other side: the root of the precision that is the inverse of a lower factor
    upper = np.linalg.qr(np.concatenate(roots)[:, ::-1])[1]
    lower = np.linalg.inv(upper[::-1, ::-1])
    return DenseMetric(lower * np.sign(np.diag(lower)))
