"""Points that descend an energy side by side, whatever their steps are: what all ways down share."""

from __future__ import annotations

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.evaluate.requests import Estimate, Rows
from invsamp.modes.basins import Basin, Basins
from invsamp.protocols import Array

#: Share of the decrease promised that a step has to reach.
ENOUGH = 1e-4
#: Trials of shorter and shorter steps before a point is left, or what it has learned is forgotten.
TRIALS = 20


class Points:
    """Where the points are, and which of them still move.

    Parameters
    ----------
    position : ndarray, shape (n, d)
        It is written over.
    found : Estimate
        There.
    scale : ndarray, shape (d,) or (n, d)
        Of each coordinate; those of scale 0 stay as they are.
    tolerance : float
        A point has converged where less energy is left to gain, about.
    """

    def __init__(self, position: Array, found: Estimate, scale: Array, tolerance: float) -> None:
        n, d = position.shape
        self._scale, self._tolerance = np.broadcast_to(scale, (n, d)), tolerance
        self._unit = np.where(self._scale > 0.0, self._scale, 1.0)
        self.position, self.energy, self.gradient = position, found.energy.copy(), found.gradient.copy()
        self.evaluations = np.ones(n, dtype=np.int64)
        self.moving, self.converged = np.isfinite(self.energy), np.zeros(n, dtype=bool)
        self._trials = np.zeros(n, dtype=int)

    def trial(self, rows: Rows, domain: Domain) -> Array:
        """Where the next steps of these points end."""
        raise NotImplementedError

    def take(self, rows: Rows, there: Array, found: Estimate) -> None:
        """Take the steps that optimize by enough; try shorter ones where they do not."""
        raise NotImplementedError

    def end_within(self, rows: Rows, basins: Basins) -> Rows:
        """Those of the rows that lie in basins, and so have converged."""
        found = basins.within(self.position[rows], self.energy[rows], self.gradient[rows])
        for row, basin in zip(rows, found, strict=True):
            if basin is not None:
                self.put(row, basin)
        return rows[[basin is not None for basin in found]]

    def put(self, row: int, basin: Basin) -> None:
        """At a minimum that is known."""
        self.position[row], self.energy[row], self.gradient[row] = basin[:3]
        self.end(np.array([row]))

    def end(self, rows: Rows) -> None:
        """Mark these as converged."""
        self.moving[rows], self.converged[rows] = False, True
