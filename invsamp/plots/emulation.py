"""How an emulator has learned: errors, posterior and simulations by round, and where it is least sure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from invsamp.arguments import wrong
from invsamp.plots.canvas import new_figure
from invsamp.plots.figure import COLD, GRID, HOT, INK, clean, title
from invsamp.protocols import Array

#: Parameters whose means by round are drawn, and that the last panel has a choice of.
_MOST = 8
#: Parameters over whose pairs the emulator's sd is drawn.
_PAIRS = 6


class EmulatedRun(Protocol):
    """A run, as far as the figure needs it."""

    @property
    def report(self) -> Any:
        """With ``emulation``."""

    @property
    def labels(self) -> list[str]:
        """Of the columns of theta."""

    @property
    def theta(self) -> Array:
        """Draws (chains, draws, d)."""

    @property
    def simulations(self) -> Any:
        """A data frame with a column for each input."""

    def error_sd(self) -> Array:
        """Sd of the emulator's error in the misfit at each draw, (chains, draws)."""


def plot_emulation(run: EmulatedRun) -> Figure:
    """Simulations by purpose; errors and posterior by round; the emulator's sd over two parameters.

    The errors are those of energies of posterior draws that all other simulations predict, what they change of a mean
    or an sd, and the emulator's own sd of the misfit. The posterior is drawn as means, with a band of one sd, of each
    coordinate in which the sampler moves, relative to the last round. In the last panel the two parameters are those
    along which the emulator's sd changes most.

    Parameters
    ----------
    run : EmulatedRun
        Of `invsamp.emulate`.

    Returns
    -------
    Figure
    """
    facts = run.report["emulation"]
    figure = new_figure(10.5, 7.2)
    panels = figure.subplots(2, 2)
    _purposes(panels[0, 0], facts)
    if facts["rounds"]:
        _errors(panels[0, 1], facts["rounds"])
        _posterior(panels[1, 0], facts["rounds"], run.labels)
    else:
        for unused in (panels[0, 1], panels[1, 0]):
            unused.set_visible(False)
    _where(figure, panels[1, 1], run)
    return figure


def plot_error_sd(run: EmulatedRun, names: Sequence[str] | None = None) -> Figure:
    """The emulator's sd of the misfit over pairs of parameters, and where simulations were.

    Parameters
    ----------
    run : EmulatedRun
        Of `invsamp.emulate`.
    names : sequence of str, optional
        Columns of ``run.labels``, two to six of them; by default the first six.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name is not a label of the run, or there are more than six.
    """
    chosen = run.labels[:_PAIRS] if names is None else list(names)
    if wrong_ones := [name for name in chosen if name not in run.labels]:
        raise wrong("names", f"among {run.labels}", wrong_ones[0])
    if not 1 <= len(chosen) <= _PAIRS:
        raise wrong("names", f"one to {_PAIRS} labels", chosen)
    theta, sd = run.theta.reshape(-1, run.theta.shape[2]), run.error_sd().ravel()
    made, count = run.simulations, len(chosen)
    sides = max(count - 1, 1)
    figure = new_figure(2.6 * sides + 1.4, 2.4 * sides + 0.6)
    panels = figure.subplots(sides, sides, squeeze=False)
    for unused in panels[np.triu_indices(sides, 1)]:
        unused.set_visible(False)
    color = Normalize(0.0, max(float(np.quantile(sd, 0.99)), 1e-6))
    for down in range(sides):
        for across in range(down + 1):
            axes, first, second = panels[down, across], chosen[across], chosen[min(down + 1, count - 1)]
            x, y = (theta[:, run.labels.index(name)] for name in (first, second))
            axes.hexbin(x, y, C=sd, reduce_C_function=np.mean, gridsize=28, cmap="viridis", norm=color, lw=0.1)
            if first in made and second in made:
                good = made["succeeded"].to_numpy()
                axes.plot(made[first][good], made[second][good], "o", color=INK, mec="white", mew=0.6, ms=4)
                axes.plot(made[first][~good], made[second][~good], "x", color=HOT, ms=4)
            low, high = np.quantile(np.column_stack([x, y]), (0.001, 0.999), axis=0)
            pad = 0.15 * (high - low)
            axes.set(xlim=(low[0] - pad[0], high[0] + pad[0]), ylim=(low[1] - pad[1], high[1] + pad[1]))
            clean(axes)
            if down == sides - 1:
                axes.set_xlabel(first)
            if across == 0:
                axes.set_ylabel(second)
    shown = ScalarMappable(color, "viridis")
    figure.colorbar(
        shown, ax=panels.ravel().tolist(), label="emulator's sd of the misfit; dots: simulations", shrink=0.8
    )
    return figure


