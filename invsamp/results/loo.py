"""Leave-one-out cross-validation of draws with or without weights, by importance sampling."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from invsamp.contract import Array, InferenceData
from invsamp.diagnostics.convergence import ess_mean
from invsamp.storage.arviz_import import load_arviz


def leave_one_out(data: InferenceData, weight: Array | None, theta: Array) -> InferenceData:
    r"""Pareto-smoothed importance sampling of the expected log predictive density, as `arviz.loo` has it, for weights.

    Draws of weight w stand for the posterior, so those that leave out datum i have the weights
    :math:`w / p(y_i \mid \theta)`, whose tail is smoothed as a whole.

    Parameters
    ----------
    data : arviz.InferenceData
        With the group ``log_likelihood``.
    weight : ndarray, shape (chains, draws), or None
    theta : ndarray, shape (chains, draws, d)
        For the mean efficiency of the draws, which says how long the tails are.

    Returns
    -------
    arviz.stats.stats_utils.ELPDData
        Pointwise: with ``loo_i`` and ``pareto_k``.

    References
    ----------
    Vehtari, Gelman and Gabry (2017), Statistics and Computing 27, 1413-1432.
    """
    import xarray as xr

    if data.log_likelihood["data"].ndim < 3:
        raise ValueError(
            "posterior must tell the log likelihood of each datum for cross-validation, got one number for all: "
            "LogDensity(function, gradient, data=...) tells of each"
        )
    arviz = load_arviz()
    if weight is None:
        return arviz.loo(data, var_name="data", pointwise=True)
    from arviz.stats.stats_utils import ELPDData

    log_likelihood, n = data.log_likelihood["data"].to_numpy(), weight.size
    shape = log_likelihood.shape[2:]
    some = weight.ravel() > 0.0
    terms = log_likelihood.reshape(n, -1)[some].T  # (data, draws of some weight)
    log_weight = np.log(weight.ravel()[some] / weight.sum())
    efficiency = float(np.mean(ess_mean(np.moveaxis(theta, 2, 0), weight))) / n if len(weight) > 1 else 1.0
    smoothed, tail = arviz.psislw(log_weight - terms, efficiency)
    pointwise = logsumexp(smoothed + terms, axis=1)
    total = float(pointwise.sum())
    all_in = float(logsumexp(terms + log_weight, axis=1).sum())
    good = min(1.0 - 1.0 / np.log10(n), 0.7)
    dimensions = [f"data_dim_{axis}" for axis in range(len(shape))]
    values = {
        "elpd_loo": total,
        "se": float(np.sqrt(len(pointwise) * np.var(pointwise))),
        "p_loo": all_in - total,
        "n_samples": n,
        "n_data_points": len(pointwise),
        "warning": bool((tail > good).any()),
        "loo_i": xr.DataArray(pointwise.reshape(shape), dims=dimensions, name="loo_i"),
        "pareto_k": xr.DataArray(np.reshape(tail, shape), dims=dimensions, name="pareto_shape"),
        "scale": "log",
        "good_k": good,
    }
    return ELPDData(data=list(values.values()), index=list(values))
