"""Leading many points down to minima of an energy at once, by L-BFGS within a domain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.domains import Unbounded
from invsamp.domains.contract import Domain
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Rows
from invsamp.modes.basins import Basins
from invsamp.modes.curvature import hessian
from invsamp.modes.gauss_newton import CurvedPoints
from invsamp.modes.half_spaces import cut_gaussian
from invsamp.modes.objective import Objective
from invsamp.modes.points import ENOUGH, TRIALS, Points
from invsamp.modes.tolerances import TOLERANCE
from invsamp.protocols import Array
from invsamp.stored import stored

#: Pairs of steps and changes of the gradient that each point remembers.
MEMORY = 10
#: Steps of a round after which it is over if they gained next to nothing: where gradients are not exactly those of the
#: energies, directions go on promising what is not there.
STALLED = 2 * MEMORY
#: Newton steps from the end of a descent, at most.
NEWTON = 4


class Descent(NamedTuple):
    """The final points."""

    position: Array  # (n, d)
    energy: Array  # (n,)
    gradient: Array  # (n, d)
    evaluations: npt.NDArray[np.int64]  # (n,)
    converged: npt.NDArray[np.bool_]  # (n,) whether a last round from scratch gained less than the tolerance


def joined(one: Descent, other: Descent) -> Descent:
    """The points of both."""
    return Descent(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


@stored
class DescentResult(NamedTuple):
    """Where the descents of a rung's chains have ended."""

    energies: Array  # (chains,) of its target, where each chain's own has ended
    moved: int  # chains that begin at another one's minimum, as their own lies far above
    unfinished: int  # optimizations that did not converge
    best: Array  # (d,) the lowest point
    gradient: Array  # (d,) of its target's energy, there


def descend(
    objective: Objective,
    position: Array,
    *,
    tolerance: float,
    most: int,
    basins: Basins | None = None,
) -> EvaluationRequests[Descent]:
    """Lead every point down; each goes its own way, and all that still move are evaluated together.

    What begins at the same point is led once, and its evaluations are counted once.

    Rounds of L-BFGS, each from scratch, until one gains less than ``tolerance``: what a round has learned of the
    curvature far up may hide what is left to gain. A step ends where the domain's bounds turn it, and is taken if the
    energy falls by enough; energies that are not finite are too high. At a bound it ends near the minimum only.

    Parameters
    ----------
    objective : Objective
        The first step of a round is at most as long as its scale, (d,) or (n, d). Coordinates of scale 0 stay as they
        are. Where it evaluates Gauss-Newton matrices, in the place of gradients' variances, steps are by these
        (`invsamp.modes.gauss_newton`), in a box or without a domain.
    position : ndarray, shape (n, d)
        Inside, of finite energy.
    tolerance : float
        In units of energy.
    most : int
        Evaluations of one point.
    basins : Basins, optional
        Of this energy, where a point has come to its end once it lies in one: at that one's minimum. What descents
        find is added, where its Hessian pays off; the scale is of shape (d,) then.

    Returns
    -------
    Descent

    References
    ----------
    Nocedal and Wright (2006), "Numerical optimization", Algorithms 3.1 and 7.4.
    """
    evaluate, scale, domain = objective
    keys = [row.tobytes() for row in np.column_stack([position, np.broadcast_to(scale, position.shape)])]
    first = [keys.index(key) for key in keys]
    once = np.unique(first)
    if scale.ndim > 1:
        scale = scale[once]
    found = yield from evaluate(position[once])
    kind = _SecantPoints if found.gradient_variance is None else CurvedPoints
    points = kind(position[once], found, scale, tolerance)
    if basins is not None:
        points.end_within(np.flatnonzero(points.moving), basins)
    while len(rows := np.flatnonzero(points.moving & (points.evaluations < most))):
        there = points.trial(rows, domain)
        points.take(rows, there, (yield from evaluate(there)))
        if basins is not None:
            yield from _met(objective, points, rows, basins)
    same = np.searchsorted(once, first)
    evaluations = np.where(once[same] == np.arange(len(same)), points.evaluations[same], 0)
    return Descent(
        points.position[same], points.energy[same], points.gradient[same], evaluations, points.converged[same]
    )


