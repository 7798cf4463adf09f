"""Figures of profiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import PchipInterpolator
from scipy.stats import chi2, gaussian_kde

from invsamp import arguments
from invsamp.arguments import wrong
from invsamp.plots.canvas import grid
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
    say_first,
    title,
)
from invsamp.protocols import Array, InferenceData

#: Prior draws about a panel, from which on their density is drawn.
_LEAST_DRAWS = 30


class Curve(Protocol):
    """One branch of a profile, as far as the figure needs it."""

    @property
    def values(self) -> Array:
        """Of the parameter (n,)."""

    @property
    def energies(self) -> Array:
        """The least energy at each (n,)."""


class Profiled(Protocol):
    """One parameter's profile, as far as the figure needs it."""

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
    """Profiles of several parameters, as far as the figure needs them."""

    @property
    def profiles(self) -> Mapping[str, Profiled]:
        """By name."""

    @property
    def of(self) -> str:
        """The density of which they are profiles, "posterior" or "likelihood"."""


def plot_profiles(
    run: Run, profiles: ProfiledAll, names: Sequence[str] | None = None, *, ax: Axes | None = None
) -> Figure:
    r"""Profiles against the marginal densities of the posterior and of the prior, each scaled to a peak of 1 there.

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
    ax : Axes, optional
        Where to draw a single entry.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name has no profile or is none of the run's, or there are more than eight, or more than one with ``ax``.
    """
    if not isinstance(profiles, ProfiledAll):
        raise wrong("profiles", "Profiles, as invsamp.profile() returns them", profiles)
    known = list(checked_run(run).labels)
    wanted = list(profiles.profiles)[:MOST_PANELS] if names is None else arguments.names("names", names)
    for name in wanted:
        arguments.one_of("names", name, [label for label in known if label in profiles.profiles])
    if not 0 < len(wanted) <= MOST_PANELS:
        raise ValueError(f"names must stand for 1 to {MOST_PANELS} entries, got {len(wanted)}")
    before = run.data.prior if "prior" in run.data else {}
    figure, panels = grid(len(wanted), 2.9, 2.3, (0.4, 0.5), ax=ax, sharey=True)
    for axes, name in zip(panels, wanted, strict=True):
        column, found = known.index(name), profiles.profiles[name]
        view, least = _view(found.branches), min(np.min(one.energies) for one in found.branches)
        _prior(axes, _of_prior(before, run.shapes, column), view)
        _posterior(axes, run.theta[:, :, column], run.weights)
        for one in found.branches:
            rise, label = one.energies - least, f"profile {profiles.of}" if one is found.branches[0] else None
            fine, between = _between(one.values, rise)
            axes.plot(fine, np.exp(-between), color=HOT, lw=1.6, label=label)
            axes.plot(one.values, np.exp(-rise), ".", color=HOT, ms=4)
        axes.set_xlim(view)
        axes.locator_params(axis="x", nbins=5)
        clean(axes, yticks=False).set_ylim(0.0, 1.08)
        title(axes, name)
    handles, labels = panels[0].get_legend_handles_labels()
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": INK}
    if ax is not None:
        ax.legend(handles, labels, **style)
        return figure
    figure.legend(handles, labels, loc="outside upper right", ncols=3, **style)
    if names is None:
        say_first(figure, len(wanted), len(profiles.profiles), "profiles")
    return figure


def _between(values: Array, rise: Array) -> tuple[Array, Array]:
    """A profile between its points, which has no extremum beside theirs."""
    if len(values) < 2:
        return values, rise
    fine = np.linspace(values[0], values[-1], 200)
    return fine, PchipInterpolator(values, rise)(fine)


def _view(branches: Sequence[Curve]) -> tuple[float, float]:
    """From where to where there is a profile, and a little beside."""
    low, high = min(one.values[0] for one in branches), max(one.values[-1] for one in branches)
    return float(low - 0.3 * (high - low)), float(high + 0.3 * (high - low))


def _of_prior(before: InferenceData, shapes: Mapping[str, tuple[int, ...]], column: int) -> Array:
    """Prior draws of one column of theta; none where a run has none."""
    for name, shape in shapes.items():
        size = math.prod(shape)
        if column < size:
            return np.zeros(0) if name not in before else before[name].to_numpy().reshape(-1, size)[:, column]
        column -= size
    return np.zeros(0)


