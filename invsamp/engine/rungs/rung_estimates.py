"""Estimates of a rung's energies, the memory of its estimator, and models of their noise."""

from __future__ import annotations

import numpy as np

from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.dispatch import Dispatch
from invsamp.engine.rungs.kernel_contract_check import check_memory
from invsamp.engine.rungs.noise_estimates import NoiseModels, Samples
from invsamp.estimators.contract import BoundEstimator, MultilevelEstimator, Remembering, probe, remembered
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Answer, Estimate, EvaluationRequests, Memory, Request, Rows
from invsamp.kernels.contract import Point
from invsamp.ladder import Rung
from invsamp.protocols import Array, Gradients

PURPOSES = ("start", "move", "accept", "estimate", "swap", "probe", "kernel")


class RungEstimates:
    """Estimates for the chains of one rung, where they stand and where they may move.

    Parameters
    ----------
    settings : Rung
    potential : CountedPotential
        Of the rung's fidelity.
    seed : SeedSequence
        The rung's own; a stream is spawned for each purpose.
    apart : bool
        Whether estimates come with the gradient of the prior energy, as the target of some rung needs it.
    bound : BoundProblem, optional
        Who evaluates.
    """

    def __init__(
        self,
        settings: Rung,
        potential: CountedPotential,
        seed: np.random.SeedSequence,
        apart: bool,
        bound: BoundProblem | None,
    ) -> None:
        self.settings, self.potential, self.bound = settings, potential, bound
        self._dispatch = Dispatch(potential.answer_all) if bound is None else bound.dispatch
        self.structure = settings.gradient_noise.structure if settings.gradient_noise else None
        self.estimator: BoundEstimator = settings.estimator.bind(potential, self.structure)
        self.remembering = self.estimator if isinstance(self.estimator, Remembering) else None
        #: Of each chain; empty where the estimator remembers nothing.
        self.estimator_memory: Memory = {}
        self.noise = NoiseModels(settings, potential.dimension, self.estimator.exact_energy)
        names = self.estimator.levels if isinstance(self.estimator, MultilevelEstimator) else (potential.fidelity,)
        #: of all fidelities that the estimator may solve
        self.potentials = tuple(potential.fidelities[name] for name in names)
        self.streams = dict(zip(PURPOSES, map(np.random.default_rng, seed.spawn(len(PURPOSES))), strict=True))
        #: What estimates come with.
        self.gradients: Gradients = settings.kernel.gradient and ("apart" if apart else True)
        self.point: Point
        self._raised: Exception | None = None  # by the model, not by the kernel that asked

    @property
    def fidelity(self) -> str:
        """Name of the fidelity."""
        return self.potential.fidelity

    @property
    def variance_ready(self) -> bool:
        """Whether the variances of energies and gradients are known by now."""
        return self.noise.ready

    @property
    def position(self) -> Array:
        """Positions (chains, d)."""
        return self.point.position

    @position.setter
    def position(self, position: Array) -> None:
        self.point = self.point._replace(position=position)

    @property
    def estimate(self) -> Estimate:
        """The energy estimate there."""
        return self.point.estimate

    @estimate.setter
    def estimate(self, estimate: Estimate) -> None:
        self.point = self.point._replace(estimate=estimate)

    @property
    def answer(self) -> Answer:
        """The evaluator."""
        return self._dispatch.answer

    @property
    def shared(self) -> bool:
        """Whether others than this process evaluate."""
        return self._dispatch.shared

    def evaluate(self, position: Array, rows: Rows | None = None) -> EvaluationRequests[Estimate]:
        """Energy and gradient at positions to which the chains, or ``rows`` of them, may move."""
        if not self.estimator_memory:
            return self.estimator.estimate(self.streams["estimate"], position, self.gradients)
        chains = len(next(iter(self.estimator_memory.values())))
        if rows is None and len(position) != chains:
            raise ValueError(
                f"rung.evaluate of {len(position)} positions needs rows, the chain of each position: the "
                f"estimator {self.settings.estimator!r} has a memory for each chain"
            )
        memory = (self.estimator_memory,) if rows is None else remembered(self.estimator_memory, rows)
        return self.estimator.estimate(self.streams["estimate"], position, self.gradients, *memory)

    def evaluate_exactly(self, position: Array, rows: Rows | None = None) -> EvaluationRequests[Estimate]:
        """The result of `evaluate` where the estimator is `Exact`: at once unless others evaluate.

        A request that goes out through the generators of kernel and rung takes a tenth of a step of SGLD.
        """
        request = tuple.__new__(Request, (self.potential.fidelity, position, self.gradients, None, False))
        if not self._dispatch.shared:
            try:
                return self.potential.answer(request)
            except Exception as error:
                self._raised = error
                raise
        (found,) = yield (request,)
        return found

    def solve(self, position: Array, fidelity: str | int, *, gradient: bool) -> EvaluationRequests[Estimate]:
        """Energies of a fidelity, 0 for the rung's own, whatever the estimator is."""
        if isinstance(fidelity, int):
            names = list(self.potential.fidelities)
            fidelity = names[max(0, names.index(self.fidelity) - fidelity)]
        (found,) = yield (Request(fidelity, position, self.gradients if gradient else False),)
        return found

    def estimates(self, purpose: str, position: Array, rows: Rows, gradient: Gradients) -> EvaluationRequests[Estimate]:
        """Energies at positions (k, d), each seen from the chain ``rows`` (k,), by a random stream of their own."""
        memory = remembered(self.estimator_memory, rows)
        return self.estimator.estimate(self.streams[purpose], position, gradient, *memory)

    def energy_variance(self, position: Array, stated: Array | None) -> Array | None:
        """Variance (chains,) of this rung's energy estimates at positions, None where there is no noise."""
        return self.noise.energy_variance(position, stated)

    def sample_variances(self) -> EvaluationRequests[Samples | None]:
        """Sample variances at those of the current positions where they add something to the variance models."""
        if self.estimator.exact:
            return None
        rows = np.flatnonzero(self.noise.wants_samples(self.position))
        if not len(rows):
            return None
        at, freedom = self.position[rows], self.estimator.degrees_of_freedom
        if freedom is not None:
            energy, gradient = self.estimate.take(rows)[2:4]
        else:
            energy, gradient, freedom = yield from probe(
                self.estimator, self.streams["probe"], at, self.settings.probes, self.structure, self.recall(rows)
            )
        assert energy is not None  # there are degrees of freedom, or probes
        return Samples(at, energy, gradient, freedom)

    def begin_memory(self, position: Array) -> EvaluationRequests[None]:
        """The estimator's memory of chains that are placed at positions (chains, d)."""
        if self.remembering is not None:
            self.estimator_memory = yield from self.remembering.init(self.streams["estimate"], position)
            check_memory("estimator", self.settings.estimator, self.estimator_memory, len(position))

    def update_memory(self, iteration: int, *, check: bool) -> EvaluationRequests[None]:
        """Its memory after a step."""
        assert self.remembering is not None
        rng, position = self.streams["estimate"], self.position
        self.estimator_memory = yield from self.remembering.updated(rng, self.estimator_memory, position, iteration)
        if check:
            check_memory("estimator", self.settings.estimator, self.estimator_memory, len(position))

    def reevaluate(self, rows: Rows, memory: Memory | None = None) -> EvaluationRequests[None]:
        """New estimates for the chains ``rows``, whose positions have just been replaced.

        ``memory`` is what the estimator remembers there; by default it begins anew, if it belongs to positions.
        """
        if self.remembering is not None and self.remembering.moves:
            known = memory or (yield from self.remembering.init(self.streams["estimate"], self.position[rows]))
            self.remember(rows, known)
        new = yield from self.evaluate(self.position[rows], rows)
        self.set_estimate(rows, new)

    def recall(self, rows: Rows) -> Memory:
        """The estimator's memory of the chains ``rows``."""
        return {name: values[rows] for name, values in self.estimator_memory.items()}

    def remember(self, rows: Rows, memory: Memory) -> None:
        """Let the chains ``rows`` have that memory."""
        self.estimator_memory = {name: values.copy() for name, values in self.estimator_memory.items()}
        for name, values in memory.items():
            self.estimator_memory[name][rows] = values

    def set_estimate(self, rows: Rows, new: Estimate) -> None:
        """Replace the estimates of the chains ``rows``."""
        self.estimate = self.estimate.replaced(rows, new)

    def gradient_variance(self) -> Array | None:
        """Covariance of the gradient estimates at the current positions, if it is to be taken out of the noise."""
        if self.noise.gradient_model is None or self.estimator.exact or not self.noise.ready:
            return None
        return self.noise.gradient_variance(self.position, self.estimate.gradient_variance)
