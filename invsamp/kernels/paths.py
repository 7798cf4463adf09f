"""Paths of several steps with a jittered length, each accepted or refused as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from invsamp.arguments import real, store
from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.compiled import path_loop
from invsamp.kernels.compiled.block import StepBlock, StepsMade
from invsamp.kernels.compiled.path_loop import DIVERGING, van_der_corput
from invsamp.kernels.contract import ActiveRung, Info, Mask, Moved, Point, StepSize, decided, number
from invsamp.kernels.defaults import KernelDefaults
from invsamp.protocols import Array

#: Steps of a path at most, as lengths that end there are spread no more; and in warm-up, where steps may be tiny.
LONGEST, LONGEST_IN_WARMUP = 256, 64


class Dynamics(Protocol):
    """Dynamics that the paths of a kernel follow on a rung; its kicks and drifts preserve volume."""

    def fresh(self, normal: Array) -> Array:
        """Velocities (chains, d) at the start of a path, from standard normal numbers."""

    def height(self, point: Point) -> tuple[Array, Array]:
        """Energies (chains,) whose sum with the work of kicks drifts do not change, and gradients (chains, d)."""

    def kick(self, velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
        """Velocities (chains, d) after half a step, ``half`` long, under a gradient, and the kick's work (chains,)."""

    def drift(self, position: Array, velocity: Array, step: StepSize) -> tuple[Array, Array, Mask | None]:
        """Positions and velocities (chains, d) after a step without a force, and chains whose path is given up."""


