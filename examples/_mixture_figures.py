"""Figures of `constrained_mixtures.py`: densities, convergence, divergences, the octagon's diameter, the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from scipy.stats import t as student

from invsamp.plots.figure import clean
from invsamp.problems import constrained_mixtures as problem

COLORS = {
    "SGLD": "#9aa5b1",
    "cycSGLD": "#c9a26b",
    "P-SGLD": "#d6b8d0",
    "P-cycSGLD": "#b07aa1",
    "P-reSGLD": "#7b4b73",
    "R-cycSGLD": "#6b8e23",
    "R-SGLD": "#2a9d8f",
    "reSGLD": "#e07a1f",
    "r2SGLD": "#1f6fb2",
}
INSIDE = LinearSegmentedColormap.from_list("inside", ["#ffffff", "#cfe3f2", "#7fb5dc", "#2f7fbf", "#12406e"])
OUTSIDE = LinearSegmentedColormap.from_list("outside", ["#ffffff", "#f6c9c4", "#d1495b", "#7d1128"])


class Outcome(NamedTuple):
    """One sampler on one domain."""

    curve: np.ndarray  # (checkpoints, chains) divergence of the draws inside, the first fifth dropped
    divergence: np.ndarray  # (chains,) at the end, of all draws: those outside are mass that is missing
    density: np.ndarray  # (bins, bins) of the first chain's draws
    inside: float  # share of the draws
    report: dict[str, Any]


class Case(NamedTuple):
    """One domain: its truth, the floor at every checkpoint, and every sampler's outcome."""

    probabilities: np.ndarray
    checkpoints: np.ndarray  # draws
    floor: np.ndarray  # (checkpoints,)
    outcomes: dict[str, Outcome]


