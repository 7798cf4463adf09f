"""How much of a distribution lies where no draw may have been: its density far out along one coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array
from invsamp.transport.score_matching import MISFIT
from invsamp.transport.triangular import Places

#: Values at which a density is computed: from -10 to 10 sds, 1.5 apart. An integral of a normal density is off by 5e-4.
VALUES = 14
#: Mass beyond values which are not worth a point.
_RARE = 3e-4
#: Largest difference of the energy at a mode from its prediction with which a density is taken as known.
_CERTAIN = 1.0
#: Partial correlation from which two coordinates are coupled: a score is off by 4% of its variance without it.
_COUPLED = 0.2


class Values(NamedTuple):
    """Points at values of a coordinate, where the others are 0 in a map's coordinates, and at 1 from these in each.

    The number of the coordinate itself is that of the point which is not moved.
    """

    along: Places  # (n,), the coordinates
    u: Array  # (n,), in the map's frame
    z: Array  # (n,), in the map's coordinates
    width: Array  # (n,), du / dz
    energy: Array  # (n,), in the map's coordinates, where nothing is moved
    slope: Array  # (n, d, d), its gradients at the points
    position: Array  # (n, d, d)
    gradient: Array  # (n, d, d), by position


class Reach(NamedTuple):
    """How far a target reaches along coordinates on which scales depend."""

    low: Array  # (d,), in the map's frame; 0 where no scale depends on a coordinate
    high: Array  # (d,)
    scores: dict[int, tuple[Array, Array]]  # values of a coordinate in the frame, and its marginal scores there
    coupled: npt.NDArray[np.bool_]  # (d, d), which depend on each other given all others, at some of the values
    unmatched: float  # the mass at values at which it is not normal in the map's coordinates


@np.errstate(all="ignore")
def centers(values: Values) -> Array:
    """Modes z (n, d) of the target at each value, if it is normal there; NaN if it is not bounded."""
    found = np.full(values.slope.shape[::2], np.nan)
    found[np.arange(len(found)), values.along] = values.z
    for j, others, at in _each(values):
        found[np.ix_(at, others)] = _normal(values, j, others, at).mode
    return found


@np.errstate(all="ignore")
def reach(values: Values, energy: Array) -> Reach:
    """How far a target reaches, from its energies (n,) at `centers` too.

    At each value the other coordinates are taken to be normal. Gradients give their mode and curvatures, and the
    density is the integral over them. It counts where the energy at the mode is as it should be.
    """
    d = values.slope.shape[2]
    low, high, coupled = np.zeros(d), np.zeros(d), np.zeros((d, d), dtype=bool)
    unmatched, scores = 0.0, {}
    for j, others, at in _each(values):
        u, normal = values.u[at], _normal(values, j, others, at)
        known = np.abs(normal.energy - energy[at]) < _CERTAIN
        log = np.where(known, -normal.energy - normal.log_curvature, np.nan)
        share, beyond = _masses(values.z[at], log)
        unmatched = max(unmatched, float(share[~(known & (normal.misfit <= MISFIT))].sum()))
        reached = beyond > _RARE
        low[j], high[j] = u[reached].min(initial=0.0), u[reached].max(initial=0.0)
        if known.sum() > 1:
            density = log[known] - np.log(values.width[at][known])
            scores[j] = 0.5 * (u[known][1:] + u[known][:-1]), -np.diff(density) / np.diff(u[known])
        moves, changes = (_changes(part[at], j, others)[reached] for part in (values.position, values.gradient))
        coupled[np.ix_(others, others)] |= _coupled(moves[..., others], changes[..., others])
    return Reach(low, high, scores, coupled, unmatched)


class _Normal(NamedTuple):
    """Normal distributions of the other coordinates, at values (n,) of one."""

    mode: Array  # (n, m)
    energy: Array  # (n,), there
    log_curvature: Array  # (n,), half the log of the determinant
    misfit: Array  # (n,), mean squared difference of gradients from standard normal ones


def _each(values: Values) -> Iterator[tuple[int, Places, Places]]:
    """Coordinates, the others, and the values of each."""
    for j in map(int, np.unique(values.along)):
        yield j, np.flatnonzero(np.arange(values.slope.shape[2]) != j), np.flatnonzero(values.along == j)


def _changes(part: Array, j: int, others: Places) -> Array:
    return np.asarray(part[:, others] - part[:, j, None])


def _normal(values: Values, j: int, others: Places, at: Places) -> _Normal:
    energy, slope, changes = values.energy[at], values.slope[at, j][:, others], _changes(values.slope[at], j, others)
    bend = 0.5 * (changes[:, :, others] + changes[:, :, others].transpose(0, 2, 1))
    finite = np.isfinite(slope).all(axis=1) & np.isfinite(bend).all(axis=(1, 2))
    curvature, vectors = np.linalg.eigh(np.where(finite[:, None, None], bend, np.eye(len(others))))
    curvature = np.where(finite[:, None] & (curvature > 0.0), curvature, np.nan)
    tilt = np.einsum("nij,ni->nj", vectors, slope)
    # where others change the score along the coordinate it is as hard to move in as where they are misfit
    misfit = (np.square(curvature - 1.0) + tilt**2).mean(axis=1) + np.square(changes[:, :, j]).mean(axis=1)
    return _Normal(
        -np.einsum("nij,nj->ni", vectors, tilt / curvature),
        energy - 0.5 * (tilt**2 / curvature).sum(axis=1),
        0.5 * np.log(curvature).sum(axis=1),
        misfit,
    )


def _coupled(moves: Array, changes: Array) -> npt.NDArray[np.bool_]:
    """Which coordinates (m, m) are coupled at one of the values, by changes of the gradient (n, m, m) after moves."""
    known = np.isfinite(moves).all(axis=(1, 2)) & np.isfinite(changes).all(axis=(1, 2))
    bend = np.linalg.pinv(moves[known]) @ changes[known]
    own = np.sqrt(np.abs(np.diagonal(bend, axis1=1, axis2=2)))
    found = np.any(np.abs(bend) > _COUPLED * own[:, :, None] * own[:, None, :], axis=0)
    np.fill_diagonal(found, False)
    return np.asarray(found | found.T)


def _masses(z: Array, log: Array) -> tuple[Array, Array]:
    """Shares of the mass (n,) near increasing values z (n,), and on the same side at least as far out.

    Where the log density is NaN it is interpolated, and beyond what is known it goes on straight.
    """
    known = np.flatnonzero(np.isfinite(log))
    if len(known) < 2:
        return np.ones(len(z)), np.ones(len(z))
    first, last, filled = known[0], known[-1], np.interp(z, z[known], log[known])
    for beyond, (end, inner) in ((slice(None, first), known[:2]), (slice(last + 1, None), known[:-3:-1])):
        filled[beyond] += (log[end] - log[inner]) / (z[end] - z[inner]) * (z[beyond] - z[end])
    share = np.exp(filled - filled.max()) * np.gradient(z)
    share /= share.sum()
    return share, np.minimum(np.cumsum(share), np.cumsum(share[::-1])[::-1])
