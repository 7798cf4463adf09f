"""Unknown fields as maps."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from invsamp.arguments import array, optional, real, text
from invsamp.plots.canvas import new_figure
from invsamp.plots.figure import FAINT, INK, Run, checked_run, clean, title
from invsamp.protocols import Array


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
) -> Figure:
    """Maps of an unknown field: its posterior mean and sd, the truth beside them, and where it is surely high.

    Mean and truth have one scale. The sd says where the data inform little: that of the prior far from sensors.

    Parameters
    ----------
    run : Run
    field, mesh, on, truth
        As of `invsamp.Run.field`.
    sensors : array_like, shape (k, 2), optional
        Points to mark.
    level : float, optional
        A map more: the probability that the field is above it.
    label : str, optional
        What the field is, with its unit.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        As of `invsamp.Run.field`, or if an argument has another shape.
    """
    marked = None if sensors is None else array("sensors", sensors, ("k", 2))
    name = optional(text, "label", label) or "field"
    optional(real, "level", level)
    drawn = checked_run(run).field(field, mesh, on=on, truth=truth)
    triangles = Triangulation(drawn.points[:, 0], drawn.points[:, 1], _triangles(drawn.cells))
    maps: list[tuple[str, Array, str | Colormap, tuple[float, float]]] = []
    mean, sd = drawn.mean, drawn.sd
    both = mean if drawn.truth is None else np.concatenate([mean, drawn.truth])
    ends = (float(both.min()), float(both.max()))
    if drawn.truth is not None:
        maps.append((f"{name}: truth", drawn.truth, "viridis", ends))
    maps.append((f"{name}: posterior mean", mean, "viridis", ends))
    maps.append((f"{name}: posterior sd", sd, "magma", (0.0, float(sd.max()))))
    if level is not None:
        maps.append((f"probability above {level:g}", drawn.exceedance(level), "cividis", (0.0, 1.0)))
    low, high = drawn.points.min(axis=0), drawn.points.max(axis=0)
    tall = float(np.clip((high[1] - low[1]) / (high[0] - low[0]), 0.25, 2.0))
    rows, columns = (2, 2) if len(maps) == 4 else (1, len(maps))
    figure = new_figure(3.6 * columns, rows * (0.7 + 2.9 * tall))
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, (heading, values, colors, limits) in zip(panels.flat, maps, strict=True):
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
