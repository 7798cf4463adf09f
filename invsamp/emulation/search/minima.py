"""Minima of the energy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array

#: Mean squared distance, for each unknown, below which a point counts as one of a mode's.
MET = 6.0


class Minimum(NamedTuple):
    """A mode, or where a descent was given up.

    Attributes
    ----------
    position : ndarray, shape (dimension,)
    energy : float
    covariance : ndarray, shape (dimension, dimension)
        Of its Gaussian.
    found : int
        Descents that came to it.
    down : bool
        Whether a descent ended there.
    """

    position: Array
    energy: float
    covariance: Array
    found: int
    down: bool

    @property
    def log_mass(self) -> float:
        """Log of the posterior's mass there, by its Gaussian, up to a constant."""
        return float(-self.energy + 0.5 * np.linalg.slogdet(self.covariance)[1])


def met(position: Array, minimum: Minimum, counted: npt.NDArray[np.bool_]) -> bool:
    """Whether a position lies within a minimum's Gaussian, by the coordinates that count."""
    away = (position - minimum.position)[counted]
    covariance = minimum.covariance[np.ix_(counted, counted)]
    return bool(away @ np.linalg.solve(covariance, away) < MET * max(len(away), 1))
