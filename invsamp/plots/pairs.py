"""Figure of every pair of parameters, with the domain's boundary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from invsamp.domains.contract import Domain
from invsamp.plots.canvas import given_panel, new_figure
from invsamp.plots.figure import (
    COLD,
    DENSITY,
    GRID,
    INK,
    TRUTH,
    Entry,
    Run,
    bins_of,
    clean,
    entries,
    entry_count,
    histogram,
    say_first,
    truth_legend,
    truth_of,
    view_of,
)

#: Lower and upper ends (d,) of the domain's bounding box.
Ends = tuple[np.ndarray, np.ndarray]


def plot_pairs(
    run: Run,
    names: Sequence[str] | None = None,
    truth: Mapping[str, object] | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Density of every pair of parameters, with regions of 50% and 90% mass, and of each alone.

    The domain's boundary is drawn, and what lies outside is gray. In more than two dimensions only bounds that
    concern two parameters alone have an edge in their panel.

    Parameters
    ----------
    run : Run
    names : sequence of str, optional
        Parameters, quantities or single entries of them; by default the first eight.
    truth : mapping of names to values, optional
        Drawn as crosses and dashed lines.
    ax : Axes, optional
        Where to draw the density of a single pair, or of a single entry.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name is unknown, a true value has the wrong shape, or there are more than eight entries, or more than two
        with ``ax``.
    """
    shown, true = entries(run, names), truth_of(run, truth)
    values, weight = _shown(run, shown)
    domain = run.domain
    ends = None if domain is None else domain.bounding_box(sum(math.prod(shape) for shape in run.shapes.values()))
    views = [_view(values[k], one.column, ends, true.get(one.label)) for k, one in enumerate(shown)]
    count = len(shown)
    marks = [true.get(one.label) for one in shown]
    if ax is not None:
        figure, (axes,) = given_panel(ax, count * (count - 1) // 2 if count > 1 else 1)
        cells = [(count - 1, 0, axes)]
    else:
        side = 2.6 if count <= 3 else max(1.35, 10.0 / count)
        figure = new_figure(side * count + 0.5, side * count + 0.3)
        panels = figure.subplots(count, count, squeeze=False)
        for unused in panels[np.triu_indices(count, 1)]:
            unused.set_visible(False)
        cells = [(down, across, panels[down, across]) for down in range(count) for across in range(down + 1)]
    for down, across, axes in cells:
        i, j = shown[across].column, shown[down].column
        if across == down:
            histogram(axes, values[across], weight, COLD)
            if (x := marks[across]) is not None:
                axes.axvline(x, color=TRUTH, lw=1.4, ls=(0, (4, 2)))
            clean(axes, yticks=False).set_ylim(bottom=0)
            _bounds(axes, ends, i, views[across])
        else:
            _density(axes, values[across], values[down], weight)
            if domain is not None and i is not None and j is not None:
                _boundary(axes, domain, i, j, views[across], views[down])
            if (x := marks[across]) is not None and (y := marks[down]) is not None:
                axes.plot(x, y, "+", color=TRUTH, ms=11, mew=2.2, zorder=6)
            clean(axes).set_ylim(views[down])
        axes.set_xlim(views[across])
        _label_edges(axes, down, across, count, shown[across].label, shown[down].label)
    if true:
        truth_legend(figure if ax is None else ax, "upper right", ls="", marker="+", ms=10, mew=2.2)
    if names is None and ax is None:
        say_first(figure, count, entry_count(run))
    return figure


def _shown(run: Run, entries: Sequence[Entry]) -> tuple[np.ndarray, np.ndarray | None]:
    """Finite draws (entries, n) of some weight, and their weights; two zeros where there are none, to draw panels."""
    values, weight = np.stack([one.values.ravel() for one in entries]), run.weights
    shown = np.isfinite(values).all(axis=0)
    if weight is not None:
        shown &= weight.ravel() > 0.0
    if not shown.any():
        return np.zeros((len(values), 2)), None
    return values[:, shown], None if weight is None else weight.ravel()[shown]


def _density(axes: Axes, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> None:
    """Two-dimensional histogram, with the contours that hold 50% and 90% of the draws."""
    from scipy.ndimage import gaussian_filter

    # coarser than in one dimension, or the cells hold few draws
    edges = [bins_of(values, weight, 0.8, pad=0.05) for values in (x, y)]
    counts, x_edges, y_edges = np.histogram2d(x, y, bins=edges, weights=weight)
    # the square root shows a small mode beside a large one
    shade = np.ma.masked_equal(np.sqrt(counts.T), 0)
    axes.pcolormesh(x_edges, y_edges, shade, cmap=DENSITY, vmin=0, rasterized=True, zorder=1)
    smooth = gaussian_filter(counts, 1.3)
    ranked = np.sort(smooth.ravel())[::-1]
    mass = np.cumsum(ranked) / ranked.sum()
    thresholds = [ranked[np.searchsorted(mass, part)] for part in (0.9, 0.5)]
    if thresholds[0] < thresholds[1]:
        centers = [(e[1:] + e[:-1]) / 2 for e in (x_edges, y_edges)]
        axes.contour(*centers, smooth.T, levels=thresholds, colors=INK, linewidths=(0.7, 1.1), alpha=0.75, zorder=1.5)


def _view(values: np.ndarray, column: int | None, ends: Ends | None, true: float | None) -> tuple[float, float]:
    """Limits that show all draws, the truth, and an end of the domain that is near."""
    shown = values if true is None else np.append(values, true)
    low, high = view_of(shown)
    for bound in _near_ends(ends, column, (low, high)):
        low, high = min(low, bound - 0.04 * (high - low)), max(high, bound + 0.04 * (high - low))
    return low, high


def _near_ends(ends: Ends | None, column: int | None, view: tuple[float, float]) -> list[float]:
    """Ends of the domain in one coordinate that lie within a third of the view beside it."""
    if ends is None or column is None:
        return []
    margin = (view[1] - view[0]) / 3
    return [float(end[column]) for end in ends if view[0] - margin < end[column] < view[1] + margin]


def _bounds(axes: Axes, ends: Ends | None, column: int | None, view: tuple[float, float]) -> None:
    for bound in _near_ends(ends, column, view):
        axes.axvline(bound, color=INK, lw=1.2)


def _boundary(
    axes: Axes, domain: Domain, i: int, j: int, x_view: tuple[float, float], y_view: tuple[float, float]
) -> None:
    """Outline of the domain in the plane of two coordinates, and gray outside."""
    lower, upper = np.array([x_view[0], y_view[0]]), np.array([x_view[1], y_view[1]])
    margin = upper - lower  # beyond the panel, so that the edge of a clipped curve is not seen
    lower, upper = lower - margin, upper + margin
    curves = domain.outline(i, j, (lower, upper))
    if not curves:
        return
    frame = np.array([lower, [lower[0], upper[1]], upper, [upper[0], lower[1]]])
    rings = [np.vstack([ring, ring[:1]]) for ring in (frame, *curves)]
    codes = np.concatenate([[Path.MOVETO, *[Path.LINETO] * (len(ring) - 2), Path.CLOSEPOLY] for ring in rings])
    # the curves run against the frame, so that they are holes in it
    outside = Path(np.vstack(rings), codes)
    axes.add_patch(PathPatch(outside, facecolor=GRID, edgecolor="none", zorder=2))
    for ring in rings[1:]:
        axes.plot(*ring.T, color=INK, lw=1.4, zorder=4)


def _label_edges(axes: Axes, down: int, across: int, count: int, x_label: str, y_label: str) -> None:
    size = 10 if count <= 4 else 8
    axes.locator_params(axis="x", nbins=4 if count <= 4 else 3)
    axes.tick_params(labelsize=8 if count <= 4 else 6.5)
    if across != down:
        axes.locator_params(axis="y", nbins=4 if count <= 4 else 3)
    if down == count - 1:
        axes.set_xlabel(x_label, color=INK, fontsize=size)
    else:
        axes.tick_params(labelbottom=False)
    if across == 0 and down > 0:
        axes.set_ylabel(y_label, color=INK, fontsize=size)
    else:
        axes.tick_params(labelleft=False)
