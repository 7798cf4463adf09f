"""Steps of rungs in compiled loops, where their energy is a compiled function; others are made by Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.requests import Estimate, Request
from invsamp.kernels.compiled.block import Geometry, StepBlock, StepsMade
from invsamp.kernels.compiled.row_products import NO_MATRIX, RowMatrix
from invsamp.kernels.compiled.swaps import SwapPlan, no_swaps
from invsamp.kernels.contract import NOTHING, CompilableKernel, Info, Point
from invsamp.kernels.metric import DenseMetric, DiagonalMetric, IdentityMetric, Metric
from invsamp.posing.compiled.energy_pointer import Compiled, EnergyPointer, NotCompiled
from invsamp.protocols import AnyArray, Array, CompiledPotential
from invsamp.tempering.linear_targets import Tempered

#: A loop that ends before so many steps, as Python has to make the next one, pauses for a while. The pause doubles each
#: time: where most steps are Python's, the loop's are lost.
SHORT, LONGEST_PAUSE = 4, 63


class Recorded(NamedTuple):
    """Some draws of a rung that were made in a row."""

    positions: Array  # (draws, chains, d)
    energies: Array  # (draws, chains)
    priors: Array | None  # (draws, chains), where a target separates them
    step_sizes: Array  # (draws,), as given
    statistics: dict[str, AnyArray]  # (draws, chains), by the names of the kernel
    log_ratios: Array | None  # (draws, chains), of an adjusted kernel
    replicas: AnyArray | None  # (draws, chains), where rungs swap in the loop


class BlockSwaps:
    """Swap attempts after each step of a loop; here none are made."""

    def plan(self, steps: int) -> SwapPlan:
        """The attempts after each of so many steps but the last; of fewer, if there are too few random numbers."""
        return no_swaps(1, steps)

    def record(self, plan: SwapPlan, steps: int) -> None:
        """Take the results of the attempts after the first so many steps of a plan."""

    def attempt_swaps(self) -> None:
        """Make the attempts after a step by Python."""


#: Is given the number of a rung, and draws that it has made, or None where its present place is one.
Record = Callable[[int, Recorded | None], None]


def obstacle(rung: RungChains) -> str | None:
    """Why no compiled loop can make a rung's steps; None if one can."""
    kernel, potential = rung.settings.kernel, rung.potential.potential
    if not isinstance(potential, CompiledPotential):
        return f"the energy is not a compiled function, but a {type(potential).__name__}"
    source = potential.compiled_energy()
    if isinstance(source, NotCompiled):
        return source.reason
    if rung.shared:
        return "other processes, or an evaluator of your own, evaluate"
    if not isinstance(kernel, CompilableKernel) or not type(kernel).__module__.startswith("invsamp."):
        return f"the kernel {kernel.name} has no compiled loop"
    if type(rung.settings.estimator) is not Exact:
        return f"energies are estimated: {rung.settings.estimator}"
    if not isinstance(rung.target, Tempered):
        return f"the target {rung.target} is not the density at a temperature"
    if rung.bounded:
        return "the domain has bounds"
    if rung.mapped is not None:
        return "steps are made in the coordinates of a transport map"
    if rung.gradients is not True or not isinstance(rung.step_size, float):
        return "chains have step sizes of their own, or another rung needs prior and misfit apart"
    found = _matrices(rung.metric, len(rung.position), rung.position.shape[1])
    return found if isinstance(found, str) else None


def compile_error(rung: RungChains) -> str | None:
    """Compile the energy of a rung that has no `obstacle`; why that failed, if it did."""
    found = _pointer(rung)
    return found.reason if isinstance(found, NotCompiled) else None


def alike(rungs: Sequence[RungChains]) -> bool:
    """Whether one loop can make the steps of rungs none of which has an `obstacle`."""
    kinds = [
        (id(r.potential), type(r.settings.kernel), r.settings.kernel.adjusted, isinstance(r.metric, DenseMetric))
        for r in rungs
    ]
    return len(set(kinds)) == 1


