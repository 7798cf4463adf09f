"""Langevin steps, with momentum or without, adjusted or not: their parts, and a compiled loop over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    whiten_change,
)
from invsamp.kernels.compiled.swaps import swapped
from invsamp.protocols import Array

#: How far thresholds that remember move on in a step.
THRESHOLD_STEP = 0.02


def langevin_steps(
    block: StepBlock, memories: Sequence[Memory], adjusted: bool, frictions: Sequence[float] | None
) -> StepsMade:
    """Steps of `invsamp.kernels.Langevin`, where there are no frictions, or of `invsamp.kernels.Momentum`."""
    rungs, n, chains, _ = block.normal.shape
    momentum, threshold = np.empty((rungs, 0, 0)), np.empty((rungs, 0))
    friction = np.ones(rungs) if frictions is None else np.array(frictions)
    if frictions is not None:
        momentum = np.stack([memory["momentum"] for memory in memories])
        if adjusted:
            threshold = np.stack([memory["threshold"] for memory in memories])
    accepted = np.zeros((rungs, n), dtype=np.intp)
    made, more = _loop(block, adjusted, friction, momentum, threshold, accepted)
    after = list(memories)
    if frictions is not None:
        after = [
            {"momentum": r} | ({"threshold": s} if adjusted else {}) for r, s in zip(momentum, threshold, strict=True)
        ]
    evaluations = (made * rungs + more) * chains
    return StepsMade(made, more, evaluations, after, accepted, np.zeros_like(accepted))


@njit(cache=True, error_model="numpy")
def straight(gradient: Array, noise: Array, step_size: float, sd: float, move: Array) -> None:
    """Into ``move``, sd * noise - step_size * gradient."""
    for i in range(noise.shape[0]):
        for j in range(noise.shape[1]):
            move[i, j] = sd * noise[i, j] - step_size * gradient[i, j]


@njit(cache=True, error_model="numpy")
def carried_move(
    position: Array,
    gradient: Array,
    noise: Array,
    momentum: Array,
    step_size: float,
    friction: float,
    end: Array,
    new_momentum: Array,
) -> None:
    """Into ``end`` and ``new_momentum``, a straight move that keeps a share of the last one: one pass over memory."""
    sd, carried = math.sqrt(2.0 * friction * step_size), (1.0 - friction) * math.sqrt(step_size)
    length = math.sqrt(step_size)
    for i in range(noise.shape[0]):
        for j in range(noise.shape[1]):
            move = sd * noise[i, j] - step_size * gradient[i, j] + carried * momentum[i, j]
            end[i, j] = position[i, j] + move
            new_momentum[i, j] = move / length


@njit(cache=True, error_model="numpy")
def log_ratios(
    before: Array, after: Array, noise: Array, end_velocity: Array, end_gradient: Array, step_size: float, out: Array
) -> None:
    """Log Metropolis ratios (chains,) of Langevin moves, into ``out``."""
    for i in range(noise.shape[0]):
        change = 0.0
        for j in range(noise.shape[1]):
            back = step_size * end_gradient[i, j] - end_velocity[i, j]
            change += 0.5 * (noise[i, j] * noise[i, j]) - back * back / (4.0 * step_size)
        out[i] = before[i] - after[i] + change


@njit(cache=True, error_model="numpy")
def refresh(momentum: Array, noise: Array, kept: float, out: Array) -> None:
    """Momenta that keep a share of themselves, the rest drawn anew, into ``out``."""
    fresh = math.sqrt(1.0 - kept * kept)
    for i in range(noise.shape[0]):
        for j in range(noise.shape[1]):
            out[i, j] = kept * momentum[i, j] + fresh * noise[i, j]


@njit(cache=True, error_model="numpy")
def accept_by_thresholds(threshold: Array, log_ratio: Array, accept: Array) -> int:
    """Chains that accept, by persistent thresholds, which move on in place; their number. NaN is refused."""
    count = 0
    for i in range(len(threshold)):
        moved = threshold[i] + THRESHOLD_STEP
        if moved >= 1.0:
            moved -= 2.0
        accept[i] = abs(moved) < math.exp(min(log_ratio[i], 0.0))
        if accept[i]:
            moved *= math.exp(-log_ratio[i])
            count += 1
        threshold[i] = moved
    return count


@njit(cache=True, error_model="numpy")
def end_momenta(velocity: Array, gradient: Array, step_size: float, out: Array) -> None:
    """Momenta at the end of a leapfrog step, from the velocity and the gradient there."""
    length = math.sqrt(2.0 * step_size)
    for i in range(velocity.shape[0]):
        for j in range(velocity.shape[1]):
            out[i, j] = (velocity[i, j] - step_size * gradient[i, j]) / length


class _Room(NamedTuple):
    """Arrays that steps of a rung fill."""

    reduced: Array
    noise: Array
    move: Array
    colored: Array
    end: Array
    given: Array
    gradient: Array
    slope: Array
    energy: Array
    prior: Array
    before: Array
    after: Array


@njit(cache=True, error_model="numpy", inline="always")
def _step(
    address: int,
    context: int,
    temperature: float,
    metric: Geometry,
    step_size: float,
    normal: Array,
    log_uniform: Array,
    position: Array,
    energy: Array,
    gradient: Array,
    prior: Array,
    slope: Array,
    log_ratio: Array,
    adjusted: bool,
    friction: float,
    momentum: Array,
    threshold: Array,
    accept: npt.NDArray[np.bool_],
    work: _Room,
) -> int:
    """A step of a rung's chains, in place; how many accept it. -1: it was not made, as an energy is not finite."""
    chains, d = position.shape
    with_momentum, kept = len(momentum) > 0, 1.0 - friction
    if adjusted and with_momentum:
        refresh(momentum, normal, kept, work.noise)
    else:
        fill(normal, work.noise)
    sd = math.sqrt(2.0 * (1.0 if adjusted else friction) * step_size)
    straight(slope, work.noise, step_size, sd, work.move)
    if with_momentum and not adjusted:
        carried = kept * math.sqrt(step_size)
        for i in range(chains):
            for j in range(d):
                work.move[i, j] += carried * momentum[i, j]
    color(work.move, metric, work.colored)
    for i in range(chains):
        for j in range(d):
            work.end[i, j] = position[i, j] + work.colored[i, j]
    if not evaluated(address, context, work.end, work.given, work.energy, work.gradient, work.prior):
        return -1
    whiten(work.gradient, temperature, metric, work.reduced, work.slope)
    accepted = chains
    if adjusted:
        for i in range(chains):
            work.before[i], work.after[i] = energy[i] / temperature, work.energy[i] / temperature
        log_ratios(work.before, work.after, work.noise, work.move, work.slope, step_size, log_ratio)
        if with_momentum:
            accepted = accept_by_thresholds(threshold, log_ratio, accept)
            end_momenta(work.move, work.slope, step_size, momentum)
        else:
            accepted = 0
            for i in range(chains):
                accept[i] = log_uniform[i] < log_ratio[i]
                accepted += accept[i]
    elif with_momentum:
        length = math.sqrt(step_size)
        for i in range(chains):
            for j in range(d):
                momentum[i, j] = work.move[i, j] / length
    for i in range(chains):
        if not adjusted or accept[i]:
            energy[i], prior[i] = work.energy[i], work.prior[i]
            for j in range(d):
                position[i, j], gradient[i, j], slope[i, j] = work.end[i, j], work.gradient[i, j], work.slope[i, j]
        elif with_momentum:
            for j in range(d):
                momentum[i, j] = -work.noise[i, j]
    return accepted


