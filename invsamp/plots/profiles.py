"""Figures of profiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import PchipInterpolator
from scipy.stats import chi2

from invsamp import arguments
from invsamp.arguments import wrong
from invsamp.plots.figure import (
    COLD,
    FAINT,
    GRID,
    HOT,
    INK,
    MOST_PANELS,
    Run,
    bins_of,
    checked_run,
    clean,
    finite,
    grid,
    title,
)
from invsamp.protocols import Array, InferenceData


class Curve(Protocol):
    """What the figure needs of one branch of a profile."""

    @property
    def values(self) -> Array:
        """Of the parameter (n,)."""

    @property
    def energies(self) -> Array:
        """The least energy at each (n,)."""


class Profiled(Protocol):
    """What the figure needs of one parameter's profile."""

    @property
    def branches(self) -> Sequence[Curve]:
        """From each mode."""

    @property
    def best(self) -> float:
        """Where it is least."""

    def intervals(self, level: float) -> Sequence[tuple[Any, ...]]:
        """From where to where, first, of each."""


@runtime_checkable
class ProfiledAll(Protocol):
    """What the figure needs of the profiles of several parameters."""

    @property
    def profiles(self) -> Mapping[str, Profiled]:
        """By name."""

    @property
    def of(self) -> str:
        """What they are profiles of."""


def plot_profiles(run: Run, profiles: ProfiledAll, names: Sequence[str] | None = None) -> Figure:
    r"""Profiles against the marginal densities of the posterior and of the prior, each scaled to a peak of 1.

    A profile is :math:`\exp(-(E_i - \min E))`, the relative likelihood of a parameter at the best fit of all others.
    Where it is flat, the data do not know the parameter, and what the posterior shows there is the prior's. Where the
    marginal lies beside it, the bulk of the draws lies elsewhere than the best fit: many combinations of the others
    fit nearly as well.

    Parameters
    ----------
    run : Run
    profiles : Profiles
        Of `invsamp.profile`, of the same parameters.
    names : sequence of str, optional
        Single entries; by default the first eight that have a profile.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name has no profile or is none of the run's, or there are more than eight.
    """
    if not isinstance(profiles, ProfiledAll):
        raise wrong("profiles", "Profiles, as invsamp.profile() returns them", profiles)
    known = list(checked_run(run).labels)
    wanted = list(profiles.profiles)[:MOST_PANELS] if names is None else arguments.names("names", names)
    for name in wanted:
        arguments.one_of("names", name, [label for label in known if label in profiles.profiles])
    if not 0 < len(wanted) <= MOST_PANELS:
        raise ValueError(f"names must stand for 1 to {MOST_PANELS} entries, got {len(wanted)}")
    before = run.data.prior if "prior" in run.data.groups() else {}
    figure, panels = grid(len(wanted), 2.9, 2.3, (0.4, 0.5), sharey=True)
    for axes, name in zip(panels, wanted, strict=True):
        column, found = known.index(name), profiles.profiles[name]
        ends, least = _range(found.branches), min(np.min(one.energies) for one in found.branches)
        _peaked(axes, _of_prior(before, run.shapes, column), None, FAINT, "prior", ends)
        _peaked(axes, run.theta[:, :, column], run.weights, COLD, "posterior", None)
        for one in found.branches:
            rise, label = one.energies - least, f"profile {profiles.of}" if one is found.branches[0] else None
            if len(rise) > 1:
                fine = np.linspace(one.values[0], one.values[-1], 200)
                between = PchipInterpolator(one.values, rise)(fine)
                axes.plot(fine, np.exp(-between), color=HOT, lw=1.6, label=label)
            axes.plot(one.values, np.exp(-rise), ".", color=HOT, ms=4)
        clean(axes, yticks=False).set_ylim(0.0, 1.08)
        title(axes, name)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=3, frameon=False, fontsize=8, labelcolor=INK)
    return figure


def _range(branches: Sequence[Curve]) -> Array:
    return np.array([min(one.values[0] for one in branches), max(one.values[-1] for one in branches)])


def _of_prior(before: InferenceData, shapes: Mapping[str, tuple[int, ...]], column: int) -> Array:
    """Prior draws of one column of theta; none where a run has none."""
    for name, shape in shapes.items():
        size = math.prod(shape)
        if column < size:
            return np.zeros(0) if name not in before else before[name].to_numpy().reshape(-1, size)[:, column]
        column -= size
    return np.zeros(0)


def _peaked(axes: Axes, values: Array, weight: Array | None, color: str, label: str, within: Array | None) -> None:
    """Outline of a density, whose highest bin is 1; the prior's within and a little around where there is a profile."""
    if not values.size:
        return
    kept, shares = finite(values, weight)
    edges = bins_of(kept, shares)
    heights, _ = np.histogram(kept, edges, density=True, weights=shares)
    if within is None:
        axes.stairs(heights / heights.max(), edges, fill=True, color=color, alpha=0.22, lw=0)
    else:
        width = np.ptp(within)
        axes.set_xlim(within[0] - 0.3 * width, within[1] + 0.3 * width)
    axes.stairs(heights / heights.max(), edges, color=color, lw=1.3, label=label)


def plotted(profiles: Mapping[str, Profiled], level: float, of: str) -> Figure:
    """Twice the rise of the energy over each parameter, with the level's intervals shaded; a panel for each."""
    shown = list(profiles.items())[:MOST_PANELS]
    figure, panels = grid(len(shown), 2.9, 2.3, (0.4, 0.5), sharey=True)
    bound = float(chi2.ppf(level, 1))
    for place, (axes, (name, found)) in enumerate(zip(panels, shown, strict=True)):
        for low, high, *_ in found.intervals(level):
            axes.axvspan(low, high, color=GRID, lw=0)
        axes.axhline(bound, color=FAINT, lw=0.8)
        least = min(np.min(one.energies) for one in found.branches)
        for one in found.branches:
            axes.plot(one.values, 2.0 * (one.energies - least), color=COLD, lw=1.5, marker=".", ms=3)
        axes.axvline(found.best, color=HOT, lw=0.8)
        axes.set_ylim(-0.05 * bound, 1.6 * bound)
        clean(axes)
        title(axes, name)
        if place % 4 == 0:
            axes.set_ylabel(f"twice the rise, {of}", color=INK, fontsize=9)
    figure.supxlabel(f"shaded: below the {level:.0%} quantile of chi-squared", fontsize=8, color=FAINT)
    return figure
