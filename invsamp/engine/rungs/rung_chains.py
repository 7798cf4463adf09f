"""One rung at work: its chains' positions, its random streams, its counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.domains import Unbounded
from invsamp.domains.contract import Domain
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.coordinate_quality import CoordinateQuality
from invsamp.engine.rungs.dispatch import Dispatch
from invsamp.engine.rungs.kernel_contract_check import check_memory, checked_step, steps_to_check
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.noise_estimates import NoiseModels, Samples
from invsamp.engine.rungs.random_streams import Stream, log_uniform, single_normal
from invsamp.engine.rungs.stationarity import Stationarity
from invsamp.estimators.contract import BoundEstimator, MultilevelEstimator, Remembering, probe, remembered
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import (
    Answer,
    Estimate,
    EvaluationRequests,
    Memory,
    Request,
    Rows,
    answered,
    check_shapes,
    done,
)
from invsamp.kernels import Langevin
from invsamp.kernels.contract import (
    NOTHING,
    RESTED,
    CompilableKernel,
    Info,
    Kernel,
    Path,
    Point,
    StepSize,
    Whitened,
    acceptance_statistics,
    number,
)
from invsamp.kernels.metric import IdentityMetric, Metric
from invsamp.kernels.schedules import Constant, Schedule, over, step_size_at
from invsamp.ladder import Rung
from invsamp.modes.descent import DescentResult
from invsamp.protocols import Array, Facts, Gradients
from invsamp.tempering.target_distribution import LocallyScaledTarget, ScheduledTarget, TargetDistribution
from invsamp.transport import TransportMap
from invsamp.transport.triangular import Image

#: A rung whose every solve failed for so many steps in a row is stopped: there is nothing to sample.
FAILING_STEPS = 200
#: Drift of a step by its noise beyond which a chain has diverged; at the limit of stability it is about 1.
RUNAWAY = 100.0
#: Squared residual of a score in the coordinates of a map, per unknown, above which the map does not fit there: where a
#: target bends as the map does, there is no such draw in 8,000; where it does not, as far out on a ridge that is no
#: parabola, .3% to 9% of the draws are.
UNFIT = 10.0
#: A path that a transport map takes farther than this is given up: squares of such positions overflow.
FARTHEST = 1e150
#: Where warm-up finds the step size of an adjusted kernel, every eighth step is shorter (`Kernel.short_step`): a chain
#: in a spot of much higher curvature than elsewhere would refuse every full step and sit there for hundreds of draws.
#: The cycle does not depend on the state, so the target stays exact.
SHORT_EVERY = 8


class SolvesFailed(RuntimeError):
    """Every solve of one fidelity failed for `FAILING_STEPS` steps in a row, at and around ``position``.

    ``cause``: a sentence, where it is known why.
    """

    def __init__(self, fidelity: str, position: Array, cause: str = "") -> None:
        super().__init__(f"every solve of fidelity {fidelity!r} failed for {FAILING_STEPS} steps in a row")
        self.fidelity, self.position, self.cause = fidelity, position, cause


@dataclass
class StepCounts:
    """What happened in a rung since the counts were last reset."""

    steps: int = 0
    full_steps: int = 0  # of an adjusted kernel: the others are short
    accepted: int = 0  # of the full ones
    clipped: int = 0
    reflected: int = 0
    cliffs: int = 0  # paths that met one
    fallbacks: int = 0
    unfit: int = 0  # at which a transport map does not fit
    failing_in_a_row: int = field(default=0, repr=False)


#: A transport map, and the metric in its coordinates.
Mapped = tuple[TransportMap, Metric]
PURPOSES = ("start", "move", "accept", "estimate", "swap", "probe", "kernel")
#: What an unadjusted rung explores with in warm-up, where energies are exact: it cannot blow up on the way.
EXPLORER: Kernel = Langevin(adjusted=True)


class RungChains(
    Lasting,
    lasting=(
        *("streams", "_counted", "noise", "point", "memory", "estimator_memory", "iteration", "acceptance", "bounces"),
        *("exploring", "warming", "_own_target", "target_memory", "metric", "mapped", "step_size", "longest_step"),
        *("uncovered", "led", "stationarity", "coordinates", "_moves", "_thresholds"),
    ),
):
    """The chains of one rung: state, streams, counts. `step` moves them once.

    Parameters
    ----------
    settings : Rung
    potential : CountedPotential
        Of the rung's fidelity.
    domain : Domain
        Of the positions.
    seed : SeedSequence
        The rung's own; a stream is spawned for each purpose.
    steps : int, optional
        Length of the run, warm-up included, for schedules that are spread over it.
    apart : bool
        Whether estimates come with the gradient of the prior energy, as the target of some rung needs it.
    bound : BoundProblem, optional
        Who evaluates, and what kernels may ask of the problem's prior.
    """

    def __init__(
        self,
        settings: Rung,
        potential: CountedPotential,
        domain: Domain,
        seed: np.random.SeedSequence,
        steps: int | None = None,
        apart: bool = False,
        bound: BoundProblem | None = None,
    ) -> None:
        self.settings, self.potential, self.domain, self.bound = settings, potential, domain, bound
        self._dispatch = Dispatch(potential.answer_all) if bound is None else bound.dispatch
        self.bounded = not isinstance(domain, Unbounded)
        self.structure = settings.gradient_noise.structure if settings.gradient_noise else None
        self.estimator: BoundEstimator = settings.estimator.bind(potential, self.structure)
        self.remembering = self.estimator if isinstance(self.estimator, Remembering) else None
        self.noise = NoiseModels(settings, potential.dimension, self.estimator.exact_energy)
        names = self.estimator.levels if isinstance(self.estimator, MultilevelEstimator) else (potential.fidelity,)
        #: of all fidelities that the estimator may solve
        self.potentials = tuple(potential.fidelities[name] for name in names)
        self._others = tuple(other for other in self.potentials if other is not potential)
        self._raised: Exception | None = None  # by the model, not by the kernel that asked
        self.streams = dict(zip(PURPOSES, (np.random.default_rng(s) for s in seed.spawn(len(PURPOSES))), strict=True))
        #: What estimates come with.
        self.gradients: Gradients = settings.kernel.gradient and ("apart" if apart else True)
        self.exploring = False  # by `EXPLORER`, which leaves the memory of the rung's own kernel alone
        self.warming = False
        self.counts = StepCounts()
        self._active = _ActiveRung(self)
        self.target: TargetDistribution = settings.target
        self.target_memory: Memory = self.target.init()
        self._metric: Metric = IdentityMetric()
        self._mapped: Mapped | None = None
        self.metric = self._metric
        #: How normal the target is in the coordinates of each window of warm-up.
        self.coordinates: tuple[CoordinateQuality, ...] = ()
        self._shortens = settings.step_size is None
        self.schedule: Schedule | None = over(settings.step_size, steps) if callable(settings.step_size) else None
        self.step_size: StepSize = 0.0
        self.memory: Memory = {}
        #: Of each chain; empty where the estimator remembers nothing.
        self.estimator_memory: Memory = {}
        self.point: Point
        self._moves: Stream | None = None  # of each step; opened where the chains are placed
        self._thresholds: Stream | None = None
        #: How the descents of its chains ended, where they were optimized.
        self.led: DescentResult | None = None
        self.longest_step = math.inf  # what the budget for the gradient's noise allows
        self.iteration = 0
        self._unchecked = steps_to_check(settings.kernel)
        self.uncovered: float | None = None  # fraction of the states that the pilot of its variances leaves out
        self.stationarity: Stationarity | None = None  # of an unadjusted kernel's chains at the end of warm-up
        self.info = NOTHING  # of the last step
        self.acceptance: Array | None = None  # (chains,) acceptance statistics of the last full step, in warm-up
        self.bounces: npt.NDArray[np.int64] | None = None  # (chains,) reflections in the last step

    @property
    def fidelity(self) -> str:
        """Name of the fidelity."""
        return self.potential.fidelity

    @property
    def target(self) -> TargetDistribution:
        """What is sampled now."""
        return self._active.target

    @target.setter
    def target(self, target: TargetDistribution) -> None:
        self._active.target, self._changing = target, target if isinstance(target, ScheduledTarget) else None
        self._step_scale = target.step_scale

    @property
    def step_scale(self) -> float:
        """How much longer than given the steps are."""
        return self._step_scale

    @property
    def target_memory(self) -> Memory:
        """What the target has learned."""
        return self._active.target_memory

    @target_memory.setter
    def target_memory(self, memory: Memory) -> None:
        self._active.target_memory = memory
        if self._changing is not None:
            self._step_scale = self._changing.scale(memory)

    @property
    def metric(self) -> Metric:
        """The preconditioner of positions."""
        return self._metric

    @metric.setter
    def metric(self, metric: Metric) -> None:
        self._metric = metric
        self._active.move_by(None if self.mapped is None else self.mapped[0], self.own_metric)

    @property
    def mapped(self) -> Mapped | None:
        """A transport map that steps are made in the coordinates of, and the preconditioner of these."""
        return self._mapped

    @mapped.setter
    def mapped(self, mapped: Mapped | None) -> None:
        self._mapped = mapped
        self.metric = self._metric

    @property
    def own_metric(self) -> Metric:
        """The preconditioner of the coordinates that steps are made in."""
        return self.metric if self.mapped is None else self.mapped[1]

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
        """What is known of the energy there."""
        return self.point.estimate

    @estimate.setter
    def estimate(self, estimate: Estimate) -> None:
        self.point = self.point._replace(estimate=estimate)

    @property
    def kernel(self) -> Kernel:
        """How it moves now."""
        return EXPLORER if self.exploring else self.settings.kernel

    @property
    def adjusted(self) -> bool:
        """Whether its steps are accepted or refused now."""
        return self.kernel.adjusted

    def start(self, position: Array) -> None:
        """Place the chains at positions (chains, d) and evaluate there."""
        answered(self.starting(position), self.answer)

    def starting(self, position: Array) -> EvaluationRequests[None]:
        """Place the chains at positions (chains, d), when what is asked for is answered."""
        if self.remembering is not None:
            self.estimator_memory = yield from self.remembering.init(self.streams["estimate"], position)
            check_memory("estimator", self.settings.estimator, self.estimator_memory, len(position))
        estimate = yield from self.evaluate(position)
        self.point = Point(position, estimate)
        check_shapes(Request(self.fidelity, position, self.gradients), self.estimate)
        chains, d = position.shape
        self.memory = self.settings.kernel.init(self.streams["kernel"], (chains, d))
        check_memory("kernel", self.settings.kernel, self.memory)
        self._open_streams(position.shape)

    @property
    def answer(self) -> Answer:
        """Who evaluates."""
        return self._dispatch.answer

    @property
    def _counted(self) -> Facts:
        return dict(vars(self.counts))

    @_counted.setter
    def _counted(self, counts: Facts) -> None:
        self.counts = StepCounts(**counts)

    @property
    def _own_target(self) -> TargetDistribution | None:
        """What is sampled, if that is not what was asked for, which may be of a class of the user's own."""
        return None if self.target is self.settings.target else self.target

    @_own_target.setter
    def _own_target(self, target: TargetDistribution | None) -> None:
        self.target = target or self.settings.target

    def _renewed(self, name: str) -> Lasting:
        self._open_streams(self.position.shape)
        stream: Lasting = getattr(self, name)
        return stream

    def _open_streams(self, shape: tuple[int, ...]) -> None:
        normal = single_normal if self.potential.single else np.random.Generator.standard_normal
        self._moves = Stream(self.streams["move"], shape, normal)
        self._thresholds = Stream(self.streams["accept"], shape[:1], log_uniform)
        self._active.normal, self._active.log_uniform = self._moves.draw, self._thresholds.draw

    def step(self) -> None:
        """Move every chain once."""
        done(self.moves(), self.answer)

    def trust(self) -> None:
        """Leave out the checks of the kernel's first steps: those of a copy of a rung that makes them."""
        self._unchecked = 0

    @property
    def shared(self) -> bool:
        """Whether others than this process evaluate."""
        return self._dispatch.shared

    @property
    def unchecked(self) -> bool:
        """Whether the next step is checked."""
        return self._unchecked > 0

    def moves_ahead(self) -> Array:
        """Random numbers (n, chains, d) for the next steps, for as many as are drawn already."""
        assert self._moves is not None  # the chains are placed
        return self._moves.ahead()

    def thresholds_ahead(self) -> Array | None:
        """The same of acceptance steps (n, chains), for a kernel that draws them at each step; None for others."""
        assert self._thresholds is not None
        kernel = self.settings.kernel
        return self._thresholds.ahead() if isinstance(kernel, CompilableKernel) and kernel.draws_thresholds else None

    def step_sizes_ahead(self, iterations: npt.NDArray[np.intp]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Step sizes of steps to come, by their numbers, before they are scaled; and which steps are short."""
        kernel, schedule, most = self.settings.kernel, self.schedule, self.longest_step
        if schedule is None or isinstance(schedule, Constant):
            own = self.step_size if schedule is None else min(schedule.step_size, most)
            sizes = np.full(len(iterations), own)
        else:
            sizes = np.array([min(step_size_at(schedule, k - 1), most) for k in iterations.tolist()])
        shortens = self._shortens and kernel.adjusted and kernel.short_step < 1.0
        return sizes, (iterations % SHORT_EVERY == 0) & shortens

    def went_on(self, steps: int, point: Point, memory: Memory, info: Info) -> None:
        """Stand where so many steps of the rung's kernel have come, all of whose energies were finite."""
        assert self._moves is not None and self._thresholds is not None
        if self.schedule is not None:
            self.step_size = min(step_size_at(self.schedule, self.iteration + steps - 1), self.longest_step)
        if self.thresholds_ahead() is not None:
            self._thresholds.skip(steps)
        self._moves.skip(steps)
        self.iteration += steps
        self.point, self.memory, self.info = point, memory, info
        self.counts.failing_in_a_row = 0

    def moves(self) -> EvaluationRequests[None]:
        """Move every chain once, when what is asked for is answered.

        This runs at every step of every run: what would read better as functions of their own stands here in line.
        """
        self.iteration = iteration = self.iteration + 1
        exploring, active, counts, here, others = self.exploring, self._active, self.counts, self.point, self._others
        if exploring:
            kernel, shortens = EXPLORER, True
        else:
            kernel, shortens = self.settings.kernel, self._shortens
            if self.schedule is not None:
                self.step_size = min(step_size_at(self.schedule, iteration - 1), self.longest_step)
        short = shortens and iteration % SHORT_EVERY == 0 and kernel.adjusted and kernel.short_step < 1.0
        step_size = kernel.short_step * self.step_size if short else self.step_size
        active.step_size = step_size * self._step_scale
        potential = self.potential
        before = potential.failed + sum([other.failed for other in others]) if others else potential.failed
        mapped = active.transport is not None
        if mapped:
            here = active.entered(here)
        try:
            if self._unchecked and not exploring:
                self._unchecked -= 1
                names = self.potential.fidelities
                step = checked_step(kernel, active, here, self.memory, self.domain, names)
            else:
                step = kernel.step(active, here, self.memory)
            point, memory, info = yield from step
        except Exception as error:
            if error is not self._raised:
                error.add_note(f"in a step of the kernel {kernel!r}")
            raise
        if mapped:
            if not self.warming:
                counts.unfit += int(np.count_nonzero(active.misfit_of_map(point.estimate) > UNFIT))
            point = Point(point.position, point.estimate._replace(mapped=None))
        self.point, self.info = point, info
        if not exploring:
            self.memory = memory
        failed = potential.failed + sum([other.failed for other in others]) if others else potential.failed
        if failed != before:
            self._watch(here, point, info)
        elif counts.failing_in_a_row:
            counts.failing_in_a_row = 0
        if self.remembering is not None:
            yield from self._update_memory()
        if active.target_memory:
            self.target_memory = active.target.updated(active.target_memory, point.estimate, iteration, self.warming)
        counts.steps += 1
        if info.clipped:
            counts.clipped += info.clipped
        if kernel.adjusted:
            if info.cliffs:
                counts.cliffs += info.cliffs
            # a short step says nothing about the full one
            self.acceptance = acceptance_statistics(info) if self.warming and not short else None
            if not short and info is not RESTED:
                counts.full_steps += 1
                counts.accepted += info.accepted

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
        """What `evaluate` says where the estimator is `Exact`: at once unless others evaluate.

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

    def follow(self, position: Array, straight: Array, spent: bool = False) -> Path:
        """Go along moves of whitened coordinates (chains, d) within the domain."""
        metric = self._active.metric
        move = metric.color(straight)
        if not self.bounded:  # of millions of coordinates, memory for one more array is a tenth of the step
            return np.add(position, move, move if spent else None), straight, None
        path = self.domain.reflect(position, move, metric.matrix)
        self.bounces = path.bounces
        reflected, failed = int(np.count_nonzero(path.bounces)), int(np.count_nonzero(path.failed))
        self.counts.fallbacks += failed
        self.counts.reflected += reflected
        velocity = metric.uncolor(path.move) if reflected else straight
        return path.position, velocity, path.failed if failed else None

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

    def _update_memory(self) -> EvaluationRequests[None]:
        assert self.remembering is not None
        rng, position = self.streams["estimate"], self.position
        self.estimator_memory = yield from self.remembering.updated(
            rng, self.estimator_memory, position, self.iteration
        )
        if self._unchecked:
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
        """What the estimator remembers of the chains ``rows``."""
        return {name: values[rows] for name, values in self.estimator_memory.items()}

    def remember(self, rows: Rows, memory: Memory) -> None:
        """Let the chains ``rows`` have that memory."""
        self.estimator_memory = {name: values.copy() for name, values in self.estimator_memory.items()}
        for name, values in memory.items():
            self.estimator_memory[name][rows] = values

    def set_estimate(self, rows: Rows, new: Estimate) -> None:
        """Replace the estimates of the chains ``rows``."""
        self.estimate = self.estimate.replaced(rows, new)

    def arrived(self, rows: Rows, before: Estimate) -> None:
        """The chains ``rows`` got other positions by a swap; ``before`` was what was known of all chains."""
        if not self.memory:
            return
        change = np.zeros((len(rows), self.position.shape[1]))
        if self.gradients:
            new, old = (self.reduced_gradient(estimate.take(rows)) for estimate in (self.estimate, before))
            change = self.metric.whiten(new - old)
        self._active.step_size = self.step_size * self._step_scale
        self.memory = self.settings.kernel.arrived(self._active, self.memory, rows, change)
        check_memory("kernel", self.settings.kernel, self.memory)

    def reduced_energy(self, estimate: Estimate) -> Array:
        """What the rung's density is the exponential of, with the other sign (chains,)."""
        return self.target.energy(estimate, self.target_memory)

    def reduced_gradient(self, estimate: Estimate) -> Array:
        """Its gradient with respect to the position (chains, d)."""
        return self.target.gradient(estimate, self.target_memory)

    def gradient_variance(self) -> Array | None:
        """Covariance of the gradient estimates at the current positions, if it is to be taken out of the noise."""
        if self.noise.gradient_model is None or self.estimator.exact or not self.noise.ready:
            return None
        return self.noise.gradient_variance(self.position, self.estimate.gradient_variance)

    def _watch(self, here: Point, there: Point, info: Info) -> None:
        """After a step in which solves failed: `SolvesFailed` if no chain could have moved for too long."""
        stuck = here.position == there.position if info.log_ratio is None else np.isneginf(info.log_ratio)
        self.counts.failing_in_a_row = self.counts.failing_in_a_row + 1 if stuck.all() else 0
        if self.counts.failing_in_a_row >= FAILING_STEPS:
            raise SolvesFailed(self.potential.fidelity, self.position, self._ran_away())

    def _ran_away(self) -> str:
        """Whether steps without an acceptance step have left the posterior, by the gradient where the chains stand."""
        kernel = EXPLORER if self.exploring else self.settings.kernel
        if kernel.adjusted or not self.gradients:
            return ""
        step_size, slope = self._active.step_size, self.metric.whiten(self.reduced_gradient(self.estimate))
        with np.errstate(over="ignore"):
            drift = float(np.median(np.sqrt(0.5 * np.mean(step_size * slope**2, axis=1))))
        if drift < RUNAWAY:
            return ""
        return (
            f". {kernel.name} refuses no step, and at the chains' positions its drift is {drift:.0e} times its noise. "
            f"The chains diverged: the step size {number(step_size) / self._step_scale:.3g} is too long for the "
            "energy's curvature; take a shorter one"
        )


class _ActiveRung:
    """A rung at work as its kernel sees it; see `invsamp.kernels.contract.ActiveRung`.

    Values that each step needs are stored here; `RungChains` renews what changes.
    """

    __slots__ = (
        *("_of", "contains", "evaluate", "follow", "gradient_noise", "log_uniform", "normal", "solve"),
        *("free", "target", "target_memory", "metric", "step_size", "transport", "_last"),
    )

    target: TargetDistribution
    target_memory: Memory
    metric: Metric
    free: bool
    transport: TransportMap | None
    _last: tuple[Array, Image] | None
    evaluate: Callable[..., EvaluationRequests[Estimate]]
    follow: Callable[..., Path]
    normal: Callable[[], Array]
    log_uniform: Callable[[], Array]

    def __init__(self, of: RungChains) -> None:
        self._of = of
        self.step_size: StepSize = 0.0
        # one of a user's own that is derived from `Exact` may say something else
        self.contains, self.solve = of.domain.contains, of.solve
        spends = of.settings.gradient_noise is not None and not of.estimator.exact
        self.gradient_noise = self._gradient_noise if spends else _no_noise

    @property
    def step_scale(self) -> float:
        """How many times the step size as given `step_size` is."""
        return self._of.step_scale

    @property
    def warming(self) -> bool:
        """Whether this is a step of warm-up."""
        return self._of.warming

    @property
    def reference(self) -> Whitened:
        """A Gaussian distribution for comparison with proposals."""
        assert self._of.bound is not None  # an engine's rungs have it
        return self._of.bound.reference(self.target, self._of.settings.kernel)

    def prior_draws(self) -> Array:
        """Fresh positions (chains, d) of the prior."""
        of = self._of
        assert of.bound is not None
        return of.bound.draw_prior(of.streams["kernel"], len(of.position))

    def move_by(self, transport: TransportMap | None, metric: Metric) -> None:
        """Let steps be made in the coordinates of a transport map, or in positions, with their preconditioner."""
        of, self.transport, self.metric, self._last = self._of, transport, metric, None
        self.free = not of.bounded and transport is None and isinstance(metric, IdentityMetric)
        plain = of.evaluate_exactly if type(of.settings.estimator) is Exact else of.evaluate
        self.evaluate, self.follow = (plain, of.follow) if transport is None else (self._evaluate, self._follow)

    def entered(self, here: Point) -> Point:
        """A point with its coordinates, by the position alone: a resumed run knows no more."""
        self._last = None
        return Point(here.position, here.estimate._replace(mapped=self._coordinates(here.position)))

    def energy(self, estimate: Estimate) -> Array:
        """Reduced energies (chains,)."""
        found = self.target.energy(estimate, self.target_memory)
        return found if estimate.mapped is None else found - self._image(estimate.mapped).log_det

    def position_energy(self, estimate: Estimate) -> Array:
        """The same with respect to positions (chains,)."""
        return self.target.energy(estimate, self.target_memory)

    def gradient(self, estimate: Estimate) -> Array:
        """Their gradients in whitened coordinates (chains, d)."""
        found = self.target.gradient(estimate, self.target_memory)
        if estimate.mapped is not None:
            assert self.transport is not None  # who made the estimate
            found = self.transport.pull_back(self._image(estimate.mapped), found)
        return self.metric.whiten(found)

    def misfit_of_map(self, estimate: Estimate) -> Array:
        """Squared differences of scores to those of a standard normal distribution, per unknown (chains,)."""
        assert estimate.mapped is not None
        length = math.sqrt(self.step_scale)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = self.gradient(estimate) * length - self.metric.uncolor(estimate.mapped) / length
            return np.square(apart).mean(axis=1)

    def _evaluate(self, position: Array, rows: Rows | None = None) -> EvaluationRequests[Estimate]:
        of = self._of
        plain = of.evaluate_exactly if type(of.settings.estimator) is Exact else of.evaluate
        found = yield from plain(position, rows)
        return found._replace(mapped=self._coordinates(position))

    def _follow(self, position: Array, straight: Array, spent: bool = False) -> Path:
        assert self.transport is not None
        before = self._coordinates(position)
        z = before + self.metric.color(straight)
        image = self.transport.forward(z)
        lost = ~(np.abs(image.u) < FARTHEST).all(axis=1)
        if failed := bool(lost.any()):
            z[lost] = before[lost]
            image = self.transport.forward(z)
        self._last = z, image
        return image.u, straight, np.asarray(lost) if failed else None

    def _coordinates(self, position: Array) -> Array:
        """Of the map, at positions (chains, d)."""
        assert self.transport is not None
        if self._last is None or self._last[1].u is not position:
            z = self.transport.inverse(position)
            self._last = z, self.transport.forward(z)._replace(u=position)
        return self._last[0]

    def _image(self, z: Array) -> Image:
        """Positions at coordinates of the map; the last ones are kept, as energies and gradients ask again."""
        assert self.transport is not None
        if self._last is not None and self._last[0] is z:
            return self._last[1]
        return self.transport.forward(z)

    def step_factor(self, estimate: Estimate) -> Array:
        """How much longer steps may be where each chain is (chains,)."""
        assert isinstance(self.target, LocallyScaledTarget)  # for others the kernel is refused
        return self.target.step_factor(estimate, self.target_memory)

    def energy_noise(self, point: Point) -> Array | None:
        """Variances (chains,) of their noise."""
        of, factors = self._of, self.target.factors
        if of.estimator.exact_energy or not of.noise.ready or factors is None:
            return None
        variance = of.energy_variance(point.position, point.estimate.energy_variance)
        return None if variance is None else variance * factors[1] ** 2

    def _gradient_noise(self, point: Point) -> Array | None:
        noise, factors = self._of.noise, self.target.factors
        if factors is None or not noise.ready:
            return None
        variance = noise.gradient_variance(point.position, point.estimate.gradient_variance)
        assert variance is not None  # else `_no_noise` stands here
        whitened = self.metric.whiten_covariance(variance)
        return whitened if factors[1] == 1.0 else whitened * factors[1] ** 2


def _no_noise(point: Point) -> Array | None:
    """Of gradients without noise, or with some that is not taken out of what is injected."""
    return None
