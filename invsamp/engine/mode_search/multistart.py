"""Descents from prior draws before a run, to know of its modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.domains.contract import Domain
from invsamp.engine.adaptation.initial_descent import MOST
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.mode_search.search_points import WIDEST, Region, below_known, lowest_near, region_around
from invsamp.evaluate.requests import EvaluationRequests, Request, Result, Rows, watched
from invsamp.modes.basins import Basins
from invsamp.modes.curvature import confirmed_factor
from invsamp.modes.descent import Descent, descend, joined
from invsamp.modes.minima import Minima, confirmed, distinct, lone
from invsamp.modes.objective import Objective, of_fidelity
from invsamp.modes.tolerances import TOLERANCE, UNIT, UNSEEN
from invsamp.protocols import Array, Gradients, Problem
from invsamp.stored import stored

#: Descents, and the draws of the prior whose spread is the scale of their first steps.
SCOUTS, SCALE_DRAWS = 16, 200
#: Descents in all, where those show that there is more to see: more than `UNSEEN` of them came to minima alone, and
#: less than half to the lowest, or one alone did. Where steps are curved, and descents cheap, the latter is enough.
MOST_SCOUTS = 64
#: Every so many-th descent takes the finest fidelity alone.
DIRECT = 4
#: Evaluations that descents may take in all, where there are fewer draws: enough for what mostly needs half as many.
LEAST_LOOK = 5000
#: Evaluations after which an optimization far above the ends of others is stopped.
PATIENCE = 300
#: Parameters up to which Hessians give modes' Gaussians: they take some 4 d gradients each.
MOST_GAUSSIAN = 200
#: Unknowns up to which more prior points are looked at: in more dimensions what is narrower than others is not met by
#: chance. Points at most; the share of the points that is looked at in any case, not only where there are several
#: modes.
MOST_SEARCHED, MOST_POINTS, FIRST_LOOK = 6, 10_000, 1.0 / 16.0
#: Evaluations that are left for each of these descents at least; otherwise there are fewer.
LEAST_MORE = 50
#: Scales from the starts beyond which a proper posterior hardly ever has mass, or a descent an end; and scales at which
#: steps are lost to rounding, so that what stops there has not converged.
AWAY, LOST = 1e3, 1e12
#: Numbers that are held at a time.
MOST_NUMBERS = 20_000_000


#: Points (k, d) in and around a box, at most so many.
Within = Callable[[Region, int], Array]


@stored
class ModeSearchResult(NamedTuple):
    """The result of the optimizations."""

    minima: Minima
    descents: int
    evaluations: int  # of them, and of what distinguishes their ends
    looks: int  # evaluations of what was looked at beside them, and of the descents from there
    unfinished: int
    endless: int  # of these, those that have come far below all minima and still fall
    away: Array  # (d,) how far these have come, in scales, by their median; 0 where there are none
    searched: int  # prior points that were looked at beside the starts
    unseen: float  # about the share of starts that lead to minima which no optimization has reached
    lowest_by: int  # descents that have come down to the lowest minimum
    region: Region | None = None  # without a prior: the box that was searched

    @property
    def heavy(self) -> npt.NDArray[np.intp]:
        """Which minima are modes of some weight."""
        return self.minima.heavy


def search_modes(
    names: tuple[str, ...],
    starts: Array,
    scale: Array,
    domain: Domain,
    more: Callable[[float], Array] | None = None,
    budget: int = LEAST_LOOK,
    first: int = SCOUTS,
    curved: bool = False,
    within: Within | None = None,
    count: int = 0,
    known: Array | None = None,
) -> EvaluationRequests[ModeSearchResult]:
    """Descents from starts (n, d) through the fidelities ``names``, from the coarsest to the finest.

    The ``first`` of them, and of many unknowns the others, where these say that there is more to see. In few dimensions
    ``more`` draws points of the prior (m, d), a share of all that it has to give, and descents begin at those that are
    lower than all near them. The other points follow where there are several minima by then, of whatever weight. A
    narrow mode among wide ones is mostly met so, or not at all. Without a prior ``within`` gives points in and around a
    box, about ``count`` in all, and further descents begin around the modes that are known. All descents together take
    about ``budget`` evaluations at most; Hessians come on top. Where all fidelities are ``curved``, steps are by
    their Gauss-Newton matrices. Descents from points ``known`` (k, d) to be near modes go first: others end where they
    come to these.
    """
    d, looks = starts.shape[1], more is not None and starts.shape[1] <= MOST_SEARCHED
    search = _Search(names, scale, domain, curved, waiting=len(starts[:first]))
    if known is not None:
        yield from search.add(known, budget)
    yield from search.add(starts[:first], budget)
    if search.unsure and not looks:
        further = starts[first:][: search.affordable(budget)]
        if len(further):
            yield from search.add(further, budget - search.led)
    evaluations = search.spent.rows
    if looks and more is not None:
        yield from _look(search, more, budget)
    region = (yield from _explore(search, within, budget, count)) if within is not None else None
    end = search.end
    lowest = np.min(end.energy, where=end.converged, initial=np.inf)
    moved, endless = np.abs(end.position - search.starts) / scale, search.falling & ~end.converged
    endless &= end.energy < lowest - far(d)
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
        searched=search.searched,
        unseen=lone(search.minima, end, search.worse) / len(search.starts),
        lowest_by=search.lowest_by,
        region=region,
    )


def _look(search: _Search, more: Callable[[float], Array], budget: int) -> EvaluationRequests[None]:
    """Optimize what lies low among points of the prior; all of them where there are several modes."""
    for share in (FIRST_LOOK, 1.0 - FIRST_LOOK):
        minima = search.minima
        if not len(minima.gaussian) or (search.searched and len(minima.energies) < 2):
            break
        yield from search.points(more(share), budget)


def _explore(search: _Search, within: Within, budget: int, count: int) -> EvaluationRequests[Region | None]:
    """Descents from boxes around all modes, round by round until none is new; the box that holds all of these.

    In few dimensions they begin at points that lie low, of a share of ``count`` in each round, and of all that are left
    where there are several minima.
    """
    explored, before, d = None, None, search.starts.shape[1]
    few = d <= MOST_SEARCHED
    first = max(SCOUTS, round(FIRST_LOOK * count)) if few else SCOUTS
    pending = first
    while len(search.minima.energies) and search.left(budget) >= SCOUTS * LEAST_MORE:
        minima = search.minima
        region, trusted = yield from search.around()
        if before is not None:
            if len(minima.gaussian) and minima.beyond(before, trusted):
                pending = first
            elif few and pending == first and len(minima.gaussian) and len(minima.energies) > 1:
                pending = count - search.searched
            else:
                break
        points = within(region, pending) if pending > 0 else np.empty((0, d))
        if not len(points):
            break
        explored, before = region.widened(WIDEST, search.domain).joined(explored), minima
        apart = (region.high - region.low) * len(points) ** (-1.0 / d)
        if few:
            yield from search.points(points, budget, apart)
        else:
            yield from search.add(points, search.left(budget), apart)
    return explored


class _Search:
    """Descents so far, and their ends distinguished."""

    minima: Minima
    end: Descent

    def __init__(self, names: tuple[str, ...], scale: Array, domain: Domain, curved: bool, waiting: int) -> None:
        d = len(scale)
        self._scale, self.domain, self._curved = scale, domain, curved
        self._basins = {name: Basins(far(d), waiting if name == names[-1] else 0) for name in names}
        self._finest, self._gaussian, self.worse = names[-1], d <= MOST_GAUSSIAN, far(d) + 10.0
        self.starts, self.spent, self.led = np.empty((0, d)), _Spent(), 0
        #: Which had not converged: others are optimized further where ends are distinguished, and may not end there.
        self.falling = np.zeros(0, dtype=bool)
        self.far, self.searched = far(d), 0

    def points(self, points: Array, budget: int, scale: Array | None = None) -> EvaluationRequests[None]:
        """Optimize those points (n, d) that lie low."""
        d, self.searched = points.shape[1], self.searched + len(points)
        name, *finer = self._basins
        energies = yield from self.spent.counted(of_fidelity(name, False)(points))
        left = self.left(budget)
        low = lowest_near(points / self._scale, energies.energy)
        if not finer:  # what a coarse fidelity says is not compared with the fine one's Gaussians
            low = np.union1d(low, below_known(points, energies.energy, self.minima, self._scale))
            low = low[np.argsort(energies.energy[low], kind="stable")]
        low = low[: max(0, left // LEAST_MORE)]
        if len(low):
            # first steps are as long as points are apart: the basin of one that is lower than others may be as small
            apart = self._scale * len(points) ** (-1.0 / d) if scale is None else scale
            yield from self.add(points[low], left, apart)

    def around(self) -> EvaluationRequests[tuple[Region, npt.NDArray[np.intp]]]:
        """The box around the modes that carry weight, and which of them are as wide as their Gaussians say."""
        minima, heavy = self.minima, self.minima.heavy
        objective, found = self._objective(self._finest, False), []
        for k in heavy:
            mode = minima.position[k], float(minima.energies[k]), np.linalg.cholesky(minima.extents[k])
            found.append((yield from self.spent.counted(confirmed_factor(objective, *mode, self.far))))
        region = region_around(minima.position[heavy], np.stack([factor for factor, _ in found]))
        return region, heavy[[whole for _, whole in found]]

    def left(self, budget: int) -> int:
        """Evaluations of the budget that descents have left."""
        return budget - (self.spent.rows - self.searched)

    def add(self, starts: Array, budget: int, scale: Array | None = None) -> EvaluationRequests[None]:
        """optimize these, too, by about so many evaluations at most, and distinguish all ends."""
        before = self.spent.rows
        on = yield from self.spent.counted(
            _led(self._basins, starts, self._scale if scale is None else scale, self.domain, budget, self._curved)
        )  # fmt: skip
        self.led += self.spent.rows - before
        self.end = joined(self.end, on) if len(self.starts) else on
        self.starts, self.falling = np.concatenate([self.starts, starts]), np.append(self.falling, ~on.converged)
        telling = distinct(
            self._objective(self._finest),
            self.end,
            worse=self.worse,
            gaussian=self._gaussian,
            basins=self._basins[self._finest],
        )
        self.minima = yield from self.spent.counted(telling)
        if self._gaussian and not self.minima.known.all():
            asking = confirmed(self._objective(self._finest, False), self.minima, self.far)
            self.minima = yield from self.spent.counted(asking)

    def _objective(self, fidelity: str, gradient: Gradients = True) -> Objective:
        return Objective(of_fidelity(fidelity, gradient), self._scale, self.domain)

    @property
    def lowest_by(self) -> int:
        """How many have come down to the lowest."""
        lowest = np.min(self.end.energy, where=self.end.converged, initial=np.inf)
        return int(np.count_nonzero(self.end.converged & (self.end.energy <= lowest + UNIT)))

    @property
    def unsure(self) -> bool:
        """Whether there is more to see, as far as these show."""
        count, by = len(self.starts), self.lowest_by
        many = self._curved or lone(self.minima, self.end, self.worse) > UNSEEN * count
        return by == 1 or (2 * by < count and many)

    def affordable(self, budget: int) -> int:
        """How many more there may be: within the budget, and with all that distinguishes their ends within two.

        All ends are distinguished once more.
        """
        apart, count = self.spent.rows - self.led, len(self.starts)
        by_descents = (budget - self.led) * count / self.led
        by_all = (2 * budget - self.led - 2 * apart) * count / (self.led + apart)
        return max(0, int(min(by_descents, by_all)))


def starts_of(problem: Problem, rng: np.random.Generator, placed: Array, most: int) -> tuple[Array, Array]:
    """Where descents may begin (n, d), ``most`` at most, and their scale (d,).

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
        """The result."""
        return watched(asking, self._add)

    def _add(self, requests: Sequence[Request]) -> None:
        self.rows += sum(len(request.position) for request in requests)


