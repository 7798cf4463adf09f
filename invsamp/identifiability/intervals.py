"""Where a profile is below a level: on each of its branches, and on all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from invsamp.protocols import Array


class Interval(NamedTuple):
    """Of a parameter: where its profile is less than the level's rise above its least value."""

    low: float
    high: float
    low_end: str  # "reached", "bound", "open" or "failed": only "reached" is a bound that the data set
    high_end: str


@dataclass(frozen=True)
class Branch:
    """The profile as it was followed from one mode.

    Attributes
    ----------
    values, energies : ndarray, shape (n,)
        Of the parameter, from low to high, and the least energy that was found at each.
    theta : ndarray, shape (n, d)
        All parameters there.
    ends : tuple of str
        How the profile ended below and above. "reached": at the rise that was asked for. "bound": at a bound of the
        domain. "open": it stays low as far as it was followed. "failed": fits did not converge.
    """

    values: Array
    energies: Array
    theta: Array
    ends: tuple[str, str]

    def intervals(self, most: float) -> list[Interval]:
        """Where the energy is at most so high."""
        inside = np.concatenate([[False], self.energies <= most, [False]])
        firsts, lasts = np.flatnonzero(inside[1:] & ~inside[:-1]), np.flatnonzero(inside[:-1] & ~inside[1:]) - 1
        found = []
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            low, low_end = self._end(first, -1, most)
            high, high_end = self._end(last, 1, most)
            found.append(Interval(low, high, low_end, high_end))
        return found

    def _end(self, j: int, step: int, most: float) -> tuple[float, str]:
        """Where it passes the level beyond its j-th point: the root of the rise is a straight line between points."""
        if not 0 <= j + step < len(self.values):
            return float(self.values[j]), self.ends[step > 0]
        least = self.energies.min()
        root = np.sqrt(2.0 * (self.energies[[j, j + step]] - least))
        share = (np.sqrt(2.0 * (most - least)) - root[0]) / (root[1] - root[0])
        return float(self.values[j] + share * (self.values[j + step] - self.values[j])), "reached"


def union(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Those that overlap joined, from low to high."""
    found: list[Interval] = []
    for one in sorted(intervals):
        if found and one.low <= found[-1].high:
            farther = max(found[-1], one, key=lambda each: each.high)
            found[-1] = found[-1]._replace(high=farther.high, high_end=farther.high_end)
        else:
            found.append(one)
    return tuple(found)
