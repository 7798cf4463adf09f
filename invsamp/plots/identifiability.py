"""Information of the data on combinations of parameters: stiff directions, and sloppy ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.linalg import eigh

from invsamp.plots.canvas import new_figure
from invsamp.plots.figure import COLD, FAINT, GRID, HOT, INK, Run, clean, columns, title
from invsamp.protocols import Array
from invsamp.storage import layout

#: Entries of theta whose directions can still be distinguished in a picture.
_MOST = 30
#: Points of a cloud.
_POINTS = 600


class Directions(NamedTuple):
    """Directions in which draws of the posterior are spread more or less, in units of the prior."""

    labels: list[str]
    spread: Array  # (k,) sd of the posterior along each, over that of the prior, from the stiffest to the sloppiest
    moves: Array  # (k, k) what one prior sd along each (column) moves each parameter (row) by, in its own prior sds
    prior: Array  # (m, k) prior draws along each, of sd 1
    posterior: Array  # (n, k)
    weights: Array | None  # (n,)


def plot_identifiability(run: Run, names: Sequence[str] | None = None) -> Figure:
    """How much of the prior's spread is left in every direction of the parameters, and what the directions are.

    The directions w are those of the generalized eigenproblem cov(posterior) w = s^2 cov(prior) w: along the
    stiffest the draws have the smallest sd relative to the prior's. Along the sloppiest, where s is near 1, the data
    say nothing. Parameters that are positive in all draws count by their logarithms. The last two panels are clouds of
    the prior's and the posterior's draws: in the two sloppiest directions, and the stiffest against the sloppiest.

    Second moments only: of a posterior with several modes, or curved, a direction is an average.

    Parameters
    ----------
    run : Run
        With draws from the prior, as runs of a `Posterior` have them.
    names : sequence of str, optional
        Parameters or single entries; by default the first 30. The others are left as they are drawn, not held.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a name is unknown, there are fewer than two entries or more than 30, or the run has too few draws of the
        prior or the posterior.

    References
    ----------
    Cui et al. (2014), "Likelihood-informed dimension reduction for nonlinear inverse problems", Inverse Problems 30,
    section 3, for the eigenproblem; of covariances here, not of Hessians.
    """
    found = directions(run, names)
    count = len(found.labels)
    figure = new_figure(min(12.0, 6.4 + 0.45 * count), 6.6)
    (bars, loadings), (sloppy, stiff) = figure.subplots(2, 2)
    at = np.arange(count)
    bars.bar(at, found.spread, width=0.6, color=[HOT if s > 0.5 else COLD for s in found.spread])
    bars.axhline(1.0, color=FAINT, lw=0.9, ls=(0, (4, 2)))
    bars.set_yscale("log")
    bars.yaxis.set_major_formatter("{x:g}")
    bars.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    bars.yaxis.set_minor_formatter("{x:g}" if found.spread[-1] < 20.0 * found.spread[0] else NullFormatter())
    bars.set_xticks(at, [str(k + 1) for k in at])
    bars.set_xlabel("direction, from stiff to sloppy", color=INK, fontsize=9)
    clean(bars)
    title(bars, "posterior sd / prior sd")
    image = loadings.imshow(found.moves, cmap="RdBu_r", vmin=-1.0, vmax=1.0, aspect="auto")
    loadings.set_xticks(at, [str(k + 1) for k in at])
    loadings.set_yticks(at, found.labels)
    loadings.tick_params(labelsize=8 if count <= 12 else 6, length=0)
    loadings.set_xlabel("direction", color=INK, fontsize=9)
    loadings.spines[:].set_visible(False)
    title(loadings, "effect of one prior sd along it, in prior sds")
    figure.colorbar(image, ax=loadings, shrink=0.85).ax.tick_params(labelsize=7)
    _cloud(sloppy, found, count - 1, count - 2)
    _cloud(stiff, found, count - 1, 0)
    sloppy.legend(frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0.1)
    return figure


def directions(run: Run, names: Sequence[str] | None = None) -> Directions:
    """See `plot_identifiability`."""
    shown = columns(run, names, _MOST)
    if len(shown) < 2:
        raise ValueError(f"names must stand for at least two entries, got {len(shown)}")
    if "prior" not in run.data:
        raise ValueError("run must hold draws from the prior, as that of a Posterior does, got one without")
    at = [column for column, _ in shown]
    prior = layout.join({name: run.data.prior[name].to_numpy() for name in run.shapes})
    prior = prior.reshape(-1, prior.shape[-1])[:, at]
    theta, weights = run.theta.reshape(-1, run.theta.shape[-1])[:, at], run.weights
    kept = np.isfinite(theta).all(axis=1)
    theta, shares = theta[kept], None if weights is None else weights.ravel()[kept]
    if min(len(prior), len(theta)) < 5 * len(at):
        raise ValueError(
            f"run must hold 5 draws of prior and posterior for each of {len(at)} entries, "
            f"got {len(prior)} and {len(theta)}"
        )
    logs = np.asarray((prior > 0.0).all(axis=0) & (theta > 0.0).all(axis=0))
    prior, theta = (np.where(logs, np.log(np.where(logs, values, 1.0)), values) for values in (prior, theta))
    center, spread = prior.mean(axis=0), prior.std(axis=0, ddof=1)
    if not (spread > 0.0).all():
        still = [label for (_, label), s in zip(shown, spread, strict=True) if not s > 0.0]
        raise ValueError(f"names must be of parameters that vary in the prior, got {', '.join(still)}")
    prior, theta = (prior - center) / spread, (theta - center) / spread
    before = np.cov(prior.T)
    values, vectors = eigh(np.cov(theta.T, aweights=shares), before)
    moves = before @ vectors
    # an eigenvector has no sign: what moves most moves up
    signs = np.sign(moves[np.abs(moves).argmax(axis=0), np.arange(len(at))])
    labels = [f"log {label}" if log else label for (_, label), log in zip(shown, logs, strict=True)]
    sds = np.sqrt(np.maximum(values, 0.0))
    return Directions(labels, sds, moves * signs, prior @ vectors * signs, theta @ vectors * signs, shares)


def _cloud(axes: Axes, found: Directions, i: int, j: int) -> None:
    taken = np.linspace(0, len(found.posterior) - 1, min(_POINTS, len(found.posterior))).astype(int)
    if found.weights is not None:
        taken = np.random.default_rng(0).choice(len(found.posterior), _POINTS, p=found.weights / found.weights.sum())
    axes.plot(found.prior[:_POINTS, i], found.prior[:_POINTS, j], ".", color=FAINT, ms=2.5, alpha=0.6, label="prior")
    axes.plot(found.posterior[taken, i], found.posterior[taken, j], ".", color=COLD, ms=2.5, label="posterior")
    axes.axhline(0.0, color=GRID, lw=0.8, zorder=0)
    axes.axvline(0.0, color=GRID, lw=0.8, zorder=0)
    axes.set_xlabel(f"direction {i + 1}, in prior sds", color=INK, fontsize=9)
    axes.set_ylabel(f"direction {j + 1}", color=INK, fontsize=9)
    clean(axes)
