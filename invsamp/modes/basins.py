"""Known minima, each with its Gaussian: the optimization of a point ends where it lies in one of these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.modes.curvature import covariance_of
from invsamp.modes.tolerances import TOLERANCE, UNIT
from invsamp.protocols import Array

#: Evaluations that a point which lies in a basin would still take, about: the saving by a Hessian for each that moves.
STILL = 20
#: Basins that an end of a descent is compared with by a Newton step, at most.
MOST_TRIED = 3


class Basin(NamedTuple):
    """Where a descent has ended, and the Gaussian there."""

    position: Array  # (d,)
    energy: float
    gradient: Array  # (d,)
    precision: Array  # (d, d)
    covariance: Array  # (d, d)
    bounded: bool  # whether it ends at a bound, towards which the gradient pushes

    @property
    def left(self) -> float:
        """Energy that is left to gain."""
        return 0.0 if self.bounded else float(0.5 * self.gradient @ self.covariance @ self.gradient)

    def holds(self, position: Array, energy: Array, gradient: Array, height: float) -> npt.NDArray[np.bool_]:
        """Which points (n, d) lie no higher than ``height`` over its lowest point, and are as its Gaussian says."""
        moved = position - self.position
        slope = self.gradient + moved @ self.precision
        above = 0.5 * ((self.gradient + slope) * moved).sum(axis=1)
        own = above + self.left
        apart = gradient - slope
        off = 0.5 * np.einsum("ij,jk,ik->i", apart, self.covariance, apart)
        expected = self.energy + above
        allowed = TOLERANCE * np.maximum(own, UNIT)  # the gradient to the root of it
        return np.asarray((own <= height) & (off <= allowed) & (np.abs(energy - expected) <= allowed))


class Basins:
    """Those of one energy.

    Parameters
    ----------
    height : float
        Points that lie higher over a minimum are none of its basin.
    waiting : int
        Descents that are still to come, or to be distinguished by Hessians.
    """

    def __init__(self, height: float, waiting: int = 0) -> None:
        self.height, self._waiting = height, waiting
        self._found: list[Basin] = []
        self._flat = np.inf  # the lowest end without a Gaussian

    def pays(self, d: int, moving: int, energy: float) -> bool:
        """Whether a Hessian, of some 4 d gradients, costs less than it can save those that still move.

        It does not pay at an end far above the lowest known minimum, nor above one without a Gaussian. Rough
        energies, valleys without a lowest point and cliffs have no Gaussian at their other ends either. Lower ends may
        be minima with weight.
        """
        if energy > min((basin.energy for basin in self._found), default=np.inf) + self.height:
            return False
        return energy < self._flat and 4 * d <= STILL * max(moving, self._waiting)

    def basin(
        self, position: Array, energy: float, gradient: Array, precision: Array, bounded: bool, cut: Array | None
    ) -> Basin | None:
        """Basin of an end by its Hessian, and whether bounds or cliffs were in its way; None where it is no Gaussian.

        ``cut`` is the covariance within bounds, if there is one (`invsamp.modes.half_spaces`).
        """
        covariance = cut if bounded else covariance_of(precision)
        if covariance is None or not np.isfinite(covariance).all():
            self._flat = min(self._flat, energy)
            return None
        return Basin(position, energy, gradient, precision, covariance, bounded)

    def add(self, basin: Basin) -> None:
        """One more."""
        self._found.append(basin)

    def towards(self, position: Array, gradient: Array) -> list[tuple[Basin, Array]]:
        """Where one Newton step by each one's Gaussian would bring a point (d,)."""
        whole = [basin for basin in self._found if not basin.bounded]
        steps = [(basin, position - basin.covariance @ gradient) for basin in whole[:MOST_TRIED]]
        return [(basin, there) for basin, there in steps if np.isfinite(there).all()]

    def precision(self, position: Array) -> Array | None:
        """The Hessian (d, d) at one of the minima; None anywhere else."""
        return next((basin.precision for basin in self._found if (basin.position == position).all()), None)

    def within(self, position: Array, energy: Array, gradient: Array) -> list[Basin | None]:
        """In which basin each point (n, d) lies."""
        found: list[Basin | None] = [None] * len(position)
        for basin in self._found:
            for row in np.flatnonzero(basin.holds(position, energy, gradient, self.height)):
                found[row] = found[row] or basin
        return found
