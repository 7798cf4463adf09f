"""Whether the model fits its data, by the misfit of the draws and by what the noise would give."""

from __future__ import annotations

import numpy as np

from invsamp.diagnostics import convergence
from invsamp.diagnostics.limits import APART_LIMIT
from invsamp.diagnostics.report import Misfit
from invsamp.protocols import Array
from invsamp.warning_codes import coded


def fit_warnings(misfit: Array, weight: Array | None, noise: Misfit, ensemble_size: int = 1) -> list[str]:
    """That the model does not fit its data, or fits them better than noise as stated allows; else nothing.

    A right model is warned of in less than one run in 1,000, whatever the prior and the number of data
    (`invsamp.posing.noise.expected_misfit`). The half of a chain that speaks for the model decides.

    Parameters
    ----------
    misfit : ndarray, shape (chains, draws)
        Of the cold rung's draws.
    weight : ndarray, shape (chains, draws), optional
    noise : mapping
        Fields of `invsamp.protocols.ExpectedMisfit`.
    ensemble_size : int
        As for `invsamp.diagnostics.rhat`.
    """
    half = misfit.shape[1] // 2
    if half < 2 or not np.isfinite(misfit).all():
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        if convergence.rhat_rank(misfit[None], weight, ensemble_size)[0] > APART_LIMIT:
            return []
    shares = np.ones(misfit.shape) if weight is None else weight
    above, halves = misfit - noise["least"], (slice(half), slice(-half, None))
    total, mass = (np.stack([v[:, part].sum(axis=1) for part in halves]) for v in (shares * above, shares))
    if not (mass > 0.0).all():
        return []
    means = total / mass
    ordinary = (
        f"where {noise['data']} data with noise as it is stated give {noise['mean']:.3g} with a standard deviation of "
        f"{noise['sd']:.2g}"
    )
    if means.min() > noise["high"]:
        return [
            coded(
                "IV-MISFIT",
                f"the model does not fit its data: their misfit is {means.mean():.3g} on average over the draws, "
                f"{means.mean() / noise['mean']:.2g} times as much as it should be, {ordinary}. The noise's scale is "
                "too small, or the model is wrong, or the prior keeps the parameters from where it would be right. "
                "Look at plot_predictive(); a scale can be left unknown, as a parameter.",
            )
        ]
    if means.max() < noise["low"]:
        return [
            coded(
                "IV-OVERFIT",
                f"the model fits its data too well: their misfit is {means.mean():.3g} on average over the draws, "
                f"{means.mean() / noise['mean']:.2g} times as much as it should be, {ordinary}. The noise's scale is "
                "too large, so that the posterior is too wide, or the data are not independent (smoothed, or made "
                "without noise).",
            )
        ]
    return []
