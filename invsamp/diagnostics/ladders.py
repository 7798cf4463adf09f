"""Statistics of a ladder: swap rates, round trips, the paths of its walkers."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, mapping, numbers, one_of
from invsamp.diagnostics.report import Report
from invsamp.protocols import Array

#: Where a round trip begins: at the first end that a walker reaches, at the coldest rung, or where the walker starts.
Origin = Literal["end", "coldest", "start"]
ORIGINS: tuple[Origin, ...] = ("end", "coldest", "start")


def round_trips(path: npt.ArrayLike, rungs: int, origin: Origin = "end") -> int:
    """Number of round trips that walkers made through the ladder.

    A trip visits both ends of the ladder and returns to the end where it began. So counting starts at the first end
    that a walker reaches. With three rungs, 0, 2, 0 is one trip; 1, 2, 0, 2, 0 is one and a half, counted as one.

    Parameters
    ----------
    path : array_like of int, shape (steps,) or (steps, ...)
        The rung at which each walker sits after each step, 0 the coldest. Every further axis is one more walker.
    rungs : int
        Number of rungs of the ladder. One rung has no trips.
    origin : "end", "coldest" or "start"
        "coldest": trips are from the coldest rung to the hottest and back, those whose mean time formulas give.
        "start": as some programs count, of walkers that visit both ends in any order and come back to the rung where
        the count began; mostly 1 to 20% more than the other two.

    Returns
    -------
    int
        Summed over the walkers.

    Raises
    ------
    ValueError
        If ``rungs`` < 1, the path leaves 0 .. rungs - 1, or the origin is unknown.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.diagnostics.round_trips([0, 1, 2, 1, 0, 1, 2, 1, 0], rungs=3)
    2
    """
    rungs, at = _path(path, rungs)
    one_of("origin", origin, ORIGINS)
    if rungs == 1 or not at.size:
        return 0
    replica_indices = at.reshape(len(at), -1).T
    return sum(
        _returns(replica, rungs) if origin == "start" else _trips(replica, rungs, origin) for replica in replica_indices
    )


def passage_times(path: npt.ArrayLike, rungs: int) -> tuple[float, float]:
    """Mean steps that walkers take from the coldest rung to the hottest, and from the hottest to the coldest.

    A passage begins at the first visit of one end after the other, so that their sum is the mean time of a round trip.

    Parameters
    ----------
    path, rungs
        As of `round_trips`.

    Returns
    -------
    up, down : float
        NaN where no passage was made.

    Raises
    ------
    ValueError
        As `round_trips`.

    Examples
    --------
    >>> import invsamp as iv
    >>> up, down = iv.diagnostics.passage_times([0, 1, 2, 1, 0], rungs=3)
    >>> float(up), float(down)
    (2.0, 2.0)
    """
    rungs, at = _path(path, rungs)
    found: tuple[list[int], list[int]] = [], []
    for replica in at.reshape(len(at), -1).T if rungs > 1 else ():
        times = np.flatnonzero((replica == 0) | (replica == rungs - 1))
        ends = replica[times]
        first = np.flatnonzero(np.diff(ends, prepend=-1))
        for before, after in itertools.pairwise(first.tolist()):
            found[int(ends[before] > 0)].append(int(times[after] - times[before]))
    up, down = (float(np.mean(times)) if times else math.nan for times in found)
    return up, down


def _path(path: npt.ArrayLike, rungs: int) -> tuple[int, npt.NDArray[np.int64]]:
    rungs = integer("rungs", rungs, least=1)
    steps = array("path", path, whole=True, empty=True).astype(int)
    if steps.ndim < 1:
        raise ValueError(f"path must have the steps as its first axis, got {steps}")
    if steps.size and (steps.min() < 0 or steps.max() >= rungs):
        raise ValueError(f"path must stay in 0..{rungs - 1}, got values from {steps.min()} to {steps.max()}")
    return rungs, steps


def _trips(replica: npt.NDArray[np.int64], rungs: int, origin: Origin) -> int:
    ends = replica[(replica == 0) | (replica == rungs - 1)]
    if origin == "coldest":
        ends = ends[np.argmax(ends == 0) :] if (ends == 0).any() else ends[:0]
    return int(np.count_nonzero(np.diff(ends))) // 2


def _returns(replica: npt.NDArray[np.int64], rungs: int) -> int:
    total, seen = 0, set[int]()
    for rung in replica[1:].tolist():
        if rung in (0, rungs - 1):
            seen.add(rung)
        if rung == replica[0] and len(seen) == 2:
            total, seen = total + 1, set[int]()
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

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> replica = np.array([[[0, 1, 1]], [[1, 0, 0]]])  # rungs, chains, draws: the replica on each rung
    >>> iv.diagnostics.replica_paths(replica).shape
    (3, 2, 1)
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


def swap_rates(report: Report) -> Array:
    """Fraction of the tried swaps that were accepted, shape (rungs - 1,); NaN where none was tried.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.diagnostics.swap_rates({"swap_attempts": [200], "swap_accepts": [50]})
    array([0.25])
    """
    counts = mapping("report", report, "the report of a run")
    attempts = numbers("swap_attempts of report", counts.get("swap_attempts") or [])
    accepts = numbers("swap_accepts of report", counts.get("swap_accepts") or [])
    return np.divide(accepts, attempts, out=np.full(attempts.shape, np.nan), where=attempts > 0)


def target_labels(report: Report) -> list[str]:
    """The target of each rung, from cold to hot, as "T = 4"; empty where a run does not state it."""
    return list(report.get("targets") or []) or [f"T = {value:.3g}" for value in report.get("temperatures") or []]