class CompiledSteps:
    """Makes steps of rungs that are `alike` in a compiled loop, with the swaps after each.

    Parameters
    ----------
    rungs : mapping of int to RungChains
        By their number.
    swaps : BlockSwaps
    """

    def __init__(self, rungs: dict[int, RungChains], swaps: BlockSwaps) -> None:
        self._numbers, self._rungs, self._swaps = list(rungs), list(rungs.values()), swaps
        first = self._rungs[0]
        pointer = _pointer(first)
        assert isinstance(pointer, EnergyPointer)  # nothing is in the way
        self._pointer = pointer
        kernels = [rung.settings.kernel for rung in self._rungs]
        self._kernels = [kernel for kernel in kernels if isinstance(kernel, CompilableKernel)]  # all are
        chains, d = first.position.shape
        found = [_matrices(rung.metric, chains, d) for rung in self._rungs]
        self._geometry = Geometry(*map(np.stack, zip(*(_flat(metric) for metric in found), strict=True)))
        self._temperatures = np.array([_temperature(rung) for rung in self._rungs])
        self._pause = self._paused = 0

    def make(self, steps: int, drawn: int, thin: int, record: Record) -> None:
        """So many steps, of which ``drawn`` were made before; draws are every ``thin``-th, but for the last step's.

        What a loop cannot do, such as a failed solve, is a step of Python's.
        """
        made = 0
        while made < steps:
            more, whole = 0, False
            if self._paused:
                self._paused -= 1
            elif self._usual():
                block, sizes, short = self._block(steps - made)
                found = self._made(block)
                whole = found.made == sizes.shape[1]
                self._pause = 0 if whole or found.made >= SHORT else min(2 * self._pause + 1, LONGEST_PAUSE)
                self._paused = self._pause
                self._take(block, found, short)
                self._swaps.record(block.swaps, found.made)
                kept = slice((-drawn - made - 1) % thin, found.made - whole, thin)
                for k, number in enumerate(self._numbers):
                    record(number, self._recorded(k, block, found, sizes, kept))
                made, more = made + found.made, found.more
            if not whole:
                for rung in self._rungs[more:]:
                    rung.step()
                made += 1
            if made < steps:  # of the last step of all, the swaps and the draw are left to who asked
                self._swaps.attempt_swaps()
                if (drawn + made) % thin == 0:
                    for number in self._numbers:
                        record(number, None)

    def _usual(self) -> bool:
        for rung in self._rungs:
            estimate = rung.estimate
            if rung.unchecked or estimate.failed or not np.isfinite(estimate.energy).all():
                return False
        return True

    def _block(self, most: int) -> tuple[StepBlock, Array, AnyArray]:
        """The next steps, at most so many; step sizes (rungs, n) before some are shortened, and which steps are."""
        rungs, (chains, d) = self._rungs, self._rungs[0].position.shape
        normal = [rung.moves_ahead() for rung in rungs]
        thresholds = [rung.thresholds_ahead() for rung in rungs]
        size = min(most, *(len(numbers) for numbers in (*normal, *thresholds) if numbers is not None))
        swaps = self._swaps.plan(size)
        size = len(swaps.begins) - 1
        ahead = [rung.step_sizes_ahead(rung.iteration + 1 + np.arange(size)) for rung in rungs]
        sizes, shares = np.array([one for one, _ in ahead]), np.array([one for _, one in ahead])
        scales = np.array([[rung.step_scale] for rung in rungs])
        uniform = [numbers[:size] for numbers in thresholds if numbers is not None]
        block = StepBlock(
            self._pointer.address,
            self._pointer.context,
            self._temperatures,
            self._geometry,
            shares * sizes * scales,
            sizes * scales,
            np.stack([numbers[:size] for numbers in normal]),
            np.stack(uniform) if uniform else np.empty((len(rungs), 0, 0)),
            np.stack([rung.position for rung in rungs]),
            np.stack([rung.estimate.energy for rung in rungs]),
            np.stack([rung.estimate.gradient for rung in rungs]),
            np.stack([_prior(rung) for rung in rungs]),
            np.empty((len(rungs), size, chains, d)),
            np.empty((len(rungs), size, chains)),
            np.empty((len(rungs), size, chains)),
            np.empty((len(rungs), size, chains)),
            swaps,
        )
        return block, sizes, shares < 1.0

    def _made(self, block: StepBlock) -> StepsMade:
        begin, rungs = perf_counter(), self._rungs
        found = self._kernels[0].compiled_steps(block, self._kernels, [rung.memory for rung in rungs])
        potential, request = rungs[0].potential, Request(rungs[0].fidelity, block.position[0])
        potential.count(request, found.evaluations, 0, perf_counter() - begin)
        return found

    def _take(self, block: StepBlock, found: StepsMade, short: AnyArray) -> None:
        """Let the rungs stand where the loop ended."""
        for k, rung in enumerate(self._rungs):
            made, counts, info = found.made + (k < found.more), rung.counts, NOTHING
            if not made:
                continue
            if rung.adjusted:
                full = ~short[k, :made]
                counts.full_steps += int(np.count_nonzero(full))
                counts.accepted += int(found.accepted[k, :made][full].sum())
                counts.cliffs += int(found.cliffs[k, :made].sum())
                last = {name: values[k, made - 1] for name, values in found.statistics.items()}
                info = Info(block.log_ratios[k, made - 1], int(found.accepted[k, made - 1]), statistics=last)
            counts.steps += made
            prior = None if rung.estimate.prior is None else block.prior[k].copy()
            estimate = Estimate(block.energy[k].copy(), block.gradient[k].copy(), prior=prior)
            point = Point(block.position[k].copy(), estimate)
            rung.went_on(made, point, found.memories[k], info)

    def _recorded(self, k: int, block: StepBlock, found: StepsMade, sizes: Array, kept: slice) -> Recorded:
        return Recorded(
            block.positions[k, kept],
            block.energies[k, kept],
            None if self._rungs[k].estimate.prior is None else block.priors[k, kept],
            sizes[k, kept],
            {name: values[k, kept] for name, values in found.statistics.items()},
            block.log_ratios[k, kept] if self._kernels[0].adjusted else None,
            block.swaps.replicas[k, kept] if block.swaps.replicas.shape[2] else None,
        )