def _met(objective: Objective, points: Points, rows: Rows, basins: Basins) -> EvaluationRequests[None]:
    """Points that lie in a basin move to its minimum; a point that converged elsewhere makes a basin.

    In a valley that is long for its width, the rounds of an optimization gain little long before the lowest point. So
    an end may be one Newton step away from a known basin, or above the lowest point of its own basin.
    """
    for row in rows[points.converged[rows]]:
        if len(points.end_within(np.array([row]), basins)):
            continue
        for basin, there in basins.towards(points.position[row], points.gradient[row]):
            if objective.domain.contains(there[None])[0]:
                found = yield from objective.evaluate(there[None])
                if basin.holds(there[None], found.energy, found.gradient, basins.height)[0]:
                    points.put(row, basin)
                    break
        else:
            if basins.pays(points.position.shape[1], int(points.moving.sum()), float(points.energy[row])):
                yield from _polish(objective, points, row, basins)
    points.end_within(np.flatnonzero(points.moving), basins)


def _polish(objective: Objective, points: Points, row: int, basins: Basins) -> EvaluationRequests[None]:
    """Newton steps from an end, while they gain what they promise; then it is a basin's minimum."""
    for _ in range(NEWTON):
        at = points.position[row], float(points.energy[row]), points.gradient[row]
        matrix, bounded = yield from hessian(objective, *at)
        cut = cut_gaussian(matrix, at[2], at[0], *objective[1:], bounded=True) if bounded else None
        basin = basins.basin(*at, matrix, bounded, cut)
        if basin is None:
            return
        if basin.left <= TOLERANCE:
            basins.add(basin)
            return
        there = basin.position - basin.covariance @ basin.gradient
        if not objective.domain.contains(there[None])[0]:
            return
        found = yield from objective.evaluate(there[None])
        if not found.energy[0] <= basin.energy - 0.5 * basin.left:
            return
        points.position[row], points.energy[row], points.gradient[row] = there, found.energy[0], found.gradient[0]


