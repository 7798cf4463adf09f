"""Langevin steps, with momentum or without, adjusted or not: their parts, and a compiled loop over them."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from invsamp.evaluate.requests import Memory
from invsamp.kernels.compiled.block import StepBlock, StepsMade, color, evaluated, room, whiten
from invsamp.protocols import Array

#: How far thresholds that remember move on in a step.
THRESHOLD_STEP = 0.02


def langevin_steps(block: StepBlock, memory: Memory, adjusted: bool, friction: float | None) -> StepsMade:
    """Steps of `invsamp.kernels.Langevin`, where the friction is None, or of `invsamp.kernels.Momentum`."""
    n, chains, _ = block.normal.shape
    momentum = np.empty((0, 0)) if friction is None else memory["momentum"].copy()
    threshold = memory["threshold"].copy() if adjusted and friction is not None else np.empty(0)
    accepted = np.empty(n, dtype=np.intp)
    (address, temperature, scale, whitening, coloring), rest = block[:5], block[5:]
    heat = 1.0 if friction is None else friction
    made = _loop(
        address, temperature, scale, *whitening, *coloring, *rest, adjusted, heat, momentum, threshold, accepted
    )
    if friction is not None:
        memory = {"momentum": momentum} | ({"threshold": threshold} if adjusted else {})
    return StepsMade(made, made * chains, memory, accepted)


@njit(cache=True, error_model="numpy")
def straight(gradient: Array, noise: Array, step_size: float, sd: float, move: Array) -> None:
    """Into ``move``, sd * noise - step_size * gradient."""
    for i in range(noise.shape[0]):
        for j in range(noise.shape[1]):
            move[i, j] = sd * noise[i, j] - step_size * gradient[i, j]


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
    """Who accepts, by thresholds that remember, which move on in place; how many. NaN is refused."""
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
    adjusted: bool,
    friction: float,
    momentum: Array,
    threshold: Array,
    accepted: Array,
) -> int:
    """How many steps were made; those after are left to Python."""
    n, chains, d = normal.shape
    with_momentum, kept = len(momentum) > 0, 1.0 - friction
    slope, new_slope, reduced, given = room(chains, d), room(chains, d), room(chains, d), room(chains, d)
    noise, move, colored, end = room(chains, d), room(chains, d), room(chains, d), room(chains, d)
    new_energy, new_gradient = np.empty(chains), room(chains, d)
    before, after, accept = np.empty(chains), np.empty(chains), np.empty(chains, dtype=np.bool_)
    whiten(gradient, temperature, scale, whitening, whitening_first, whitening_last, reduced, slope)
    for step in range(n):
        h = step_sizes[step]
        sd, carried = math.sqrt(2.0 * (1.0 if adjusted else friction) * h), kept * math.sqrt(h)
        if adjusted and with_momentum:
            refresh(momentum, normal[step], kept, noise)
        else:
            noise[:, :] = normal[step]
        straight(slope, noise, h, sd, move)
        if with_momentum and not adjusted:
            for i in range(chains):
                for j in range(d):
                    move[i, j] += carried * momentum[i, j]
        color(move, scale, coloring, coloring_first, coloring_last, colored)
        for i in range(chains):
            for j in range(d):
                end[i, j] = position[i, j] + colored[i, j]
        if not evaluated(address, end, given, new_energy, new_gradient):
            return step
        whiten(new_gradient, temperature, scale, whitening, whitening_first, whitening_last, reduced, new_slope)
        if adjusted:
            for i in range(chains):
                before[i], after[i] = energy[i] / temperature, new_energy[i] / temperature
            log_ratios(before, after, noise, move, new_slope, h, log_ratio[step])
            if with_momentum:
                accepted[step] = accept_by_thresholds(threshold, log_ratio[step], accept)
                end_momenta(move, new_slope, h, momentum)
            else:
                accepted[step] = 0
                for i in range(chains):
                    accept[i] = log_uniform[step, i] < log_ratio[step, i]
                    accepted[step] += accept[i]
        elif with_momentum:
            length = math.sqrt(h)
            for i in range(chains):
                for j in range(d):
                    momentum[i, j] = move[i, j] / length
        for i in range(chains):
            if not adjusted or accept[i]:
                energy[i] = new_energy[i]
                for j in range(d):
                    position[i, j], gradient[i, j], slope[i, j] = end[i, j], new_gradient[i, j], new_slope[i, j]
            elif with_momentum:
                for j in range(d):
                    momentum[i, j] = -noise[i, j]
        positions[step] = position
        energies[step] = energy
    return n