@njit(cache=True, error_model="numpy")
def _loop(
    block: StepBlock,
    adjusted: bool,
    friction: Array,
    momentum: Array,
    threshold: Array,
    accepted: Array,
) -> tuple[int, int]:
    """How many steps all rungs made, and how many of the rungs one more; those after are left to Python."""
    rungs, n, chains, d = block.normal.shape
    geometry, temperatures, swaps = block.geometry, block.temperatures, block.swaps
    position, energy, gradient, prior = block.position, block.energy, block.gradient, block.prior
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
    )
    slope, change, accept = np.empty(position.shape), room(chains, d), np.empty(chains, dtype=np.bool_)
    source, before = np.empty((rungs, chains), dtype=np.intp), np.empty(position.shape)
    nothing = np.empty(0)
    for k in range(rungs):
        whiten(gradient[k], temperatures[k], of_rung(geometry, k), work.reduced, slope[k])
    metric, uniform, own = of_rung(geometry, 0), nothing, (position[0], energy[0], gradient[0], prior[0], slope[0])
    carried = momentum[0], threshold[0]
    for step in range(n):
        for k in range(rungs):
            if rungs > 1:  # of one rung they stay: as long as a step takes to look them up, for few chains
                metric, own = of_rung(geometry, k), (position[k], energy[k], gradient[k], prior[k], slope[k])
                carried = momentum[k], threshold[k]
            if block.log_uniform.shape[1]:
                uniform = block.log_uniform[k, step]
            found = _step(
                block.address,
                block.context,
                temperatures[k],
                metric,
                block.step_sizes[k, step],
                block.normal[k, step],
                uniform,
                own[0],
                own[1],
                own[2],
                own[3],
                own[4],
                block.log_ratios[k, step],
                adjusted,
                friction[k],
                carried[0],
                carried[1],
                accept,
                work,
            )
            if found < 0:
                return step, k
            accepted[k, step] = found
        if swaps.begins[step] < swaps.begins[step + 1]:
            for k in range(rungs):
                fill(gradient[k], before[k])
            if swapped(step, swaps, position, energy, gradient, prior, source):
                for k in range(rungs):
                    metric = of_rung(geometry, k)
                    if momentum.shape[1] and not adjusted:
                        # as `invsamp.kernels.Momentum.arrived`
                        half = 0.5 * math.sqrt(block.full_sizes[k, step])
                        whiten_change(gradient[k], before[k], temperatures[k], metric, work.reduced, change)
                        for i in range(chains):
                            if source[k, i] != k:
                                for j in range(d):
                                    momentum[k, i, j] += half * change[i, j]
                    whiten(gradient[k], temperatures[k], metric, work.reduced, slope[k])
        record(step, position, energy, prior, swaps, block.positions, block.energies, block.priors)
    return n, 0
