"""Statistics of draws that say whether they can be trusted: ESS, R-hat, MCSE."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, numbers, one_of, real
from invsamp.diagnostics import convergence, weights
from invsamp.diagnostics.tails import TAIL_SHAPES
from invsamp.protocols import Array

#: Draws that are taken together, of as many parameters as have them: as fit into a processor's cache.
_AT_ONCE = 2**16


def ess(
    draws: Array,
    method: Literal["bulk", "mean", "tail"] = "bulk",
    log_weight: npt.ArrayLike | None = None,
    ensemble_size: int = 1,
) -> Array:
    """Effective sample size, as arviz-stats has it.

    Parameters
    ----------
    draws : ndarray, shape (chains, draws, *shape)
    method : {"bulk", "mean", "tail"}
        Of the rank-normalized draws, of the draws as they are, or the smaller one of the indicators of the 5% and 95%
        quantiles.
    log_weight : array_like, shape (chains, draws), optional
        Logs of the draws' weights, unnormalized, -inf for a draw of no weight. The size is then that of weighted means,
        autocorrelation included: the number of independent draws of the weighted distribution with as small an error.
    ensemble_size : int
        Chains that depend on each other, in blocks: each ensemble counts as one chain (`Kernel.ensemble_size`).

    Returns
    -------
    ndarray, shape (*shape)
        NaN for fewer than 4 draws per chain, and where a draw is not finite.

    References
    ----------
    Vehtari et al. (2021), Bayesian Analysis 16(2), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))  # chains, draws
    >>> bool(1500 < iv.diagnostics.ess(draws) < 2500)
    True
    """
    kinds = {"bulk": convergence.ess_bulk, "mean": convergence.ess_mean, "tail": convergence.ess_tail}
    return _statistic(draws, log_weight, ensemble_size, kinds[one_of("method", method, kinds)])


def rhat(draws: Array, log_weight: npt.ArrayLike | None = None, ensemble_size: int = 1) -> Array:
    """Rank-normalized split R-hat, the larger of its bulk and folded forms, as arviz-stats has it.

    Parameters
    ----------
    draws : ndarray, shape (chains, draws, *shape)
    log_weight : array_like, shape (chains, draws), optional
        As for `ess`. R-hat is then the larger one of the weighted draws and of the draws without their weights.
    ensemble_size : int
        As for `ess`.

    Returns
    -------
    ndarray, shape (*shape)
        NaN for one chain or ensemble, for fewer than 4 draws per chain, and where a draw is not finite or all have the
        same value.

    References
    ----------
    Vehtari et al. (2021), Bayesian Analysis 16(2), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(iv.diagnostics.rhat(draws) < 1.01)
    True
    >>> draws[0] += 1.0  # a chain that sits elsewhere
    >>> bool(iv.diagnostics.rhat(draws) > 1.1)
    True
    """
    return _statistic(draws, log_weight, ensemble_size, convergence.rhat_rank)


def mcse(
    draws: Array,
    method: Literal["mean", "sd", "median", "quantile"] = "mean",
    probability: float | None = None,
    log_weight: npt.ArrayLike | None = None,
    ensemble_size: int = 1,
) -> Array:
    """Monte Carlo standard error of an estimate from the draws, in the unit of the draws.

    As arviz-stats has it, but for that of the sd, which does not take the draws to be normal (nor does R's posterior).

    Parameters
    ----------
    draws : ndarray, shape (chains, draws, *shape)
    method : {"mean", "sd", "median", "quantile"}
        The estimate.
    probability : float, in (0, 1), only for ``method="quantile"``
        Which quantile.
    log_weight : array_like, shape (chains, draws), optional
    ensemble_size : int
        As for `ess`.

    Returns
    -------
    ndarray, shape (*shape)

    Raises
    ------
    ValueError
        If ``probability`` is missing or outside (0, 1) for a quantile, or given for anything else.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> float(iv.diagnostics.mcse(draws).round(3))  # about 1 / sqrt(2000)
    0.022
    """
    one_of("method", method, ("mean", "sd", "median", "quantile"))
    if method == "quantile":
        probability = real("probability", probability, above=0, below=1)
    elif probability is not None:
        raise ValueError(f"probability is for method='quantile' only, got {probability} with method={method!r}")
    if method in ("mean", "sd"):
        statistic = convergence.mcse_mean if method == "mean" else convergence.mcse_sd
        return _statistic(draws, log_weight, ensemble_size, statistic)
    at = 0.5 if probability is None else probability
    return _statistic(draws, log_weight, ensemble_size, partial(convergence.mcse_quantile, probability=at))


def statistics(values: Array, log_weight: npt.ArrayLike | None = None, ensemble_size: int = 1) -> dict[str, Array]:
    """The statistics of `invsamp.results.run.Run.summary`, each of shape (*shape), from draws (chains, draws, *shape).

    ``log_weight`` and ``ensemble_size`` are as for `ess`.

    Raises
    ------
    ValueError
        If ``values`` has fewer than two axes.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> sorted(iv.diagnostics.statistics(draws))
    ['5%', '50%', '95%', 'ess_bulk', 'ess_tail', 'mcse_mean', 'mcse_sd', 'mean', 'r_hat', 'sd']
    """
    values = _checked("values", array("values", values, finite=False, nan=True))
    found = table(values, *_weight_and_size(values, log_weight, ensemble_size))
    return {name: value for name, value in found.items() if name not in TAIL_SHAPES}


def table(values: Array, weight: Array | None, size: int = 1) -> dict[str, Array]:
    """`statistics` and shapes of tails, of draws whose weights (chains, draws) have mean 1; NaN where these are NaN."""
    shape = values.shape[2:]
    flat = np.ascontiguousarray(values.reshape(-1, math.prod(shape)).T)
    # by exact equality: rounding makes the sd of equal numbers small, not zero
    spread = np.full(len(flat), np.nan) if flat.shape[1] == 1 else weights.sd(flat, weight)
    found = {"mean": weights.mean(flat, weight), "sd": np.where((flat == flat[:, :1]).all(axis=1), 0.0, spread)}
    found |= zip(("5%", "50%", "95%"), weights.quantiles(flat, weight, (0.05, 0.5, 0.95)), strict=True)
    sampling_errors = _of_each(values, partial(convergence.errors, size=size), weight)
    found |= zip(convergence.ERRORS, sampling_errors.reshape(-1, len(flat)), strict=True)
    return {name: value.reshape(shape) for name, value in found.items()}


def _checked(name: str, values: Array) -> Array:
    if values.ndim < 2:
        raise ValueError(f"{name} must have shape (chains, draws, *shape), got {values.shape}")
    return values


def _weight_and_size(values: Array, log_weight: npt.ArrayLike | None, ensemble_size: int) -> tuple[Array | None, int]:
    size = convergence.ensemble_of("ensemble_size", ensemble_size, len(values))
    if log_weight is None:
        return None, size
    return weights.normalized(weights.checked("log_weight", log_weight, values.shape[:2])), size


def _statistic(
    draws: npt.ArrayLike, log_weight: npt.ArrayLike | None, ensemble_size: int, statistic: Callable[..., Array]
) -> Array:
    """A statistic of draws (chains, draws, *shape) for every scalar, (*shape), with checked arguments."""
    values = _checked("draws", numbers("draws", draws))
    weight, size = _weight_and_size(values, log_weight, ensemble_size)
    return _of_each(values, partial(statistic, size=size), weight)


def _of_each(values: Array, statistic: Callable[[Array, Array | None], Array], weight: Array | None) -> Array:
    """A statistic (..., parameters) of draws (parameters, chains, draws) for every scalar, shape (..., *shape).

    NaN below 4 draws, and where a draw is not finite.
    """
    rows = np.moveaxis(values.reshape(*values.shape[:2], -1), 2, 0)
    some = max(1, _AT_ONCE // max(1, math.prod(values.shape[:2])))
    parts = [_of_some(rows[i : i + some], statistic, weight) for i in range(0, len(rows), some)]
    found = np.concatenate(parts, axis=-1)
    return found.reshape((*found.shape[:-1], *values.shape[2:]))


def _of_some(rows: Array, statistic: Callable[[Array, Array | None], Array], weight: Array | None) -> Array:
    rows = np.ascontiguousarray(rows)
    finite = np.isfinite(rows).all(axis=(1, 2)) & (rows.shape[2] >= 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        # of nothing where there are too few draws, for the shape
        few = rows.shape[2] < 4
        known = statistic(np.empty((0, len(rows[0]), 4)), None) if few else statistic(rows[finite], weight)
    found = np.full((*known.shape[:-1], len(rows)), np.nan)
    found[..., finite] = known
    return found
