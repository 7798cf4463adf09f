"""Statistics of a ladder: swap rates, round trips, the paths of its walkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, mapping, numbers
from invsamp.contract import Array


def round_trips(path: npt.ArrayLike, rungs: int) -> int:
    """Number of round trips that walkers made through the ladder.

    A trip visits both ends of the ladder and returns to the end where it began, so it counts from the first
    end that a walker reaches: 0, 2, 0 is one trip on three rungs, 1, 2, 0, 2, 0 is one and a half, counted as one.

    Parameters
    ----------
    path : array_like of int, shape (steps,) or (steps, ...)
        The rung at which each walker sits after each step, 0 the coldest. Every further axis is one more walker.
    rungs : int
        Number of rungs of the ladder. One rung has no trips.

    Returns
    -------
    int
        Summed over the walkers.

    Raises
    ------
    ValueError
        If ``rungs`` < 1 or the path leaves 0 .. rungs - 1.
    """
    rungs = integer("rungs", rungs, least=1)
    steps = array("path", path, whole=True, empty=True).astype(int)
    if steps.ndim < 1:
        raise ValueError(f"path must have the steps as its first axis, got {steps}")
    if steps.size and (steps.min() < 0 or steps.max() >= rungs):
        raise ValueError(f"path must stay in 0..{rungs - 1}, got values from {steps.min()} to {steps.max()}")
    if rungs == 1 or not steps.size:
        return 0
    total = 0
    for replica in steps.reshape(len(steps), -1).T:
        ends = replica[(replica == 0) | (replica == rungs - 1)]
        total += int(np.count_nonzero(np.diff(ends))) // 2
    return total


def replica_paths(replica: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Turn "which replica sits at each rung" into "at which rung each replica sits".

    Parameters
    ----------
    replica : array_like of int, shape (rungs, chains, draws)
        Number of the replica at each rung: a permutation of 0 .. rungs - 1 in every chain and draw.

    Returns
    -------
    ndarray of int, shape (draws, rungs, chains)
        Rung of each replica, steps first as `round_trips` takes it. Draws that were thinned may miss trips.

    Raises
    ------
    ValueError
        If some draw is no permutation of 0 .. rungs - 1.
    """
    at_rung = array("replica", replica, ("rungs", "chains", "draws"), whole=True).astype(int)
    order = np.arange(len(at_rung))[:, None, None]
    wrong = (np.sort(at_rung, axis=0) != order).any(axis=0)
    if wrong.any():
        chain, draw = np.argwhere(wrong)[0]
        raise ValueError(
            f"replica must hold every number 0..{len(at_rung) - 1} once per draw, "
            f"got {at_rung[:, chain, draw].tolist()} at chain {chain}, draw {draw}"
        )
    return np.moveaxis(np.argsort(at_rung, axis=0), -1, 0)


def swap_rates(report: Mapping[str, Any]) -> Array:
    """Fraction of the tried swaps that were accepted, shape (rungs - 1,); NaN where none was tried."""
    counts = mapping("report", report, "the report of a run")
    attempts = numbers("swap_attempts of report", counts.get("swap_attempts") or [])
    accepts = numbers("swap_accepts of report", counts.get("swap_accepts") or [])
    return np.divide(accepts, attempts, out=np.full(attempts.shape, np.nan), where=attempts > 0)


def law_labels(report: Mapping[str, Any]) -> list[str]:
    """What each rung samples, from cold to hot, as "T = 4"; empty where a run does not say."""
    return list(report.get("laws") or []) or [f"T = {value:.3g}" for value in report.get("temperatures") or []]
