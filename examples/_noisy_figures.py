"""Figures of `noisy_mixture.py`: pooled densities, divergence against steps, the spread of single runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from invsamp.plots.figure import clean
from invsamp.problems.mixtures import GaussianMixture

COLORS = {
    "SGLD": "#9aa5b1",
    "reSGLD": "#e07a1f",
    "m-reSGLD": "#b07aa1",
    "f-reSGLD, constant": "#7fb5dc",
    "f-reSGLD, kernel ridge": "#1f6fb2",
    "f-reSGLD, true": "#0b2d4d",
}


def draw_densities(draws: Mapping[str, Mapping[str, np.ndarray]], edges: np.ndarray, target: GaussianMixture) -> Figure:
    """Density of all runs together over the truth: a row for each noise, a column for each sampler."""
    figure = Figure(figsize=(2.1 * len(COLORS), 2.2 * len(draws) + 0.4), layout="constrained")
    grid = figure.subplots(len(draws), len(COLORS), sharex=True, sharey=True)
    x = np.linspace(edges[0], edges[-1], 561)
    density = target.density(x[:, None])
    for row, (noise, by_label) in zip(grid, draws.items(), strict=True):
        for axes, (label, values) in zip(row, by_label.items(), strict=True):
            heights = np.histogram(values, edges)[0] / values.size / np.diff(edges)
            axes.stairs(heights, edges, fill=True, color=COLORS[label], alpha=0.55)
            axes.plot(x, density, color="black", lw=1.0)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set(yticks=[], xticks=(-4, 3), xlim=(-7.5, 5.5))
        row[0].set_ylabel(noise)
    for axes, label in zip(grid[0], COLORS, strict=True):
        axes.set_title(label.replace(", ", ",\n"), fontsize=10)
    return figure


def draw_divergences(table: Mapping[str, Mapping[str, Sequence[Any]]], steps: Sequence[int]) -> Figure:
    """Divergence of all runs together against the steps of one, with one standard error."""
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    panels = figure.subplots(1, len(table), sharey=True)
    for axes, (noise, by_label) in zip(panels, table.items(), strict=True):
        for place, (label, rows) in enumerate(by_label.items()):
            values, errors = np.array([row.divergence for row in rows]).T
            # beside each other, not on top
            at = np.array(steps) * 1.05 ** (place - 0.5 * (len(by_label) - 1))
            axes.errorbar(at, values, errors, fmt="o-", ms=4, lw=1.3, capsize=2, color=COLORS[label], label=label)
        axes.set(xscale="log", yscale="log", xlabel="steps of each run", title=noise)
        axes.set_xticks(steps, [f"{n:,}" for n in steps])
        axes.minorticks_off()
        clean(axes, grid=True)
    panels[0].set_ylabel("KL(truth || all runs)")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    return figure


def draw_single_runs(distances: Mapping[str, Mapping[str, Sequence[np.ndarray]]], steps: Sequence[int]) -> Figure:
    """Distance of every single run from the truth: boxes over the runs."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    panels = figure.subplots(1, len(distances), sharey=True)
    shown = ("reSGLD", "f-reSGLD, kernel ridge", "f-reSGLD, true")
    for axes, (noise, by_label) in zip(panels, distances.items(), strict=True):
        for place, label in enumerate(shown):
            boxes = axes.boxplot(
                [np.asarray(d) for d in by_label[label]],
                positions=np.arange(len(steps)) + 0.25 * (place - 1),
                widths=0.2,
                patch_artist=True,
                showfliers=False,
                medianprops={"color": "white"},
            )
            for patch in boxes["boxes"]:
                patch.set(facecolor=COLORS[label], edgecolor=COLORS[label])
            axes.plot([], [], "s", color=COLORS[label], label=label)
        axes.set_xticks(range(len(steps)), [f"{n:,}" for n in steps])
        axes.set(yscale="log", xlabel="steps of the run", title=noise)
        clean(axes, grid=True)
    panels[0].set_ylabel("Wasserstein distance of one run")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panels[0].legend(frameon=False, fontsize=9, loc="lower left")
    return figure
