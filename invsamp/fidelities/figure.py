"""Figure of a comparison of fidelities."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from invsamp.fidelities.compared import Compared
from invsamp.fidelities.pairs import TEMPERATURES, WANTED_RATE
from invsamp.plots.figure import COLD, CYCLE, FAINT, INK, clean, new_figure, title, view_of
from invsamp.protocols import Array

#: Coarse levels that one figure shows, the finest of them.
_MOST_LEVELS = 4
#: Share of the states that the panels of energies show: the highest energies would squeeze all others.
_SHOWN = 0.98


def plotted(comparison: Compared) -> Figure:
    """Energies of each level against the finest, their difference over theta, costs and expected swap rates.

    Parameters
    ----------
    comparison : Compared
        With more than four coarse levels the four finest are shown, and all in the panels on the right.

    Returns
    -------
    Figure
    """
    coarse = list(range(len(comparison.levels) - 1))[-_MOST_LEVELS:]
    figure = new_figure(2.9 * len(coarse) + 3.7, 5.8)
    panels = figure.subplots(2, len(coarse) + 1, squeeze=False, width_ratios=[1.0] * len(coarse) + [1.15])
    columns = _main_columns(comparison)
    for place, level in enumerate(coarse):
        _energies(panels[0, place], comparison, level)
        _difference(figure, panels[1, place], comparison, level, columns)
        if place:
            panels[0, place].set_ylabel("")
            panels[1, place].set_ylabel("")
    _costs(panels[0, -1], comparison)
    _rates(panels[1, -1], comparison)
    return figure


def _energies(axes: Axes, comparison: Compared, level: int) -> None:
    """Both energies above the least of the finest, so that an offset shows as one."""
    energies = comparison.states.energies
    least = energies[-1].min()
    fine, coarse = energies[-1] - least, energies[level] - least
    shown = fine <= np.quantile(fine, _SHOWN)
    low = min(0.0, float(coarse[shown].min()))
    high = max(float(fine[shown].max()), float(coarse[shown].max()))
    axes.plot([low, high], [low, high], color=FAINT, lw=1.0, ls=(0, (4, 3)), zorder=1)
    axes.scatter(fine[shown], coarse[shown], s=9, color=_color(comparison, level), alpha=0.45, lw=0, rasterized=True)
    clean(axes, grid=True)
    axes.set(xlim=view_of(np.array([low, high]), 0.03), ylim=view_of(np.array([low, high]), 0.03), aspect="equal")
    finest, row = comparison.levels[-1].name, comparison.levels[level]
    axes.set_xlabel(f"energy, {finest}", color=INK, fontsize=9)
    axes.set_ylabel(f"energy, above the least of {finest}", color=INK, fontsize=9)
    title(axes, row.name)
    axes.set_title(f"correlation {row.energy_correlation:.3f}", loc="right", fontsize=8, color=FAINT)


def _difference(figure: Figure, axes: Axes, comparison: Compared, level: int, columns: tuple[int, ...]) -> None:
    """The difference of the energies over the one or two coordinates on which it depends most."""
    theta, energies = comparison.states.theta, comparison.states.energies
    difference = energies[level] - energies[-1]
    labels = [comparison.labels[column] for column in columns]
    name = f"{comparison.levels[level].name} less {comparison.levels[-1].name}"
    shown = np.abs(difference) <= np.quantile(np.abs(difference), _SHOWN)
    clean(axes, grid=True)
    title(axes, name)
    axes.set_xlabel(labels[0], color=INK, fontsize=9)
    if len(columns) == 1:
        axes.axhline(0.0, color=FAINT, lw=1.0)
        color = _color(comparison, level)
        axes.scatter(theta[shown, columns[0]], difference[shown], s=9, color=color, alpha=0.5, lw=0, rasterized=True)
        axes.set_ylabel("difference of the energies", color=INK, fontsize=9)
        return
    far = float(np.abs(difference[shown]).max()) or 1.0
    # the extremes last, on top of the crowd
    order = np.flatnonzero(shown)[np.argsort(np.abs(difference[shown]))]
    x, y = (theta[order, column] for column in columns)
    scale = TwoSlopeNorm(0.0, -far, far)
    drawn = axes.scatter(x, y, c=difference[order], s=10, lw=0, cmap="RdBu_r", norm=scale, rasterized=True)
    axes.set_facecolor("#f4f6f8")
    axes.set_ylabel(labels[1], color=INK, fontsize=9)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.9, pad=0.02, aspect=28)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=7, colors=INK, length=2, color=FAINT)


def _costs(axes: Axes, comparison: Compared) -> None:
    """Relative cost of a solve, and the cosine of its gradient with the finest."""
    levels = comparison.levels
    places = np.arange(len(levels))
    values = np.array([level.relative_cost for level in levels])
    cosines = np.array([max(level.gradient_cosine, 0.0) for level in levels])
    colors = [_color(comparison, k) for k in range(len(levels))]
    axes.barh(places + 0.19, values, height=0.34, color=colors, alpha=0.9)
    axes.barh(places - 0.19, np.nan_to_num(cosines), height=0.34, color=colors, alpha=0.35)
    for place, (cost, level) in enumerate(zip(values, levels, strict=True)):
        _end_label(axes, cost, place + 0.19, f"cost {cost:.2g}")
        _end_label(axes, level.gradient_cosine, place - 0.19, f"gradient's cosine {level.gradient_cosine:.2f}")
    axes.set_yticks(places, [level.name for level in levels])
    axes.set_xlim(0, 1.7 * max(1.0, float(values.max())))
    clean(axes)
    if values.max() < 2.0:
        axes.set_xticks([0.0, 0.5, 1.0])
    else:
        axes.locator_params(axis="x", nbins=5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("of the finest", color=INK, fontsize=9)
    title(axes, "cost and expected swaps")


def _end_label(axes: Axes, length: float, height: float, text: str) -> None:
    at = (max(float(np.nan_to_num(length)), 0.0), height)
    axes.annotate(text, at, (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK)


def _rates(axes: Axes, comparison: Compared) -> None:
    """Expected swap rate of every coarse level with the cold rung, by hot temperature."""
    known_somewhere = False
    for place, (name, rate) in enumerate(comparison.rates.items()):
        known = np.isfinite(rate)
        known_somewhere = known_somewhere or bool(known.any())
        axes.plot(np.array(TEMPERATURES)[known], rate[known], color=_color(comparison, place), lw=1.8, label=name)
        hottest = comparison.hot_temperatures[name]
        if np.isfinite(hottest):
            at = hottest, float(rate[TEMPERATURES.index(hottest)])
            axes.plot(*at, "o", ms=5, color=_color(comparison, place))
            axes.annotate(f"{hottest:.2g}", at, (5, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.axhline(WANTED_RATE, color=FAINT, lw=1.0, ls=(0, (4, 3)))
    clean(axes, grid=True)
    axes.set(xscale="log", xlim=(1.0, 300.0), ylim=(0.0, 1.0))
    axes.set_xlabel("hot temperature", color=INK, fontsize=9)
    title(axes, f"expected swaps with {comparison.levels[-1].name} at 1")
    if known_somewhere:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    else:
        axes.text(0.5, 0.5, "not covered by the states", transform=axes.transAxes, ha="center", color=FAINT, fontsize=9)


def _main_columns(comparison: Compared) -> tuple[int, ...]:
    """The two columns of theta of which a parabola explains most of the coarsest level's difference, in order."""
    theta, energies = comparison.states.theta, comparison.states.energies
    explained = [_explained(column, energies[0] - energies[-1]) for column in theta.T]
    return tuple(sorted(np.argsort(explained)[::-1][:2].tolist()))


def _explained(column: Array, values: Array) -> float:
    spread = float(column.std())
    if spread == 0.0:
        return -1.0
    scaled = (column - column.mean()) / spread
    design = np.stack([np.ones_like(scaled), scaled, scaled**2], axis=1)
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(fitted.var())


def _color(comparison: Compared, level: int) -> str:
    """The finest in the color of the cold rung, the others in order from the coarsest."""
    if level == len(comparison.levels) - 1:
        return COLD
    return CYCLE[1 + level % (len(CYCLE) - 1)]
