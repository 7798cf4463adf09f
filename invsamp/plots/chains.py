"""Figures of the draws of a run: traces and marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from invsamp.arguments import text
from invsamp.diagnostics.draws import table
from invsamp.diagnostics.weights import quantiles
from invsamp.plots.canvas import given_panel, grid, new_figure
from invsamp.plots.figure import (
    COLD,
    CYCLE,
    FAINT,
    INK,
    TRUTH,
    Run,
    bins_of,
    clean,
    entries,
    entry_count,
    finite,
    histogram,
    say_first,
    title,
    truth_legend,
    truth_of,
)

#: Points per chain that a trace draws; more only make the file large.
_TRACE_POINTS = 4000


def plot_trace(run: Run, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Figure:
    """Draws of every chain in order, as they were made, beside each chain's density, by its weights if it has some.

    Parameters
    ----------
    run : Run
    names : sequence of str, optional
        Parameters, quantities or single entries of them; by default the first eight.
    ax : Axes, optional
        Where to draw the trace of a single entry, without its density.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name is unknown, there are more than eight entries, or more than one with ``ax``.
    """
    shown, weight = entries(run, names), run.weights
    values = np.stack([draws for _, _, draws in shown], axis=-1)
    found = table(values, weight, run.report.get("ensemble_size", 1))
    count = shown[0].values.shape[1]
    panels: list[tuple[Axes, Axes | None]]
    if ax is None:
        figure = new_figure(9.0, 0.5 + 1.6 * len(shown))
        panels = list(figure.subplots(len(shown), 2, squeeze=False, sharey="row", width_ratios=(4, 1)))
    else:
        figure, (axes,) = given_panel(ax, len(shown))
        panels = [(axes, None)]
    stride = -(-count // _TRACE_POINTS)
    for k, ((line, density), (label, _, draws)) in enumerate(zip(panels, shown, strict=True)):
        for chain, path in enumerate(draws):
            color = CYCLE[chain % len(CYCLE)]
            line.plot(np.arange(0, count, stride), path[::stride], color=color, lw=0.5, alpha=0.75, rasterized=True)
            if density is not None:
                _beside(density, path, None if weight is None else weight[chain], color)
        clean(line, grid=True)
        if density is not None:
            clean(density).set_xticks([])
            density.spines["bottom"].set_visible(False)
        line.set_xlim(0, max(count - 1, 1))
        line.tick_params(labelbottom=line is panels[-1][0])
        title(line, label)
        note = f"R-hat {found['r_hat'][k]:.3f}   ESS {found['ess_bulk'][k]:.0f}"
        line.set_title(note, loc="right", fontsize=8, color=FAINT)
    panels[-1][0].set_xlabel("draw", color=INK, fontsize=9)
    if names is None and ax is None:
        say_first(figure, len(shown), entry_count(run))
    return figure


def _beside(axes: Axes, values: np.ndarray, weight: np.ndarray | None, color: str) -> None:
    """Outline of a chain's density, along the axis of the trace."""
    kept, shares = finite(values, weight)
    heights, edges = np.histogram(kept, bins_of(kept, shares, 0.8), density=True, weights=shares)
    axes.stairs(heights, edges, orientation="horizontal", baseline=None, color=color, lw=1.2)


def plot_marginals(
    run: Run,
    truth: Mapping[str, object] | None = None,
    names: Sequence[str] | None = None,
    truth_label: str = "truth",
    *,
    ax: Axes | None = None,
) -> Figure:
    """Density of every parameter, with its median and its central 90% interval.

    Parameters
    ----------
    run : Run
    truth : mapping of names to values, optional
        Drawn as dashed lines.
    names : sequence of str, optional
        Parameters, quantities or single entries of them; by default the first eight.
    truth_label : str
        What the dashed lines are, where they are no truth but a reference, say.
    ax : Axes, optional
        Where to draw a single entry.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name is unknown, a true value has the wrong shape, or there are more than eight entries, or more than one
        with ``ax``.
    """
    shown, true, weight = entries(run, names), truth_of(run, truth), run.weights
    text("truth_label", truth_label)
    figure, panels = grid(len(shown), 2.7, 2.1, (0.4, 0.35), ax=ax)
    for axes, (label, _, draws) in zip(panels, shown, strict=True):
        values, shares = finite(draws, weight)
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
        on, place = (figure, "outside lower right") if ax is None else (ax, "best")
        truth_legend(on, place, truth_label, ls=(0, (4, 2)), lw=1.6)
    if names is None and ax is None:
        say_first(figure, len(shown), entry_count(run))
    return figure
