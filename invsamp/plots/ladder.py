"""Figures of a ladder of temperatures: swaps, walkers, energies."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from invsamp.arguments import text
from invsamp.diagnostics import swap_rates
from invsamp.diagnostics.ladders import target_labels
from invsamp.diagnostics.limits import SWAP_RATE_LIMIT
from invsamp.plots.canvas import given_panel, new_figure
from invsamp.plots.figure import (
    COLD,
    CYCLE,
    FAINT,
    HOT,
    INK,
    TEMPERATURE,
    Run,
    checked_run,
    clean,
    columns,
    finite,
    title,
)

#: Draws of the path that a picture can show.
_PATH_DRAWS = 400
#: Rows of it that are named each.
_PATH_ROWS = 30
#: Where the range of all rungs is so many times that of the cold one, the scale is not linear.
_WIDE = 30.0


def plot_swaps(run: Run, *, ax: Axes | None = None) -> Figure:
    """Fraction of accepted swaps for every pair of rungs and, where it was recorded, which replica sat where.

    Parameters
    ----------
    run : Run
        With more than one rung. The lower panel is there if ``replica`` is among its sample statistics: for every
        rung of the first chain if it was recorded with a rung axis, else for the cold rung of every chain.
    ax : Axes, optional
        Where to draw the fractions, without the replicas.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the run has one rung, or did not count its swaps.
    """
    rates = swap_rates(checked_run(run).report)
    if not len(rates):
        raise ValueError(f"run must have at least 2 rungs and counts of its swaps, got {run.rungs} rungs")
    if ax is not None:
        figure, (axes,) = given_panel(ax, 1)
        _rates(axes, run, rates)
        return figure
    path = _replica_path(run)
    heights = [0.9 + 0.26 * len(rates)]
    if path is not None:
        heights.append(0.8 + 0.26 * min(max(len(path[0]), 4), _PATH_ROWS))
    figure = new_figure(7.6, sum(heights))
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _rates(panels[0], run, rates)
    if path is not None:
        _path(panels[1], run, *path)
    return figure


def plot_ladder(run: Run, name: str | None = None, *, ax: Axes | None = None) -> Figure:
    """Energy and one parameter at every temperature: neighbors must overlap to swap, hot ones must spread.

    As they were sampled, without weights. Where the range of all rungs is more than 30 times that of the cold one, a
    positive parameter has a logarithmic scale. Energies, then counted from the least one of the cold rung, and other
    parameters have that of the inverse hyperbolic sine: linear near 0, logarithmic far from it.

    Parameters
    ----------
    run : Run
        Energies are shown if ``energy`` was recorded with a rung axis, each at its own rung's fidelity.
    name : str, optional
        Parameter or single entry; by default the first.
    ax : Axes, optional
        Where to draw the parameter, without the energies.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the name is unknown or stands for several entries.
    """
    ((column, label),) = columns(run, None if name is None else [text("name", name)], 1, "name")
    energies, names = None if ax is not None else _energies(run), _rung_names(run)
    if ax is not None:
        figure, panels = given_panel(ax, 1)
    else:
        figure = new_figure(4.4 if energies is None else 8.4, 1.3 + max(0.3, 0.62 - 0.01 * run.rungs) * run.rungs)
        panels = list(figure.subplots(1, 1 if energies is None else 2, squeeze=False)[0])
    if energies is not None:
        kept = [finite(values)[0] for values in energies]
        least = float(kept[0].min()) if _wide(kept) else 0.0
        _ridges(panels[0], [values - least for values in kept], names, logarithmic=False)
        what = "energy above the cold rung's least" if _wide(kept) else "energy of the rung's own fidelity"
        panels[0].set_xlabel(what, color=INK, fontsize=9)
        title(panels[0], "energy")
    _ridges(panels[-1], [run.rung_theta(rung)[..., column] for rung in range(run.rungs)], names)
    panels[-1].set_xlabel(label, color=INK, fontsize=9)
    title(panels[-1], label)
    if energies is not None:
        panels[-1].set_yticklabels([])
    return figure


def _rates(axes: Axes, run: Run, rates: np.ndarray) -> None:
    report = run.report
    rungs = [f"{value:.3g}" for value in report.get("temperatures") or []] or target_labels(report)
    rungs = rungs or [str(rung) for rung in range(run.rungs)]
    heights = np.nan_to_num(rates)
    colors = [COLD if rate >= SWAP_RATE_LIMIT else HOT for rate in heights]
    axes.barh(np.arange(len(rates)), heights, height=0.62, color=colors, alpha=0.85)
    for pair, height in enumerate(heights):
        accepted, tried = report["swap_accepts"][pair], report["swap_attempts"][pair]
        text = "not tried" if not tried else f"{height:.1%}   {accepted:,} of {tried:,}"
        axes.annotate(text, (height, pair), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    axes.axvline(SWAP_RATE_LIMIT, color=HOT, lw=1.0, ls=(0, (4, 2)), zorder=0.5)
    axes.set_yticks(np.arange(len(rates)), [f"{cold} ↔ {hot}" for cold, hot in pairwise(rungs)])
    axes.set_ylim(len(rates) - 0.4, -0.6)  # the cold rung at the top, as below
    axes.set_xlim(0, max(1.35 * heights.max(), 4 * SWAP_RATE_LIMIT))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.locator_params(axis="x", nbins=5)
    clean(axes).tick_params(axis="y", length=0)
    axes.set_ylabel("temperatures" if report.get("temperatures") else "targets", color=INK, fontsize=9)
    title(axes, "accepted swaps")
    if "round_trips" in report:
        axes.set_title(f"{report['round_trips']:,} round trips", loc="right", fontsize=9, color=INK)


def _path(axes: Axes, run: Run, path: np.ndarray, rows: list[str], text: str) -> None:
    shown = path[:, :_PATH_DRAWS]
    colors = CYCLE[: run.rungs] if run.rungs <= len(CYCLE) else TEMPERATURE(np.linspace(0, 1, run.rungs))
    axes.imshow(
        shown,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(colors),
        vmin=-0.5,
        vmax=run.rungs - 0.5,
        extent=(0, shown.shape[1], len(shown) - 0.5, -0.5),
    )
    for row in range(1, len(shown)):
        axes.axhline(row - 0.5, color="white", lw=2)
    named = range(0, len(shown), -(-len(shown) // _PATH_ROWS))
    axes.set_yticks(named, [rows[row] for row in named])
    clean(axes).spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("draw", color=INK, fontsize=9)
    title(axes, text)
    axes.set_title("a color is a replica", loc="right", fontsize=8, color=FAINT)


def _replica_path(run: Run) -> tuple[np.ndarray, list[str], str] | None:
    """Which replica sat where (rows, draws), what the rows are called, and what the panel shows."""
    cold, hot = (_statistic(run, group, "replica") for group in ("sample_stats", "hot_stats"))
    if cold is None:
        return None
    if hot is not None:
        return np.vstack([cold[:1], hot[0].T]), _rung_names(run), "replica at every rung, first chain"
    return cold, [f"chain {chain}" for chain in range(len(cold))], "replica at the cold rung"


def _energies(run: Run) -> list[np.ndarray] | None:
    cold, hot = (_statistic(run, group, "energy") for group in ("sample_stats", "hot_stats"))
    if cold is None or (hot is None and run.rungs > 1):
        return None
    return [cold, *([] if hot is None else np.moveaxis(hot, 2, 0))]


def _statistic(run: Run, group: str, name: str) -> np.ndarray | None:
    """A recorded statistic, if there is one."""
    if group not in run.data or name not in run.data[group]:
        return None
    return np.asarray(run.data[group][name])


def _inner(values: np.ndarray) -> tuple[float, float]:
    """Ends of a sample without the last percent at both."""
    low, high = np.quantile(values, (0.01, 0.99))
    return float(low), float(high)


def _wide(kept: list[np.ndarray]) -> bool:
    """Whether the range of all samples would leave the first no more than a spike."""
    ends = np.array([_inner(values) for values in kept])
    own = ends[0, 1] - ends[0, 0]
    return bool(own > 0.0 and ends[:, 1].max() - ends[:, 0].min() > _WIDE * own)


def _scaled(axes: Axes, kept: list[np.ndarray], logarithmic: bool) -> np.ndarray:
    """Edges of bins that are equal on a scale on which all samples can be seen, which becomes that of the axis."""
    ends = np.array([_inner(values) for values in kept])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if not _wide(kept):
        return np.linspace(low, high if high > low else low + 1.0, 101)
    if logarithmic and low > 0.0:
        axes.set_xscale("log")
        return np.geomspace(low, high, 101)
    width = 0.1 * float(ends[0, 1] - ends[0, 0])
    axes.set_xscale("asinh", linear_width=width)
    return np.asarray(width * np.sinh(np.linspace(np.arcsinh(low / width), np.arcsinh(high / width), 101)))


def _ridges(axes: Axes, samples: list[np.ndarray], names: list[str], *, logarithmic: bool = True) -> None:
    """One density per rung, the cold one at the bottom, over a common range without the last percent at both ends."""
    kept = [finite(values)[0] for values in samples]
    edges = _scaled(axes, kept, logarithmic)
    for rung in reversed(range(len(kept))):
        color = TEMPERATURE(rung / max(len(kept) - 1, 1))
        heights, _ = np.histogram(kept[rung], edges)
        heights = 1.35 * heights / max(heights.max(), 1)
        axes.stairs(rung + heights, edges, baseline=rung, fill=True, color=color, alpha=0.55, lw=0, zorder=-rung)
        axes.stairs(rung + heights, edges, baseline=None, color=color, lw=1.2, zorder=-rung + 0.5)
        axes.axhline(rung, color=FAINT, lw=0.5, zorder=-rung + 0.6)
    axes.set_yticks(range(len(kept)), names)
    axes.set_ylim(-0.05, len(kept) + 0.5)
    axes.set_xlim(edges[0], edges[-1])
    clean(axes).spines["left"].set_visible(False)
    axes.set_axisbelow(False)
    axes.tick_params(axis="y", length=0)


def _rung_names(run: Run) -> list[str]:
    report = run.report
    fidelities = report.get("fidelities") or []
    names = target_labels(report) or [f"rung {rung}" for rung in range(run.rungs)]
    if len(set(fidelities)) > 1:
        names = [f"{name}, {fidelity}" for name, fidelity in zip(names, fidelities, strict=True)]
    return names
