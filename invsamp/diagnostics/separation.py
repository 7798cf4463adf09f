"""Modes that draws show by themselves: one parameter lies on two sides of a gap, in shares that differ by chain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from invsamp.protocols import Array

#: Share of all draws that either side of a gap has at least.
LEAST_SHARE = 0.005
#: Width of a gap at least, in sds of the wider side.
WIDTH = 2.0


class Separation(NamedTuple):
    """Two groups of draws with nothing between them."""

    at: float  # the middle of the gap
    below: Array  # (chains,) share of each chain's draws that lie below


def separation(draws: Array) -> Separation | None:
    """Where the widest gap in draws (chains, draws) of one parameter separates two groups, if one does.

    Groups that overlap, or are connected by draws on their way, are none; their effect on chains shows in R-hat.
    """
    ordered = np.sort(draws, axis=None)
    margin = max(1, int(LEAST_SHARE * ordered.size))
    if not np.isfinite(ordered[[0, -1]]).all() or ordered.size < 4 * margin:
        return None
    gaps = np.diff(ordered[margin - 1 : ordered.size - margin + 1])
    k = margin + int(np.argmax(gaps))
    low, high = ordered[:k], ordered[k:]
    if not gaps.max() > WIDTH * max(low.std(), high.std()):
        return None
    at = 0.5 * float(low[-1] + high[0])
    return Separation(at, (draws < at).mean(axis=1))
