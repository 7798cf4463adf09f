"""Figures of what a run predicts: bands over the data, and phase planes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from invsamp import arguments
from invsamp.arguments import array, instance, integer, optional, text, wrong
from invsamp.plots.canvas import given_panel, grid, new_figure
from invsamp.plots.data_layout import Layout, predicted_and_observed
from invsamp.plots.figure import COLD, FAINT, HOT, INK, Run, clean, say_first, title
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array

#: Draws that are solved for a curve, and of these drawn as lines in a phase plane.
_CURVES, _LINES = 300, 60
#: Outputs whose pairs are shown by default.
_OUTPUTS = 3
#: Columns of the data that have wide panels, one above the other, and those that are shown at all.
_WIDE, _MOST = 4, 24


def plot_predictive(
    run: Run,
    posterior: Posterior | None = None,
    x: npt.ArrayLike | None = None,
    x_label: str | None = None,
    series: Sequence[str] | None = None,
    curve: tuple[npt.ArrayLike, Posterior] | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Predicted data, with noise, over the observed data: median, central 50% and 90%.

    A panel for each column of the data, and of a population for each member; at most 24.

    Parameters
    ----------
    run : Run
    posterior : Posterior, optional
        Needed unless `Run.posterior_predictive` has been called.
    x : array_like, shape (first axis of the data, of a population the second,), optional
        Where the data lie, for bands over x (times, places on a line). By default the times, where the forward model
        knows them; else each datum is a bar of its own.
    x_label : str, optional
    series : sequence of str, optional
        Names of the data's columns (data of shape (m, k) give k panels); by default those that the posterior knows.
        Of a population, names of the outputs of a member, or of each panel.
    curve : tuple (array_like of shape (n,), Posterior), optional
        Bands over other positions than the data's, closer by or beyond them: these, and `Posterior.for_prediction` of a
        model that predicts there, arranged (n, k). Takes up to 300 solves, in each call; ``x`` has to be given too,
        unless the times are known.
    ax : Axes, optional
        Where to draw data of a single column.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the run holds no data, there is neither a prediction nor a posterior to make one, ``x``, ``series`` or
        ``curve`` have the wrong length, or the data more than one column with ``ax``.
    """
    layout, predicted, observed = predicted_and_observed(run, posterior)
    hint = ": for bands over other positions give these as curve=(positions, posterior.for_prediction(model))"
    where, names = layout.where(x, hint), layout.names(series)
    if curve is not None and where is None:
        raise ValueError("x must be given with curve, got None")
    optional(text, "x_label", x_label)
    joined = where is not None
    places = np.arange(layout.rows, dtype=float) if where is None else where
    over = places
    if curve is not None:
        if not isinstance(curve, tuple) or len(curve) != 2:
            raise wrong("curve", "a tuple of positions and a Posterior", curve)
        over = array("curve[0]", curve[0], ("n",))
        predicted = _predicted(run, "curve[1]", curve[1], layout, len(over))[1]
    figure, panels = _panels(layout, ax)
    for k, axes in enumerate(panels):
        levels = np.nanquantile(predicted[:, :, k], (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
        (_bands if joined else _bars)(axes, over, levels)
        axes.plot(places, observed[:, k], "o", color=INK, ms=4, mec="white", mew=0.6, label="data", zorder=5)
        clean(axes, grid=True)
        if names is not None:
            title(axes, names[k])
        if (places == np.rint(places)).all():  # years, days, counts
            axes.locator_params(axis="x", integer=True)
    label = x_label or layout.label(x)
    if len(panels) <= _WIDE:
        panels[-1].set_xlabel(label, color=INK, fontsize=9)
        style: dict[str, Any] = {"ncols": 4, "loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderpad": 0.1}
        panels[0].legend(frameon=False, fontsize=8, **style)
    else:
        handles, words = panels[0].get_legend_handles_labels()
        figure.legend(handles, words, loc="outside upper right", ncols=4, frameon=False, fontsize=8, labelcolor=INK)
        for axes in panels[-4:]:
            axes.set_xlabel(label, color=INK, fontsize=9)
    say_first(figure, len(panels), layout.count, "columns of the data", "")
    return figure


def _panels(layout: Layout, ax: Axes | None) -> tuple[Figure, list[Axes]]:
    """Few wide panels one above the other, more in a grid."""
    if ax is not None:
        return given_panel(ax, layout.count)
    if layout.count > _WIDE:
        own = layout.members is not None
        return grid(min(layout.count, _MOST), 2.7, 1.9, (0.3, 0.5), sharex=True, sharey=own)
    figure = new_figure(7.2, 0.6 + 2.3 * layout.count)
    return figure, list(figure.subplots(layout.count, 1, squeeze=False, sharex=True)[:, 0])


def plot_phase(
    run: Run,
    posterior: Posterior | None = None,
    outputs: Sequence[int | str] | None = None,
    series: Sequence[str] | None = None,
    curve: Posterior | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Phase planes: each output against another, of predictions without noise, with the data in their order.

    Lines are single draws, so that a draw of another orbit is seen as one.

    Parameters
    ----------
    run : Run
    posterior : Posterior, optional
        Needed unless `Run.posterior_predictive` has been called.
    outputs : sequence of int or str, optional
        Columns of the data (m, k), by place or name, a panel for each pair; by default the first three.
    series : sequence of str, optional
        Names of all the data's columns; by default those that the posterior knows.
    curve : Posterior, optional
        `Posterior.for_prediction` of a model that predicts the columns at closer times, for smooth lines: up to 300
        solves.
    ax : Axes, optional
        Where to draw a single pair.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the data have less than two columns, or as `plot_predictive`.
    """
    layout, _, observed = predicted_and_observed(run, posterior)
    count = layout.count
    if count < 2:
        raise ValueError(f"run must hold data of shape (m, k) with k >= 2 for a phase plane, got {count} column")
    names = layout.names(series) or []
    shown = list(range(count))[:_OUTPUTS]
    if outputs is not None:
        shown = [
            names.index(arguments.one_of("outputs", k, names))
            if isinstance(k, str)
            else integer("outputs", k, least=0, most=count - 1)
            for k in arguments.sequence("outputs", outputs)
        ]
        if len(set(shown)) != len(shown) or not 2 <= len(shown) <= 4:
            raise wrong("outputs", "2 to 4 distinct columns", outputs)
    if curve is None:
        mean = layout.arranged(run.data.posterior_predictive["mean"].to_numpy().reshape(-1, observed.size))
    else:
        mean = _predicted(run, "curve", curve, layout)[0]
    lines = mean[:: -(-len(mean) // _LINES)]
    pairs = list(combinations(shown, 2))
    figure, panels = grid(len(pairs), 3.9, 3.4, (0.3, 0.3), most_across=3, ax=ax)
    for axes, (i, j) in zip(panels, pairs, strict=True):
        for k, line in enumerate(lines):
            axes.plot(line[:, i], line[:, j], color=COLD, lw=0.7, alpha=0.35, label=None if k else "draws")
        axes.plot(observed[:, i], observed[:, j], color=FAINT, lw=0.7, ls=":")
        axes.plot(observed[:, i], observed[:, j], "o", color=INK, ms=4, mec="white", mew=0.6, label="data", zorder=5)
        axes.plot(observed[:1, i], observed[:1, j], "s", color=HOT, ms=5, mec="white", label="first", zorder=6)
        clean(axes, grid=True)
        axes.set_xlabel(names[i], color=INK, fontsize=9)
        axes.set_ylabel(names[j], color=INK, fontsize=9)
    panels[0].legend(frameon=False, fontsize=8, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0.1)
    return figure


def _predicted(
    run: Run, argument: str, posterior: Posterior, layout: Layout, rows: int | None = None
) -> tuple[Array, Array]:
    """Predictions (draws, rows, columns) of what was not measured, without noise and with it."""
    unseen = np.asarray(instance(argument, posterior, Posterior, "a Posterior").data, dtype=float)
    count = layout.count
    if not np.isnan(unseen).all():
        raise ValueError(f"{argument} must be posterior.for_prediction(model), without data, got one with data")
    if unseen.size % count or (rows is not None and unseen.size != rows * count):
        wanted = f"({'n' if rows is None else rows}, {count})"
        raise ValueError(f"{argument} must predict an array {wanted}, got one of shape {unseen.shape}")
    predicted = run.posterior_predictive(posterior, draws=_CURVES)
    mean, data = (layout.arranged(predicted[name].to_numpy().reshape(-1, unseen.size)) for name in ("mean", "data"))
    return mean, data


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
