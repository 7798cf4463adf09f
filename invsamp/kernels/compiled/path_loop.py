"""Paths of several steps, Hamiltonian or microcanonical: their parts, and a compiled loop over paths."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.evaluate.requests import Memory
from invsamp.kernels.compiled.block import StepBlock, StepsMade, color, evaluated, room, whiten
from invsamp.protocols import Array

#: The energy jumps within a step where it rises by more than this, and so many times what its slopes at both ends make
#: of the way: where it is convex there, it rises by at most what that at the end does.
CLIFF, STEEPER = 1.0, 1.5
#: Error of the energy above which a path is reported as diverging.
DIVERGING = 1000.0


Kick = Callable[[Array, Array, Array, Array], None]


def path_steps(block: StepBlock, memory: Memory, microcanonical: bool, length: float, most: int) -> StepsMade:
    """Paths of `invsamp.kernels.Microcanonical`, or of `invsamp.kernels.Hamiltonian`, of at most so many steps."""
    n, chains, _ = block.normal.shape
    accepted, leaps = np.empty(n, dtype=np.intp), np.empty(n, dtype=np.intp)
    cliffs = np.zeros(n, dtype=np.intp)
    (address, temperature, scale, whitening, coloring), rest = block[:5], block[5:]
    paths, shift = float(memory["paths"]), float(memory["shift"])
    made = _loop(
        *(address, temperature, scale, *whitening, *coloring, *rest),
        *(microcanonical, length, most, int(paths), shift, accepted, leaps, cliffs),
    )
    statistics = {
        "n_steps": np.repeat(leaps[:, None], chains, axis=1),
        "diverging": block.log_ratios < -DIVERGING,
    }
    evaluations = int(leaps[:made].sum()) * chains
    after = memory | {"paths": np.asarray(paths + made)}
    return StepsMade(made, evaluations, after, accepted, int(cliffs[:made].sum()), statistics)


def kicked(kick: Kick, velocity: Array, gradient: Array, half: float | Array) -> tuple[Array, Array]:
    """Velocities (chains, d) after a kick over a time, one or of each chain (chains, 1), and its work (chains,)."""
    turned, work = np.array(velocity, order="C"), np.empty(len(velocity))
    kick(turned, gradient, np.full(len(velocity), half) if isinstance(half, float) else np.ravel(half), work)
    return turned, work


@njit(cache=True, error_model="numpy")
def van_der_corput(index: int) -> float:
    """The digits of ``index`` in base 2, mirrored at the point: a sequence that fills (0, 1) evenly."""
    share, digit = 0.0, 0.5
    while index:
        share += digit * (index & 1)
        index >>= 1
        digit *= 0.5
    return share


@njit(cache=True, error_model="numpy")
def steps_of(length: float, share: float, step: float, most: int) -> int:
    """Steps of a path of which ``share`` in [0, 1) says how long it is."""
    return int(min(max(1.0, math.ceil(2.0 * length * share / step)), float(most)))


@njit(cache=True, error_model="numpy")
def dots(one: Array, other: Array, out: Array) -> None:
    """Inner products (chains,) of rows, into ``out``."""
    for i in range(one.shape[0]):
        total = 0.0
        for j in range(one.shape[1]):
            total += one[i, j] * other[i, j]
        out[i] = total


@njit(cache=True, error_model="numpy")
def at_constant_speed(normal: Array, out: Array) -> None:
    """Directions of standard normal numbers (chains, d), as long as these are on average, into ``out``."""
    speed = math.sqrt(normal.shape[1])
    for i in range(normal.shape[0]):
        square = 0.0
        for j in range(normal.shape[1]):
            square += normal[i, j] * normal[i, j]
        factor = speed / math.sqrt(square)
        for j in range(normal.shape[1]):
            out[i, j] = normal[i, j] * factor


@njit(cache=True, error_model="numpy")
def microcanonical_kick(velocity: Array, gradient: Array, half: Array, work: Array) -> None:
    """Turn velocities (chains, d) against the gradient, over times ``half`` (chains,), and tell the work (chains,)."""
    d = velocity.shape[1]
    speed = math.sqrt(d)
    for i in range(velocity.shape[0]):
        square, along = 0.0, 0.0
        for j in range(d):
            square += gradient[i, j] * gradient[i, j]
            along -= gradient[i, j] * velocity[i, j]
        steepness = math.sqrt(square)
        divisor = steepness if steepness > 0.0 else 1.0
        along /= divisor * speed
        delta = half[i] * speed * steepness / (d - 1)
        # all by e^-delta, which cannot overflow
        decay = math.exp(-delta)
        down = (1.0 - decay) * (1.0 + decay + along * (1.0 - decay)) / -divisor
        kept = 2.0 * decay / speed
        work[i] = (d - 1) * (delta + math.log(0.5 * ((1.0 + along) + (1.0 - along) * decay * decay)))
        square = 0.0
        for j in range(d):
            turned = down * gradient[i, j] + kept * velocity[i, j]
            velocity[i, j] = turned
            square += turned * turned
        factor = speed / math.sqrt(square)
        for j in range(d):
            velocity[i, j] *= factor


@njit(cache=True, error_model="numpy")
def hamiltonian_kick(velocity: Array, gradient: Array, half: Array, work: Array) -> None:
    r"""Take ``half`` (chains,) times the gradient from momenta, and tell the change of :math:`|r|^2 / 2` (chains,)."""
    for i in range(velocity.shape[0]):
        total = 0.0
        for j in range(velocity.shape[1]):
            change = half[i] * gradient[i, j]
            total += change * (0.5 * change - velocity[i, j])
            velocity[i, j] -= change
        work[i] = total


@njit(cache=True, error_model="numpy")
def look_for_cliffs(
    rise: Array, slope: Array, work: Array, leap: int, error: Array, first: npt.NDArray[np.intp], smooth: Array
) -> None:
    """Add a step of a path to its error (chains,), and keep the error before the first cliff in ``smooth``.

    ``rise``, ``slope`` and ``work``, all (chains,), are those of step number ``leap``; ``first`` is the number of the
    step that met a cliff, -1 as long as none has.
    """
    for i in range(len(rise)):
        if first[i] < 0 and not rise[i] <= CLIFF + STEEPER * slope[i]:  # also where there is no energy
            first[i], smooth[i] = leap, error[i]
        error[i] += rise[i] + work[i]


@njit(cache=True, error_model="numpy")
def before_cliffs(log_ratio: Array, first: npt.NDArray[np.intp], smooth: Array, out: Array) -> int:
    """Log ratios into ``out``, those of a path's part before a cliff where it met one after its first step; how many.

    A path that meets one at once tells as much as one that is refused: its step may be too long. -1: no path was bad
    enough to ask.
    """
    worst = np.inf
    for i in range(len(log_ratio)):
        out[i] = log_ratio[i]
        worst = min(worst, log_ratio[i])
    if worst >= -CLIFF:
        return -1
    count = 0
    for i in range(len(log_ratio)):
        if first[i] > 0:
            out[i] = -smooth[i]
            count += out[i] != log_ratio[i]
    return count


@njit(cache=True, error_model="numpy")
def _loop(
    address: int,
    temperature: float,
    scale: Array,
    whitening: Array,
    whitening_first: Array,
    whitening_last: Array,
    coloring: Array,
    coloring_first: Array,
    coloring_last: Array,
    step_sizes: Array,
    normal: Array,
    log_uniform: Array,
    position: Array,
    energy: Array,
    gradient: Array,
    positions: Array,
    energies: Array,
    log_ratio: Array,
    microcanonical: bool,
    length: float,
    most: int,
    paths: int,
    shift: float,
    accepted: Array,
    leaps: Array,
    cliffs: Array,
) -> int:
    """How many paths were made; those after are left to Python."""
    n, chains, d = normal.shape
    slope, reduced, given, new_gradient = room(chains, d), room(chains, d), room(chains, d), room(chains, d)
    velocity, move, colored, end = room(chains, d), room(chains, d), room(chains, d), room(chains, d)
    new_energy, begin, before, after = np.empty(chains), np.empty(chains), np.empty(chains), np.empty(chains)
    leaving, arriving, half, work = np.empty(chains), np.empty(chains), np.empty(chains), np.empty(chains)
    more, works, error, smooth = np.empty(chains), np.empty(chains), np.empty(chains), np.empty(chains)
    first = np.empty(chains, dtype=np.intp)
    for path in range(n):
        step = math.sqrt(2.0 * step_sizes[path])
        leaps[path] = steps_of(length, (van_der_corput(paths + path) + shift) % 1.0, step, most)
        if microcanonical:
            at_constant_speed(normal[path], velocity)
        else:
            velocity[:, :] = normal[path]
        whiten(gradient, temperature, scale, whitening, whitening_first, whitening_last, reduced, slope)
        end[:, :] = position
        for i in range(chains):
            begin[i] = before[i] = energy[i] / temperature
            works[i], error[i], first[i], half[i] = 0.0, 0.0, -1, 0.5 * step
        for leap in range(leaps[path]):
            if microcanonical:
                microcanonical_kick(velocity, slope, half, work)
            else:
                hamiltonian_kick(velocity, slope, half, work)
            dots(slope, velocity, leaving)
            for i in range(chains):
                for j in range(d):
                    move[i, j] = step * velocity[i, j]
            color(move, scale, coloring, coloring_first, coloring_last, colored)
            for i in range(chains):
                for j in range(d):
                    end[i, j] += colored[i, j]
            if not evaluated(address, end, given, new_energy, new_gradient):
                return path
            whiten(new_gradient, temperature, scale, whitening, whitening_first, whitening_last, reduced, slope)
            dots(slope, velocity, arriving)
            if microcanonical:
                microcanonical_kick(velocity, slope, half, more)
            else:
                hamiltonian_kick(velocity, slope, half, more)
            for i in range(chains):
                after[i] = new_energy[i] / temperature
                work[i] += more[i]
                works[i] += work[i]
                leaving[i] = step * (abs(leaving[i]) + abs(arriving[i]))
                before[i] = after[i] - before[i]
            look_for_cliffs(before, leaving, work, leap, error, first, smooth)
            before[:] = after
        accepted[path] = 0
        for i in range(chains):
            ratio = begin[i] - after[i] - works[i]
            log_ratio[path, i] = ratio if not math.isnan(ratio) else -np.inf
        cliffs[path] = max(0, before_cliffs(log_ratio[path], first, smooth, more))
        for i in range(chains):
            if log_uniform[path, i] < log_ratio[path, i]:
                accepted[path] += 1
                energy[i] = new_energy[i]
                for j in range(d):
                    position[i, j], gradient[i, j] = end[i, j], new_gradient[i, j]
        positions[path] = position
        energies[path] = energy
    return n