def half_band(values: np.ndarray) -> float:
    """Half of the 95% confidence interval of the mean over chains (..., chains), by Student's t."""
    return float(student.isf(0.025, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def draw_densities(cases: Mapping[str, Case], extent: float) -> Figure:
    """Truth and one chain of each sampler side by side, a row for each domain; what lies outside is red."""
    figure = Figure(figsize=(2.0 * (len(COLORS) + 1), 2.05 * len(cases) + 0.3), layout="constrained")
    grid = figure.subplots(len(cases), len(COLORS) + 1)
    area = (2.0 * extent / len(next(iter(cases.values())).probabilities)) ** 2
    for axes, label in zip(grid[0], ("truth", *COLORS), strict=True):
        axes.set_title(label, fontsize=11, weight="bold" if label == "r2SGLD" else "normal")
    for row, (name, case) in zip(grid, cases.items(), strict=True):
        truth = case.probabilities / area
        panel(row[0], truth, truth, name, extent)
        row[0].set_ylabel(name, fontsize=11)
        for axes, outcome in zip(row[1:], case.outcomes.values(), strict=True):
            panel(axes, outcome.density, truth, name, extent)
            note = f"mean KL {outcome.curve[-1].mean():.3f}"
            note += f", {1.0 - outcome.inside:.0%} outside" if outcome.inside < 1.0 else ""
            axes.set_xlabel(note, fontsize=8)
    return figure


def panel(axes: Axes, density: np.ndarray, truth: np.ndarray, name: str, extent: float) -> None:
    """One density with the domain's outline."""
    feasible, top = truth > 0.0, truth.max()
    frame = (-extent, extent, -extent, extent)
    axes.imshow(density.T, cmap=INSIDE, vmin=0.0, vmax=top, extent=frame, origin="lower")
    away = np.ma.masked_where(feasible | (density == 0.0), density)
    axes.imshow(away.T, cmap=OUTSIDE, vmin=0.0, vmax=0.5 * top, extent=frame, origin="lower")
    corners = problem.vertices(name)
    axes.plot(*np.concatenate([corners, corners[:1]]).T, color="#22303f", lw=0.9)
    view = (-1.03 * extent, 1.03 * extent)
    axes.set(xticks=[], yticks=[], xlim=view, ylim=view)
    for spine in axes.spines.values():
        spine.set_color("#c9d1d9")


def draw_convergence(cases: Mapping[str, Case], thin: int) -> Figure:
    """Divergence against iterations: means over 10 chains with their 95% bands."""
    figure = Figure(figsize=(3.3 * len(cases), 3.7), layout="constrained")
    row = figure.subplots(1, len(cases), sharey=True)
    for axes, (name, case) in zip(row, cases.items(), strict=True):
        iterations = case.checkpoints * thin
        for method, outcome in case.outcomes.items():
            mean = outcome.curve.mean(axis=1)
            half = np.array([half_band(at) for at in outcome.curve])
            style = {"color": COLORS[method], "zorder": 3 if method == "r2SGLD" else 2}
            axes.plot(iterations, mean, lw=2.2 if method == "r2SGLD" else 1.3, label=method, **style)
            axes.fill_between(iterations, np.maximum(mean - half, 1e-3), mean + half, alpha=0.18, lw=0, **style)
        axes.plot(iterations, case.floor, color="black", ls=":", lw=1.3, label="independent draws")
        axes.set(xlabel="iterations (thousands)", title=name)
        clean(axes, grid=True)
        axes.set(xscale="log", yscale="log")
        readable(axes.xaxis, 1e-3)
        readable(axes.yaxis)
    row[0].set_ylabel("KL(truth || draws inside)")
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def draw_divergences(cases: Mapping[str, Case]) -> Figure:
    """Divergence by sampler at the end, with 95% intervals, and the floor."""
    figure = Figure(figsize=(9.5, 3.7), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(COLORS)
    for place, case in enumerate(cases.values()):
        for k, (method, outcome) in enumerate(case.outcomes.items()):
            at = place + (k - 0.5 * (len(COLORS) - 1)) * width
            end = outcome.curve[-1]
            axes.bar(at, end.mean(), 0.9 * width, color=COLORS[method], label=None if place else method)
            axes.errorbar(at, end.mean(), half_band(end), color="#22303f", lw=1.0, capsize=2)
        span = [place - 0.43, place + 0.43]
        axes.plot(span, [case.floor[-1]] * 2, "k:", lw=1.3, label=None if place else "independent draws")
    axes.set(ylabel="KL(truth || draws inside)", xlim=(-0.55, len(cases) - 0.45))
    axes.set_yscale("log")
    readable(axes.yaxis)
    axes.set_ylim(bottom=0.5 * min(case.floor[-1] for case in cases.values()))
    axes.set_xticks(range(len(cases)), cases)
    axes.tick_params(axis="x", length=0)
    clean(axes, grid=True)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    return figure


def draw_diameter(table: Sequence[Mapping[str, float]]) -> Figure:
    """Autocorrelation time, and divergence over its floor, against the octagon's diameter."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    across = np.array([row["diameter"] for row in table])
    for axes, name in ((left, "autocorrelation_time"), (right, "divergence_over_floor")):
        values, errors = np.array([(row[name], row[f"{name}_error"]) for row in table]).T
        axes.errorbar(across, values, errors, fmt="o-", color=COLORS["r2SGLD"], capsize=3, lw=1.6)
        axes.set_xlabel("diameter of the octagon")
        clean(axes, grid=True)
    times = np.array([row["autocorrelation_time"] for row in table])
    power, level = np.polyfit(np.log(across), np.log(times), 1)
    left.plot(across, np.exp(level) * across**power, color="#8794a1", ls="--", lw=1.2)
    left.annotate(f"diameter to the power {power:.1f}", (0.45, 0.08), xycoords="axes fraction", color="#5c6b7a")
    left.set(ylabel="autocorrelation time (iterations)", ylim=(0.0, None))
    right.axhline(1.0, color="black", ls=":", lw=1.2)
    right.set(ylabel="KL over that of independent draws", ylim=(0.0, None))
    return figure


def readable(axis: Axis, unit: float = 1.0) -> None:
    """Ticks of a logarithmic axis that can be read where it spans less than a decade, too."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{unit * value:g}"))
    axis.set_minor_locator(NullLocator())


def draw_boundary_distances(distances: Mapping[str, np.ndarray]) -> Figure:
    """Density of uniform draws against their distance from the octagon's boundary, over the uniform one."""
    figure = Figure(figsize=(5.6, 3.5), layout="constrained")
    axes = figure.subplots()
    corners = problem.vertices("octagon")
    inner = float(np.abs(corners).max() * np.cos(np.pi / 8.0))
    edges = np.linspace(0.0, 0.6, 31)
    # nearer than s to the boundary: outside of a smaller octagon
    share = np.diff(1.0 - (1.0 - edges / inner) ** 2)
    for (boundary, values), color in zip(distances.items(), ("#1f6fb2", "#d1495b"), strict=True):
        heights = np.histogram(values, edges)[0] / len(values) / share
        axes.stairs(heights, edges, baseline=None, color=color, lw=1.6, label=f'boundary="{boundary}"')
    axes.axhline(1.0, color="black", ls=":", lw=1.2, label="uniform distribution")
    axes.set(
        xlabel="distance from the boundary", ylabel="density over the uniform one", ylim=(0.0, None), xlim=(0.0, 0.6)
    )
    axes.legend(frameon=False, fontsize=9)
    clean(axes, grid=True)
    return figure
