"""Statistics that say whether draws can be trusted: ESS, R-hat, MCSE, swap rates and round trips.

Distances to a known law (`invsamp.results.divergences`) are at hand here too.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, mapping, numbers, one_of, real
from invsamp.contract import Array
from invsamp.results import convergence
from invsamp.results.divergences import (
    divergence_on_grid,
    iid_floor,
    quantile_function,
    sliced_wasserstein,
    wasserstein,
)

__all__ = [
    "divergence_on_grid",
    "ess",
    "iid_floor",
    "load_arviz",
    "mcse",
    "quantile_function",
    "replica_paths",
    "rhat",
    "round_trips",
    "sliced_wasserstein",
    "statistics",
    "swap_rates",
    "wasserstein",
]

#: Draws that are taken together, of as many parameters as have them: what a processor keeps at hand.
_AT_ONCE = 2**16


def load_arviz() -> ModuleType:
    """ArviZ, imported on first use: it takes seconds, several times the rest of invsamp together."""
    with warnings.catch_warnings():
        # ArviZ announces its own refactoring once a day; that is no business of a person who runs a sampler
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
        try:
            import arviz
        except OSError:  # it writes down the day in the user's cache folder, and fails where there can be none
            with tempfile.TemporaryDirectory() as home, _environment(HOME=home, XDG_CACHE_HOME=home):
                import arviz
    return arviz


def ess(draws: Array, method: Literal["bulk", "mean", "tail"] = "bulk") -> Array:
    """Effective sample size, as arviz-stats has it.

    Parameters
    ----------
    draws : ndarray, shape (chains, draws, *shape)
    method : {"bulk", "mean", "tail"}
        Of the rank-normalised draws, of the draws as they are, or the smaller one of the indicators of the 5% and 95%
        quantiles.

    Returns
    -------
    ndarray, shape (*shape)
        NaN for fewer than 4 draws per chain, and where a draw is not finite.

    References
    ----------
    Vehtari et al. (2021), Bayesian Analysis 16(2), section 4.
    """
    kinds = {"bulk": convergence.ess_bulk, "mean": convergence.ess_mean, "tail": convergence.ess_tail}
    return _of_each(draws, kinds[one_of("method", method, kinds)])


def rhat(draws: Array) -> Array:
    """Rank-normalised split R-hat, the larger of its bulk and folded forms, as arviz-stats has it.

    Parameters
    ----------
    draws : ndarray, shape (chains, draws, *shape)

    Returns
    -------
    ndarray, shape (*shape)
        NaN for one chain, for fewer than 4 draws per chain, and where a draw is not finite or all have the same value.

    References
    ----------
    Vehtari et al. (2021), Bayesian Analysis 16(2), section 4.
    """
    return _of_each(draws, convergence.rhat_rank)


def mcse(
    draws: Array, method: Literal["mean", "sd", "median", "quantile"] = "mean", probability: float | None = None
) -> Array:
    """Monte Carlo standard error of an estimate from the draws, in the unit of the draws, by arviz-stats.

    Parameters
    ----------
    draws : ndarray, shape (chains, draws, *shape)
    method : {"mean", "sd", "median", "quantile"}
        The estimate.
    probability : float, in (0, 1), only for ``method="quantile"``
        Which quantile.

    Returns
    -------
    ndarray, shape (*shape)

    Raises
    ------
    ValueError
        If ``probability`` is missing or outside (0, 1) for a quantile, or given for anything else.
    """
    one_of("method", method, ("mean", "sd", "median", "quantile"))
    if method == "quantile":
        probability = real("probability", probability, above=0, below=1)
    if method != "quantile" and probability is not None:
        raise ValueError(f"probability is for method='quantile' only, got {probability} with method={method!r}")
    if method in ("mean", "sd"):
        return _of_each(draws, convergence.mcse_mean if method == "mean" else convergence.mcse_sd)
    # light, and without xarray: a run that keeps its draws on disk would double its memory by importing ArviZ
    from arviz_stats.base import array_stats

    def one_by_one(values: Array) -> Array:
        settings = {"chain_axis": 1, "draw_axis": 2, "method": method}
        return np.asarray(array_stats.mcse(values, **settings, prob=probability))

    return _of_each(draws, one_by_one)


def statistics(values: Array) -> dict[str, Array]:
    """What `invsamp.results.run.Run.summary` tells, each of shape (*shape), from draws (chains, draws, *shape)."""
    values = array("values", values, finite=False, nan=True)
    if values.ndim < 2:
        raise ValueError(f"values must have shape (chains, draws, *shape), got {values.shape}")
    shape = values.shape[2:]
    flat = np.ascontiguousarray(values.reshape(-1, math.prod(shape)).T)
    # by exact equality: rounding makes the sd of equal numbers small, not zero
    spread = np.full(len(flat), np.nan) if flat.shape[1] == 1 else flat.std(axis=1, ddof=1)
    found = {"mean": flat.mean(axis=1), "sd": np.where((flat == flat[:, :1]).all(axis=1), 0.0, spread)}
    found |= zip(("5%", "50%", "95%"), np.quantile(flat, (0.05, 0.5, 0.95), axis=1), strict=True)
    found |= zip(convergence.ERRORS, _of_each(values, convergence.errors).reshape(5, len(flat)), strict=True)
    return {name: value.reshape(shape) for name, value in found.items()}


def round_trips(path: npt.ArrayLike, rungs: int) -> int:
    """Number of round trips that replicas made through the ladder.

    A trip visits both ends of the ladder and returns to the end where it began, so it counts from the first
    end that a replica reaches: 0, 2, 0 is one trip on three rungs, 1, 2, 0, 2, 0 is one and a half, counted as one.

    Parameters
    ----------
    path : array_like of int, shape (steps,) or (steps, ...)
        The rung at which each replica sits after each step, 0 the coldest. Every further axis is one more replica.
    rungs : int
        Number of rungs of the ladder. One rung has no trips.

    Returns
    -------
    int
        Summed over the replicas.

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


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _of_each(draws: Array, statistic: Callable[[Array], Array]) -> Array:
    """A statistic (..., parameters) of draws (parameters, chains, draws) for every scalar, shape (..., *shape).

    NaN below 4 draws, and where a draw is not finite.
    """
    values = numbers("draws", draws)
    if values.ndim < 2:
        raise ValueError(f"draws must have shape (chains, draws, *shape), got {values.shape}")
    rows = np.moveaxis(values.reshape(*values.shape[:2], -1), 2, 0)
    some = max(1, _AT_ONCE // max(1, math.prod(values.shape[:2])))
    parts = [_of_some(rows[i : i + some], statistic) for i in range(0, len(rows), some)]
    found = np.concatenate(parts, axis=-1)
    return found.reshape((*found.shape[:-1], *values.shape[2:]))


def _of_some(rows: Array, statistic: Callable[[Array], Array]) -> Array:
    rows = np.ascontiguousarray(rows)
    finite = np.isfinite(rows).all(axis=(1, 2)) & (rows.shape[2] >= 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        # of nothing where there are too few draws, for the shape
        known = statistic(rows[finite] if rows.shape[2] >= 4 else np.empty((0, len(rows[0]), 4)))
    found = np.full((*known.shape[:-1], len(rows)), np.nan)
    found[..., finite] = known
    return found
