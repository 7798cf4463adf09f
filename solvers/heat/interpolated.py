"""Observations between time steps: linear in time between those at the steps around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.weighted import Precomputed
from invsamp.solvers.forward_model import Tangent
from invsamp.solvers.heat.solving import Solving
from invsamp.solvers.time_steps import mixed


@dataclass(frozen=True, eq=False)
class Interpolated:
    """An evaluator of observations at times between those of another one.

    Parameters
    ----------
    inner : evaluator
        Of observations at steps, ordered by step, then by sensor.
    weights : array, shape (times, steps)
    sensors : int
    """

    inner: Precomputed | Solving
    weights: Array
    sensors: int

    @property
    def method(self) -> str:
        """How observations come about."""
        return f"{self.inner.method}, interpolated in time"

    def evaluate(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        return self._forward(self.inner.evaluate(theta), 1)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations and Jacobian (batch, m, p)."""
        y, slopes = self.inner.jacobian(theta)
        return self._forward(y, 1), self._forward(slopes, 1)

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Chosen observations (batch, k) and their derivatives (batch, k, p)."""
        steps, (batch, k) = self.weights.shape[1], indices.shape
        time, sensor = np.divmod(indices, self.sensors)
        at_steps = (np.arange(steps) * self.sensors)[None, None] + sensor[:, :, None]
        weights = self.weights[time]
        y, slopes = self.inner.rows(theta, at_steps.reshape(batch, k * steps))
        y = (y.reshape(batch, k, steps) * weights).sum(axis=2)
        return y, (slopes.reshape(batch, k, steps, -1) * weights[..., None]).sum(axis=2)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations, and the product with cotangents (batch, m)."""
        y, product = self.inner.linearize(theta)
        return self._forward(y, 1), lambda cotangent: product(self._backward(np.asarray(cotangent, dtype=float), 1))

    def tangent(self, theta: Array) -> Tangent:
        """Observations (batch, m), and products with directions and cotangents (batch, k, m)."""
        y, along, back = self.inner.tangent(theta)
        return (
            self._forward(y, 1),
            lambda directions: self._forward(along(directions), 2),
            lambda cotangents: back(self._backward(np.asarray(cotangents, dtype=float), 2)),
        )

    def _forward(self, values: Array, axis: int) -> Array:
        """Values at the steps as those at the times, along an axis; each row by itself."""
        return mixed(self.weights, values, axis)

    def _backward(self, values: Array, axis: int) -> Array:
        return mixed(self.weights.T, values, axis)
