"""Checks of the times at which a batch of trajectories is wanted."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.arguments import array, numbers

Array = npt.NDArray[np.float64]


def check_times(times: npt.ArrayLike, t0: npt.ArrayLike | None, batch: int) -> tuple[Array, Array]:
    """Output times (1, n_times) or (batch, n_times) and initial times (batch,), both float and C-contiguous.

    Raises
    ------
    ValueError
        For times that are empty or do not increase, NaN but at the end of a row of its own, wrong shapes, or a ``t0``
        after the first output time.
    """
    grid = numbers("times", times)
    if t0 is None and batch == 1 and grid.ndim == 1 and grid.flags.carray and _increases(grid):
        return grid[None], grid[:1]
    if grid.ndim not in (1, 2) or not grid.shape[-1] or (grid.ndim == 2 and len(grid) != batch):
        raise ValueError(f"times must be non-empty, of shape (n_times,) or ({batch}, n_times), got shape {grid.shape}")
    common = grid.ndim == 1
    grid = np.ascontiguousarray(grid[None] if common else grid)
    fault = _first_fault(grid, common)
    if fault >= 0:
        row, column = divmod(fault, grid.shape[1])
        place = f"index {column}" + ("" if common else f" of row {row}")
        ending = "" if common else ", but for NaN at the end of a row"
        raise ValueError(
            f"times must be a non-empty, finite, increasing sequence{ending}, "
            f"got {grid[row]}: see {grid[row, column]} at {place}"
        )
    first = grid[:, 0]
    if not common:
        first = np.where(np.isnan(first), math.inf, first)
    if t0 is None:
        if common:
            return grid, first if batch == 1 else np.full(batch, first[0])
        return grid, np.where(np.isinf(first), 0.0, first)
    start = array("t0", t0)
    if start.shape not in ((), (batch,)):
        raise ValueError(f"t0 must be a finite number or of shape ({batch},), got {t0}")
    start = np.full(batch, start) if start.ndim == 0 else start
    late = start > first
    if late.any():
        row = int(np.argmax(late))
        raise ValueError(f"t0 must not be after the first of times, {first[0 if common else row]}, got {start[row]}")
    return grid, start


@njit(cache=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)
def _increases(times: Array) -> bool:
    """Whether times (n_times,) are finite and increase; not of none."""
    if len(times) == 0 or not (times[0] > -math.inf and times[-1] < math.inf):
        return False
    good = True
    for i in range(1, len(times)):
        good &= times[i - 1] < times[i]
    return good


def _first_fault(grid: Array, common: bool) -> int:
    """Flat index of the first time that is out of order; -1 if there is none."""
    if common and grid[0, 0] > -math.inf and grid[0, -1] < math.inf:
        times = grid[0]
        if np.logical_and.reduce(times[:-1] < times[1:]):
            return -1
    before = np.concatenate([np.full((len(grid), 1), -math.inf), grid[:, :-1]], axis=1)
    good = (grid > before) & (grid < math.inf)  # after NaN nothing is
    if not common:
        good |= np.isnan(grid)
    return -1 if good.all() else int(np.argmin(good))