def _purposes(axes: Axes, facts: Any) -> None:
    names = list(facts["purposes"])
    counts = [facts["purposes"][name] for name in names]
    axes.barh(range(len(names)), counts, color=COLD, height=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    for k, count in enumerate(counts):
        axes.annotate(str(count), (count, k), xytext=(4, 0), textcoords="offset points", va="center", color=INK)
    axes.set_xlim(0, 1.15 * max(counts))
    axes.set_xlabel("simulations")
    title(clean(axes), f"{facts['simulations']} simulations, {facts['failed']} failed")


def _errors(axes: Axes, rounds: Any) -> None:
    at = [one["simulations"] for one in rounds]
    lines = (
        ("held_out", "sd of held-out errors", COLD, "o-"),
        ("predicted", "sd by the emulator", HOT, "o-"),
        ("effect", "effect on a mean or sd", INK, "o:"),
    )
    for name, label, color, style in lines:
        values = np.array([np.nan if one[name] is None else max(one[name], 1e-4) for one in rounds])
        axes.plot(at, values, style, color=color, label=label, ms=4)
    axes.axhline(0.1, color=INK, lw=1.0, ls=(0, (4, 2)))
    axes.set_yscale("log")
    axes.set_xlabel("simulations")
    axes.set_ylabel("error of the energy")
    axes.legend(frameon=False)
    title(clean(axes), "Errors by round")


def _posterior(axes: Axes, rounds: Any, labels: list[str]) -> None:
    at = [one["simulations"] for one in rounds]
    mean, sd = (np.array([one[name] for one in rounds])[:, :_MOST] for name in ("mean", "sd"))
    step = 4.0
    for k in range(mean.shape[1]):
        center, width = (mean[:, k] - mean[-1, k]) / sd[-1, k], sd[:, k] / sd[-1, k]
        axes.fill_between(at, -step * k + center - width, -step * k + center + width, color=COLD, alpha=0.2, lw=0)
        axes.plot(at, -step * k + center, "o-", color=COLD, ms=3)
    axes.set_yticks([-step * k for k in range(mean.shape[1])], labels[: mean.shape[1]])
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_xlabel("simulations")
    title(clean(axes), "Posterior by round: mean, and one sd")


def _where(figure: Figure, axes: Axes, run: EmulatedRun) -> None:
    theta, sd = run.theta.reshape(-1, run.theta.shape[2]), run.error_sd().ravel()
    order = np.argsort(sd)
    ranks = np.argsort(np.argsort(theta, axis=0), axis=0) - 0.5 * len(theta)
    far = np.abs(ranks) @ np.eye(theta.shape[1])
    level = np.argsort(np.argsort(sd)) - 0.5 * len(sd)
    strength = np.maximum(np.abs(level @ ranks), np.abs(level @ (far - far.mean(axis=0))))
    first, second = np.argsort(-strength)[:2] if theta.shape[1] > 1 else (0, 0)
    points = axes.scatter(theta[order, first], theta[order, second], c=sd[order], s=5, cmap="viridis", lw=0)
    figure.colorbar(points, ax=axes, label="emulator's sd of the misfit")
    axes.set_xlabel(run.labels[first])
    axes.set_ylabel(run.labels[second])
    title(clean(axes), "Where the emulator is most uncertain")
