"""Steps of a descent by Gauss-Newton matrices, within bounds: where these come with gradients, few take one far."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.domains import Box
from invsamp.domains.contract import Domain
from invsamp.evaluate.requests import Estimate, Rows
from invsamp.modes.points import ENOUGH, TRIALS, Points
from invsamp.protocols import Array

#: In scales: no step is longer in any coordinate, at first and at most: longer ones pass by narrow valleys far from
#: where they began; points keep so far away from bounds; and curvatures, in their units, are larger by so much, so that
#: matrices have inverses. The trust region bounds steps along flat directions: a larger ridge makes them too short.
LONGEST, APART, RIDGE = 0.5, 1e-7, 1e-5
#: Relative to a coordinate's curvature, the same, so that rounding does not decide between collinear ones.
COLLINEAR = 1e-8
#: Cosine of a step and its change of the gradient above which it informs about curvature.
CURVED = 1e-3
#: Energies gained, as shares of what was promised, below which steps become shorter and above which longer, and by how
#: much.
POOR, GOOD, SHORTER, LONGER = 0.25, 0.75, 0.25, 2.0
#: Of `within`: exchanges of all at once that may come to nothing one after the other, and exchanges at most.
CHANCES, MOST_PIVOTS = 3, 1000
#: Steps that promise and gain next to nothing, one after the other, before a point has come to its end; and evaluations
#: in which it gained no more than that, whatever was promised: gradients may not be exactly those of the energies.
IDLE, STALLED = 2, 20


class CurvedPoints(Points):
    """Points whose steps minimize a quadratic model of the energy within the bounds, and within a box about them.

    The box is the trust region, of one half-width in scales for each point. The model has the Gauss-Newton matrix that
    comes with an estimate. It adds changes of gradients once that predicts the gain of steps better. Second derivatives
    of the observations count where the data are not met, and where bounds hold parameters off.

    References
    ----------
    Nocedal and Wright (2006), "Numerical optimization", Algorithm 4.1 and section 10.3; Conn, Gould and Toint (2000),
    "Trust-region methods", chapter 12, for boxes. What is added: Dennis, Gay and Welsch (1981), "An adaptive nonlinear
    least-squares algorithm", ACM Transactions on Mathematical Software 7, sections 3 and 4.
    """

    def __init__(self, position: Array, found: Estimate, scale: Array, tolerance: float) -> None:
        super().__init__(position, found, scale, tolerance)
        n, d = position.shape
        self._radius, self._idle = np.full(n, LONGEST), np.zeros(n, dtype=int)
        self._mark = self.energy.copy()
        self._step, self._promised = np.zeros((n, d)), np.zeros(n)
        # in units of the scales
        self._matrix, self._added = np.empty((n, d, d)), np.zeros((n, d, d))
        self._with_added = np.zeros(n, dtype=bool)
        self._keep(np.arange(n), found)

    def trial(self, rows: Rows, domain: Domain) -> Array:
        """Where the next steps of these points end."""
        box = domain if isinstance(domain, Box) else Box()
        at, unit, free = self.position[rows], self._unit[rows], self._scale[rows] > 0.0
        low, high = ((box.lower - at) / unit + APART, (box.upper - at) / unit - APART)
        radius = self._radius[rows, None]
        low = np.where(free, np.clip(low, -radius, 0.0), 0.0)
        high = np.where(free, np.clip(high, 0.0, radius), 0.0)
        matrix, slope = self._model(rows), self.gradient[rows] * self._scale[rows]
        step = within(matrix, slope, low, high)
        # where rounding has spoilt it: the diagonal, times d, is above the matrix, and has a step of its own
        bends = slope.shape[1] * np.diagonal(matrix, axis1=1, axis2=2)
        lost = ~(_gain(matrix, slope, step) > 0.0)
        step[lost] = np.clip(-slope[lost] / bends[lost], low[lost], high[lost])
        self._step[rows], self._promised[rows] = step, _gain(matrix, slope, step)
        return np.where(free, np.clip(at + step * unit, box.lower, box.upper), at)

    def take(self, rows: Rows, there: Array, found: Estimate) -> None:
        """Take the steps that optimize by enough; try shorter ones where they do not."""
        self.evaluations[rows] += 1
        promised, length = self._promised[rows], np.abs(self._step[rows]).max(axis=1)
        gain = self.energy[rows] - found.energy
        down = (gain >= ENOUGH * promised) & (promised > 0.0)
        poor, good = ~(gain >= POOR * promised), (gain >= GOOD * promised) & (length > 0.9 * self._radius[rows])
        misled = poor & self._with_added[rows]  # by what was learned, which is forgotten: not by a step too long
        self._added[rows[misled]] = 0.0
        poor &= ~misled
        self._radius[rows[poor]] = SHORTER * np.minimum(length, self._radius[rows])[poor]
        self._radius[rows[good]] = np.minimum(LONGER * self._radius[rows[good]], LONGEST)
        small = 0.1 * self._tolerance
        idle = (promised < small) & (gain < small)
        self._idle[rows] = np.where(idle, self._idle[rows] + 1, 0)
        self._trials[rows] = np.where(down, 0, self._trials[rows] + 1)
        self._judge(rows, gain)
        self._move(rows[down], there[down], found.take(np.flatnonzero(down)))
        marked = rows[self.evaluations[rows] % STALLED == 0]
        stalled = marked[self._mark[marked] - self.energy[marked] < small]
        self._mark[marked] = self.energy[marked]
        self.end(np.union1d(stalled, rows[(self._idle[rows] >= IDLE) | (self._trials[rows] >= TRIALS)]))

    def _judge(self, rows: Rows, gain: Array) -> None:
        """Which model predicts better what the last steps have gained."""
        step, slope = self._step[rows], self.gradient[rows] * self._scale[rows]
        plain = _gain(self._matrix[rows], slope, step)
        added = plain - 0.5 * np.einsum("ni,nij,nj->n", step, self._added[rows], step)
        with np.errstate(invalid="ignore"):
            self._with_added[rows] = np.abs(gain - added) < np.abs(gain - plain)

    def _move(self, rows: Rows, there: Array, found: Estimate) -> None:
        """Go there, and learn what the gradients' change has that the matrix there has not."""
        before = self.gradient[rows] * self._scale[rows]
        self.position[rows], self.energy[rows], self.gradient[rows] = there, found.energy, found.gradient
        self._keep(rows, found)
        step, change = self._step[rows], self.gradient[rows] * self._scale[rows] - before
        along, added = (step * change).sum(axis=1), self._added[rows]
        wanted = change - np.einsum("nij,nj->ni", self._matrix[rows], step)
        known = np.abs(np.einsum("ni,nij,nj->n", step, added, step))
        measured = np.abs((step * wanted).sum(axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            added = added * np.where(known > measured, measured / known, 1.0)[:, None, None]
            off = wanted - np.einsum("nij,nj->ni", added, step)
            sides = off[:, :, None] * change[:, None, :] / along[:, None, None]
            twice = (off * step).sum(axis=1) / along**2
            new = added + sides + sides.transpose(0, 2, 1)
            new -= twice[:, None, None] * change[:, :, None] * change[:, None, :]
        sizes = np.sqrt((step * step).sum(axis=1) * (change * change).sum(axis=1))
        right = (along > CURVED * sizes) & np.isfinite(new).all(axis=(1, 2))
        self._added[rows[right]] = new[right]

    def _model(self, rows: Rows) -> Array:
        """The matrices by which the next steps go (k, d, d), positive definite."""
        matrix = self._matrix[rows]
        chosen = np.flatnonzero(self._with_added[rows])
        if len(chosen):
            values, vectors = np.linalg.eigh(matrix[chosen] + self._added[rows[chosen]])
            least = np.maximum(RIDGE, COLLINEAR * values[:, -1:])
            matrix[chosen] = (vectors * np.maximum(values, least)[:, None]) @ vectors.transpose(0, 2, 1)
        return matrix

    def _keep(self, rows: Rows, found: Estimate) -> None:
        """The matrices of points."""
        assert found.gradient_variance is not None
        scale = self._scale[rows]
        own = found.gradient_variance * scale[:, :, None] * scale[:, None, :]
        column = np.arange(own.shape[1])
        own[:, column, column] += RIDGE + COLLINEAR * own[:, column, column]
        self._matrix[rows] = own


def _gain(matrix: Array, slope: Array, step: Array) -> Array:
    """Decrease (n,) of a quadratic model by steps (n, d)."""
    return np.asarray(-(slope * step).sum(axis=1) - 0.5 * np.einsum("ni,nij,nj->n", step, matrix, step))


def has_bounds(domain: Domain) -> bool:
    """Whether a domain has bounds and nothing else: these steps end at them, where reflected ones are turned."""
    return isinstance(domain, Box)


def within(matrix: Array, slope: Array, low: Array, high: Array) -> Array:
    r"""Steps p (n, d) that minimize :math:`g \cdot p + p \cdot H p / 2` between bounds, which 0 lies between.

    The method is block principal pivoting. Coordinates that pass a bound are held there, and those whose slope leads
    away from their bound are released. All change at once while their number falls; otherwise only that of the largest
    index, which ensures termination.

    Parameters
    ----------
    matrix : ndarray, shape (n, d, d)
        Positive definite.
    slope, low, high : ndarray, shape (n, d)

    References
    ----------
    Judice and Pires (1994), "A block principal pivoting algorithm for large-scale strictly monotone linear
    complementarity problems", Computers and Operations Research 21.
    """
    n, d = slope.shape
    side, step = np.zeros((n, d), dtype=int), np.zeros((n, d))
    fewest, chances, left = np.full(n, d + 1), np.full(n, CHANCES), np.arange(n)
    for _ in range(MOST_PIVOTS):
        own, matrices, at = side[left], matrix[left], (low[left], high[left])
        step[left], rest = _solved(matrices, slope[left], own, *at)
        passed = np.where(step[left] < at[0], -1, np.where(step[left] > at[1], 1, 0))
        following = np.where(own == 0, passed, np.where(own * rest > 0.0, 0, own))
        wrong = following != own
        count = wrong.sum(axis=1)
        fewer = count < fewest[left]
        chances[left] = np.where(fewer, CHANCES, chances[left] - 1)
        fewest[left] = np.where(fewer, count, fewest[left])
        last = np.arange(d) == (d - 1 - np.argmax(wrong[:, ::-1], axis=1))[:, None]
        side[left] = np.where((chances[left] >= 0)[:, None] | last, following, own)
        left = left[count > 0]
        if not len(left):
            break
    return np.clip(step, low, high)


def _solved(matrix: Array, slope: Array, side: npt.NDArray[np.intp], low: Array, high: Array) -> tuple[Array, Array]:
    """Steps with some coordinates held at a side, -1 or 1, and the slopes at their ends."""
    free = side == 0
    held = np.where(side < 0, low, np.where(side > 0, high, 0.0))
    reduced = np.where(free[:, :, None] & free[:, None, :], matrix, 0.0)
    column = np.arange(slope.shape[1])
    reduced[:, column, column] += ~free
    wanted = np.where(free, -slope - np.einsum("nij,nj->ni", matrix, held), held)
    step = np.linalg.solve(reduced, wanted[:, :, None])[:, :, 0]
    return step, slope + np.einsum("nij,nj->ni", matrix, step)
