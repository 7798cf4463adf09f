"""Whether the model fits its data: the misfit of the draws, compared with the misfit that the noise gives."""

from __future__ import annotations

import numpy as np

from invsamp.diagnostics import convergence
from invsamp.diagnostics.limits import APART_LIMIT
from invsamp.diagnostics.report import Misfit
from invsamp.protocols import Array
from invsamp.warning_codes import coded


def fit_warnings(misfit: Array, weight: Array | None, noise: Misfit, ensemble_size: int = 1) -> list[str]:
    """The warning that the model does not fit its data, or fits them better than the stated noise allows; else none.

    If the model is correct, it is raised in fewer than one run in 1,000, for any prior and number of data
    (`invsamp.posing.noise.expected_misfit`). Both halves of the chains have to show it.

    Parameters
    ----------
    misfit : ndarray, shape (chains, draws)
        Misfits of the cold rung's draws.
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
        f"{means.mean() / noise['mean']:.2g} times the expected value. With the stated noise, {noise['data']} data "
        f"give {noise['mean']:.3g} with a standard deviation of {noise['sd']:.2g}."
    )
    if means.min() > noise["high"]:
        return [
            coded(
                "IV-MISFIT",
                f"the model does not fit its data: their misfit is {means.mean():.3g} on average over the draws. "
                f"This is {ordinary} The noise's scale is too small, the model is wrong, or the prior excludes the "
                "right parameters. Look at plot_predictive(), or make the scale of the noise an unknown parameter.",
            )
        ]
    if means.max() < noise["low"]:
        return [
            coded(
                "IV-OVERFIT",
                f"the model fits its data too well: their misfit is {means.mean():.3g} on average over the draws. "
                f"This is {ordinary} The noise's scale is too large, so the posterior is too wide, or the data are not "
                "independent (smoothed, or made without noise).",
            )
        ]
    return []
