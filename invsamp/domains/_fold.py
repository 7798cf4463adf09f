"""Compiled kernel that folds moves back into a box, in place, row by row."""

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
    ends, turned = np.empty(dimension), np.empty(dimension, np.bool_)
    for row in range(n):
        folds_of_row, ok = 0.0, True
        for j in range(dimension):
            low, high = lower[0 if shared else j], upper[0 if shared else j]
            end = position[row, j] + move[row, j]
            ends[j], turned[j] = end, False
            if not (end < low or end > high or math.isinf(end) or math.isnan(end)):
                continue
            folds = _folds(end, low, high)
            # a start outside has no path to speak of
            if not (low <= position[row, j] <= high and folds <= MAX_FOLDS):
                ok = False
                break
            folds_of_row += folds
            ends[j], turned[j] = _folded(end, low, high, folds), folds % 2.0 == 1.0
        failed[row] = not ok
        bounces[row] = int(folds_of_row) if ok else 0
        if not ok:
            continue
        for j in range(dimension):
            position[row, j] = ends[j]
            if turned[j]:
                move[row, j] = -move[row, j]


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _folds(end: float, low: float, high: float) -> float:
    """Bounds crossed strictly before arriving at `end`, which lies outside [low, high]; inf if not finite."""
    if math.isinf(end) or math.isnan(end):
        return math.inf
    width = high - low
    if math.isinf(width):
        return 1.0
    # a move that ends exactly on a bound is not reflected there
    return math.ceil((low - end) / width) if end < low else math.ceil((end - low) / width) - 1.0


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _folded(end: float, low: float, high: float, folds: float) -> float:
    """Where `end`, outside [low, high], lies after `folds` reflections."""
    if math.isinf(high - low):
        return 2.0 * low - end if end < low else 2.0 * high - end
    traveled = (low - end if end < low else end - high) - (folds - 1.0) * (high - low)
    from_low = (folds % 2.0 == 1.0) == (end < low)
    # rounding may leave the bound by an ulp
    return min(max(low + traveled if from_low else high - traveled, low), high)
