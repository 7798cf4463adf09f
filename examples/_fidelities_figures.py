"""Figures of fidelities.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.plots.figure import clean
from invsamp.problems import heat_modes as problem

#: Colors of the levels, from coarse to fine.
LEVELS = {"8x8": "tab:orange", "16x16": "tab:green", "32x32": "tab:purple", "64x64": "tab:blue"}


def draw_problem(truth: Mapping[str, problem.Quadrature], run: iv.Run) -> Figure:
    """The posterior on every mesh with the sensors, and draws of the cold rung."""
    figure = Figure(figsize=(10.5, 3.7), layout="constrained")
    for axes, (name, quadrature) in zip(figure.subplots(1, len(truth), sharey=True), truth.items(), strict=True):
        if name == "64x64":
            draws = run.theta.reshape(-1, 2)
            draws = draws[:: max(1, len(draws) // 3000)]
            axes.plot(
                *draws.T, ".", ms=2, color="tab:orange", alpha=0.5, rasterized=True, label="draws of the cold rung"
            )
        _contours(axes, quadrature, LEVELS[name])
        axes.plot(*problem.SENSORS.T, "^", ms=3, color="black", label="sensors")
        clean(axes, grid=True).set(xlim=(0.2, 0.7), ylim=(0.4, 0.7))
        axes.set_xlabel("x of the center")
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_title(f"right mode {quadrature.right.weight:.2f}", loc="right", fontsize=8, color="grey")
    axes.legend(frameon=False, fontsize=8, loc="lower left", markerscale=2.0)
    figure.axes[0].set_ylabel("y")
    return figure


def draw_accuracy(table: Mapping[str, Mapping[str, Any]], truth: np.ndarray) -> Figure:
    """Estimates with their standard errors beside quadrature."""
    figure = Figure(figsize=(10.5, 0.9 + 0.29 * len(table)), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    places = np.arange(len(table))
    names = ("weight of the right mode", "its sd of x", "its sd of y")
    for k, (axes, name) in enumerate(zip(panels, names, strict=True)):
        values = np.array([[row["weight"], *row["sds"]][k] for row in table.values()])
        errors = np.array([[row["weight_error"], *row["sd_errors"]][k] for row in table.values()])
        agrees = np.abs(values - truth[k]) <= 3.0 * errors
        axes.axvline(truth[k], color="grey", lw=1.2)
        for color, chosen in (("tab:blue", agrees), ("tab:red", ~agrees)):
            axes.errorbar(
                values[chosen], places[chosen], xerr=3.0 * errors[chosen], fmt="o", ms=4.5, color=color, lw=1.4
            )
        clean(axes, grid=True)
        axes.set_title(name, loc="left", fontsize=10)
        axes.locator_params(axis="x", nbins=4)
    panels[0].set_yticks(places, table)
    panels[0].invert_yaxis()
    panels[0].set_xlabel("bars: three standard errors; gray line: quadrature", fontsize=8)
    return figure


def draw_cost(table: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Solves per effective draw in units of the finest, by the level that they are spent on."""
    figure = Figure(figsize=(8.6, 0.9 + 0.29 * len(table)), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(table))
    left = np.zeros(len(table))
    for level, color in reversed(LEVELS.items()):
        widths = np.array([row["equivalents_by_level"].get(level, 0.0) for row in table.values()])
        axes.barh(places, widths, 0.62, left, color=color, label=level)
        left += widths
    for place, (total, row) in enumerate(zip(left, table.values(), strict=True)):
        gain = f"   {row['gain']:.1f} times fewer" if "gain" in row else ""
        axes.annotate(f"{total:.0f}{gain}", (total, place), (5, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(places, table)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.2 * left.max())
    clean(axes, grid=True).legend(frameon=False, fontsize=8, title="solved on", title_fontsize=8)
    axes.set_xlabel("solves per effective draw of the mode's indicator, in units of 64x64")
    return figure


def _contours(axes: Axes, quadrature: problem.Quadrature, color: str) -> None:
    """Contours that hold half and 95% of the mass."""
    ordered = np.sort(quadrature.density.ravel())[::-1]
    share = np.cumsum(ordered) / ordered.sum()
    levels = [ordered[np.searchsorted(share, mass)] for mass in (0.95, 0.5)]
    points = quadrature.points
    axes.contour(points, points, quadrature.density.T, levels=levels, colors=color, linewidths=1.3, zorder=3)
