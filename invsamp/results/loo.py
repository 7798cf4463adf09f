"""Leave-one-out cross-validation of draws with or without weights, by importance sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from invsamp.diagnostics.convergence import ess_mean
from invsamp.protocols import Array, InferenceData
from invsamp.storage import arviz_data

if TYPE_CHECKING:
    import xarray as xr


def leave_one_out(data: InferenceData, weight: Array | None, theta: Array) -> InferenceData:
    r"""Pareto-smoothed importance sampling of the expected log predictive density, as `arviz.loo` has it, for weights.

    Draws of weight w stand for the posterior, so those that leave out datum i have the weights
    :math:`w / p(y_i \mid \theta)`, whose tail is smoothed as a whole. Entries without information, with a log
    likelihood of 0 at all draws, are left out: missing data, and of several categories those that were not seen.

    Parameters
    ----------
    data : arviz.InferenceData or xarray.DataTree
        With the group ``log_likelihood``.
    weight : ndarray, shape (chains, draws), or None
    theta : ndarray, shape (chains, draws, d)
        For the mean efficiency of the draws, which says how long the tails are.

    Returns
    -------
    ELPDData of ArviZ
        Pointwise: with ``elpd_i`` (``loo_i`` before ArviZ 1) and ``pareto_k``, in the data's shape, or in a row where
        entries were left out, with their places among all data (in C order) as the coordinate ``datum``.

    References
    ----------
    Vehtari, Gelman and Gabry (2017), Statistics and Computing 27, 1413-1432.
    """
    values = data.log_likelihood["data"]
    if values.ndim < 3:
        raise ValueError(
            "posterior must give the log likelihood of each datum for cross-validation, got one number for all: "
            "LogDensity(function, gradient, data=...) gives each"
        )
    informative = _informative(values)
    if weight is None:
        draws = arviz_data.dataset(data, "posterior")
        return arviz_data.cross_validation(draws, informative.to_dataset(name="data"))
    n = weight.size
    some = weight.ravel() > 0.0
    terms = informative.to_numpy().reshape(n, -1)[some].T  # (data, draws of some weight)
    log_weight = np.log(weight.ravel()[some] / weight.sum())
    efficiency = float(np.mean(ess_mean(np.moveaxis(theta, 2, 0), weight))) / n if len(weight) > 1 else 1.0
    smoothed, tail = arviz_data.smoothed_weights(log_weight - terms, efficiency)
    pointwise = logsumexp(smoothed + terms, axis=1)
    total = float(pointwise.sum())
    all_in = float(logsumexp(terms + log_weight, axis=1).sum())
    good = min(1.0 - 1.0 / np.log10(n), 0.7)
    like = informative.isel(chain=0, draw=0, drop=True)
    found = {
        "elpd": total,
        "se": arviz_data.standard_error(pointwise),
        "p": all_in - total,
        "n_samples": n,
        "n_data_points": len(pointwise),
        "warning": bool((tail > good).any()),
        "elpd_i": like.copy(data=pointwise.reshape(like.shape)).rename("elpd_i"),
        "pareto_k": like.copy(data=np.reshape(tail, like.shape)).rename("pareto_shape"),
        "scale": "log",
        "good_k": good,
    }
    return arviz_data.cross_validated(found)


def _informative(values: xr.DataArray) -> xr.DataArray:
    """Log likelihoods (chain, draw, *shape of the data) of the informative entries, in a row if not all do."""
    import xarray as xr

    rows = values.to_numpy().reshape(*values.shape[:2], -1)
    kept = np.flatnonzero((rows != 0.0).any(axis=(0, 1)))
    if len(kept) in (0, rows.shape[2]):
        return values
    where = {"chain": values["chain"], "draw": values["draw"], "datum": kept}
    return xr.DataArray(rows[:, :, kept], coords=where, dims=("chain", "draw", "datum"))
