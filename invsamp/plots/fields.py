"""Unknown fields as maps, or on a line as curves."""

from __future__ import annotations

import math
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from invsamp.arguments import array, boolean, integer, optional, real, text
from invsamp.plots.canvas import new_figure
from invsamp.plots.figure import COLD, FAINT, GRID, INK, TRUTH, Run, checked_run, clean, title
from invsamp.protocols import Array


class Draws(Protocol):
    """The quantities of a field that are drawn."""

    points: Array
    cells: npt.NDArray[np.integer]
    values: Array
    truth: Array | None

    @property
    def mean(self) -> Array:
        """At each point."""

    @property
    def sd(self) -> Array:
        """At each point."""

    def quantile(self, probability: float) -> Array:
        """At each point."""

    def exceedance(self, level: float) -> Array:
        """At each point."""


def plot_field(
    run: Run,
    field: object,
    mesh: object,
    *,
    sensors: npt.ArrayLike | None = None,
    truth: object = None,
    level: float | None = None,
    on: Literal["nodes", "cells"] = "nodes",
    label: str | None = None,
    samples: int = 0,
    prior: bool = False,
) -> Figure:
    """An unknown field: its posterior mean and sd, the truth and the prior beside them, and draws.

    In the plane these are maps; mean, truth and draws have one scale, and so have the sds of prior and posterior. On a
    line they are curves, with bands that hold 90% of the draws. The posterior's sd is that of the prior far from
    sensors.

    Parameters
    ----------
    run : Run
    field, mesh, on, truth
        As of `invsamp.Run.field`; the mesh in one or two dimensions.
    sensors : array_like, shape (k, d), optional
        Points to mark.
    level : float, optional
        Also the probability that the field is above it.
    label : str, optional
        What the field is, with its unit.
    samples : int, >= 0
        How many draws of the posterior to show beside the mean.
    prior : bool
        Whether to show the prior beside the posterior.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        As of `invsamp.Run.field`, or if an argument has another shape, or the mesh lies in space: for that see
        `write` of what `invsamp.Run.field` gives.
    """
    marked = None if sensors is None else array("sensors", sensors, ("k", "d"))
    name = optional(text, "label", label) or "field"
    optional(real, "level", level)
    integer("samples", samples, least=0), boolean("prior", prior)
    drawn: Draws = checked_run(run).field(field, mesh, on=on, truth=truth)
    before: Draws | None = checked_run(run).field(field, mesh, on=on, of="prior") if prior else None
    dimension = drawn.points.shape[1]
    if dimension > 2:
        raise ValueError(
            f"mesh must have one or two dimensions, got {dimension}: run.field(...).write('field.vtu') is for ParaView"
        )
    shown = drawn.values.reshape(-1, drawn.values.shape[-1])
    shown = shown[np.linspace(0, len(shown) - 1, samples).astype(int)]
    if dimension == 1:
        return _curves(drawn, before, shown, marked, name, on)
    return _maps(drawn, before, shown, marked, name, level, on)


def _curves(
    drawn: Draws, before: Draws | None, shown: Array, marked: Array | None, name: str, on: Literal["nodes", "cells"]
) -> Figure:
    figure = new_figure(7.2, 3.6)
    axes = clean(figure.subplots())
    at = drawn.points[:, 0] if on == "nodes" else drawn.points[drawn.cells].mean(axis=1)[:, 0]
    order = np.argsort(at)
    for draws, color, what in ((before, GRID, "prior, 90%"), (drawn, COLD, "posterior, 90%")):
        if draws is not None:
            low, high = draws.quantile(0.05)[order], draws.quantile(0.95)[order]
            strength = 0.35 if draws is drawn else 0.6
            axes.fill_between(at[order], low, high, color=color, alpha=strength, lw=0, label=what)
    for row in shown:
        axes.plot(at[order], row[order], color=COLD, lw=0.6, alpha=0.6)
    axes.plot(at[order], drawn.mean[order], color=COLD, lw=1.6, label="posterior mean")
    if drawn.truth is not None:
        axes.plot(at[order], drawn.truth[order], color=TRUTH, lw=1.4, label="truth")
    if marked is not None:
        axes.plot(marked[:, 0], np.full(len(marked), axes.get_ylim()[0]), "^", color=INK, ms=4, label="sensors")
    axes.set(xlabel="x", ylabel=name)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=5, fontsize=8, frameon=False)
    return figure


def _maps(
    drawn: Draws,
    before: Draws | None,
    shown: Array,
    marked: Array | None,
    name: str,
    level: float | None,
    on: Literal["nodes", "cells"],
) -> Figure:
    triangles = Triangulation(drawn.points[:, 0], drawn.points[:, 1], _triangles(drawn.cells))
    maps: list[tuple[str, Array, str | Colormap, tuple[float, float]]] = []
    mean, sd = drawn.mean, drawn.sd
    both = np.concatenate([mean, *shown, *(() if drawn.truth is None else (drawn.truth,))])
    ends = (float(both.min()), float(both.max()))
    widest = float(max(sd.max(), 0.0 if before is None else before.sd.max()))
    if drawn.truth is not None:
        maps.append((f"{name}: truth", drawn.truth, "viridis", ends))
    maps.append((f"{name}: posterior mean", mean, "viridis", ends))
    maps.append((f"{name}: posterior sd", sd, "magma", (0.0, widest)))
    if before is not None:
        maps.append((f"{name}: prior sd", before.sd, "magma", (0.0, widest)))
    if level is not None:
        maps.append((f"probability above {level:g}", drawn.exceedance(level), "cividis", (0.0, 1.0)))
    maps += [(f"{name}: draw {k + 1}", row, "viridis", ends) for k, row in enumerate(shown)]
    low, high = drawn.points.min(axis=0), drawn.points.max(axis=0)
    tall = float(np.clip((high[1] - low[1]) / (high[0] - low[0]), 0.25, 2.0))
    columns = 2 if len(maps) == 4 else min(len(maps), 3)
    rows = math.ceil(len(maps) / columns)
    figure = new_figure(3.6 * columns, rows * (0.7 + 2.9 * tall))
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat[len(maps) :]:
        axes.set_axis_off()
    for axes, (heading, values, colors, limits) in zip(panels.flat, maps, strict=False):
        _map(axes, triangles, values if on == "nodes" else _per_triangle(values, drawn.cells), colors, limits)
        if marked is not None:
            axes.plot(*marked.T, "o", color=INK, mfc="white", ms=4, mew=0.9)
        title(axes, heading)
    return figure


def _map(
    axes: Axes, triangles: Triangulation, values: Array, colors: str | Colormap, limits: tuple[float, float]
) -> None:
    shading: Any = {"shading": "gouraud"} if len(values) == len(triangles.x) else {"shading": "flat"}
    image = axes.tripcolor(triangles, values, cmap=colors, vmin=limits[0], vmax=limits[1], rasterized=True, **shading)
    axes.set_aspect("equal")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85, pad=0.02)
    bar.ax.tick_params(labelsize=8, color=FAINT)
    clean(axes)


def _triangles(cells: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Triangles (t, 3) of triangles, or of quadrangles, each of which is cut in two."""
    return cells if cells.shape[1] == 3 else np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]])


def _per_triangle(values: Array, cells: npt.NDArray[np.integer]) -> Array:
    return values if cells.shape[1] == 3 else np.concatenate([values, values])
