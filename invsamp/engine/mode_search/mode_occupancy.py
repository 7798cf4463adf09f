"""How often a run's draws visit each of the modes that descents found before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from invsamp.diagnostics.report import FoundModes
from invsamp.engine.mode_search.multistart import AWAY, MOST_NUMBERS, ModeSearchResult
from invsamp.engine.mode_search.search_points import Region
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.modes.minima import Minima
from invsamp.posing.expressions.variable_names import labels_of
from invsamp.protocols import Array, DrawablePrior, MayGuessStarts, Problem

#: Share of the largest change in divergent optimizations from which on other parameters are named.
SHARE_AWAY = 0.1
#: Parameters whose ends of a box are shown.
SHOWN = 4


class ModeOccupancy(Lasting, lasting=("mode_search_result", "_counts", "_scale", "_reach")):
    """Minima that optimizations found before a run, and the number of its draws in each mode."""

    def __init__(self) -> None:
        self.mode_search_result: ModeSearchResult | None = None
        self._scale = np.ones(0)
        self.forget()

    def found(self, mode_search_result: ModeSearchResult, scale: Array) -> None:
        """Begin to count."""
        self.mode_search_result, self._scale = mode_search_result, scale
        self.forget()

    def forget(self) -> None:
        """Begin to count anew."""
        result = self.mode_search_result
        self._counts = np.zeros(0 if result is None else len(result.minima.energies), dtype=np.int64)
        self._reach = np.zeros(len(self._scale))

    def count(self, positions: Array) -> None:
        """Draws (n, d) of the cold rung."""
        if self.mode_search_result is None or not len(self._counts):
            return
        minima = self.mode_search_result.minima
        lowest, high, low = minima.position[0], positions.max(0, initial=-np.inf), positions.min(0, initial=np.inf)
        self._reach = np.fmax(self._reach, np.maximum(high - lowest, lowest - low) / self._scale)
        if len(self._counts) == 1:
            self._counts[0] += len(positions)
            return
        for part in np.array_split(positions, max(1, positions.size // MOST_NUMBERS)):
            self._counts += np.bincount(nearest(minima, self._scale, part), minlength=len(self._counts))

    def report(self, problem: Problem) -> FoundModes | None:
        """Modes with their weights and visits, in plain types; None if no one looked, or there is none."""
        result = self.mode_search_result
        if result is None:
            return None
        minima, names = result.minima, labels_of(problem)
        named = len(names) == len(self._scale)
        wandered = np.flatnonzero(self._reach > AWAY) if named else ()
        return {
            "theta": problem.to_theta(minima.position).tolist() if len(minima.energies) else [],
            "energies": minima.energies.tolist(),
            "weights": minima.weights.tolist(),
            "by_laplace": minima.known.tolist(),
            "mode_occupancy": self._counts.tolist(),
            "descents": result.descents,
            "unfinished": result.unfinished,
            "endless": result.endless,
            "away": diverged(result, names) if named else [],
            "flat": [names[k] for k in _flat(minima, self._scale)] if named else [],
            "wandered": {names[k]: float(self._reach[k]) for k in wandered},
            "searched": result.searched,
            "unseen": result.unseen,
            "lowest_by": result.lowest_by,
            "from_prior": isinstance(problem, DrawablePrior),
            "region": searched_region(problem, result),
            "guessed": _guessed(problem, result.region),
        }


def nearest(minima: Minima, scale: Array, positions: Array) -> npt.NDArray[np.intp]:
    """Which minimum each position (n, d) belongs to (n,): the one whose Gaussian is the highest there."""
    heights = []
    for k, center in enumerate(minima.position):
        moved = positions - center
        if minima.measured:
            factor = np.linalg.cholesky(minima.extents[k])
            heights.append(minima.energies[k] + 0.5 * np.square(np.linalg.solve(factor, moved.T)).sum(axis=0))
        else:
            heights.append(np.square(moved / scale).sum(axis=1))
    return np.asarray(np.argmin(heights, axis=0))


def searched_region(problem: Problem, result: ModeSearchResult) -> dict[str, list[float]]:
    """The box that descents have searched without a prior: lower and upper end by parameter; empty if there is none."""
    names = labels_of(problem)
    if result.region is None or len(names) != len(result.region.low):
        return {}
    ends = np.sort(problem.to_theta(np.stack(result.region)), axis=0)
    return {name: [float(low), float(high)] for name, low, high in zip(names, *ends, strict=True)}


def described_region(region: Mapping[str, Sequence[float]]) -> str:
    """That box in words, after the starts of optimizations; its first parameters."""
    shown = [f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in list(region.items())[:SHOWN]]
    more = ", ..." if len(region) > SHOWN else ""
    return f" and from the box {', '.join(shown)}{more}" if region else ""


def _guessed(problem: Problem, region: Region | None) -> bool:
    """Whether no one said where the mass may lie, and some of the domain was not searched."""
    if not isinstance(problem, MayGuessStarts) or not problem.starts_guessed:
        return False
    if region is None:
        return True
    lower, upper = problem.sampling_domain.bounding_box(problem.dimension)
    return bool((region.low > lower).any() or (region.high < upper).any())


def diverged(result: ModeSearchResult, names: Sequence[str]) -> list[str]:
    """Names of the parameters that diverged in optimizations, those that went farthest first."""
    far_ones = np.flatnonzero(result.away > SHARE_AWAY * result.away.max(initial=0.0))
    return [names[k] for k in far_ones[np.argsort(-result.away[far_ones])]]


def _flat(minima: Minima, scale: Array) -> npt.NDArray[np.intp]:
    """Coordinates along which the energy hardly bends at the lowest minimum, where that has no Gaussian."""
    if not len(minima.energies) or minima.known[0] or not minima.measured or minima.on_wall[0]:
        return np.arange(0)
    # as `extent_of` bounds it
    return np.flatnonzero(np.isclose(np.sqrt(np.diag(minima.extents[0])), scale, rtol=0.01))
