"""Descents from prior draws before a run, to know of its modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.domains.contract import Domain
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, Result, Rows
from invsamp.modes.basins import Basins
from invsamp.modes.descent import Descent, descend, joined
from invsamp.modes.minima import BARRIER, Minima, distinct, lone
from invsamp.protocols import Array, Gradients, Problem

#: Descents, and the draws of the prior whose spread is the scale of their first steps.
SCOUTS, SCALE_DRAWS = 16, 200
#: The share of the prior that leads to minima which nobody has seen is about that of the descents which came to theirs
#: alone (Good 1953, Biometrika 40, eq. (9)). Where it is larger and less than half of them came to the lowest, or one
#: alone did, there are more descents, so many at the most in all; where steps are curved, and descents cheap, in any
#: case where less than half came to the lowest.
UNSEEN, MOST_SCOUTS = 1.0 / 16.0, 64
#: Of every fidelity: so much energy is left to gain, at the most. That is a tenth in Laplace's weights, and half a
#: width: to come nearer takes three times the evaluations where descents are long.
TOLERANCE = 0.1
#: Of coarse fidelities, which lead near the finest one's minima only: their gradients may be rough.
COARSE_TOLERANCE = 1.0
#: Evaluations that descents may take in all, where there are fewer draws: enough for what mostly needs half as many.
LEAST_LOOK = 5000
#: Evaluations of one descent in one fidelity; and after how many one that lies far above where others have come to an
#: end is given up.
MOST, PATIENCE = 2000, 300
#: In a coarse fidelity those that come last are left to the finer one after so many times the others' evaluations.
LAGGING = 2.0
#: Parameters up to which Hessians tell modes' Gaussians: they take some 4 d gradients each.
MOST_GAUSSIAN = 200
#: A mode of less weight by Laplace is none.
NEGLIGIBLE = 1e-3
#: The same where minima are flat, or against walls, so that weights are right to a factor of ten or so.
NEGLIGIBLE_ROUGHLY = 1e-2
#: Unknowns up to which more prior points are looked at: in more dimensions what is narrower than others is not met by
#: chance. Points at the most, and descents from them; the share of the points that is looked at in any case, not only
#: where there are several modes.
MOST_SEARCHED, MOST_POINTS, MOST_MORE, FIRST_LOOK = 6, 10_000, 64, 1.0 / 16.0
#: Energy below the Gaussians of all minima from which on a point is worth a descent, and how many there are of these.
FAR_BELOW, FEW_MORE = 3.0, 4
#: Evaluations that are left for each of these descents at the least; otherwise there are fewer.
LEAST_MORE = 50
#: Scales that some parameter comes from its start in a descent without end.
AWAY = 30.0
#: Scales from its start at which a descent is lost.
LOST = 1e12
#: Numbers that are held at a time.
MOST_NUMBERS = 20_000_000


class ModeSearchResult(NamedTuple):
    """What descents have found."""

    minima: Minima
    descents: int
    evaluations: int  # of them, and of what tells their ends apart
    looks: int  # evaluations of what was looked at beside them, and of the descents from there
    unfinished: int
    endless: int  # of these, those that have come far below all minima and still fall
    away: Array  # (d,) how far these have come, in scales, by their median; 0 where there are none
    searched: int  # prior points that were looked at beside the starts
    unseen: float  # about the share of starts that lead to minima which no descent has come to
    lowest_by: int  # descents that have come down to the lowest minimum

    @property
    def heavy(self) -> npt.NDArray[np.intp]:
        """Which minima are modes of some weight."""
        return np.flatnonzero(self.minima.weights > (NEGLIGIBLE if self.minima.gaussian else NEGLIGIBLE_ROUGHLY))

    @property
    def ridge(self) -> bool:
        """Whether there are several minima, and some without a Gaussian: points of a ridge, for all that is known."""
        return len(self.heavy) > 1 and not self.minima.gaussian


def search_modes(
    names: tuple[str, ...],
    starts: Array,
    scale: Array,
    domain: Domain,
    more: Callable[[float], Array] | None = None,
    budget: int = LEAST_LOOK,
    first: int = SCOUTS,
    curved: bool = False,
) -> EvaluationRequests[ModeSearchResult]:
    """Descents from starts (n, d) through the fidelities ``names``, from the coarsest to the finest.

    The ``first`` of them, and of many unknowns the others, where these say that there is more to see. In few dimensions
    ``more`` draws points of the prior (m, d), a share of all that it has to give, and descents begin at those that are
    lower than all near them; the other points follow where there are several modes by then. A narrow mode among wide
    ones is mostly met so, or not at all. All descents together take about ``budget`` evaluations at the most; Hessians
    come on top. Where all fidelities are ``curved``, steps are by their Gauss-Newton matrices.
    """
    d, looks = starts.shape[1], more is not None and starts.shape[1] <= MOST_SEARCHED
    search = _Search(names, scale, domain, curved, waiting=len(starts[:first]))
    yield from search.add(starts[:first], budget)
    if search.unsure and not looks:
        further = starts[first:][: search.affordable(budget)]
        if len(further):
            yield from search.add(further, budget - search.led)
    evaluations, searched = search.spent.rows, 0
    for share in (FIRST_LOOK, 1.0 - FIRST_LOOK) if looks else ():
        minima = search.minima
        several = np.count_nonzero(minima.weights > NEGLIGIBLE) > 1
        if more is None or not minima.gaussian or not len(minima.energies) or (searched and not several):
            break
        points = more(share)
        searched += len(points)
        energies = yield from search.spent.counted(_energies(names[0], points))
        left = budget - (search.spent.rows - searched)
        low = lowest_near(points / scale, energies.energy)
        if len(names) == 1:  # what a coarse fidelity says is not held against the fine one's Gaussians
            low = np.union1d(low, below_known(points, energies.energy, minima, scale))
            low = low[np.argsort(energies.energy[low], kind="stable")]
        low = low[: max(0, left // LEAST_MORE)]
        if len(low):
            # first steps are as long as points are apart: the basin of one that is lower than others may be as small
            yield from search.add(points[low], left, scale * len(points) ** (-1.0 / d))
    end = search.end
    lowest = np.min(end.energy, where=end.converged, initial=np.inf)
    endless, moved = ~end.converged & (end.energy < lowest - far(d)), np.abs(end.position - search.starts) / scale
    if not end.converged.any():  # nothing to hold them against: a long way may have an end all the same
        endless &= moved.max(axis=1) > AWAY
    return ModeSearchResult(
        minima=search.minima,
        descents=len(search.starts),
        evaluations=evaluations,
        looks=search.spent.rows - evaluations,
        unfinished=int(np.count_nonzero(~end.converged)),
        endless=int(np.count_nonzero(endless)),
        away=np.median(moved[endless], axis=0) if endless.any() else np.zeros(d),
        searched=searched,
        unseen=lone(search.minima, end, search.worse) / len(search.starts),
        lowest_by=search.lowest_by,
    )


class _Search:
    """Descents so far, and their ends told apart."""

    minima: Minima
    end: Descent

    def __init__(self, names: tuple[str, ...], scale: Array, domain: Domain, curved: bool, waiting: int) -> None:
        d = len(scale)
        self._scale, self._domain, self._curved = scale, domain, curved
        self._basins = {name: Basins(far(d), waiting if name == names[-1] else 0) for name in names}
        self._finest, self._gaussian, self.worse = names[-1], d <= MOST_GAUSSIAN, far(d) + 10.0
        self.starts, self.spent, self.led = np.empty((0, d)), _Spent(), 0

    def add(self, starts: Array, budget: int, scale: Array | None = None) -> EvaluationRequests[None]:
        """Lead these down, too, by about so many evaluations at the most, and tell all ends apart."""
        before = self.spent.rows
        on = yield from self.spent.counted(
            _led(self._basins, starts, self._scale if scale is None else scale, self._domain, budget, self._curved)
        )  # fmt: skip
        self.led += self.spent.rows - before
        self.end = joined(self.end, on) if len(self.starts) else on
        self.starts = np.concatenate([self.starts, starts])
        telling = distinct(
            _asking(self._finest),
            self.end,
            self._scale,
            self._domain,
            worse=self.worse,
            gaussian=self._gaussian,
            basins=self._basins[self._finest],
        )
        self.minima = yield from self.spent.counted(telling)

    @property
    def lowest_by(self) -> int:
        """How many have come down to the lowest."""
        lowest = np.min(self.end.energy, where=self.end.converged, initial=np.inf)
        return int(np.count_nonzero(self.end.converged & (self.end.energy <= lowest + BARRIER)))

    @property
    def unsure(self) -> bool:
        """Whether there is more to see, for all that these tell."""
        count, by = len(self.starts), self.lowest_by
        many = self._curved or lone(self.minima, self.end, self.worse) > UNSEEN * count
        return by == 1 or (2 * by < count and many)

    def affordable(self, budget: int) -> int:
        """How many more there may be: within the budget, and with all that tells their ends apart within two.

        All ends are told apart once more.
        """
        told, count = self.spent.rows - self.led, len(self.starts)
        by_descents = (budget - self.led) * count / self.led
        by_all = (2 * budget - self.led - 2 * told) * count / (self.led + told)
        return max(0, int(min(by_descents, by_all)))


def lowest_near(points: Array, energies: Array) -> npt.NDArray[np.intp]:
    """Which points (n, d) are lower than their 2 d + 2 nearest neighbors; the lowest of them, at most `MOST_MORE`.

    Where descents begin in multi level single linkage (Rinnooy Kan and Timmer 1987, "Stochastic global optimization
    methods II", Mathematical Programming 39), which takes all neighbors within a distance.
    """
    from scipy.spatial import cKDTree  # slow to import, and seldom wanted

    finite = np.flatnonzero(np.isfinite(energies))
    near = 2 * points.shape[1] + 3
    if len(finite) < near:
        return finite[:0]
    _, neighbors = cKDTree(points[finite]).query(points[finite], k=near)
    own = energies[finite]
    low = np.flatnonzero((own[:, None] < own[neighbors[:, 1:]]).all(axis=1))
    return np.asarray(finite[low[np.argsort(own[low], kind="stable")][:MOST_MORE]])


def below_known(points: Array, energies: Array, minima: Minima, scale: Array) -> npt.NDArray[np.intp]:
    """Which points (n, d) lie far below the Gaussians of all minima, more so than their neighbors; a few of them.

    In a narrow mode's basin that is so where the slope of a wide one beside it hides that from the energies alone.
    """
    expected = np.full(len(points), np.inf)
    for center, energy, covariance in zip(minima.position, minima.energies, minima.covariances, strict=True):
        moved = points - center
        expected = np.minimum(expected, energy + 0.5 * (moved * np.linalg.solve(covariance, moved.T).T).sum(axis=1))
    below = energies - expected
    low = lowest_near(points / scale, below)
    low = low[below[low] < -FAR_BELOW]
    return low[np.argsort(energies[low], kind="stable")][:FEW_MORE]


def starts_of(problem: Problem, rng: np.random.Generator, placed: Array, most: int) -> tuple[Array, Array]:
    """Where descents may begin (n, d), ``most`` at the most, and their scale (d,).

    Those are the problem's starts, or where chains stand if it has none.
    """
    d = placed.shape[1]
    try:
        several = problem.sample_start(rng, int(np.clip(MOST_NUMBERS // d, SCOUTS, SCALE_DRAWS)))
    except ValueError:
        return placed, np.ones(d)
    low, high = np.quantile(several, (0.25, 0.75), axis=0)
    scale = np.where(high > low, (high - low) / 1.349, 1.0)
    # a descent remembers some twenty points
    return several[: int(np.clip(MOST_NUMBERS // (20 * d), 2, most))], scale


class _Spent:
    """Evaluations that generators ask for."""

    def __init__(self) -> None:
        self.rows = 0

    def counted(self, asking: EvaluationRequests[Result]) -> EvaluationRequests[Result]:
        """What comes of it."""
        try:
            requests = next(asking)
            while True:
                self.rows += sum(len(request.position) for request in requests)
                requests = asking.send((yield requests))
        except StopIteration as end:
            found: Result = end.value
            return found


def _energies(name: str, points: Array) -> EvaluationRequests[Estimate]:
    (found,) = yield (Request(name, points, False),)
    return found


def _led(
    basins: Mapping[str, Basins], position: Array, scale: Array, domain: Domain, budget: int, curved: bool
) -> EvaluationRequests[Descent]:
    """Through the fidelities that there are basins of, to which this adds."""
    n, d = position.shape
    end = Descent(position.copy(), np.zeros(n), np.zeros((n, d)), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool))
    spent, finest, everyone = 0, list(basins)[-1], np.arange(n)
    for name, own in basins.items():
        coarse, lowest = name != finest, int(np.argmin(end.energy))
        most = max(LEAST_MORE, min(PATIENCE, (budget - spent) // n))
        tolerance, lagging = (COARSE_TOLERANCE, LAGGING) if coarse else (TOLERANCE, np.inf)
        asking = _asking(name, "curved" if curved else True)
        down = partial(descend, asking, domain=domain, tolerance=tolerance, lagging=lagging, basins=own)
        # where a coarser one has led, most are at the lowest one's minimum: it goes first, and its basin is known then
        ahead = everyone[:0] if own is next(iter(basins.values())) else everyone[[lowest]]
        for rows in (ahead, np.setdiff1d(everyone, ahead)):
            if len(rows):
                spent += _replace(end, rows, (yield from down(end.position[rows], scale, most=most)))
        best = np.min(end.energy, where=end.converged, initial=np.inf)
        rows = np.flatnonzero(~end.converged & ((end.energy <= best + far(d)) | np.isinf(best)))
        more = min(MOST - PATIENCE, (budget - spent) // len(rows)) if len(rows) else 0
        # a finer one is there to lead them on
        if more >= LEAST_MORE and not (coarse and end.converged.any()):
            spent += _replace(end, rows, (yield from down(end.position[rows], scale, most=more)))
    # so far away that a step is nothing: what has stopped there has come to no end
    lost = (np.abs(end.position - position) > LOST * scale).any(axis=1)
    return end._replace(converged=end.converged & ~lost)


def _replace(end: Descent, rows: Rows, by: Descent) -> int:
    """Put what has become of some of the points in their place; how many evaluations that took."""
    for old, new in zip(end, by, strict=True):
        old[rows] = new
    return int(by.evaluations.sum())


def _asking(fidelity: str, gradient: Gradients = True) -> Callable[[Array], EvaluationRequests[Estimate]]:
    def evaluate(at: Array) -> EvaluationRequests[Estimate]:
        (found,) = yield (Request(fidelity, at, gradient),)
        return found

    return evaluate