class Paths(KernelDefaults, ABC):
    r"""Base of kernels whose dynamics preserves volume and energy: a half kick, a drift, a half kick.

    A path of n steps of length :math:`\epsilon`, at most `LONGEST`, is accepted with probability
    :math:`\min(1, e^{v - v' - W})`, W the work of its kicks. Straight moves have :math:`\epsilon = \sqrt{2 \eta}`;
    rotations (`invsamp.kernels.rotations`) have an angle. A path's length :math:`n \epsilon` is spread evenly over
    (0, 2 ``length``) by a van der Corput sequence with a random shift, the same for all chains, so that no direction is
    left out by resonance. Its base is 3, so that the lengths of those paths whose steps are short by a cycle of 8 are
    spread as evenly. A bound reflects the velocity as it reflects the move. A path is rejected if
    a solve on it fails, or if it cannot be reflected within the domain.

    Where the energy jumps within a step, by more than its slopes at both ends can explain (`CLIFF`), or ends, as solves
    fail, there is a cliff. No shorter step would take a path over it, so what such a path shows of the step size
    (`Info.acceptance`) is what happened before.

    References
    ----------
    Jitter by a low-discrepancy sequence: Hoffman, Radul and Sountsov (2021), AISTATS, section 2.
    """

    length: float
    adjusted = True
    target_acceptance = 0.8
    short_step = 0.25
    #: Steps of the path, and whether it went wrong: Stan's bound on the error of the energy (Betancourt 2017), at the
    #: last place where there is an energy. A path that is refused at an edge has not gone wrong.
    statistics = MappingProxyType({"n_steps": int, "diverging": bool})

    def __post_init__(self) -> None:
        store(self, length=real("length", self.length, above=0))

    @abstractmethod
    def dynamics(self, rung: ActiveRung) -> Dynamics:
        """Dynamics of the paths on a rung."""

    def steps(self, rung: ActiveRung, share: float) -> tuple[int, StepSize]:
        """Number and length of the steps of a path, of which ``share`` in [0, 1) says how long it is."""
        step: StepSize = np.sqrt(2.0 * rung.step_size)
        return self.count(rung, share, step), step

    def count(self, rung: ActiveRung, share: float, step: StepSize) -> int:
        """Steps of that length in such a path."""
        most = LONGEST_IN_WARMUP if rung.warming else LONGEST
        return path_loop.steps_of(self.length, share, number(step), most)

    def refreshed(self, velocity: Array, memory: Memory) -> Array:
        """Velocities (chains, d) at the start of a path, from fresh ones: these, where nothing is remembered."""
        return velocity

    def remembered(self, accept: Mask, end: Array, start: Array) -> Memory:
        """Memory of a path that chains accept or not, with the velocities (chains, d) at its end and its start."""
        return {}

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """The number of paths so far, and the shift of the sequence that spreads their lengths."""
        return {"paths": np.zeros(()), "shift": np.asarray(rng.random())}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain along one path."""
        paths, dynamics = float(memory["paths"]), self.dynamics(rung)
        share = (van_der_corput(int(paths)) + float(memory["shift"])) % 1.0
        leaps, step = self.steps(rung, share)
        velocity = start = self.refreshed(dynamics.fresh(rung.normal()), memory)
        there, (energy, gradient) = here, dynamics.height(here)
        before, works = energy, np.zeros(len(velocity))
        error = np.zeros(len(velocity))  # of the energy, where there last was one: beyond an edge there is none
        broken, cliffs = np.zeros(len(velocity), dtype=bool), _Cliffs(len(velocity))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a path may leave all that is finite
            for leap in range(leaps):
                velocity, work = dynamics.kick(velocity, gradient, 0.5 * step)
                leaving = _dots(gradient, velocity)
                end, velocity, failed = dynamics.drift(there.position, velocity, step)
                there, last = Point(end, (yield from rung.evaluate(end))), energy
                energy, gradient = dynamics.height(there)
                slope = np.ravel(step) * (np.abs(leaving) + np.abs(_dots(gradient, velocity)))
                velocity, after = dynamics.kick(velocity, gradient, 0.5 * step)
                work = work + after
                works += work
                cliffs.look(energy - last, slope, work, leap)
                broken |= _broken(rung, there, failed)
                error = np.where(broken, error, energy - before + works)
            log_ratio = before - energy - works
            log_ratio[broken | np.isnan(log_ratio)] = -np.inf
        accept = rung.log_uniform() < log_ratio
        statistics = {"n_steps": np.full(len(velocity), leaps), "diverging": ~(error <= DIVERGING)}
        info = Info(log_ratio, int(np.count_nonzero(accept)), statistics=statistics)
        smooth, count = cliffs.before(log_ratio)
        if count >= 0:
            info = info._replace(acceptance=np.exp(np.minimum(smooth, 0.0)), cliffs=count)
        memory = memory | {"paths": np.asarray(paths + 1.0)} | self.remembered(accept, velocity, start)
        return decided(accept, there, here), memory, info


class StraightPaths(Paths):
    """Paths whose drifts are straight, in whitened coordinates, until bounds turn them."""

    #: Whether kicks turn velocities; otherwise they change momenta.
    microcanonical: ClassVar[bool]

    @abstractmethod
    def fresh(self, normal: Array) -> Array:
        """As `Dynamics.fresh`."""

    @abstractmethod
    def kick(self, velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
        """As `Dynamics.kick`."""

    @property
    def draws_thresholds(self) -> bool:
        """As `invsamp.kernels.contract.CompilableKernel.draws_thresholds`."""
        return True

    def compiled_steps(self, block: StepBlock, kernels: Sequence[Self], memories: Sequence[Memory]) -> StepsMade:
        """As `invsamp.kernels.contract.CompilableKernel.compiled_steps`."""
        lengths = [kernel.length for kernel in kernels]
        return path_loop.path_steps(block, memories, self.microcanonical, lengths, LONGEST)

    def dynamics(self, rung: ActiveRung) -> Dynamics:
        """Straight moves between its kicks."""
        return _Straight(self, rung)


class _Straight(NamedTuple):
    kernel: StraightPaths
    rung: ActiveRung

    def fresh(self, normal: Array) -> Array:
        return self.kernel.fresh(normal)

    def height(self, point: Point) -> tuple[Array, Array]:
        return self.rung.energy(point.estimate), self.rung.gradient(point.estimate)

    def kick(self, velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
        return self.kernel.kick(velocity, gradient, half)

    def drift(self, position: Array, velocity: Array, step: StepSize) -> tuple[Array, Array, Mask | None]:
        move = step * velocity
        end, turned, failed = self.rung.follow(position, move)
        return end, velocity if turned is move else turned / step, failed


class _Cliffs:
    """The errors of paths up to a cliff."""

    def __init__(self, chains: int) -> None:
        self._error, self._smooth, self._first = np.zeros(chains), np.zeros(chains), np.full(chains, -1)

    def look(self, rise: Array, slope: Array, work: Array, leap: int) -> None:
        """After a step: see `invsamp.kernels.compiled.path_loop.look_for_cliffs`."""
        path_loop.look_for_cliffs(rise, slope, work, leap, self._error, self._first, self._smooth)

    def before(self, log_ratio: Array) -> tuple[Array, int]:
        """After a path: see `invsamp.kernels.compiled.path_loop.before_cliffs`."""
        out = np.empty(len(log_ratio))
        return out, path_loop.before_cliffs(log_ratio, self._first, self._smooth, out)


def _dots(one: Array, other: Array) -> Array:
    out = np.empty(len(one))
    path_loop.dots(one, other, out)
    return out


def _broken(rung: ActiveRung, there: Point, failed: Mask | None) -> Mask | bool:
    """Which chains' paths cannot be accepted: the bounds gave them up, or the solve at their end failed."""
    solved = np.isfinite(rung.energy(there.estimate)) if there.estimate.failed else None
    if solved is None:
        return False if failed is None else failed
    return ~solved if failed is None else ~solved | failed
