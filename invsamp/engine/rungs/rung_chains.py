"""One rung at work: its chains, their steps, and its counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.domains import Unbounded
from invsamp.domains.contract import Domain
from invsamp.engine.rungs.active_rung import ActiveRung
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.coordinate_quality import CoordinateQuality
from invsamp.engine.rungs.kernel_contract_check import check_memory, checked_step, steps_to_check
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.random_streams import Stream, log_uniform, single_normal
from invsamp.engine.rungs.rung_estimates import RungEstimates
from invsamp.engine.rungs.stationarity import Stationarity
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import (
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
    acceptance_statistics,
    number,
)
from invsamp.kernels.metric import IdentityMetric, Metric
from invsamp.kernels.schedules import Constant, Schedule, over, step_size_at
from invsamp.ladder import Rung
from invsamp.modes.descent import DescentResult
from invsamp.protocols import Array, Facts
from invsamp.tempering.target_distribution import ScheduledTarget, TargetDistribution
from invsamp.transport import TransportMap
from invsamp.transport.fitting import FarPoints
from invsamp.transport.score_matching import MISFIT
from invsamp.transport.tails import VALUES, Reach, Values, centers, reach
from invsamp.transport.triangular import Triangular

#: A rung whose every solve failed for so many steps in a row is stopped: there is nothing to sample.
FAILING_STEPS = 200
#: Drift of a step by its noise beyond which a chain has diverged; at the limit of stability it is about 1.
RUNAWAY = 100.0
#: Squared residual of a score in the coordinates of a map, per unknown, above which the map does not fit there: where a
#: target bends as the map does, there is no such draw in 8,000; where it does not, as far out on a ridge that is no
#: parabola, .3% to 9% of the draws are.
UNFIT = 10.0
#: Gradients at most that show how far a target reaches, and points far out to which a map is fitted.
MAP_SOLVES, MAP_POINTS = 1000, 64
#: Where warm-up finds the step size of an adjusted kernel, every eighth step is shorter (`Kernel.short_step`), every
#: eighth of these as much shorter again, and so on: a chain in a spot of much higher curvature than elsewhere would
#: refuse every full step and sit there for hundreds of draws, however many levels of curvature there are.
#: The cycle does not depend on the state, so the target stays exact. It is no multiple of 3, the base of the sequence
#: that spreads the lengths of paths (`invsamp.kernels.paths`).
SHORT_EVERY = 8


def share_of_step(kernel: Kernel, iteration: int) -> float:
    """The share of the step size that the step of this number, from 1, has: less than 1 for every eighth."""
    assert iteration > 0  # 0 would have no end
    share = 1.0
    while iteration % SHORT_EVERY == 0:
        iteration //= SHORT_EVERY
        share *= kernel.short_step
    return share


class SolvesFailed(RuntimeError):
    """Every solve of one fidelity failed for `FAILING_STEPS` steps in a row, at and around ``position``.

    ``cause``: a sentence, where it is known why.
    """

    def __init__(self, fidelity: str, position: Array, cause: str = "") -> None:
        super().__init__(f"every solve of fidelity {fidelity!r} failed for {FAILING_STEPS} steps in a row")
        self.fidelity, self.position, self.cause = fidelity, position, cause


@dataclass
class StepCounts:
    """Counts in a rung since the last reset."""

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
#: What an unadjusted rung explores with in warm-up, where energies are exact: it cannot blow up on the way.
EXPLORER: Kernel = Langevin(adjusted=True)


class _MapPoints(NamedTuple):
    energy: Array  # (n,), of the target in the map's coordinates
    gradient: Array  # (n, d), in those of the position
    slope: Array  # (n, d), in those of the map
    position: Array  # (n, d)


class RungChains(
    RungEstimates,
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
        super().__init__(settings, potential, seed, apart, bound)
        self.domain, self.bounded = domain, not isinstance(domain, Unbounded)
        self._others = tuple(other for other in self.potentials if other is not potential)
        self.exploring = False  # by `EXPLORER`, which leaves the memory of the rung's own kernel alone
        self.counts = StepCounts()
        self._active = ActiveRung(self, domain, self.follow)
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
    def target(self) -> TargetDistribution:
        """The present target."""
        return self._active.target

    @target.setter
    def target(self, target: TargetDistribution) -> None:
        self._active.target, self._changing = target, target if isinstance(target, ScheduledTarget) else None
        self._active.step_scale = target.step_scale

    @property
    def step_scale(self) -> float:
        """How much longer than given the steps are."""
        return self._active.step_scale

    @property
    def warming(self) -> bool:
        """Whether the steps are those of warm-up."""
        return self._active.warming

    @warming.setter
    def warming(self, warming: bool) -> None:
        self._active.warming = warming

    @property
    def target_memory(self) -> Memory:
        """The memory of the target."""
        return self._active.target_memory

    @target_memory.setter
    def target_memory(self, memory: Memory) -> None:
        self._active.target_memory = memory
        if self._changing is not None:
            self._active.step_scale = self._changing.scale(memory)

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
        yield from self.begin_memory(position)
        estimate = yield from self.evaluate(position)
        self.point = Point(position, estimate)
        check_shapes(Request(self.fidelity, position, self.gradients), self.estimate)
        chains, d = position.shape
        self.memory = self.settings.kernel.init(self.streams["kernel"], (chains, d))
        check_memory("kernel", self.settings.kernel, self.memory)
        self._open_streams(position.shape)

    @property
    def _counted(self) -> Facts:
        return dict(vars(self.counts))

    @_counted.setter
    def _counted(self, counts: Facts) -> None:
        self.counts = StepCounts(**counts)

    @property
    def _own_target(self) -> TargetDistribution | None:
        """The target that is sampled; None where it is the given one, which may be of a class of the user's own."""
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

    def step_sizes_ahead(self, iterations: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Step sizes of steps to come, by their numbers, before they are scaled; and the share that each step has."""
        kernel, schedule, most = self.settings.kernel, self.schedule, self.longest_step
        if schedule is None or isinstance(schedule, Constant):
            own = self.step_size if schedule is None else min(schedule.step_size, most)
            sizes = np.full(len(iterations), own)
        else:
            sizes = np.array([min(step_size_at(schedule, k - 1), most) for k in iterations.tolist()])
        shortens = self._shortens and kernel.adjusted
        return sizes, np.array([share_of_step(kernel, k) if shortens else 1.0 for k in iterations.tolist()])

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
        share = share_of_step(kernel, iteration) if shortens and kernel.adjusted else 1.0
        short = share < 1.0
        step_size = share * self.step_size if short else self.step_size
        active.step_size = step_size * active.step_scale
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
            if not active.warming:
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
            yield from self.update_memory(iteration, check=self._unchecked > 0)
        if active.target_memory:
            self.target_memory = active.target.updated(active.target_memory, point.estimate, iteration, active.warming)
        counts.steps += 1
        if info.clipped:
            counts.clipped += info.clipped
        if kernel.adjusted:
            if info.cliffs:
                counts.cliffs += info.cliffs
            # a short step says nothing about the full one
            self.acceptance = acceptance_statistics(info) if active.warming and not short else None
            if not short and info is not RESTED:
                counts.full_steps += 1
                counts.accepted += info.accepted

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

    def arrived(self, rows: Rows, before: Estimate) -> None:
        """The chains ``rows`` got other positions by a swap; ``before`` was what was known of all chains."""
        if not self.memory:
            return
        change = np.zeros((len(rows), self.position.shape[1]))
        if self.gradients:
            new, old = (self.reduced_gradient(estimate.take(rows)) for estimate in (self.estimate, before))
            change = self.metric.whiten(new - old)
        self._active.step_size = self.step_size * self.step_scale
        self.memory = self.settings.kernel.arrived(self._active, self.memory, rows, change)
        check_memory("kernel", self.settings.kernel, self.memory)

    def try_map(self) -> EvaluationRequests[None]:
        """Note how much mass lies where the map does not fit, as deep in a neck.

        Draws do not show it: where the map does not fit chains turn back, all of them alike.
        """
        found = yield from self.reach(self.mapped and self.mapped[0])
        if found is not None and self.coordinates:
            self.coordinates = (*self.coordinates[:-1], self.coordinates[-1]._replace(unmatched=found.unmatched))

    def reach(self, transport: TransportMap | None) -> EvaluationRequests[Reach | None]:
        """How far the target reaches where scales vary; None without a map that has such scales."""
        if transport is None or not isinstance(transport.core, Triangular) or self.remembering is not None:
            return None
        d, bends = transport.dimension, transport.core.bends()
        if not len(bends):
            return None
        tried = bends[: max(1, MAP_SOLVES // (VALUES * d))]
        along = np.repeat(tried, VALUES)
        z, u, width = transport.core.values(along)
        row, offsets = np.arange(len(z)), np.where(np.arange(d)[:, None] == along[:, None, None], 0.0, np.eye(d))
        found = yield from self._map_points((z[:, None] + offsets).reshape(-1, d), transport)
        energy = found.energy.reshape(-1, d)[row, along]
        vectors = (part.reshape(-1, d, d) for part in (found.slope, found.position, found.gradient))
        values = Values(along, u, z[row, along], width, energy, *vectors)
        found = yield from self._map_points(centers(values), transport)
        ends = reach(values, found.energy)
        if len(rest := bends[len(tried) :]):  # all that is known of the others is the map
            ends.low[rest], ends.high[rest] = transport.core.edges(rest)
            parents = transport.core.parents()
            ends.coupled[:, parents] = ends.coupled[parents] = True
            ends = ends._replace(unmatched=1.0, scores={})
        return ends if (ends.high > ends.low).any() else None

    def far_points(self, transport: TransportMap, ends: Reach) -> EvaluationRequests[FarPoints]:
        """Points far out by a map, as far as the target reaches, and at which of them it fits."""
        assert isinstance(transport.core, Triangular)
        normal = self.streams["probe"].standard_normal((MAP_POINTS, transport.dimension))
        z, along = transport.core.far_points(ends.low, ends.high, normal)
        found = yield from self._map_points(z, transport)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = found.slope - z
            apart[np.arange(len(z)), along] = 0.0  # a tail may be another one than that of its margin
            fits = np.square(apart).mean(axis=1) <= MISFIT
        return FarPoints(z, along, found.position, found.gradient, fits, ends.scores, ends.coupled)

    def _map_points(self, z: Array, transport: TransportMap) -> EvaluationRequests[_MapPoints]:
        """Evaluations at points z (n, d) of a map; NaN where they failed or positions are not finite."""
        image = transport.forward(z)
        known = np.flatnonzero(np.isfinite(image.u).all(axis=1))
        energy, gradient = np.full(len(z), np.nan), np.full(z.shape, np.nan)
        if len(known):
            found = yield from self.evaluate(image.u[known])
            energy[known], gradient[known] = self.reduced_energy(found), self.reduced_gradient(found)
        gradient[~np.isfinite(energy)] = np.nan
        with np.errstate(over="ignore", invalid="ignore"):
            return _MapPoints(energy - image.log_det, gradient, transport.pull_back(image, gradient), image.u)

    def reduced_energy(self, estimate: Estimate) -> Array:
        """Minus the log density of the rung (chains,)."""
        return self.target.energy(estimate, self.target_memory)

    def reduced_gradient(self, estimate: Estimate) -> Array:
        """Its gradient with respect to the position (chains, d)."""
        return self.target.gradient(estimate, self.target_memory)

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
            f"The chains diverged: the step size {number(step_size) / self.step_scale:.3g} is too long for the "
            "energy's curvature; take a shorter one"
        )
