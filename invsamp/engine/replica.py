"""One rung at work: its chains' positions, its random streams, its counts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array
from invsamp.domains import Domain, Unbounded
from invsamp.engine.evaluation import Evaluator
from invsamp.engine.streams import Stream, log_uniform
from invsamp.estimators import BoundEstimator, Estimate, Rows, probe
from invsamp.kernels import (
    Momentum,
    Proposal,
    StepSize,
    end_momentum,
    log_acceptance,
    persistent_acceptance,
    propose,
    propose_within_budget,
    refreshed,
)
from invsamp.ladder import Rung
from invsamp.metric import IdentityMetric, Metric
from invsamp.schedules import Schedule, over, step_size_at
from invsamp.variances.noise_models import NoiseModels, Samples

#: A rung whose every solve failed for so many steps in a row is stopped: there is nothing to sample.
FAILING_STEPS = 200
#: Where warm-up finds the step size of an adjusted kernel, every eighth step is a tenth as long: a chain in a spot of
#: much higher curvature than elsewhere would refuse every full step and sit there for hundreds of draws. The cycle
#: does not look at the state, so the law stays exact.
SHORT_EVERY, SHORT = 8, 0.1


class SolvesFailed(RuntimeError):
    """Every solve of one fidelity failed for `FAILING_STEPS` steps in a row, at and around ``position``."""

    def __init__(self, fidelity: str, position: Array) -> None:
        super().__init__(f"every solve of fidelity {fidelity!r} failed for {FAILING_STEPS} steps in a row")
        self.fidelity, self.position = fidelity, position


@dataclass
class Counts:
    """What happened in a rung since the counts were last reset."""

    steps: int = 0
    full_steps: int = 0  # of an adjusted kernel: the others are short
    accepted: int = 0  # of the full ones
    clipped: int = 0
    reflected: int = 0
    fallbacks: int = 0
    failing_in_a_row: int = field(default=0, repr=False)


#: What of a replica changes in a run and is saved as it is; its streams, counts and variance models come on top.
_CHANGING = (
    *("position", "estimate", "momentum", "level", "iteration", "log_ratio", "bounces"),
    *("adjusted", "temperature", "metric", "step_size", "longest_step", "uncovered"),
)
PURPOSES = ("start", "move", "accept", "estimate", "swap", "probe", "momentum")


class Replica:
    """The chains of one rung: state, streams, counts. `step` moves them once.

    Parameters
    ----------
    rung : Rung
    evaluator : Evaluator
        Of the rung's fidelity.
    domain : Domain
        Of the positions.
    seed : SeedSequence
        The rung's own; a stream is spawned for each purpose.
    steps : int, optional
        Length of the run, warm-up included, for schedules that are spread over it.
    """

    def __init__(
        self,
        rung: Rung,
        evaluator: Evaluator,
        domain: Domain,
        seed: np.random.SeedSequence,
        steps: int | None = None,
    ) -> None:
        self.rung, self.evaluator, self.domain = rung, evaluator, domain
        self.bounded = not isinstance(domain, Unbounded)
        self.structure = rung.gradient_noise.structure if rung.gradient_noise else "isotropic"
        self.estimator: BoundEstimator = rung.estimator.bind(evaluator, self.structure)
        self.noise = NoiseModels(rung, evaluator.dimension, self.estimator.exact_energy)
        #: of all fidelities that the estimator may solve
        self.evaluators: tuple[Evaluator, ...] = getattr(self.estimator, "evaluators", (evaluator,))
        self.streams = dict(zip(PURPOSES, (np.random.default_rng(s) for s in seed.spawn(len(PURPOSES))), strict=True))
        self.adjusted = rung.kernel.adjusted
        self.temperature = rung.temperature
        self.metric: Metric = IdentityMetric()
        self.schedule: Schedule | None = over(rung.step_size, steps) if callable(rung.step_size) else None
        self.step_size: StepSize = 0.0
        self.longest_step = math.inf  # what the budget for the gradient's noise allows
        self.momentum: Array | None = None  # (chains, d), of variance tau (see `Momentum`)
        self.level: Array | None = None  # (chains,): of an adjusted kernel with momentum (`persistent_acceptance`)
        self.iteration = 0
        self.counts = Counts()
        self.uncovered: float | None = None  # fraction of the states that the pilot of its variances leaves out
        self.log_ratio: Array | None = None  # (chains,) log Metropolis ratios of the last adjusted, full step
        self.bounces: npt.NDArray[np.int64] | None = None  # (chains,) walls hit in the last step

    @property
    def fidelity(self) -> str:
        """Name of the fidelity."""
        return self.evaluator.fidelity

    @property
    def variance_ready(self) -> bool:
        """Whether the variances of energies and gradients are known by now."""
        return self.noise.ready

    def start(self, position: Array) -> None:
        """Place the chains at positions (chains, d) and evaluate there."""
        self.position = position
        self.estimate = self.estimator.estimate(self.streams["estimate"], position)
        shapes = self.estimate.energy.shape, self.estimate.gradient.shape
        if shapes != (position.shape[:1], position.shape):
            raise ValueError(
                f"the potential of fidelity {self.evaluator.fidelity!r} must return an energy of shape "
                f"{position.shape[:1]} and a gradient of shape {position.shape}, got {shapes[0]} and {shapes[1]}"
            )
        if isinstance(self.rung.kernel, Momentum):
            self.momentum = math.sqrt(self.temperature) * self.streams["momentum"].standard_normal(position.shape)
            if self.rung.kernel.adjusted:
                self.level = self.streams["momentum"].uniform(-1.0, 1.0, len(position))
        self._open_streams(position.shape)

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on: plain values, arrays and invsamp's own parts."""
        drawn_in_blocks = {"move": self._moves.state(), "accept": self._thresholds.state()}
        others = {name: rng.bit_generator.state for name, rng in self.streams.items() if name not in drawn_in_blocks}
        return {
            "streams": others | drawn_in_blocks,
            "counts": asdict(self.counts),
            "noise": self.noise.state(),
            **{name: getattr(self, name) for name in _CHANGING},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state, in place of `start`."""
        for name in _CHANGING:
            setattr(self, name, state[name])
        self.counts = Counts(**state["counts"])
        self.noise.restore(state["noise"])
        self._open_streams(self.position.shape)
        drawn_in_blocks = {"move": self._moves, "accept": self._thresholds}
        for name, rng in self.streams.items():
            if name in drawn_in_blocks:
                drawn_in_blocks[name].restore(state["streams"][name])
            else:
                rng.bit_generator.state = state["streams"][name]

    def _open_streams(self, shape: tuple[int, ...]) -> None:
        self._moves = Stream(self.streams["move"], shape)
        self._thresholds = Stream(self.streams["accept"], shape[:1], log_uniform)

    def step(self) -> None:
        """Move every chain once."""
        self.iteration += 1
        if self.schedule is not None:
            self.step_size = min(step_size_at(self.schedule, self.iteration - 1), self.longest_step)
        short = self.adjusted and self.rung.step_size is None and self.iteration % SHORT_EVERY == 0
        step_size = SHORT * self.step_size if short else self.step_size
        noise = self._noise()
        proposal = self._propose(noise, step_size)
        end, velocity, failed = self._follow(proposal.move)
        self.counts.steps += 1
        self.counts.clipped += proposal.clipped
        failures = self._failures()
        estimate = self.estimator.estimate(self.streams["estimate"], end)
        refused = None
        if self._failures() > failures:
            refused = ~np.isfinite(estimate.energy)
            self._watch(refused)
        else:
            self.counts.failing_in_a_row = 0
        if self.adjusted:
            accepted = self._decide(end, estimate, noise, velocity, failed, step_size)
            if short:
                self.log_ratio = None  # says nothing about the full step
            else:
                self.counts.full_steps += 1
                self.counts.accepted += accepted
            return
        if self.momentum is not None:
            self._carry(velocity, step_size, failed, refused)
        if refused is not None:
            self._settle(end, estimate, refused)
        else:
            self.position, self.estimate = end, estimate

    def _noise(self) -> Array:
        """Standard normal noise (chains, d) of this step's move."""
        fresh = self._moves.draw()
        if self.level is None:
            return fresh
        assert self.momentum is not None
        return refreshed(self.momentum, fresh, self.rung.kernel.friction, self.temperature)

    def _propose(self, noise: Array, step_size: StepSize) -> Proposal:
        """Move of the whitened coordinates, straight."""
        metric, heat = self.metric, self.temperature
        carried = None if self.adjusted else self.momentum  # warm-up may explore with the adjusted kernel
        if carried is not None:
            friction = self.rung.kernel.friction
            heat = friction * heat
            carried = (1.0 - friction) * np.sqrt(step_size) * carried
        gradient = metric.whiten(self.estimate.gradient)
        variance = self.gradient_variance()
        if variance is None:
            proposal = propose(gradient, noise, step_size, heat)
        else:
            proposal = propose_within_budget(gradient, noise, step_size, heat, metric.whiten_covariance(variance))
        return proposal if carried is None else Proposal(proposal.move + carried, proposal.clipped)

    def _follow(self, straight: Array) -> tuple[Array, Array, npt.NDArray[np.bool_] | None]:
        """Ends of the moves (whitened, chains x d) within the domain, how the walls turned them, and which failed."""
        move = self.metric.colour(straight)
        if not self.bounded:
            return self.position + move, straight, None
        path = self.domain.reflect(self.position, move, self.metric.matrix)
        self.bounces = path.bounces
        reflected = int(np.count_nonzero(path.bounces))
        self.counts.fallbacks += int(np.count_nonzero(path.failed))
        if not reflected:
            return path.position, straight, path.failed
        self.counts.reflected += reflected
        return path.position, self.metric.uncolour(path.move), path.failed

    def _carry(
        self,
        velocity: Array,
        step_size: StepSize,
        failed: npt.NDArray[np.bool_] | None,
        refused: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Keep the moves as momenta; those that could not be made are turned back (see `Momentum`)."""
        momentum = velocity / np.sqrt(step_size)
        for stayed in (failed, refused):
            if stayed is not None and stayed.any():
                momentum[stayed] = -momentum[stayed]
        self.momentum = momentum

    def energy_variance(self, position: Array, stated: Array | None) -> Array | None:
        """Variance (chains,) of this rung's energy estimates at positions, None where there is no noise."""
        return self.noise.energy_variance(position, stated)

    def sample_variances(self) -> Samples | None:
        """Sample variances at those of the current positions where they tell the variance models something new."""
        if self.estimator.exact:
            return None
        rows = np.flatnonzero(self.noise.wants_samples(self.position))
        if not len(rows):
            return None
        at, freedom = self.position[rows], self.estimator.degrees_of_freedom
        if freedom is not None:
            _, _, energy, gradient = self.estimate.take(rows)
        else:
            energy, gradient, freedom = probe(
                self.estimator, self.streams["probe"], at, self.rung.probes, self.structure
            )
        assert energy is not None and gradient is not None  # there are degrees of freedom, or probes
        return Samples(at, energy, gradient, freedom)

    def reevaluate(self, rows: Rows) -> None:
        """New estimates for the chains ``rows``, whose positions have just been replaced."""
        self.set_estimate(rows, self.estimator.estimate(self.streams["estimate"], self.position[rows]))

    def set_estimate(self, rows: Rows, new: Estimate) -> None:
        """Replace the estimates of the chains ``rows``."""
        old = self.estimate
        energy_variance = gradient_variance = None
        if old.energy_variance is not None and new.energy_variance is not None:
            energy_variance = _replaced(old.energy_variance, rows, new.energy_variance)
        if old.gradient_variance is not None and new.gradient_variance is not None:
            gradient_variance = _replaced(old.gradient_variance, rows, new.gradient_variance)
        self.estimate = Estimate(
            _replaced(old.energy, rows, new.energy),
            _replaced(old.gradient, rows, new.gradient),
            energy_variance,
            gradient_variance,
        )

    def synchronise(self, rows: Rows, gradient: Array) -> None:
        """Keep the momenta of the chains ``rows`` as they are at the new positions, after the old ``gradient``.

        What an unadjusted kernel stores is half a kick behind the position. The momentum at the position itself does
        not depend on it, and stays at a swap (see `invsamp.kernels.Momentum`).
        """
        if self.momentum is None or self.rung.kernel.adjusted:
            return
        change = self.metric.whiten(self.estimate.gradient[rows] - gradient[rows])
        step_size = self.step_size[rows] if isinstance(self.step_size, np.ndarray) else self.step_size
        self.momentum = self.momentum.copy()
        self.momentum[rows] += 0.5 * np.sqrt(step_size) * change

    def gradient_variance(self) -> Array | None:
        """Covariance of the gradient estimates at the current positions, if it is to be taken out of the noise."""
        if self.noise.gradient_model is None or self.estimator.exact or not self.noise.ready:
            return None
        return self.noise.gradient_variance(self.position, self.estimate.gradient_variance)

    def _settle(self, end: Array, estimate: Estimate, refused: npt.NDArray[np.bool_]) -> None:
        """Unadjusted: go to the end, except where the energy is not finite (a failed solve)."""
        kept = np.flatnonzero(refused)
        end, old = end.copy(), self.estimate
        end[kept] = self.position[kept]
        self.position, self.estimate = end, estimate
        self.set_estimate(kept, old.take(kept))

    def _decide(
        self,
        end: Array,
        estimate: Estimate,
        noise: Array,
        velocity: Array,
        failed: npt.NDArray[np.bool_] | None,
        step_size: StepSize,
    ) -> int:
        """Metropolis-adjusted: accept or stay; the number of chains that moved."""
        gradient = self.metric.whiten(estimate.gradient)
        energies = self.estimate.energy, estimate.energy
        log_ratio = log_acceptance(energies, noise, velocity, gradient, step_size, self.temperature)
        if failed is not None and failed.any():
            log_ratio[failed] = -np.inf
        self.log_ratio = log_ratio
        if self.level is None:
            accept = self._thresholds.draw() < log_ratio
        else:
            accept, self.level = persistent_acceptance(self.level, log_ratio)
            turned = -math.sqrt(self.temperature) * noise
            self.momentum = np.where(accept[:, None], end_momentum(velocity, gradient, step_size), turned)
        accepted = int(np.count_nonzero(accept))
        if accepted == len(end):
            self.position, self.estimate = end, estimate
        elif accepted:
            by_row, old = accept[:, None], self.estimate
            self.position = np.where(by_row, end, self.position)
            # exact energies come without variances
            self.estimate = Estimate(
                np.where(accept, estimate.energy, old.energy), np.where(by_row, estimate.gradient, old.gradient)
            )
        return accepted

    def _failures(self) -> int:
        failed = 0
        for evaluator in self.evaluators:  # a third of the time of sum(), and this runs twice in every step
            failed += evaluator.failed
        return failed

    def _watch(self, refused: npt.NDArray[np.bool_]) -> None:
        if not refused.all():
            self.counts.failing_in_a_row = 0
            return
        self.counts.failing_in_a_row += 1
        if self.counts.failing_in_a_row >= FAILING_STEPS:
            raise SolvesFailed(self.evaluator.fidelity, self.position)


def _replaced(array: Array, rows: Rows, values: Array) -> Array:
    copy = array.copy()  # the model may have kept its own reference to what it returned
    copy[rows] = values
    return copy
