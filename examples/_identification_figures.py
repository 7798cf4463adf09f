"""The figures of `lorenz.py` and `lotka_volterra.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from _identification import Array, Setting
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter

import invsamp as iv
from invsamp.plots.figure import clean

COLORS = {
    "SGLD": "#8d99a6",
    "R-SGLD": "#2a9d8f",
    "R-cycSGLD": "#8d5a97",
    "reSGLD": "#e07a1f",
    "r2SGLD": "#1f6fb2",
}
INK = "#22303f"


def draw_marginals(where: Setting, runs: Mapping[str, iv.Run], width_in_sd: float = 4.5) -> Figure:
    """Histograms of every sampler, the exact density over them."""
    names, mean, sd = where.names, where.exact.mean(axis=0), where.exact.std(axis=0)
    figure = Figure(figsize=(2.9 * len(names) + 0.6, 1.35 * len(runs) + 0.7), layout="constrained")
    panels = figure.subplots(len(runs), len(names), sharex="col", squeeze=False)
    for k, name in enumerate(names):
        bin_width = 2.0 * width_in_sd * sd[k] / 60
        # multiples of the width, so that a bound at 0 is an edge
        edges = bin_width * (np.floor((mean[k] - width_in_sd * sd[k]) / bin_width) + np.arange(62))
        exact = np.histogram(where.exact[:, k], edges)[0] / len(where.exact) / np.diff(edges)
        for axes, (label, run) in zip(panels[:, k], runs.items(), strict=True):
            draws = run.theta[..., k].ravel()
            # over all the draws: what lies outside the view is missing from the density
            heights = np.histogram(draws, edges)[0] / len(draws) / np.diff(edges)
            axes.stairs(heights, edges, fill=True, color=COLORS[label], alpha=0.45, label="draws")
            axes.stairs(exact, edges, color="black", lw=1.1, label="exact posterior")
            axes.axvline(where.true_values[k], color="#c44536", ls="--", lw=1.2, label="true value")
            axes.set(xlim=(edges[0], edges[-1]), yticks=[], ylim=(0.0, 1.35 * max(exact.max(), heights.max())))
            notes = [f"bias {(draws.mean() - mean[k]) / sd[k]:+.2f} sd", f"sd ratio {draws.std() / sd[k]:.2f}"]
            axes.text(0.02, 0.95, notes[0], transform=axes.transAxes, va="top", fontsize=7.5, color=INK)
            axes.text(0.98, 0.95, notes[1], transform=axes.transAxes, va="top", ha="right", fontsize=7.5, color=INK)
            clean(axes)
            axes.spines["left"].set_visible(False)
            hidden = 1.0 - heights.sum() * bin_width
            if hidden > 0.01:
                note = f"{hidden:.0%} out of view"
                axes.text(0.02, 0.82, note, transform=axes.transAxes, va="top", fontsize=7.5, color="#c44536")
            if k == 0:
                axes.set_ylabel(label, fontsize=10, color=INK)
        panels[-1, k].set_xlabel(name)
    handles, labels = panels[-1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def draw_plane(where: Setting, runs: Mapping[str, iv.Run], first: str, second: str, view: Sequence[float]) -> Figure:
    """Two parameters: the exact draws and those of every sampler, the part outside the constraints shaded."""
    i, j = where.names.index(first), where.names.index(second)
    clouds = {"exact": where.exact} | {label: run.theta.reshape(-1, len(where.names)) for label, run in runs.items()}
    figure = Figure(figsize=(9.6, 6.2), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    grid = [np.linspace(*view[:2], 301), np.linspace(*view[2:], 301)]
    inside = feasible(where, i, j, grid)
    density = smoothed(where.exact[:, [i, j]], inside, grid)
    for axes, (label, draws) in zip(panels, clouds.items(), strict=True):
        axes.contourf(*middles(grid), 1.0 - inside.T, levels=[0.5, 1.5], colors=["#fbe3df"], zorder=0)
        shown = draws[:: max(1, len(draws) // 6000)]
        axes.plot(
            shown[:, i], shown[:, j], ".", ms=2.2, alpha=0.4, color=COLORS.get(label, INK), mew=0, rasterized=True
        )
        axes.contour(*middles(grid), density.T, levels=levels_of(density), colors="black", linewidths=1.0, zorder=3)
        share = 1.0 - where.domain.contains(draws).mean()
        axes.set_title(f"{label}: {share:.1%} infeasible" if label != "exact" else "exact draws", fontsize=10)
        axes.set(xlim=view[:2], ylim=view[2:])
        clean(axes)
    for axes in panels[3:]:
        axes.set_xlabel(first)
    for axes in panels[::3]:
        axes.set_ylabel(second)
    return figure


def draw_resimulated(
    trajectories: Mapping[str, Array], times: Array, true_states: Array, states: Sequence[str], show: Sequence[int]
) -> Figure:
    """For every sampler the central 90% of its re-simulated trajectories, under the true one."""
    figure = Figure(figsize=(5.0 * len(show), 1.3 * len(trajectories) + 0.8), layout="constrained")
    panels = figure.subplots(len(trajectories), len(show), sharex=True, sharey="col", squeeze=False)
    for row, (label, paths) in zip(panels, trajectories.items(), strict=True):
        for axes, k in zip(row, show, strict=True):
            band(axes, times, paths[..., k], COLORS[label])
            axes.plot(times, true_states[:, k], color="black", lw=1.0, label="truth")
            spread = np.ptp(true_states[:, k])
            axes.set_ylim(true_states[:, k].min() - 0.25 * spread, true_states[:, k].max() + 0.25 * spread)
            axes.set_xlim(times[0], times[-1])
            clean(axes, grid=True)
        row[0].set_ylabel(label, fontsize=10, color=INK)
    for axes, k in zip(panels[0], show, strict=True):
        axes.set_title(states[k], fontsize=10, loc="left")
    for axes in panels[-1]:
        axes.set_xlabel("time")
    handles, labels = panels[-1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def draw_shooting(
    paths: Array, times: Array, observed: Any, simulate: Callable[[Array], Array], states: Sequence[str]
) -> Figure:
    """Trajectories re-simulated from the first start alone, over truth and data."""
    figure = Figure(figsize=(9.5, 1.9 * len(states) + 0.7), layout="constrained")
    panels = figure.subplots(len(states), 1, sharex=True)
    seen = observed.times <= times[-1]
    true_states = simulate(times)
    for axes, k in zip(panels, range(len(states)), strict=True):
        band(axes, times, paths[..., k], COLORS["r2SGLD"])
        axes.plot(times, true_states[:, k], color="black", lw=0.9, ls="--", label="truth")
        axes.plot(observed.times[seen], observed.states[seen, k], "o", ms=2.2, color=COLORS["reSGLD"], label="data")
        axes.set_xlim(times[0], times[-1])
        axes.set_ylabel(states[k])
        clean(axes, grid=True)
    panels[-1].set_xlabel("time")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def draw_parameters(run: iv.Run, truth: Mapping[str, float]) -> Figure:
    """Posterior of the parameters alone."""
    figure = run.plot_marginals(truth=truth, names=tuple(truth))
    for axes in figure.axes:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    return figure


def band(axes: Axes, times: Array, paths: Array, color: str) -> None:
    """Central 90% of paths (n, T) and their median."""
    solved = paths[np.isfinite(paths).all(axis=1)]
    low, middle, high = np.quantile(solved, (0.05, 0.5, 0.95), axis=0)
    axes.fill_between(times, low, high, color=color, alpha=0.3, lw=0, label="90% of the re-simulated")
    axes.plot(times, middle, color=color, lw=1.3, label="median")


def feasible(where: Setting, i: int, j: int, grid: Sequence[Array]) -> Array:
    """1 in the cells that are feasible with the other parameters at their means, else 0."""
    at = middles(grid)
    points = np.tile(where.exact.mean(axis=0), (len(at[0]) * len(at[1]), 1))
    points[:, i], points[:, j] = (values.ravel() for values in np.meshgrid(*at, indexing="ij"))
    return where.domain.contains(points).reshape(len(at[0]), -1).astype(float)


def smoothed(draws: Array, inside: Array, grid: Sequence[Array]) -> Array:
    """Density of draws in the plane, smoothed within the feasible cells alone, so that bounds stay sharp."""
    counts, _, _ = np.histogram2d(*draws.T, bins=grid)
    cells = draws / [edges[1] - edges[0] for edges in grid]
    spread = 0.3 * float(np.sqrt(np.linalg.eigvalsh(np.cov(cells.T))[0]))
    density = gaussian_filter(counts * inside, spread) / np.maximum(gaussian_filter(inside, spread), 1e-3)
    return np.where(inside > 0.0, density, 0.0)


def levels_of(density: Array) -> list[float]:
    """Levels above which 95% and half of the mass lie."""
    ordered = np.sort(density.ravel())[::-1]
    share = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(share, mass)]) for mass in (0.95, 0.5)]


def middles(grid: Sequence[Array]) -> list[Array]:
    """Of the cells."""
    return [0.5 * (edges[1:] + edges[:-1]) for edges in grid]
