"""Ends of descents distinguished: the distinct minima of an energy, each with its Gaussian (Laplace) and its share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.evaluate.requests import EvaluationRequests
from invsamp.modes.basins import Basins
from invsamp.modes.curvature import confirmed_factor, covariance_of, extent_of, hessian
from invsamp.modes.descent import Descent, descend
from invsamp.modes.half_spaces import cut_gaussian
from invsamp.modes.objective import Objective
from invsamp.modes.tolerances import APART, NEGLIGIBLE, TOLERANCE, UNIT
from invsamp.protocols import Array
from invsamp.stored import stored

#: In a bent valley steps gain little long before its lowest point: an end that would be another minimum, or one from
#: which there is more than `TOLERANCE` left to gain by its own Gaussian, is led on in units of that Gaussian's widths,
#: until there is a hundredth of that left, by so many evaluations and so often at most.
MOST, ROUNDS = 300, 4
#: Two ends are one minimum, too, if the energy rises by less than `UNIT` on the straight way, at so many points.
POINTS = 15


@stored
class Minima(NamedTuple):
    """Distinct minima, the lowest first."""

    position: Array  # (k, d)
    energies: Array  # (k,)
    covariances: Array  # (k, d, d): inverse Hessians; NaN where they are not positive definite, or no one asked
    extents: Array  # (k, d, d): the same, but with the mass within bounds; a rough one where that has no end
    known: npt.NDArray[np.bool_]  # (k,) whether that is their mass, by a Gaussian or one that bounds cut
    on_wall: npt.NDArray[np.bool_]  # (k,) whether a bound, or a cliff, cuts the Gaussian
    counts: npt.NDArray[np.int64]  # (k,) descents that ended there

    @property
    def log_evidence(self) -> Array:
        r"""Each one's share of the evidence, :math:`-U + \frac d2 \log 2\pi - \frac12 \log\det \nabla^2 U` (k,).

        Of one that bounds cut what is within these (`invsamp.modes.half_spaces`); NaN where neither is known.
        """
        return np.where(self.known, self._mass(self.extents), np.nan)

    @property
    def heavy(self) -> npt.NDArray[np.intp]:
        """Which are modes of some weight. Decisions rest on these alone."""
        return np.flatnonzero(self.weights > NEGLIGIBLE)

    @property
    def gaussian(self) -> npt.NDArray[np.intp]:
        """Which of these have a known mass; others are points of a ridge, for all that is known."""
        return self.heavy[self.known[self.heavy]]

    @property
    def weights(self) -> Array:
        """Shares of the mass (k,): by Laplace, or roughly (`extents`); by the heights alone where no one asked."""
        logs = self._mass(self.extents) if self.measured else -self.energies
        shares = np.exp(logs - np.max(logs, initial=-np.inf))
        return np.asarray(shares / shares.sum())

    def beyond(self, others: Minima, which: npt.NDArray[np.intp]) -> bool:
        """Whether some minimum of ``which`` is none of the others."""
        precisions = np.linalg.inv(others.extents)
        for k in which:
            if not any(_near(self.position[k] - at, p) for at, p in zip(others.position, precisions, strict=True)):
                return True
        return False

    @property
    def measured(self) -> bool:
        """Whether a user asked for Hessians, so that all have an extent."""
        return bool(np.isfinite(self._mass(self.extents)).all())

    def _mass(self, covariances: Array) -> Array:
        with np.errstate(invalid="ignore"):  # where there is no covariance
            volumes = np.array([0.5 * np.linalg.slogdet(matrix)[1] for matrix in covariances])
            if covariances.shape[-1] != self.position.shape[1]:  # no one asked
                volumes = np.full(len(self.energies), np.nan)
        return np.asarray(0.5 * self.position.shape[1] * math.log(2.0 * math.pi) + volumes - self.energies)


def confirmed(objective: Objective, found: Minima, rise: float) -> EvaluationRequests[Minima]:
    """The same, where a Gaussian has to be as wide as the energy is; those that are not have an extent alone.

    Curvature along a ridge is rounding, or a bend: it may give such a Gaussian all the weight. Where one minimum lacks
    a Gaussian, all others have to prove theirs before weights show which of them may be neglected.
    """
    covariances, extents, known = found.covariances.copy(), found.extents.copy(), found.known.copy()
    for k in range(len(known)):
        mode = found.position[k], float(found.energies[k]), np.linalg.cholesky(extents[k])
        factor, whole = yield from confirmed_factor(objective, *mode, rise)
        extents[k] = factor @ factor.T
        if not whole:
            covariances[k], known[k] = np.nan, False
    return found._replace(covariances=covariances, extents=extents, known=known)


def lone(found: Minima, end: Descent, worse: float) -> int:
    """Number of optimizations that ended at a minimum that no other reached.

    Ends that `distinct` left out as ``worse``, and minima without a Gaussian, are distinguished by their energies
    alone.
    """
    flat = ~found.known
    lowest = np.min(end.energy, where=end.converged, initial=math.inf)
    left_out = end.energy[end.converged & (end.energy > lowest + worse)]
    others = np.sort(np.concatenate([np.repeat(found.energies[flat], found.counts[flat]), left_out]))
    gaps = np.diff(others, prepend=-math.inf, append=math.inf) > UNIT
    own = np.count_nonzero(gaps[1:] & gaps[:-1]) if len(others) else 0
    return int(np.count_nonzero(found.counts[~flat] == 1) + own)


def distinct(
    objective: Objective,
    end: Descent,
    *,
    worse: float = math.inf,
    gaussian: bool = True,
    basins: Basins | None = None,
) -> EvaluationRequests[Minima]:
    """Distinguish the ends of descents.

    Parameters
    ----------
    objective : Objective
    end : Descent
        Those that have not converged are left out.
    worse : float
        Ends that lie so much above the lowest are left out, too.
    gaussian : bool
        Whether Hessians are wanted, each of some 4 d gradients.
    basins : Basins, optional
        Of this energy, as the descents have left them: what these know is not asked for again.
    """
    lowest = np.min(end.energy, where=end.converged, initial=math.inf)
    ended = np.flatnonzero(end.converged & (end.energy <= lowest + worse))
    looking = _Looking(objective, end, gaussian, basins)
    for k in ended[np.argsort(end.energy[ended], kind="stable")].tolist():
        yield from looking.at(k)
    found = looking.found
    rows, empty = [each.row for each in found], np.empty((0, 0, 0))
    return Minima(
        end.position[rows],
        end.energy[rows],
        np.stack([each.covariance for each in found]) if found else empty,
        np.stack([each.extent for each in found]) if found else empty,
        np.array([each.known for each in found], dtype=bool),
        np.array([each.bounded for each in found], dtype=bool),
        np.array([each.count for each in found], dtype=np.int64),
    )


@dataclass
class _Found:
    """A minimum, and how many ends are there."""

    row: int
    precision: Array
    covariance: Array
    extent: Array
    known: bool
    bounded: bool
    count: int = 1


class _Looking:
    """Assigns ends of optimizations to minima, the lowest first; an end that is optimized further is replaced."""

    def __init__(self, objective: Objective, end: Descent, gaussian: bool, basins: Basins | None) -> None:
        self._objective, self._end, self._gaussian, self._basins = objective, end, gaussian, basins
        self.found: list[_Found] = []

    def at(self, k: int) -> EvaluationRequests[None]:
        """Count an end where it belongs, or find that it is another minimum."""
        end, matrix, bounded = self._end, np.full((1, 1), np.nan), False
        for attempt in range(ROUNDS if self._gaussian else 1):
            same = yield from self._same(k)
            if same is not None:
                same.count += 1
                return
            if not self._gaussian:
                break
            matrix, bounded = yield from self._hessian(k)
            another = bool(self.found) and attempt == 0
            if bounded or attempt == ROUNDS - 1 or not (another or _left(matrix, end.gradient[k]) > TOLERANCE):
                break
            yield from _continue_descent(self._objective, end, k, matrix)
        at, none = end.position[k], np.full_like(matrix, np.nan)
        if not self._gaussian:
            self.found.append(_Found(k, matrix, none, none, known=False, bounded=bounded))
            return
        extent = cut_gaussian(matrix, end.gradient[k], at, *self._objective[1:], bounded=bounded)
        known = extent is not None
        if extent is None:
            extent = extent_of(matrix, self._objective.scale)
        covariance = none if bounded else covariance_of(matrix)
        self.found.append(_Found(k, np.asarray(np.linalg.inv(extent)), covariance, extent, known, bounded))

    def _same(self, k: int) -> EvaluationRequests[_Found | None]:
        """The minimum at which an end lies."""
        at = self._end.position[k]
        near = [each for each in self.found if _near(at - self._end.position[each.row], each.precision)]
        if not near and self.found:
            rows = [each.row for each in self.found]
            joined = yield from _joined(self._objective, self._end, k, rows)
            near = [each for each, one in zip(self.found, joined, strict=True) if one]
        return near[0] if near else None

    def _hessian(self, k: int) -> EvaluationRequests[tuple[Array, bool]]:
        """There, and whether bounds or cliffs are in its way."""
        at, energy, gradient = self._end.position[k], float(self._end.energy[k]), self._end.gradient[k]
        known = None if self._basins is None else self._basins.precision(at)
        if known is not None:
            return known, False
        return (yield from hessian(self._objective, at, energy, gradient))


def _left(precision: Array, gradient: Array) -> float:
    """The energy that is left to gain by a Gaussian; NaN where there is none."""
    return float(0.5 * gradient @ covariance_of(precision) @ gradient)


def _continue_descent(objective: Objective, end: Descent, k: int, precision: Array) -> EvaluationRequests[None]:
    """Let one descent continue from its end, which is replaced."""
    widths = np.fmin(np.sqrt(np.diag(covariance_of(precision))), objective.scale)
    narrow = objective._replace(scale=widths)
    on = yield from descend(narrow, end.position[k][None], tolerance=0.01 * TOLERANCE, most=MOST)
    for old, new in zip(end, on, strict=True):
        old[k] = new[0]


def _near(apart: Array, precision: Array) -> bool:
    return len(precision) == len(apart) and float(apart @ precision @ apart) < APART**2 * len(apart)


def _joined(objective: Objective, end: Descent, k: int, found: list[int]) -> EvaluationRequests[list[bool]]:
    """Whether the energy hardly rises on the straight way from an end to each of those before."""
    share = np.linspace(0.0, 1.0, POINTS + 2)[1:-1, None]
    ways = np.concatenate([end.position[k] + share * (end.position[j] - end.position[k]) for j in found])
    energy = yield from objective.energies(ways)
    top = energy.reshape(len(found), POINTS).max(axis=1)
    return [bool(value <= end.energy[k] + UNIT) for value in top]  # it lies no lower than those before
