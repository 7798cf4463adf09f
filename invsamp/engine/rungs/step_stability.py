r"""Whether the steps of rungs that accept every move are stable where the chains are.

A Langevin step of size h along a direction of curvature :math:`\lambda` is stable for :math:`h \lambda < 2`; with
:math:`r = h \lambda / 2` its stationary variance is :math:`1 / (1 - r)` times that of the target distribution. Beyond
the limit only a domain or the tails keep the chains, and they mix well far from the posterior. Two quantities show it:

- ``share``, the step size over the longest stable one, by the largest curvature in the coordinates that steps are made
  in (power iteration on differences of gradients);
- ``drift``, :math:`h E|\nabla v|^2 / 2d`, the squared drift of a step over its squared noise. For a stationary chain
  :math:`E[|x' - c|^2] = E[|x - c|^2]` gives :math:`E[(x - c) \cdot \nabla v] = d (1 + \mathrm{drift}) - b`, with
  :math:`b \ge 0` from reflections at a convex boundary. The target distribution itself has :math:`d - b`: drift is the
  error of the virial, at a boundary, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invsamp.diagnostics.report import StepStability
from invsamp.diagnostics.stability import DRIFT_LIMIT, refusal
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.minibatches import BoundMinibatch
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, answered
from invsamp.modes.descent import descend
from invsamp.modes.objective import Objective
from invsamp.modes.tolerances import TOLERANCE
from invsamp.protocols import Array
from invsamp.tempering.contours import Contour

#: Chains whose positions are used, iterations for the largest curvature, and evaluations of a descent at most.
POSITIONS, ITERATIONS, MAX_EVALUATIONS = 4, 8, 300
#: Length of a difference of gradients, in units of a step's noise: over less, gradients by a coarse solver are rough.
DIFFERENCE = 0.3


class StepStabilityCheck(Lasting, lasting=("found", "_before")):
    """The checks of a run: before its first step, before its first draw, and after its last.

    Their evaluations are not counted: some ten gradients at four positions, and four descents where chains are far
    from the mass.

    Attributes
    ----------
    found : list of (StepStability or None)
        By rung, from cold to hot, after the last step; None for rungs that it does not concern.
    """

    def __init__(self) -> None:
        self.found: list[StepStability | None] = []
        self._before: dict[int, int] = {}  # evaluations by rung

    def before(self, rungs: Sequence[RungChains], warmed: bool) -> None:
        """Refuse a given step that is unstable at the lowest of some minima, where the chains are far from it.

        Preconditioners of the rungs are those of the draws. A minibatch has minima of its own, and so has a contour
        that each chain learns: there the positions after warm-up decide.

        Raises
        ------
        ValueError
        """
        for k, rung in enumerate(rungs):
            step = rung.settings.step_size
            if not _concerned(rung) or not isinstance(step, float):
                continue
            # after warm-up it may have shrunk to the budget for the gradient's noise
            local = _Local(rung, mean_step_size(rung) if warmed else step)
            if local.at_chains and not warmed:
                continue
            if local.drift() >= DRIFT_LIMIT:
                at = local.position if local.at_chains else local.minimum()
                if at is not None and (share := local.share(at)) > 1.0:
                    raise ValueError(refusal(k, len(rungs), local.step, share))
            self._before[k] = self._before.get(k, 0) + local.evaluations

    def after(self, rungs: Sequence[RungChains]) -> None:
        """Measure where the chains are now."""
        self.found = [
            _measured(rung, self._before.get(k, 0)) if _concerned(rung) else None for k, rung in enumerate(rungs)
        ]


def mean_step_size(rung: RungChains) -> float:
    """The step size of the recorded steps; of a schedule its mean."""
    if rung.schedule is None:
        return float(np.mean(rung.step_size))
    # a few thousand of the steps show the mean of any schedule
    steps = np.linspace(rung.iteration - rung.counts.steps, rung.iteration, 2000, endpoint=False)
    return float(np.mean([rung.schedule(int(k)) for k in steps]))


def _concerned(rung: RungChains) -> bool:
    kernel = rung.settings.kernel
    return bool(rung.gradients) and not kernel.adjusted and bool(np.isfinite(kernel.stability_limit))


def _measured(rung: RungChains, before: int) -> StepStability:
    local = _Local(rung, mean_step_size(rung))
    share, drift = local.share(local.position), local.drift()
    longest = local.step / share if share > 0.0 else None
    return {"share": share, "drift": drift, "longest": longest, "evaluations": before + local.evaluations}


class _Local:
    """A rung's energy around some of its chains, without the noise of its estimator, or as one minibatch has it."""

    def __init__(self, rung: RungChains, step: float) -> None:
        self.rung, self.step = rung, step
        separate = isinstance(rung.target, Contour) and not rung.target.together
        self.at_chains = separate or _batch(rung) is not None  # and nowhere else
        self.position = rung.position if separate else rung.position[:POSITIONS]
        self.evaluations = 0

    def drift(self) -> float:
        """The squared drift of a step over its squared noise, the median over chains."""
        # of two minibatches, whose product has no noise on average
        one, other = self.slope(self.position), self.slope(self.position, seed=1)
        with np.errstate(over="ignore"):
            return float(np.median(0.5 * self.step * np.mean(one * other, axis=1)))

    def share(self, position: Array) -> float:
        """The step over the longest stable one at positions (n, d), the largest of them."""
        rung, length = self.rung, DIFFERENCE * np.sqrt(2.0 * self.step)
        direction = np.random.default_rng(0).standard_normal(position.shape)
        here, curvature = self.slope(position), np.zeros(len(position))
        for _ in range(ITERATIONS):
            norm = np.linalg.norm(direction, axis=1, keepdims=True)
            along = length * np.divide(direction, norm, out=np.zeros_like(direction), where=norm > 0.0)
            move = rung.metric.color(along) * np.sqrt(rung.step_scale)
            sign = np.where(rung.domain.contains(position + move), 1.0, -1.0)[:, None]
            direction = sign * (self.slope(position + sign * move) - here) / length
            curvature = np.linalg.norm(direction, axis=1)
        return float(np.max(self.step * curvature / rung.settings.kernel.stability_limit))

    def minimum(self) -> Array | None:
        """The lowest point (1, d) that optimizations from the chains reach; None if none converged."""
        spread = self.rung.position.std(axis=0)
        scale = np.where(spread > 0.0, spread, np.maximum(np.abs(self.position[0]), 1e-3))
        objective = Objective(self._energies, scale, self.rung.domain)
        descents = descend(objective, self.position, tolerance=TOLERANCE, most=MAX_EVALUATIONS)
        found = answered(descents, self._answer)
        energy = np.where(found.converged, found.energy, np.inf)
        return found.position[[np.argmin(energy)]] if np.isfinite(energy).any() else None

    def slope(self, position: Array, seed: int = 0) -> Array:
        """Whitened gradients (n, d) of what is sampled, as steps take them."""
        found = answered(self._estimates(position, seed), self._answer)
        rung = self.rung
        return np.asarray(rung.metric.whiten(rung.reduced_gradient(found)) * np.sqrt(rung.step_scale))

    def _estimates(self, position: Array, seed: int = 0) -> EvaluationRequests[Estimate]:
        rung, batch = self.rung, _batch(self.rung)
        if batch is not None:
            return (yield from batch.estimate(np.random.default_rng(seed), position, rung.gradients))
        (found,) = yield (Request(rung.fidelity, position, rung.gradients),)
        return found

    def _energies(self, position: Array) -> EvaluationRequests[Estimate]:
        found, rung = (yield from self._estimates(position)), self.rung
        return Estimate(rung.reduced_energy(found), rung.reduced_gradient(found), failed=found.failed)

    def _answer(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        self.evaluations += sum(len(request.position) for request in requests)
        counts = [(each, each.counts) for each in self.rung.potential.fidelities.values()]
        found = self.rung.answer(requests)
        for each, before in counts:
            each.counts = before
        return found


def _batch(rung: RungChains) -> BoundMinibatch | None:
    """The minibatches of its estimator, or of a control variate."""
    batch = getattr(rung.estimator, "batch", rung.estimator)
    return batch if isinstance(batch, BoundMinibatch) else None
