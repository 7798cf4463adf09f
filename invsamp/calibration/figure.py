"""Figure of a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from invsamp import arguments
from invsamp.plots.figure import COLD, FAINT, GRID, HOT, INK, MOST_PANELS, clean, new_figure, title
from invsamp.protocols import Array


class Calibrated(Protocol):
    """What the figure needs of an `invsamp.calibration.Calibration`, which offers it as a method."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What was ranked."""
        ...

    @property
    def ranks(self) -> npt.NDArray[np.int64]:
        """Ranks (n, q)."""
        ...

    @property
    def draws(self) -> int:
        """Among so many."""
        ...

    @property
    def false_alarm(self) -> float:
        """Of all bands together."""
        ...

    @property
    def p_values(self) -> Array:
        """For each quantity (q,)."""
        ...

    def bands(self) -> tuple[Array, Array]:
        """Of the differences."""
        ...


def plotted(calibration: Calibrated, names: Sequence[str] | None) -> Figure:
    """Share of the ranks up to each less that of uniform ranks, a panel for each quantity, with simultaneous bands.

    Above the zero line on the left: too many low ranks, so that draws lie too high. An S that falls first: draws are
    too wide.
    """
    if names is None:
        chosen = np.sort(np.argsort(calibration.p_values, kind="stable")[:MOST_PANELS]).tolist()
    else:
        known = list(calibration.labels)
        chosen = [known.index(arguments.one_of("names", name, known)) for name in arguments.names("names", names)]
        if len(chosen) > MOST_PANELS:
            raise ValueError(f"names must be {MOST_PANELS} at most, got {len(chosen)}")
    across = min(4, len(chosen))
    down = -(-len(chosen) // across)
    figure = new_figure(2.9 * across + 0.4, 2.3 * down + 0.5)
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    at = np.arange(1, calibration.draws + 1) / (calibration.draws + 1)
    low, high = calibration.bands()
    limit = calibration.false_alarm / len(calibration.labels)
    for place, axes in enumerate(panels.ravel()):
        if place >= len(chosen):
            axes.set_visible(False)
            continue
        k = chosen[place]
        counts = np.bincount(calibration.ranks[:, k], minlength=calibration.draws + 1)
        share = np.cumsum(counts)[:-1] / len(calibration.ranks)
        p = calibration.p_values[k]
        axes.fill_between(at, low, high, step="mid", color=GRID, lw=0)
        axes.axhline(0.0, color=FAINT, lw=0.8)
        axes.step(at, share - at, where="mid", color=COLD if p >= limit else HOT, lw=1.5)
        clean(axes)
        title(axes, calibration.labels[k])
        axes.set_title(f"p = {p:.2g}", loc="right", fontsize=8, color=FAINT)
        if place % across == 0:
            axes.set_ylabel("share of ranks, less uniform", color=INK, fontsize=9)
        if place + across >= len(chosen):
            axes.set_xlabel("rank of the truth, as a share", color=INK, fontsize=9)
    figure.supxlabel(
        f"bands hold all quantities at once, but for one calibration in {1.0 / calibration.false_alarm:,.0f}",
        fontsize=8,
        color=FAINT,
    )
    return figure
