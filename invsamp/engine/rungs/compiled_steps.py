"""Steps of a rung in compiled loops, where its energy is a compiled function; others are made by Python."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.requests import Estimate, Request
from invsamp.kernels.compiled.block import StepBlock, StepsMade
from invsamp.kernels.compiled.row_products import NO_MATRIX, RowMatrix
from invsamp.kernels.contract import NOTHING, CompilableKernel, Info, Point
from invsamp.kernels.metric import DenseMetric, DiagonalMetric, IdentityMetric, Metric
from invsamp.posing.compiled.energy_pointer import EnergyPointer, NotCompiled
from invsamp.protocols import AnyArray, Array, CompiledPotential
from invsamp.tempering.linear_targets import Tempered


class Recorded(NamedTuple):
    """Some draws of a rung that were made in a row."""

    positions: Array  # (draws, chains, d)
    energies: Array  # (draws, chains)
    step_sizes: Array  # (draws,), as given
    statistics: dict[str, AnyArray]  # (draws, chains), by the names of the kernel
    log_ratios: Array | None  # (draws, chains), of an adjusted kernel


#: Is given draws that a rung has made, or None where its present place is one.
Record = Callable[[Recorded | None], None]


def obstacle(rung: RungChains) -> str | None:
    """Why no compiled loop can make a rung's steps; None if one can."""
    kernel, potential = rung.settings.kernel, rung.potential.potential
    if rung.shared:
        return "other processes, or an evaluator of your own, evaluate"
    if not isinstance(potential, CompiledPotential):
        return f"the energy is a {type(potential).__name__}, which is no compiled function"
    if not isinstance(kernel, CompilableKernel) or not type(kernel).__module__.startswith("invsamp."):
        return f"the kernel {kernel.name} has no compiled loop"
    if type(rung.settings.estimator) is not Exact:
        return f"energies are estimated: {rung.settings.estimator}"
    if not isinstance(rung.target, Tempered):
        return f"the target {rung.target} is not the density at a temperature"
    if rung.bounded:
        return "the domain has walls"
    if rung.mapped is not None:
        return "steps are made in the coordinates of a transport map"
    if rung.gradients is not True or not isinstance(rung.step_size, float):
        return "chains have step sizes of their own, or another rung needs prior and misfit apart"
    if isinstance(found := _matrices(rung.metric, len(rung.position), rung.position.shape[1]), str):
        return found
    compiled: EnergyPointer | NotCompiled = potential.compiled_energy()
    return compiled.reason if isinstance(compiled, NotCompiled) else None


class CompiledSteps:
    """Makes steps of a rung in compiled loops. There is no `obstacle`.

    Parameters
    ----------
    rung : RungChains
    """

    def __init__(self, rung: RungChains) -> None:
        self._rung = rung
        potential = rung.potential.potential
        assert isinstance(potential, CompiledPotential)  # nothing is in the way
        self._pointer: EnergyPointer = potential.compiled_energy()
        metric = _matrices(rung.metric, len(rung.position), rung.position.shape[1])
        assert not isinstance(metric, str)
        self._metric = metric

    def make(self, steps: int, drawn: int, thin: int, record: Record) -> None:
        """So many steps, of which ``drawn`` were made before; draws are every ``thin``-th, but for the last step's.

        What a loop cannot do, such as a failed solve, is a step of Python's.
        """
        rung, made = self._rung, 0
        while made < steps:
            if not rung.unchecked and self._finite():
                size = min(steps - made, self._random_numbers())
                numbers = np.arange(rung.iteration + 1, rung.iteration + size + 1)
                sizes, short = rung.step_sizes_ahead(numbers)
                block = self._block(np.where(short, rung.settings.kernel.short_step * sizes, sizes))
                found = self._loop(block)
                self._take(block, found, short)
                # the last step of all is recorded by who asked
                kept = slice((-drawn - made - 1) % thin, min(found.made, steps - 1 - made), thin)
                record(self._recorded(block, found, sizes, kept))
                made += found.made
                if found.made == size:
                    continue
            rung.step()
            made += 1
            if made < steps and (drawn + made) % thin == 0:
                record(None)

    def _finite(self) -> bool:
        estimate = self._rung.estimate
        return not estimate.failed and estimate.prior is None and bool(np.isfinite(estimate.energy).all())

    def _random_numbers(self) -> int:
        """Steps for which there are random numbers."""
        moves, thresholds = self._rung.moves_ahead(), self._rung.thresholds_ahead()
        return len(moves) if thresholds is None else min(len(moves), len(thresholds))

    def _block(self, step_sizes: Array) -> StepBlock:
        """The next steps."""
        rung, (chains, d), size = self._rung, self._rung.position.shape, len(step_sizes)
        target, thresholds = rung.target, rung.thresholds_ahead()
        assert isinstance(target, Tempered)  # nothing is in the way
        return StepBlock(
            self._pointer.address,
            target.temperature,
            *self._metric,
            step_sizes * rung.step_scale,
            rung.moves_ahead()[:size],
            np.empty((0, 0)) if thresholds is None else thresholds[:size],
            rung.position.copy(),
            rung.estimate.energy.copy(),
            rung.estimate.gradient.copy(),
            np.empty((size, chains, d)),
            np.empty((size, chains)),
            np.empty((size, chains)),
        )

    def _loop(self, block: StepBlock) -> StepsMade:
        rung, begin = self._rung, perf_counter()
        kernel = rung.settings.kernel
        assert isinstance(kernel, CompilableKernel)  # nothing is in the way
        found = kernel.compiled_steps(block, rung.memory)
        request = Request(rung.fidelity, block.position)
        rung.potential.count(request, found.evaluations, 0, perf_counter() - begin)
        return found

    def _take(self, block: StepBlock, found: StepsMade, short: AnyArray) -> None:
        """Let the rung stand where the loop ended."""
        rung, made = self._rung, found.made
        if not made:
            return
        point = Point(block.position, Estimate(block.energy, block.gradient))
        info, counts = NOTHING, rung.counts
        if rung.adjusted:
            full = ~short[:made]
            counts.full_steps += int(np.count_nonzero(full))
            counts.accepted += int(found.accepted[:made][full].sum())
            counts.cliffs += found.cliffs
            last = {name: values[made - 1] for name, values in found.statistics.items()}
            info = Info(block.log_ratios[made - 1], int(found.accepted[made - 1]), statistics=last)
        counts.steps += made
        rung.went_on(made, point, found.memory, info)

    def _recorded(self, block: StepBlock, found: StepsMade, sizes: Array, kept: slice) -> Recorded:
        statistics = {name: values[kept] for name, values in found.statistics.items()}
        ratios = block.log_ratios[kept] if self._rung.adjusted else None
        return Recorded(block.positions[kept], block.energies[kept], sizes[kept], statistics, ratios)


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
