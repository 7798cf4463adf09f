"""Compiled kernels of the specular path: a straight move that bounces off the walls of a convex domain.

All kernels work in place on C-contiguous arrays, row by row, in scalar arithmetic. `inside_half_spaces` is
the one definition of "inside": the kernel that moves points and the test that accepts them sum in the same
order, so that rounding cannot make them disagree.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[np.float64]

#: Beyond this many folds of one coordinate the end of the move is rounding noise: the move is refused.
MAX_FOLDS = 2.0**31


@njit(cache=True)
def fold_box(
    position: Array,
    move: Array,
    lower: Array,
    upper: Array,
    bounces: npt.NDArray[np.int64],
    failed: npt.NDArray[np.bool_],
) -> None:
    """Fold `position + move` back into a box, coordinate by coordinate; both arrays (n, d) are overwritten.

    `lower` and `upper` have shape (d,), or (1,) for bounds that all coordinates share. The reflections of
    different coordinates commute, so no path has to be followed. Rows that fail keep their position and move.
    """
    n, dimension = position.shape
    shared = lower.size == 1
    for row in range(n):
        folds_of_row = 0
        ok = True
        for j in range(dimension):
            low = lower[0 if shared else j]
            high = upper[0 if shared else j]
            end = position[row, j] + move[row, j]
            if not (end < low or end > high or math.isinf(end) or math.isnan(end)):
                continue
            folds = _folds(end, low, high)
            # a start outside has no path to speak of
            if not (low <= position[row, j] <= high and folds <= MAX_FOLDS):
                ok = False
                break
            folds_of_row += int(folds)
        failed[row] = not ok
        bounces[row] = folds_of_row if ok else 0
        if not ok:
            continue
        for j in range(dimension):
            low = lower[0 if shared else j]
            high = upper[0 if shared else j]
            end = position[row, j] + move[row, j]
            if end < low or end > high:
                folds = _folds(end, low, high)
                if folds % 2.0 == 1.0:
                    move[row, j] = -move[row, j]
                end = _folded(end, low, high, folds)
            position[row, j] = end


@njit(cache=True)
def _folds(end: float, low: float, high: float) -> float:
    """Walls crossed strictly before arriving at `end`, which lies outside [low, high]; inf if not finite."""
    if math.isinf(end) or math.isnan(end):
        return math.inf
    width = high - low
    if math.isinf(width):
        return 1.0
    # a move that ends exactly on a wall has not bounced off it
    return math.ceil((low - end) / width) if end < low else math.ceil((end - low) / width) - 1.0


@njit(cache=True)
def _folded(end: float, low: float, high: float, folds: float) -> float:
    """Where `end`, outside [low, high], lies after `folds` reflections."""
    if math.isinf(high - low):
        return 2.0 * low - end if end < low else 2.0 * high - end
    travelled = (low - end if end < low else end - high) - (folds - 1.0) * (high - low)
    from_low = (folds % 2.0 == 1.0) == (end < low)
    # rounding may leave the wall by an ulp
    return min(max(low + travelled if from_low else high - travelled, low), high)


@njit(cache=True)
def inside_half_spaces(normals: Array, offsets: Array, position: Array, inside: npt.NDArray[np.bool_]) -> None:
    """Fill `inside` (n,) with whether `normals @ position[row] <= offsets` holds; False for NaN."""
    for row in range(position.shape[0]):
        inside[row] = _inside(normals, offsets, position[row])


@njit(cache=True)
def bounce_half_spaces(
    position: Array,
    move: Array,
    normals: Array,
    offsets: Array,
    turns: Array,
    interior: Array,
    max_bounces: int,
    bounces: npt.NDArray[np.int64],
    failed: npt.NDArray[np.bool_],
) -> None:
    """Follow each move through `normals @ x <= offsets`; `position` and `move` (n, d) are overwritten.

    `turns` (k, d) is the direction P a along which facet a turns the velocity, `interior` (d,) a strictly
    feasible point. Rows that fail keep their position and move.
    """
    n, dimension = position.shape
    point = np.empty(dimension)
    velocity = np.empty(dimension)
    for row in range(n):
        for j in range(dimension):
            velocity[j] = move[row, j]
            point[j] = position[row, j] + velocity[j]
        count = 0
        # the domain is convex: a move that ends inside has not left it
        ok = _inside(normals, offsets, point)
        if not ok:
            for j in range(dimension):
                point[j] = position[row, j]
            # a start outside has no path to speak of
            ok = _inside(normals, offsets, point)
            if ok:
                count = _travel(point, velocity, normals, offsets, turns, max_bounces)
                ok = count <= max_bounces and _pulled_inside(point, normals, offsets, interior)
        failed[row] = not ok
        bounces[row] = count if ok else 0
        if ok:
            for j in range(dimension):
                position[row, j] = point[j]
                move[row, j] = velocity[j]


@njit(cache=True)
def _inside(normals: Array, offsets: Array, point: Array) -> bool:
    for facet in range(offsets.size):
        level = 0.0
        for j in range(point.size):
            level += normals[facet, j] * point[j]
        if not level <= offsets[facet]:
            return False
    return True


@njit(cache=True)
def _travel(point: Array, velocity: Array, normals: Array, offsets: Array, turns: Array, max_bounces: int) -> int:
    """Move `point` for one unit of time, turning `velocity` at each wall; the number of bounces.

    Returns `max_bounces + 1` where there are more, or where a number is not finite.
    """
    remaining = 1.0
    left_behind = -1
    for count in range(max_bounces + 1):
        first = -1
        first_time = remaining
        first_rate = 0.0
        for facet in range(offsets.size):
            # the wall just left is at distance zero up to rounding: it must not be hit again
            if facet == left_behind:
                continue
            gap = offsets[facet]
            rate = 0.0
            for j in range(point.size):
                gap -= normals[facet, j] * point[j]
                rate += normals[facet, j] * velocity[j]
            if not math.isfinite(rate):
                return max_bounces + 1
            if rate > 0.0:
                time = max(gap, 0.0) / rate
                if time < first_time:
                    first = facet
                    first_time = time
                    first_rate = rate
        for j in range(point.size):
            point[j] += first_time * velocity[j]
        if first < 0:
            return count
        stiffness = 0.0
        for j in range(point.size):
            stiffness += normals[first, j] * turns[first, j]
        if not stiffness > 0.0:
            return max_bounces + 1
        for j in range(point.size):
            velocity[j] -= 2.0 * first_rate / stiffness * turns[first, j]
        remaining -= first_time
        left_behind = first
    return max_bounces + 1


@njit(cache=True)
def _pulled_inside(point: Array, normals: Array, offsets: Array, interior: Array) -> bool:
    """Undo rounding: pull `point` towards `interior` by at most 1e-10 of their distance; whether it is inside.

    The pull scales every gap alike, whatever the units of the coordinates.
    """
    pull = 1e-16
    while not _inside(normals, offsets, point):
        if pull > 1e-10:
            return False
        for j in range(point.size):
            point[j] += pull * (interior[j] - point[j])
        pull *= 4.0
    return True