class _SecantPoints(Points):
    def __init__(self, position: Array, found: Estimate, scale: Array, tolerance: float) -> None:
        super().__init__(position, found, scale, tolerance)
        n, d = position.shape
        # in units of the scale; of empty places the inverse products are 0
        self._steps, self._changes, self._inverse = (
            np.zeros((n, MEMORY, d)),
            np.zeros((n, MEMORY, d)),
            np.zeros((n, MEMORY)),
        )
        self._learned, self._share = np.zeros(n, dtype=int), np.ones(n)
        self._round_began, self._taken = self.energy.copy(), np.zeros(n, dtype=int)
        self._mark = self.energy.copy()
        self._direction, self._slope = np.zeros((n, d)), np.zeros(n)
        self._aim(np.flatnonzero(self.moving))

    def trial(self, rows: Rows, domain: Domain) -> Array:
        """Where the next steps of these points end."""
        move = self._share[rows, None] * self._direction[rows] * self._scale[rows]
        if isinstance(domain, Unbounded):
            return self.position[rows] + move
        return domain.reflect(self.position[rows], move, None).position

    def take(self, rows: Rows, there: Array, found: Estimate) -> None:
        """Take the steps that optimize by enough; try shorter ones where they do not."""
        self.evaluations[rows] += 1
        wanted = self.energy[rows] + ENOUGH * self._share[rows] * self._slope[rows]
        down = found.energy <= wanted  # not where it is NaN
        # a bound that reflects a step must not move other points
        down &= ((there == self.position[rows]) | (self._scale[rows] > 0.0)).all(axis=1)
        self._shorten(rows[~down], found.energy[~down])
        rows, there = rows[down], there[down]
        gain = self.energy[rows] - found.energy[down]
        self._learn(
            rows,
            (there - self.position[rows]) / self._unit[rows],
            (found.gradient[down] - self.gradient[rows]) * self._scale[rows],
        )
        self.position[rows], self.energy[rows], self.gradient[rows] = there, found.energy[down], found.gradient[down]
        self._trials[rows], self._share[rows] = 0, 1.0
        self._aim(rows)
        # a step that gained little, and a direction that promises little, once it is one that knows: this round is over
        small = 0.1 * self._tolerance
        self._taken[rows] += 1
        knows = self._taken[rows] > min(MEMORY, self.position.shape[1])
        marked = self._taken[rows] % STALLED == 0
        stalled = marked & (self._mark[rows] - self.energy[rows] < small)
        self._mark[rows[marked]] = self.energy[rows[marked]]
        self._end_round(rows[stalled | (knows & (gain < small) & (-0.5 * self._slope[rows] < small))])

    def _aim(self, rows: Rows) -> None:
        """Directions from what was learned, or straight down and not farther than the scale."""
        downhill = -self.gradient[rows] * self._scale[rows]
        aim = downhill.copy()
        parts = []
        for age in range(1, MEMORY + 1):  # the newest first
            at = (self._learned[rows] - age) % MEMORY
            step, change, inverse = self._steps[rows, at], self._changes[rows, at], self._inverse[rows, at]
            part = inverse * (step * aim).sum(axis=1)
            aim -= part[:, None] * change
            parts.append((step, change, inverse, part))
        _, change, inverse, _ = parts[0]
        curvature = inverse * (change * change).sum(axis=1)
        known = curvature > 0.0
        length = np.sqrt((downhill * downhill).sum(axis=1))
        first = 1.0 / np.maximum(1.0, length)
        aim *= np.where(known, 1.0 / np.where(known, curvature, 1.0), first)[:, None]
        for step, change, inverse, part in reversed(parts):
            aim += (part - inverse * (change * aim).sum(axis=1))[:, None] * step
        slope = -(downhill * aim).sum(axis=1)
        wrong = ~(slope < 0.0)  # rounding
        aim[wrong] = downhill[wrong] * first[wrong, None]
        self._direction[rows] = aim
        self._slope[rows] = np.where(wrong, -first * length * length, slope)

    def _learn(self, rows: Rows, step: Array, change: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # where a descent diverges
            product = (step * change).sum(axis=1)
            sizes = np.sqrt((step * step).sum(axis=1) * (change * change).sum(axis=1))
        # not below the numbers that have an inverse: at a minimum steps become as small as numbers are
        curved = product > np.maximum(1e-10 * sizes, np.finfo(float).tiny)
        rows, at = rows[curved], self._learned[rows[curved]] % MEMORY
        self._steps[rows, at], self._changes[rows, at] = step[curved], change[curved]
        self._inverse[rows, at] = 1.0 / product[curved]
        self._learned[rows] += 1

    def _shorten(self, rows: Rows, energy: Array) -> None:
        """The lowest point of the parabola through what is known along the direction, within limits."""
        promised = self._share[rows] * self._slope[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            best = -0.5 * promised / (energy - self.energy[rows] - promised)
        self._share[rows] *= np.clip(np.where(np.isfinite(best), best, 0.1), 0.1, 0.5)
        self._trials[rows] += 1
        self._end_round(rows[self._trials[rows] >= TRIALS])

    def _end_round(self, rows: Rows) -> None:
        gained = self._round_began[rows] - self.energy[rows] >= self._tolerance
        self.end(rows[~gained])
        rows = rows[gained]
        self._round_began[rows] = self._mark[rows] = self.energy[rows]
        self._inverse[rows], self._learned[rows], self._taken[rows] = 0.0, 0, 0
        self._trials[rows], self._share[rows] = 0, 1.0
        self._aim(rows)
