"""Figure of a calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from invsamp.plots.canvas import grid
from invsamp.plots.figure import COLD, FAINT, GRID, HOT, INK, clean, title
from invsamp.protocols import Array


def plotted(
    labels: Sequence[str],
    ranks: npt.NDArray[np.int64],
    draws: int,
    p_values: Array,
    bands: tuple[Array, Array],
    limit: float,
    false_alarm: float,
    of: int,
    ax: Axes | None = None,
) -> Figure:
    """Share of the ranks (n, q) up to each less that of uniform ranks, a panel for each of q quantities, with bands.

    A p-value below ``limit`` is marked. Above the zero line on the left: too many low ranks, so that draws lie too
    high. An S that falls first: draws are too wide.
    """
    figure, panels = grid(len(labels), 2.9, 2.3, (0.4, 0.5), ax=ax, sharex=True, sharey=True)
    at = np.arange(1, draws + 1) / (draws + 1)
    for place, (axes, label, column, p) in enumerate(zip(panels, labels, ranks.T, p_values, strict=True)):
        share = np.cumsum(np.bincount(column, minlength=draws + 1))[:-1] / len(column)
        axes.fill_between(at, *bands, step="mid", color=GRID, lw=0)
        axes.axhline(0.0, color=FAINT, lw=0.8)
        axes.step(at, share - at, where="mid", color=COLD if p >= limit else HOT, lw=1.5)
        clean(axes)
        title(axes, label)
        axes.set_title(f"p = {p:.2g}", loc="right", fontsize=8, color=FAINT)
        if place % 4 == 0:
            axes.set_ylabel("share of ranks, less uniform", color=INK, fontsize=9)
        if place + 4 >= len(labels):
            axes.set_xlabel("rank of the truth, as a share", color=INK, fontsize=9)
    if ax is None:
        worst = f"; the {len(labels)} of {of} quantities that depart most" if len(labels) < of else ""
        held = f"in one calibration in {1.0 / false_alarm:,.0f} of a correct sampler, a quantity leaves its band"
        figure.supxlabel(f"{held}{worst}", fontsize=8, color=INK)
    return figure
