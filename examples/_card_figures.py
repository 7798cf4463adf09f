"""Figures of card_heat.py and card_ode.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import _card as card
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.plots.figure import clean
from invsamp.problems import heat_source as heat

#: Colors of the samplers, in the order in which they run; the last one is for those by LSODA.
COLORS = ("tab:blue", "tab:orange", "tab:red", "black")


def draw_heat(case: card.Case, runs: Mapping[str, iv.Run], rows: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draws of each sampler over the exact posterior, with the channel, and every statistic over its exact value."""
    figure = Figure(figsize=(13.5, 4.0), layout="constrained")
    *planes, errors = figure.subplots(1, len(runs) + 1, width_ratios=[1.0] * len(runs) + [1.25])
    for axes, color, (name, run) in zip(planes, COLORS, runs.items(), strict=False):
        _outline(axes, case.reference)
        draws = run.theta.reshape(-1, 2)
        axes.plot(*draws[:: max(1, len(draws) // 3000)].T, ".", ms=1.5, color=color, alpha=0.5, rasterized=True)
        y = np.array([0.1, 0.75])
        axes.plot(0.72 - 0.25 * y, y, color="black", lw=2.0)
        axes.fill_betweenx(y, 0.72 - 0.25 * y, 0.75, color="black", alpha=0.08, lw=0)
        axes.plot(*np.transpose(heat.SENSORS), "^", color="black", ms=6)
        axes.plot(*heat.TRUE_CENTER, "*", color="gold", mec="black", ms=12, zorder=5)
        clean(axes).set(xlim=(0.3, 0.75), ylim=(0.1, 0.75), xlabel="x", title=name)
        weight = rows[name]["statistics"]["upper mode's weight"]
        axes.set_xlabel(f"x; upper mode {weight['found']:.2f}, exact {weight['exact']:.2f}")
    planes[0].set_ylabel("y; black: the channel, star: the truth")
    _draw_ratios(errors, rows)
    errors.legend(frameon=False, fontsize=7, loc="lower left")
    return figure


def draw_ode(shown: Mapping[str, tuple[card.Case, Mapping[str, iv.Run], Mapping[str, Any]]]) -> Figure:
    """Marginals of every unknown beside the exact ones, the plane where the constraints are, and errors."""
    columns = max(len(case.posterior.names) for case, _, _ in shown.values()) + 2
    figure = Figure(figsize=(2.6 * columns, 3.1 * len(shown)), layout="constrained")
    grid = figure.subplots(len(shown), columns, width_ratios=[1.0] * (columns - 1) + [1.6])
    for row, (title, (case, runs, rows)) in zip(grid, shown.items(), strict=True):
        names = case.posterior.names
        for k, (axes, name) in enumerate(zip(row, names, strict=False)):
            low, high = np.quantile(next(iter(runs.values())).theta[..., k], (0.0005, 0.9995))
            edges = np.linspace(max(0.0, low - 0.1 * (high - low)), high, 41)
            axes.hist(
                case.reference.points[:, k], edges, weights=case.reference.weights, density=True, color="0.85",
                label="exact",
            )  # fmt: skip
            for color, (label, run) in zip(COLORS, runs.items(), strict=False):
                axes.hist(run.theta[..., k].ravel(), edges, density=True, histtype="step", color=color, label=label)
            axes.axvline(case.truth[name], color="gold", lw=2.0)
            clean(axes).set(xlabel=name, yticks=[])
        row[0].set_ylabel(title)
        _draw_plane(row[-2], case, next(iter(runs.values())))
        _draw_ratios(row[-1], rows)
        for axes in row[len(names) : -2]:  # there is room for what the colors mean
            axes.axis("off")
            axes.legend(handles=row[-1].get_legend_handles_labels()[0], loc="center", frameon=False, fontsize=8)
    return figure


def _draw_ratios(axes: Axes, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Found over exact, with bars of three standard errors."""
    names = list(next(iter(rows.values()))["statistics"])
    for k, (color, (label, row)) in enumerate(zip(COLORS, rows.items(), strict=False)):
        cells = [row["statistics"][name] for name in names]
        ratios = [cell["found"] / cell["exact"] for cell in cells]
        bars = [3.0 * cell["error"] / abs(cell["exact"]) for cell in cells]
        axes.errorbar(ratios, np.arange(len(names)) + 0.2 * (k - 1), xerr=bars, fmt="o", ms=4, color=color, label=label)
    axes.axvline(1.0, color="grey", lw=1.0)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    clean(axes, grid=True).set(xlabel="found / exact, with three standard errors")


def _draw_plane(axes: Axes, case: card.Case, run: iv.Run) -> None:
    """Draws of two unknowns and the constraints: sigma and beta of Lorenz, beta and delta of prey and predators."""
    names = list(case.posterior.names)
    chaotic = "sigma" in names
    across, up = ("beta", "sigma") if chaotic else ("beta", "delta")
    draws = run.theta.reshape(-1, len(names))
    some = draws[:: max(1, len(draws) // 3000)]
    axes.plot(some[:, names.index(across)], some[:, names.index(up)], ".", ms=1.5, color=COLORS[0], alpha=0.5)
    right, top = np.quantile(draws[:, [names.index(across), names.index(up)]], 0.999, axis=0)
    axes.axvline(0.0, color="black", lw=2.0)
    if chaotic:
        axes.plot([0.0, right], [1.0, 1.0 + right], color="black", lw=2.0)
    else:
        axes.axhline(0.0, color="black", lw=2.0)
    clean(axes).set(xlim=(-0.05 * right, right), ylim=(-0.05 * top, top), xlabel=across, ylabel=up)
    axes.set_title("sigma > 1 + beta, beta > 0" if chaotic else "beta > 0, delta > 0", fontsize=9)


def _outline(axes: Axes, reference: card.Reference) -> None:
    """Contours that hold half and 95% of the mass of a reference on a grid."""
    x, y = (np.unique(reference.points[:, k]) for k in range(2))
    density = np.zeros((len(x), len(y)))
    density[np.searchsorted(x, reference.points[:, 0]), np.searchsorted(y, reference.points[:, 1])] = reference.weights
    ordered = np.sort(reference.weights)[::-1]
    levels = [ordered[np.searchsorted(np.cumsum(ordered), mass)] for mass in (0.95, 0.5)]
    axes.contour(x, y, density.T, levels=levels, colors="black", linewidths=1.0, zorder=3)
