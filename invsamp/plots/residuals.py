"""Residuals of the data, their autocorrelation, and their quantiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtri

from invsamp.arguments import optional, text
from invsamp.plots.canvas import given_panel, new_figure
from invsamp.plots.data_layout import predicted_and_observed
from invsamp.plots.figure import COLD, FAINT, INK, MOST_PANELS, Run, clean, say_first, title
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array

#: Lags of the autocorrelation that are shown.
_LAGS = 40


def plot_residuals(
    run: Run,
    posterior: Posterior | None = None,
    x: npt.ArrayLike | None = None,
    x_label: str | None = None,
    series: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Residuals of the data in standard deviations, their autocorrelation, and their quantiles against the normal ones.

    A residual is the normal quantile of the share of predicted data, noise included, that lie below the datum. So noise
    of any kind and scale gives nearly independent standard normal residuals where the model fits. Their spread is a
    little smaller, because the parameters were fitted to the same data. A drift, a wave or a fan over x,
    autocorrelations beyond the band, or quantiles off the line show a misfit of the model. There is a row of panels for
    each of the first eight columns of the data, or members of a population.

    Parameters
    ----------
    run : Run
    posterior : Posterior, optional
        Needed unless `Run.posterior_predictive` has been called.
    x : array_like, shape (first axis of the data, of a population the second,), optional
        Where the data lie; by default the times, where the forward model knows them, else their numbers.
    x_label : str, optional
    series : sequence of str, optional
        Names of the data's columns; by default those that the posterior knows.
    ax : Axes, optional
        Where to draw the residuals of a single column over x, without the other two panels.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the run holds no data, there is neither a prediction nor a posterior to make one, ``x`` or ``series`` have
        the wrong length, or the data more than one column with ``ax``.
    """
    layout, predicted, observed = predicted_and_observed(run, posterior)
    known, names, count = layout.where(x), layout.names(series), min(layout.count, MOST_PANELS)
    where = np.arange(layout.rows, dtype=float) if known is None else known
    label = optional(text, "x_label", x_label) or layout.label(x)
    found = residuals(predicted, observed)
    if ax is not None:
        figure, (axes,) = given_panel(ax, layout.count)
        _over(axes, where, found[:, 0], "" if names is None else names[0])
        axes.set_xlabel(label, color=INK, fontsize=9)
        return figure
    figure = new_figure(9.6, 0.6 + 2.3 * count)
    panels = figure.subplots(count, 3, squeeze=False, width_ratios=(2, 1, 1))
    for k, (over, correlated, quantiles) in enumerate(panels):
        seen = found[:, k][np.isfinite(found[:, k])]
        _over(over, where, found[:, k], "" if names is None else names[k])
        _autocorrelation(correlated, seen)
        _quantiles(quantiles, seen)
    for axes, below in zip(panels[-1], (label, "lag", "normal quantile"), strict=True):
        axes.set_xlabel(below, color=INK, fontsize=9)
    say_first(figure, count, layout.count, "columns of the data", "")
    return figure


def _over(axes: Axes, where: Array, found: Array, name: str) -> None:
    """Residuals over x."""
    axes.axhline(0.0, color=FAINT, lw=0.8)
    axes.plot(where, found, "o", color=COLD, ms=3.5, mec="white", mew=0.5)
    axes.set_ylabel("residual / sd")
    if (where == np.rint(where)).all():
        axes.locator_params(axis="x", integer=True)
    clean(axes, grid=True)
    title(axes, f"residuals of {name}" if name else "residuals")


def residuals(predicted: Array, observed: Array) -> Array:
    """Normal quantiles of the shares of predictions below each datum.

    Parameters
    ----------
    predicted : ndarray, shape (draws, rows, columns)
        With noise; NaN where a solve failed.
    observed : ndarray, shape (rows, columns)
        NaN where there is no datum.

    Returns
    -------
    ndarray, shape (rows, columns)
        NaN where there is no datum or no prediction. Ties count half, as counts have them.
    """
    there = np.isfinite(predicted)
    below = ((predicted < observed) & there).sum(axis=0) + 0.5 * ((predicted == observed) & there).sum(axis=0)
    share = (below + 0.5) / (there.sum(axis=0) + 1.0)
    return np.where(np.isfinite(observed) & there.any(axis=0), ndtri(share), np.nan)


def _autocorrelation(axes: Axes, seen: Array) -> None:
    """Bars up to a quarter of the data, and the band that white residuals leave at one lag in twenty."""
    lags = min(_LAGS, len(seen) // 4)
    centered = seen - seen.mean() if len(seen) else seen
    power = float(centered @ centered)
    if lags and power > 0:
        values = np.array([centered[: len(centered) - lag] @ centered[lag:] for lag in range(1, lags + 1)]) / power
        axes.vlines(np.arange(1, lags + 1), 0.0, values, color=COLD, lw=2.0)
        band = 1.96 / np.sqrt(len(seen))
        axes.axhspan(-band, band, color=FAINT, alpha=0.25, lw=0)
    axes.axhline(0.0, color=FAINT, lw=0.8)
    axes.set_ylim(-1.0, 1.0)
    axes.set_xlim(0.0, max(lags, 4) + 1.0)
    axes.locator_params(axis="x", integer=True)
    clean(axes)
    title(axes, "autocorrelation")


def _quantiles(axes: Axes, seen: Array) -> None:
    expected = ndtri((np.arange(len(seen)) + 0.5) / max(1, len(seen)))
    ends = np.array([-1.0, 1.0]) * max(2.5, 1.1 * float(np.abs(seen).max(initial=0.0)))
    axes.plot(ends, ends, color=FAINT, lw=0.8)
    axes.plot(expected, np.sort(seen), "o", color=COLD, ms=3.5, mec="white", mew=0.5)
    clean(axes)
    title(axes, "quantiles")
