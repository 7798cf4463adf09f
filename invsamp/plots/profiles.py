"""Figure of profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import chi2

from invsamp.contract import Array
from invsamp.plots.figure import COLD, FAINT, GRID, HOT, INK, MOST_PANELS, clean, new_figure, title


class Profiled(Protocol):
    """What the figure needs of one parameter's profile."""

    @property
    def values(self) -> Array:
        """Of the parameter (n,)."""
        ...

    @property
    def energies(self) -> Array:
        """The least energy at each (n,)."""
        ...

    @property
    def best(self) -> float:
        """Where it is least."""
        ...

    def interval(self, level: float) -> tuple[Any, ...]:
        """From where to where, first."""
        ...


def plotted(profiles: Mapping[str, Profiled], level: float, of: str) -> Figure:
    """Twice the rise of the energy over each parameter, with the level's interval shaded; a panel for each."""
    if len(profiles) > MOST_PANELS:
        profiles = dict(list(profiles.items())[:MOST_PANELS])
    across = min(4, len(profiles))
    down = -(-len(profiles) // across)
    figure = new_figure(2.9 * across + 0.4, 2.3 * down + 0.5)
    panels = figure.subplots(down, across, squeeze=False, sharey=True)
    bound = float(chi2.ppf(level, 1))
    for place, axes in enumerate(panels.ravel()):
        if place >= len(profiles):
            axes.set_visible(False)
            continue
        name, found = list(profiles.items())[place]
        low, high = found.interval(level)[:2]
        axes.axvspan(low, high, color=GRID, lw=0)
        axes.axhline(bound, color=FAINT, lw=0.8)
        axes.plot(found.values, 2.0 * (found.energies - np.min(found.energies)), color=COLD, lw=1.5, marker=".", ms=3)
        axes.axvline(found.best, color=HOT, lw=0.8)
        axes.set_ylim(-0.05 * bound, 1.6 * bound)
        clean(axes)
        title(axes, name)
        if place % across == 0:
            axes.set_ylabel(f"twice the rise, {of}", color=INK, fontsize=9)
    figure.supxlabel(f"shaded: below the {level:.0%} quantile of chi-squared", fontsize=8, color=FAINT)
    return figure
