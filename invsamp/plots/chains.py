"""Figures of the draws of a run: traces, marginals, predictions over the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from invsamp import arguments
from invsamp.arguments import array, optional, text
from invsamp.contract import Array
from invsamp.diagnostics.weights import quantiles
from invsamp.names import check_predicts
from invsamp.plots.figure import (
    COLD,
    CYCLE,
    FAINT,
    INK,
    TRUTH,
    Run,
    bins_of,
    checked_run,
    clean,
    columns,
    finite,
    histogram,
    new_figure,
    title,
    truth_legend,
    truth_of,
)
from invsamp.posing.posterior import Posterior

#: Points per chain that a trace draws; more only make the file large.
_TRACE_POINTS = 4000
#: Marginals in a row.
_ACROSS = 4


def plot_trace(run: Run, names: Sequence[str] | None = None) -> Figure:
    """Draws of every chain in order, as they were made, beside each chain's density, by its weights if it has some.

    Parameters
    ----------
    run : Run
    names : sequence of str, optional
        Parameters or single entries; by default the first eight.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name is unknown or there are more than eight entries.
    """
    shown = columns(run, names)
    theta, weight, summary = run.theta, run.weights, run.summary()
    figure = new_figure(9.0, 0.5 + 1.6 * len(shown))
    panels = figure.subplots(len(shown), 2, squeeze=False, sharey="row", width_ratios=(4, 1))
    stride = -(-theta.shape[1] // _TRACE_POINTS)
    for (line, density), (column, label) in zip(panels, shown, strict=True):
        for chain, values in enumerate(theta[:, :, column]):
            color = CYCLE[chain % len(CYCLE)]
            line.plot(
                np.arange(0, len(values), stride), values[::stride], color=color, lw=0.5, alpha=0.75, rasterized=True
            )
            kept, shares = finite(values, None if weight is None else weight[chain])
            heights, edges = np.histogram(kept, bins_of(kept, shares, 0.8), density=True, weights=shares)
            density.stairs(heights, edges, orientation="horizontal", baseline=None, color=color, lw=1.2)
        clean(line, grid=True)
        clean(density).set_xticks([])
        density.spines["bottom"].set_visible(False)
        line.set_xlim(0, max(theta.shape[1] - 1, 1))
        line.tick_params(labelbottom=line is panels[-1, 0])
        row = summary.iloc[column]
        title(line, label)
        note = f"R-hat {row['r_hat']:.3f}   ESS {row['ess_bulk']:.0f}"
        line.set_title(note, loc="right", fontsize=8, color=FAINT)
    panels[-1, 0].set_xlabel("draw", color=INK, fontsize=9)
    return figure


def plot_marginals(
    run: Run,
    truth: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    truth_label: str = "truth",
) -> Figure:
    """Density of every parameter, with its median and its central 90% interval.

    Parameters
    ----------
    run : Run
    truth : mapping of names to values, optional
        Drawn as dashed lines.
    names : sequence of str, optional
        Parameters or single entries; by default the first eight.
    truth_label : str
        What the dashed lines are, where they are no truth but a reference, say.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name is unknown, a true value has the wrong shape, or there are more than eight entries.
    """
    shown, true, weight = columns(run, names), truth_of(run, truth), run.weights
    text("truth_label", truth_label)
    across = min(_ACROSS, len(shown))
    down = -(-len(shown) // across)
    figure = new_figure(2.7 * across + 0.4, 2.1 * down + 0.35)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes, (column, label) in zip(panels, shown, strict=False):
        values, shares = finite(run.theta[:, :, column], weight)
        histogram(axes, values, shares, COLD)
        low, median, high = quantiles(values[None], shares, (0.05, 0.5, 0.95))[:, 0]
        bar = axes.get_xaxis_transform()
        axes.plot([low, high], [0.0, 0.0], transform=bar, color=INK, lw=3, solid_capstyle="butt", clip_on=False)
        axes.plot(median, 0.0, "o", transform=bar, color="white", mec=INK, ms=5.5, clip_on=False, zorder=5)
        axes.locator_params(axis="x", nbins=4)
        if label in true:
            axes.axvline(true[label], color=TRUTH, lw=1.6, ls=(0, (4, 2)))
        clean(axes, yticks=False).set_ylim(bottom=0)
        title(axes, label)
        axes.set_title(f"{median:#.3g}  [{low:#.3g}, {high:#.3g}]", loc="right", fontsize=8, color=FAINT)
    if true:
        truth_legend(figure, "outside lower right", truth_label, ls=(0, (4, 2)), lw=1.6)
    return figure


def plot_predictive(
    run: Run,
    posterior: Posterior | None = None,
    x: npt.ArrayLike | None = None,
    x_label: str | None = None,
    series: Sequence[str] | None = None,
) -> Figure:
    """Predicted data, with noise, over the observed data: median, central 50% and 90%.

    Parameters
    ----------
    run : Run
    posterior : Posterior, optional
        Needed unless `Run.posterior_predictive` has been called.
    x : array_like, shape (first axis of the data,), optional
        Where the data lie, for bands over x (times, places on a line). By default each datum is a bar of its own.
    x_label : str, optional
    series : sequence of str, optional
        Names of the data's columns (data of shape (m, k) give k panels).

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the run holds no data, there is neither a prediction nor a posterior to make one, or
        ``x`` or ``series`` have the wrong length.
    """
    predicted, observed = predicted_and_observed(run, posterior)
    rows, count = observed.shape
    where = np.arange(rows, dtype=float) if x is None else array("x", x, (rows,))
    optional(text, "x_label", x_label)
    optional(arguments.names, "series", series)
    if series is not None and len(series) != count:
        raise ValueError(f"series must name {count} columns of the data, got {len(series)}: {list(series)}")
    figure = new_figure(7.2, 0.6 + 2.3 * count)
    for k, axes in enumerate(figure.subplots(count, 1, squeeze=False, sharex=True)[:, 0]):
        levels = np.nanquantile(predicted[:, :, k], (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
        (_bars if x is None else _bands)(axes, where, levels)
        axes.plot(where, observed[:, k], "o", color=INK, ms=4, mec="white", mew=0.6, label="data", zorder=5)
        clean(axes, grid=True)
        if series is not None:
            title(axes, series[k])
        if k == 0:
            axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0.1)
    if (where == np.rint(where)).all():  # years, days, counts
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(x_label or ("datum" if x is None else "x"), color=INK, fontsize=9)
    return figure


def predicted_and_observed(run: Run, posterior: Posterior | None) -> tuple[Array, Array]:
    """Predictions with noise, shape (draws, rows, columns), and the data, shape (rows, columns).

    Raises
    ------
    ValueError
        If the run holds no data, or there is neither a prediction nor a posterior to make one.
    """
    if "observed_data" not in checked_run(run).data.groups():
        raise ValueError("run must hold observed data to compare with, got the run of a density without data")
    if "posterior_predictive" not in run.data.groups():
        if posterior is None:
            raise ValueError("posterior must be given, or run.posterior_predictive(posterior) called before: got None")
        run.posterior_predictive(posterior)
    elif posterior is not None:
        check_predicts(posterior, run.shapes)
    predicted = run.data.posterior_predictive["data"].to_numpy()
    shape = predicted.shape[2:]
    predicted = predicted.reshape(-1, shape[0] if shape else 1, int(np.prod(shape[1:])))
    return predicted, run.data.observed_data["data"].to_numpy().reshape(predicted.shape[1:])


def _bands(axes: Axes, x: np.ndarray, levels: np.ndarray) -> None:
    order = np.argsort(x)
    x, levels = x[order], levels[:, order]
    axes.fill_between(x, levels[0], levels[4], color=COLD, alpha=0.16, lw=0, label="90%")
    axes.fill_between(x, levels[1], levels[3], color=COLD, alpha=0.30, lw=0, label="50%")
    axes.plot(x, levels[2], color=COLD, lw=1.6, label="median")


def _bars(axes: Axes, x: np.ndarray, levels: np.ndarray) -> None:
    """For data without an order: nothing is drawn between them."""
    width = 0.0 if len(x) > 60 else 1.0
    axes.vlines(x, levels[0], levels[4], color=COLD, alpha=0.30, lw=1.5 + 3 * width, label="90%")
    axes.vlines(x, levels[1], levels[3], color=COLD, alpha=0.55, lw=1.5 + 3 * width, label="50%")
    axes.plot(x, levels[2], "_", color=COLD, ms=4 + 6 * width, mew=1.6, label="median")