def _led(
    basins: Mapping[str, Basins], position: Array, scale: Array, domain: Domain, budget: int, curved: bool
) -> EvaluationRequests[Descent]:
    """Through the fidelities that there are basins of, to which this adds; some through the finest one alone.

    These find modes that coarse ones lack.
    """
    n, d = position.shape
    end = Descent(
        position.copy(), np.full(n, np.inf), np.zeros((n, d)), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    )
    spent, finest = 0, list(basins)[-1]
    for name, own in basins.items():
        coarse, lowest = name != finest, int(np.argmin(end.energy))
        everyone = np.arange(n)
        if coarse:
            everyone = everyone[everyone % DIRECT != DIRECT - 1]
        most = max(LEAST_MORE, min(PATIENCE, (budget - spent) // n))
        objective = Objective(of_fidelity(name, "curved" if curved else True), scale, domain)
        down = partial(descend, objective, tolerance=UNIT if coarse else TOLERANCE, basins=own)
        # where a coarser one has led, most are at the lowest one's minimum: it goes first, and its basin is known then
        ahead = everyone[:0] if own is next(iter(basins.values())) else everyone[[lowest]]
        for rows in (ahead, np.setdiff1d(everyone, ahead)):
            if len(rows):
                spent += _replace(end, rows, (yield from down(end.position[rows], most=most)))
        best = np.min(end.energy, where=end.converged, initial=np.inf)
        rows = everyone[~end.converged[everyone] & ((end.energy[everyone] <= best + far(d)) | np.isinf(best))]
        more = min(MOST - PATIENCE, (budget - spent) // len(rows)) if len(rows) else 0
        # a finer one is there to lead them on
        if more >= LEAST_MORE and not (coarse and end.converged.any()):
            spent += _replace(end, rows, (yield from down(end.position[rows], most=more)))
    lost = (np.abs(end.position - position) > LOST * scale).any(axis=1)
    return end._replace(converged=end.converged & ~lost)


def _replace(end: Descent, rows: Rows, by: Descent) -> int:
    """Put what has become of some of the points in their place; how many evaluations that took."""
    for old, new in zip(end, by, strict=True):
        old[rows] = new
    return int(by.evaluations.sum())
