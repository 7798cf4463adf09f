"""Observation times as numbers of equal time steps, or between these: linear in time between those around."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invsamp.arguments import array
from invsamp.solvers.fem.contract import Array


def step_numbers(times: Sequence[float] | None, steps: int, end_time: float) -> tuple[int, ...]:
    """Numbers of ``times`` among ``steps`` equal steps from 0 to ``end_time``; that of the end for None.

    Raises
    ------
    ValueError
        If there are none, they do not increase, or one is no time of the scheme.
    """
    if times is None:
        return (steps,)
    wanted = np.atleast_1d(array("times", times)) * steps / end_time
    numbers = np.rint(wanted)
    if wanted.ndim != 1 or (np.diff(numbers) <= 0).any():
        raise ValueError(f"times must be an increasing sequence, got {times}")
    bad = ~(np.abs(wanted - numbers) < 1e-9 * steps) | (numbers < 0) | (numbers > steps)
    if bad.any():
        wrong = float(wanted[bad][0]) * end_time / steps
        raise ValueError(
            f"times must be multiples of the time step {end_time / steps:.6g} up to the end time {end_time:.6g}, "
            f"got {wrong:.6g}"
        )
    return tuple(int(number) for number in numbers)


def bracketed(times: Sequence[float] | None, steps: int, end_time: float) -> tuple[tuple[int, ...], Array | None]:
    """Numbers of the steps around ``times``, and weights (n_times, n_numbers) of linear interpolation between them.

    The end alone for None; no weights where all times are those of steps.

    Raises
    ------
    ValueError
        If times do not increase, or lie outside of [0, end_time].
    """
    if times is None:
        return (steps,), None
    at = np.atleast_1d(array("times", times)) * steps / end_time
    if at.ndim != 1 or (np.diff(at) <= 0).any():
        raise ValueError(f"times must be an increasing sequence, got {times}")
    nearest = np.rint(at)
    at = np.where(np.abs(at - nearest) < 1e-9 * steps, nearest, at)
    if (outside := (at < 0) | (at > steps)).any():
        wrong = float(at[outside][0]) * end_time / steps
        raise ValueError(f"times must lie between 0 and the end time {end_time:.6g}, got {wrong:.6g}")
    before = np.floor(at)
    share = at - before
    numbers, places = np.unique(np.concatenate([before, np.ceil(at)]).astype(int), return_inverse=True)
    steps_used = tuple(numbers.tolist())
    if not share.any():
        return steps_used, None
    weights = np.zeros((len(at), len(numbers)))
    first, second = places.reshape(2, -1)
    np.add.at(weights, (np.arange(len(at)), first), 1.0 - share)
    np.add.at(weights, (np.arange(len(at)), second), share)
    return steps_used, weights


def mixed(weights: Array, values: Array, axis: int) -> Array:
    """Values at times, by weights (times, steps) of those at steps, along an axis of steps times sensors in C order."""
    before, count, after = values.shape[:axis], values.shape[axis], values.shape[axis + 1 :]
    moved = np.moveaxis(values.reshape(*before, weights.shape[1], count // weights.shape[1], *after), axis, 0)
    mixed = np.zeros((len(weights), *moved.shape[1:]))
    # term by term: sums of BLAS depend in their last bits on the rest of the batch
    for k, j in zip(*np.nonzero(weights), strict=True):
        mixed[k] += weights[k, j] * moved[j]
    return np.moveaxis(mixed, 0, axis).reshape(*before, -1, *after)
