"""Points from which further optimizations begin, and the box of these points where there is no prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.domains.contract import Domain
from invsamp.modes.minima import Minima
from invsamp.modes.tolerances import REACH, UNIT
from invsamp.protocols import Array
from invsamp.stored import stored

#: Points that are lower than their neighbors, at most.
MOST_MORE = 64
#: Points below the Gaussians of all minima, at most.
FEW_MORE = 4
#: A box around modes, `REACH` of their standard deviations to either side, is searched up to so many times as wide.
WIDEST = 8.0
#: Rounds of rejection of points that lie in the box but not in the domain.
TRIES = 20


@stored
class Region(NamedTuple):
    """A box of positions."""

    low: Array  # (d,)
    high: Array  # (d,)

    def widened(self, factor: float | Array, domain: Domain) -> Region:
        """So many times as wide about its center (scalar, or (n, 1) for n boxes), as far as the domain's box goes."""
        center, half = 0.5 * (self.low + self.high), 0.5 * factor * (self.high - self.low)
        least, most = domain.bounding_box(len(center))
        return Region(np.maximum(center - half, least), np.minimum(center + half, most))

    def joined(self, other: Region | None) -> Region:
        """The smallest box that holds both."""
        return self if other is None else Region(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def region_around(centers: Array, factors: Array) -> Region:
    """The bounding box of modes at ``centers`` (k, d), `REACH` sds around each; of covariances these are factors."""
    reach = REACH * np.sqrt(np.square(factors).sum(axis=2))
    return Region((centers - reach).min(axis=0), (centers + reach).max(axis=0))


def at_several_scales(region: Region, rng: np.random.Generator, n: int, domain: Domain) -> Array:
    """Points (k, d) of the domain, each uniform in the region made 1 to `WIDEST` times as wide; at most ``n``.

    The logarithms of these factors are uniform, so that each scale has its share of the points. There are fewer where
    the domain fills little of the box.
    """
    found = np.empty((0, len(region.low)))
    for _ in range(TRIES):
        low, high = region.widened(WIDEST ** rng.uniform(size=(n, 1)), domain)
        points = low + rng.uniform(size=low.shape) * (high - low)
        found = np.concatenate([found, points[domain.contains(points)]])
        if len(found) >= n:
            break
    return found[:n]


def lowest_near(points: Array, energies: Array) -> npt.NDArray[np.intp]:
    """Indices of points (n, d) that are lower than their 2 d + 2 nearest neighbors: the lowest `MOST_MORE` at most.

    Optimizations begin there in multi level single linkage (Rinnooy Kan and Timmer 1987, "Stochastic global
    optimization methods II", Mathematical Programming 39). That method takes all neighbors within a distance.
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
    """Indices of a few points (n, d) that lie below the Gaussians of all minima, more so than their neighbors.

    This finds the basin of a narrow mode. On the slope of a wide mode the energies alone do not show it.
    """
    expected = np.full(len(points), np.inf)
    for center, energy, covariance in zip(minima.position, minima.energies, minima.extents, strict=True):
        moved = points - center
        expected = np.minimum(expected, energy + 0.5 * (moved * np.linalg.solve(covariance, moved.T).T).sum(axis=1))
    below = energies - expected
    low = lowest_near(points / scale, below)
    low = low[below[low] < -UNIT]
    return low[np.argsort(energies[low], kind="stable")][:FEW_MORE]
