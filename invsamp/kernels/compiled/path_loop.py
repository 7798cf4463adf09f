"""Paths of several steps, Hamiltonian or microcanonical: their parts, and a compiled loop over paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.evaluate.requests import Memory
from invsamp.kernels.compiled.block import (
    Geometry,
    StepBlock,
    StepsMade,
    color,
    evaluated,
    fill,
    of_rung,
    record,
    room,
    whiten,
)
from invsamp.kernels.compiled.swaps import swapped
from invsamp.protocols import Array

#: The energy jumps within a step where it rises by more than this, and so many times what its slopes at both ends make
#: of the way: where it is convex there, it rises by at most what that at the end does.
CLIFF, STEEPER = 1.0, 1.5
#: Error of the energy above which a path is reported as diverging.
DIVERGING = 1000.0


Kick = Callable[[Array, Array, Array, Array], None]


def path_steps(
    block: StepBlock, memories: Sequence[Memory], microcanonical: bool, lengths: Sequence[float], most: int
) -> StepsMade:
    """Paths of `invsamp.kernels.Microcanonical`, or of `invsamp.kernels.Hamiltonian`, of at most so many steps."""
    rungs, n, chains, _ = block.normal.shape
    accepted, leaps, cliffs = (np.zeros((rungs, n), dtype=np.intp) for _ in range(3))
    paths = np.array([int(memory["paths"]) for memory in memories])
    shift = np.array([float(memory["shift"]) for memory in memories])
    made, more = _loop(block, microcanonical, np.array(lengths), most, paths, shift, accepted, leaps, cliffs)
    statistics = {
        "n_steps": np.repeat(leaps[:, :, None], chains, axis=2),
        "diverging": block.log_ratios < -DIVERGING,
    }
    evaluations = int(leaps[:, :made].sum() + leaps[:more, made : made + 1].sum()) * chains
    after = [
        memory | {"paths": np.asarray(float(before + made + (k < more)))}
        for k, (memory, before) in enumerate(zip(memories, paths.tolist(), strict=True))
    ]
    return StepsMade(made, more, evaluations, after, accepted, cliffs, statistics)


def kicked(kick: Kick, velocity: Array, gradient: Array, half: float | Array) -> tuple[Array, Array]:
    """Velocities (chains, d) after a kick over a time, one or of each chain (chains, 1), and its work (chains,)."""
    turned, work = np.array(velocity, order="C"), np.empty(len(velocity))
    kick(turned, gradient, np.full(len(velocity), half) if isinstance(half, float) else np.ravel(half), work)
    return turned, work


@njit(cache=True, error_model="numpy")
def van_der_corput(index: int) -> float:
    """The digits of ``index`` in base 3, mirrored at the point: a sequence that fills (0, 1) evenly.

    So does every eighth number of it, that of a path whose steps are short (`Kernel.short_step`). In base 2 all of
    these would be in the same eighth of (0, 1).
    """
    share, digit = 0.0, 1.0
    while index:
        digit /= 3.0
        share += digit * (index % 3)
        index //= 3
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
    """Turn velocities (chains, d) against the gradient over times ``half`` (chains,); return the work (chains,)."""
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
    r"""Take ``half`` (chains,) times the gradient from momenta; return the change of :math:`|r|^2 / 2` (chains,)."""
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

    A path that hits one at once counts as a rejected one: its step may be too long. -1: no path was bad
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


class _Room(NamedTuple):
    """Arrays that paths of a rung fill."""

    reduced: Array
    velocity: Array
    move: Array
    colored: Array
    end: Array
    given: Array
    gradient: Array
    slope: Array
    energy: Array
    prior: Array
    begin: Array
    before: Array
    after: Array
    leaving: Array
    arriving: Array
    half: Array
    work: Array
    more: Array
    works: Array
    error: Array
    smooth: Array


@njit(cache=True, error_model="numpy")
def _path(
    address: int,
    context: int,
    temperature: float,
    metric: Geometry,
    step: float,
    leaps: int,
    microcanonical: bool,
    normal: Array,
    log_uniform: Array,
    position: Array,
    energy: Array,
    gradient: Array,
    prior: Array,
    log_ratio: Array,
    room: _Room,
    first: npt.NDArray[np.intp],
) -> tuple[int, int]:
    """A path of a rung's chains, in place; how many accept it, and the cliffs. -1: a step's energy is not finite."""
    chains, d = position.shape
    velocity, slope, work, more = room.velocity, room.slope, room.work, room.more
    if microcanonical:
        at_constant_speed(normal, velocity)
    else:
        fill(normal, velocity)
    whiten(gradient, temperature, metric, room.reduced, slope)
    fill(position, room.end)
    for i in range(chains):
        room.begin[i] = room.before[i] = energy[i] / temperature
        room.works[i], room.error[i], room.smooth[i], first[i], room.half[i] = 0.0, 0.0, 0.0, -1, 0.5 * step
    for leap in range(leaps):
        if microcanonical:
            microcanonical_kick(velocity, slope, room.half, work)
        else:
            hamiltonian_kick(velocity, slope, room.half, work)
        dots(slope, velocity, room.leaving)
        for i in range(chains):
            for j in range(d):
                room.move[i, j] = step * velocity[i, j]
        color(room.move, metric, room.colored)
        for i in range(chains):
            for j in range(d):
                room.end[i, j] += room.colored[i, j]
        if not evaluated(address, context, room.end, room.given, room.energy, room.gradient, room.prior):
            return -1, 0
        whiten(room.gradient, temperature, metric, room.reduced, slope)
        dots(slope, velocity, room.arriving)
        if microcanonical:
            microcanonical_kick(velocity, slope, room.half, more)
        else:
            hamiltonian_kick(velocity, slope, room.half, more)
        for i in range(chains):
            room.after[i] = room.energy[i] / temperature
            work[i] += more[i]
            room.works[i] += work[i]
            room.leaving[i] = step * (abs(room.leaving[i]) + abs(room.arriving[i]))
            more[i] = room.after[i] - room.before[i]
            room.before[i] = room.after[i]
        look_for_cliffs(more, room.leaving, work, leap, room.error, first, room.smooth)
    for i in range(chains):
        ratio = room.begin[i] - room.after[i] - room.works[i]
        log_ratio[i] = ratio if not math.isnan(ratio) else -np.inf
    cliffs, accepted = max(0, before_cliffs(log_ratio, first, room.smooth, more)), 0
    for i in range(chains):
        if log_uniform[i] < log_ratio[i]:
            accepted += 1
            energy[i], prior[i] = room.energy[i], room.prior[i]
            for j in range(d):
                position[i, j], gradient[i, j] = room.end[i, j], room.gradient[i, j]
    return accepted, cliffs


@njit(cache=True, error_model="numpy")
def _loop(
    block: StepBlock,
    microcanonical: bool,
    lengths: Array,
    most: int,
    paths: npt.NDArray[np.intp],
    shift: Array,
    accepted: npt.NDArray[np.intp],
    leaps: npt.NDArray[np.intp],
    cliffs: npt.NDArray[np.intp],
) -> tuple[int, int]:
    """How many paths all rungs made, and how many of the rungs one more; those after are left to Python."""
    rungs, n, chains, d = block.normal.shape
    position, energy, gradient, prior = block.position, block.energy, block.gradient, block.prior
    # made here, so that the compiler knows that no two of these arrays share memory
    work = _Room(
        room(chains, d),
        room(chains, d),
        room(chains, d),
        room(chains, d),
        room(chains, d),
        room(chains, d),
        room(chains, d),
        room(chains, d),
        np.empty(chains),
        np.zeros(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
        np.empty(chains),
    )
    source, first = np.empty((rungs, chains), dtype=np.intp), np.empty(chains, dtype=np.intp)
    for path in range(n):
        for k in range(rungs):
            step = math.sqrt(2.0 * block.step_sizes[k, path])
            share = (van_der_corput(paths[k] + path) + shift[k]) % 1.0
            leaps[k, path] = steps_of(lengths[k], share, step, most)
            accepted[k, path], cliffs[k, path] = _path(
                block.address,
                block.context,
                block.temperatures[k],
                of_rung(block.geometry, k),
                step,
                leaps[k, path],
                microcanonical,
                block.normal[k, path],
                block.log_uniform[k, path],
                position[k],
                energy[k],
                gradient[k],
                prior[k],
                block.log_ratios[k, path],
                work,
                first,
            )
            if accepted[k, path] < 0:
                return path, k
        swapped(path, block.swaps, position, energy, gradient, prior, source)
        record(path, position, energy, prior, block.swaps, block.positions, block.energies, block.priors)
    return n, 0
