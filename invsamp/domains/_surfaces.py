"""Boundaries that are given by a function: where moves cross them, vectorized over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from invsamp.domains.contract import Array, BoolArray

IntArray = npt.NDArray[np.int64]

#: Halvings and secant steps that locate a crossing; a third of them would do for bisection alone to reach rounding.
MAX_ROOT_STEPS = 160


@dataclass(frozen=True)
class Surface:
    """A boundary where a function of some columns changes sign.

    Attributes
    ----------
    level : callable
        Points (n, m) -> (n,), not positive inside; anything else, NaN too, is outside.
    gradient : callable
        Points (n, m) -> (n, m).
    resolution : float or ndarray, shape (m,), or None
        Moves are checked in steps no longer than this; None stands for eight steps.
    columns : tuple of int
    check : callable
        Called with points inside, (n, m), before the first moves; raises ValueError for a gradient that is wrong.
    """

    level: Callable[[Array], Array]
    gradient: Callable[[Array], Array]
    resolution: Array | None
    columns: tuple[int, ...]
    check: Callable[[Array], None]

    def on(self, columns: tuple[int, ...]) -> Surface:
        """The same surface, where column k is now ``columns[k]``."""
        return replace(self, columns=tuple(columns[k] for k in self.columns))

    def inside(self, position: Array) -> BoolArray:
        """Whether each position (n, d) has a level that is not positive, shape (n,)."""
        return np.asarray(self.level(position[:, self.columns]) <= 0.0)

    def normals(self, position: Array) -> Array:
        """Gradients (n, d), zero in other columns."""
        normals = np.zeros(position.shape)
        normals[:, self.columns] = self.gradient(position[:, self.columns])
        return normals

    def first_hits(self, position: Array, move: Array, horizon: Array, hit_last: BoolArray) -> tuple[Array, BoolArray]:
        """Times (n,) at which moves from inside first leave, and which do so before `horizon` (n,).

        The level at the time found is not positive, so that a point on the boundary is inside.
        """
        x, v = position[:, self.columns], move[:, self.columns]
        steps = self._steps(v * horizon[:, None])
        rows = np.repeat(np.arange(len(x)), steps)
        first = np.cumsum(steps) - steps
        k = np.arange(len(rows)) - first[rows] + 1
        times = horizon[rows] * (k / steps[rows])
        levels = self.level(x[rows] + times[:, None] * v[rows])
        k[levels <= 0.0] = np.iinfo(np.int64).max
        out = np.minimum.reduceat(k, first)
        hit = out <= steps
        result = horizon.copy()
        if hit.any():
            at = np.flatnonzero(hit)
            low, high = ((horizon * (which / steps))[at] for which in (out - 1, out))
            result[at] = self._crossings(x[at], v[at], low, high, hit_last[at])
        return result, hit

    def _steps(self, along: Array) -> IntArray:
        if self.resolution is None:
            return np.full(len(along), 8)
        return np.ceil(np.max(np.abs(along) / self.resolution, axis=1)).clip(1, 100_000).astype(np.int64)

    def _crossings(self, x: Array, v: Array, low: Array, high: Array, hit_last: BoolArray) -> Array:
        """Times (n,) between `low`, inside, and `high`, outside, where the level changes sign."""
        base, slope = np.zeros(len(x)), np.zeros(len(x))
        near = np.flatnonzero(low == 0.0)
        if len(near):
            # a start on the boundary is a root too, and another one is wanted where the move runs inwards
            level, far = self.level(x[near]), self.level(x[near] + high[near, None] * v[near])
            rate = np.sum(self.gradient(x[near]) * v[near], axis=1)
            on_boundary = hit_last[near] | (level >= -1e-12 * np.abs(far))
            low_inward = on_boundary & (rate < 0.0)
            base[near[low_inward]], slope[near[low_inward]] = level[low_inward], rate[low_inward]
        inward = slope < 0.0

        def level_at(rows: IntArray, time: Array) -> Array:
            value = np.array(self.level(x[rows] + time[:, None] * v[rows]), dtype=float)
            deflated = inward[rows]
            value[deflated] = (value[deflated] - base[rows[deflated]]) / time[deflated]
            return value

        return bracketed_roots(level_at, low, high, slope)


def bracketed_roots(function: Callable[[IntArray, Array], Array], low: Array, high: Array, start: Array) -> Array:
    """Ends (n,), on the side of `low`, of brackets shrunk to rounding around a change of sign.

    ``function(rows, times)`` is not positive at `low` and positive, or NaN, at `high`; where the entry of `start` is
    negative it is the value at `low`. Secants (Illinois), with a halving every third time.
    """
    low, high = low.copy(), high.copy()
    rows = np.arange(len(low))
    at_low = np.where(start < 0.0, start, 0.0)
    known = start >= 0.0
    if known.any():
        at_low[known] = function(rows[known], low[known])
    at_high = function(rows, high)
    for step in range(MAX_ROOT_STEPS):
        width = high[rows] - low[rows]
        rows = rows[width > 2.0 * np.spacing(high[rows])]
        if not len(rows):
            break
        a, b = low[rows], high[rows]
        with np.errstate(all="ignore"):
            time = b - at_high[rows] * (b - a) / (at_high[rows] - at_low[rows])
        halve = ~((time > a) & (time < b)) | (step % 3 == 2)
        time[halve] = 0.5 * (a + b)[halve]
        # a secant that lands next to an end would leave the bracket wide
        least = np.spacing(b)
        time = np.clip(time, a + least, b - least)
        value = function(rows, time)
        inside = value <= 0.0
        r, s = rows[inside], rows[~inside]
        low[r], at_low[r] = time[inside], value[inside]
        high[s], at_high[s] = time[~inside], value[~inside]
        at_high[r] *= 0.5
        at_low[s] *= 0.5
    return low