def _prior(axes: Axes, values: Array, view: tuple[float, float]) -> None:
    """Density of the prior's draws in and about the view, whose peak there is 1; nothing where there are too few.

    By Gaussian kernels, of draws that are reflected at the first and the last: a prior may end there. Positive draws of
    more than one decade that are few next to 0 get theirs on the log scale: their density falls to 0 there.
    """
    kept, _ = finite(values)
    width = view[1] - view[0]
    near = kept[(kept > view[0] - width) & (kept < view[1] + width)]
    if len(near) < _LEAST_DRAWS or np.ptp(near) == 0.0:
        return
    at = np.linspace(*view, 200)
    first, last = float(kept.min()), float(kept.max())
    inside = (at >= first) & (at <= last)
    step = 0.1 * float(np.subtract(*np.quantile(kept, (0.75, 0.25))))
    lowest, above = (np.count_nonzero((kept >= low) & (kept < low + step)) for low in (first, first + step))
    logarithmic = last > 10.0 * first > 0.0 and lowest < 0.7 * above
    scaled, places, *ends = (np.log(part) if logarithmic else part for part in (near, at[inside], first, last))
    mirrored = np.concatenate([scaled, *(2.0 * end - scaled for end in ends)])
    bandwidth = 1.5 * float(np.std(scaled)) * len(near) ** -0.2
    density = np.zeros(at.shape)
    density[inside] = gaussian_kde(mirrored, bandwidth / np.std(mirrored))(places)
    if logarithmic:
        density[inside] /= at[inside]
    if density.max() > 0.0:
        axes.plot(at, density / density.max(), color=FAINT, lw=1.3, label="prior")


def _posterior(axes: Axes, values: Array, weight: Array | None) -> None:
    """Histogram of the posterior's draws, whose highest bin is 1."""
    if not values.size:
        return
    kept, shares = finite(values, weight)
    edges = bins_of(kept, shares)
    heights, _ = np.histogram(kept, edges, density=True, weights=shares)
    axes.stairs(heights / heights.max(), edges, fill=True, color=COLD, alpha=0.22, lw=0)
    axes.stairs(heights / heights.max(), edges, color=COLD, lw=1.3, label="posterior")


def plotted(profiles: Mapping[str, Profiled], level: float, of: str, ax: Axes | None = None) -> Figure:
    """Twice the rise of the energy over each parameter, with the level's intervals shaded; a panel for each."""
    shown = list(profiles.items())[:MOST_PANELS]
    figure, panels = grid(len(shown), 2.9, 2.3, (0.4, 0.5), ax=ax, sharey=True)
    bound = float(chi2.ppf(level, 1))
    for place, (axes, (name, found)) in enumerate(zip(panels, shown, strict=True)):
        for low, high, *_ in found.intervals(level):
            axes.axvspan(low, high, color=GRID, lw=0)
        axes.axhline(bound, color=FAINT, lw=0.8)
        least = min(np.min(one.energies) for one in found.branches)
        for one in found.branches:
            fine, between = _between(one.values, 2.0 * (one.energies - least))
            axes.plot(fine, between, color=COLD, lw=1.5)
            axes.plot(one.values, 2.0 * (one.energies - least), ".", color=COLD, ms=5)
        axes.axvline(found.best, color=HOT, lw=0.8)
        axes.set_ylim(-0.05 * bound, 1.6 * bound)
        axes.locator_params(axis="x", nbins=5)
        clean(axes)
        title(axes, name)
        if place % 4 == 0:
            axes.set_ylabel(f"twice the rise, {of}", color=INK, fontsize=9)
    shaded = f"shaded: below the {level:.0%} quantile of chi-squared"
    if ax is not None:
        ax.set_title(shaded, loc="right", fontsize=7, color=FAINT)
        return figure
    more = "" if len(shown) == len(profiles) else f"; the first {len(shown)} of {len(profiles)} profiles"
    figure.supxlabel(f"{shaded}{more}", fontsize=8, color=INK)
    return figure
