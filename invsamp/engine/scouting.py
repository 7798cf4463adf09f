"""Descents from prior draws before a run, to know of its modes; and how often its draws visit each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array, Problem
from invsamp.descent import Descent, descend
from invsamp.domains import Domain
from invsamp.engine.lessons import far
from invsamp.engine.streams import Saved
from invsamp.evaluate.requests import Asks, Estimate, Request
from invsamp.minima import Minima, distinct

#: Descents, and the draws of the prior whose spread is the scale of their first steps.
SCOUTS, SCALE_DRAWS = 16, 200
#: Of coarse fidelities, which only lead near, and of the finest: so much energy is left to gain, at the most.
COARSE_TOLERANCE, TOLERANCE = 0.1, 1e-3
#: Evaluations of one descent in one fidelity.
MOST = 2000
#: Parameters up to which Hessians tell modes' Gaussians: they take some 4 d gradients each.
MOST_GAUSSIAN = 200
#: A mode of less weight by Laplace is none.
NEGLIGIBLE = 1e-3
#: Numbers that are held at a time.
MOST_NUMBERS = 20_000_000


class Scouted(NamedTuple):
    """What descents have found."""

    minima: Minima
    descents: int
    unfinished: int
    endless: int  # of these, those that have come far below all minima and still fall


def scout(names: tuple[str, ...], starts: Array, scale: Array, domain: Domain) -> Asks[Scouted]:
    """Descents from starts (n, d) through the fidelities ``names``, from the coarsest to the finest."""
    d, position = starts.shape[1], starts
    for name in names:
        tolerance = TOLERANCE if name == names[-1] else COARSE_TOLERANCE
        end: Descent = yield from descend(_asking(name), position, scale, domain, tolerance=tolerance, most=MOST)
        position = end.position
    worse = far(d) + 10.0
    minima = yield from distinct(_asking(names[-1]), end, scale, domain, worse=worse, gaussian=d <= MOST_GAUSSIAN)
    lowest = np.min(end.energy, where=end.converged, initial=np.inf)
    endless = np.count_nonzero(~end.converged & (end.energy < lowest - far(d)))
    return Scouted(minima, len(starts), int(np.count_nonzero(~end.converged)), int(endless))


def starts_of(problem: Problem, rng: np.random.Generator, placed: Array) -> tuple[Array, Array]:
    """Where descents begin (n, d), and their scale (d,): the problem's starts, or where chains stand if it has none."""
    d = placed.shape[1]
    try:
        several = problem.sample_start(rng, int(np.clip(MOST_NUMBERS // d, SCOUTS, SCALE_DRAWS)))
    except ValueError:
        return placed, np.ones(d)
    low, high = np.quantile(several, (0.25, 0.75), axis=0)
    scale = np.where(high > low, (high - low) / 1.349, 1.0)
    # a descent remembers some twenty points
    return several[: int(np.clip(MOST_NUMBERS // (20 * d), 2, SCOUTS))], scale


class Visits:
    """What descents found before a run, and how many of its draws belong to each mode."""

    def __init__(self) -> None:
        self.scouted: Scouted | None = None
        self._counts = np.zeros(0, dtype=np.int64)
        self._scale = np.ones(0)

    def found(self, scouted: Scouted, scale: Array) -> None:
        """Begin to count."""
        self.scouted, self._scale = scouted, scale
        self._counts = np.zeros(len(scouted.minima.energies), dtype=np.int64)

    def count(self, positions: Array) -> None:
        """Draws (n, d) of the cold rung."""
        if self.scouted is None or not len(self._counts):
            return
        if len(self._counts) == 1:
            self._counts[0] += len(positions)
            return
        for part in np.array_split(positions, max(1, positions.size // MOST_NUMBERS)):
            self._counts += np.bincount(nearest(self.scouted.minima, self._scale, part), minlength=len(self._counts))

    def state(self) -> Saved:
        """For `restore`."""
        return {"scouted": self.scouted, "counts": self._counts.copy(), "scale": self._scale}

    def restore(self, state: Saved) -> None:
        """Go on from a state."""
        self.scouted, self._counts, self._scale = state["scouted"], state["counts"].copy(), state["scale"]

    def report(self, problem: Problem) -> dict[str, Any] | None:
        """Modes with their weights and visits, in plain types; None if nobody looked, or there is none."""
        if self.scouted is None:
            return None
        minima = self.scouted.minima
        return {
            "theta": problem.to_theta(minima.position).tolist() if len(minima.energies) else [],
            "energies": minima.energies.tolist(),
            "weights": minima.weights.tolist(),
            "by_laplace": minima.gaussian,
            "visits": self._counts.tolist(),
            "descents": self.scouted.descents,
            "unfinished": self.scouted.unfinished,
            "endless": self.scouted.endless,
        }


def nearest(minima: Minima, scale: Array, positions: Array) -> npt.NDArray[np.intp]:
    """Which minimum each position (n, d) belongs to (n,): the one whose Gaussian is the highest there."""
    heights = []
    for k, centre in enumerate(minima.position):
        moved = positions - centre
        if minima.gaussian:
            factor = np.linalg.cholesky(minima.covariances[k])
            heights.append(minima.energies[k] + 0.5 * np.square(np.linalg.solve(factor, moved.T)).sum(axis=0))
        else:
            heights.append(np.square(moved / scale).sum(axis=1))
    return np.asarray(np.argmin(heights, axis=0))


def _asking(fidelity: str) -> Callable[[Array], Asks[Estimate]]:
    def evaluate(at: Array) -> Asks[Estimate]:
        (found,) = yield (Request(fidelity, at),)
        return found

    return evaluate
