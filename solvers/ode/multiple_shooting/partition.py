"""Which data belong to which segment of a multiple shooting, and where they are in the states of all segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import increasing, integer

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Layout:
    """Where the observations are in the states of all segments, shape (segments, slots, n_states)."""

    grid: Array  # (segments, slots): the segments' output times, padded with NaN
    where: npt.NDArray[np.intp]  # (m,): flat index of every observation, then of every gap
    slot_of_time: npt.NDArray[np.intp]  # (n_times,): flat index into (segments, slots)
    data: int  # number of observations
    gaps: int


def layout(times: Array, begins: Array, observed: Sequence[int], mask: BoolArray, n: int, continuity: bool) -> Layout:
    """Layout of observations (times, observed states) where the mask is true, with gaps if there is continuity."""
    segment = np.searchsorted(begins, times, side="right") - 1
    counts = np.bincount(segment, minlength=len(begins))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    slot = np.arange(len(times)) - first[segment]
    slots = int(counts.max()) + int(continuity)
    grid = np.full((len(begins), slots), np.nan)
    grid[segment, slot] = times
    slot_of_time = segment * slots + slot
    where = (slot_of_time[:, None] * n + np.asarray(observed))[mask]
    ends = np.empty(0, dtype=np.intp)
    if continuity:
        grid[np.arange(len(begins) - 1), counts[:-1]] = begins[1:]
        end = np.arange(len(begins) - 1) * slots + counts[:-1]
        ends = (end[:, None] * n + np.arange(n)).ravel()
    return Layout(grid, np.concatenate([where, ends]), slot_of_time, len(where), len(ends))


def segment_begins(times: Array, segments: int | Sequence[float] | Array) -> Array:
    """Times at which segments begin; see `invsamp.solvers.ode.multiple_shooting.multiple_shooting.MultipleShooting`."""
    if isinstance(segments, int | np.integer):
        segments = integer("segments", segments, least=1, most=len(times))
        return np.array([part[0] for part in np.array_split(times, segments)])
    begins = increasing("segments", segments)
    if begins[0] > times[0]:
        raise ValueError(f"segments must begin not after the first of times, {times[0]}, got {begins[0]}")
    counts = np.diff(np.append(np.searchsorted(times, begins), len(times)))
    if (counts == 0).any():
        raise ValueError(f"segments must each hold a datum, got none in that from {begins[counts == 0][0]}")
    return begins


def smoothed(times: Array, values: Array, at: Array, window: int) -> Array:
    """Polynomials through the ``window`` data nearest in time, at times ``at``; 1 interpolates linearly."""
    window = min(window, len(times))
    if window == 1:
        return np.interp(at, times, values)
    result = np.empty(len(at))
    for i, t in enumerate(at):
        near = np.argsort(np.abs(times - t), kind="stable")[:window]
        # about t, so that the value there is the constant of the polynomial
        result[i] = np.polyfit(times[near] - t, values[near], 2 if window > 3 else 1)[-1]
    return result