def _prior(rung: RungChains) -> Array:
    """The prior's part of the energy (chains,); 0 where it is not separated, which no one reads."""
    prior = rung.estimate.prior
    return np.zeros(rung.estimate.energy.shape) if prior is None else prior


def _pointer(rung: RungChains) -> EnergyPointer | NotCompiled:
    potential = rung.potential.potential
    assert isinstance(potential, CompiledPotential)  # nothing is in the way
    found: Compiled = potential.compiled_energy().compiled()
    return found


def _temperature(rung: RungChains) -> float:
    assert isinstance(rung.target, Tempered)  # nothing is in the way
    return rung.target.temperature


def _flat(metric: tuple[Array, RowMatrix, RowMatrix] | str) -> tuple[AnyArray, ...]:
    assert not isinstance(metric, str)  # nothing is in the way
    scale, whitening, coloring = metric
    return scale, *whitening, *coloring


def _matrices(metric: Metric, chains: int, d: int) -> tuple[Array, RowMatrix, RowMatrix] | str:
    """A metric as compiled loops take it, or why they cannot."""
    if isinstance(metric, DenseMetric):
        if not metric.coloring.small(chains):
            return f"products of {chains} chains with a matrix of {d} x {d} are made by BLAS"
        return np.ones(d), metric.whitening, metric.coloring
    if isinstance(metric, DiagonalMetric | IdentityMetric):
        scale = np.ones(d) if isinstance(metric, IdentityMetric) else np.ascontiguousarray(metric.scale)
        return scale, NO_MATRIX, NO_MATRIX
    return "the metric has low rank"
