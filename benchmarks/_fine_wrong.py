"""Coarse models of the conductivity that are deliberately wrong, for `fine_solves.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import invsamp as iv
from invsamp.problems import conductivity
from invsamp.protocols import Array
from invsamp.solvers.fem.fields import Fixed, LogField, Modes, Sum
from invsamp.solvers.poisson import PoissonEquation

CELLS = 16
WORK = float((CELLS + 1) ** 2)


class Elsewhere:
    """A coarse model that distorts the first two unknowns, and is right in only a part of the posterior."""

    def __init__(self, model: iv.extending.ForwardModel) -> None:
        self.model, self.parameters, self.work = model, ("z",), WORK

    def __call__(self, theta: Array) -> Array:
        """Observations (n, m)."""
        return self.model(self._bent(theta))

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        y, product = self.model.linearize(self._bent(theta))
        slope = np.ones(theta.shape)
        slope[:, :2] += 0.6 * np.cos(3.0 * theta[:, :2])
        return y, lambda cotangent: slope * product(cotangent)

    @staticmethod
    def _bent(theta: Array) -> Array:
        bent = theta.copy()
        bent[:, :2] += 0.2 * np.sin(3.0 * theta[:, :2])
        return bent


class Shifted:
    """A coarse model that is off by three standard deviations of the noise, everywhere."""

    def __init__(self, model: iv.extending.ForwardModel) -> None:
        self.model, self.parameters, self.work = model, ("z",), WORK

    def __call__(self, theta: Array) -> Array:
        return self.model(theta) + 3.0 * conductivity.NOISE_SD

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        y, product = self.model.linearize(theta)
        return y + 3.0 * conductivity.NOISE_SD, product


def outside(model: iv.extending.ForwardModel) -> iv.extending.ForwardModel:
    """A coarse model with a third of the conductivity outside the square that the sensors span."""
    low, high = conductivity.SENSORS.min(axis=0), conductivity.SENSORS.max(axis=0)

    def lower(points: Array) -> Array:
        return np.where(((points < low) | (points > high)).any(axis=1), -np.log(3.0), 0.0)

    field = LogField(Sum(Modes("z", conductivity.modes()), Fixed(lower)))
    return PoissonEquation(CELLS, field, source=0.0, boundary=conductivity.BOUNDARY).observe(conductivity.SENSORS)
