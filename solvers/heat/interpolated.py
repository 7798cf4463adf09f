"""Observations between time steps: linear in time between those at the steps around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.weighted import Precomputed
from invsamp.solvers.forward_model import Tangent
from invsamp.solvers.heat.solving import Solving


def bracketed(times: Sequence[float] | None, steps: int, end_time: float) -> tuple[tuple[int, ...], Array | None]:
    """Numbers of the steps around ``times``, and weights (n_times, n_numbers) of linear interpolation between them.

    The end alone for None; no weights where all times are those of steps.

    Raises
    ------
    ValueError
        If times do not increase, or lie outside of [0, end_time].
    """
    if times is None:
        return (steps,), None
    at = np.atleast_1d(array("times", times)) * steps / end_time
    if at.ndim != 1 or (np.diff(at) <= 0).any():
        raise ValueError(f"times must be an increasing sequence, got {times}")
    nearest = np.rint(at)
    at = np.where(np.abs(at - nearest) < 1e-9 * steps, nearest, at)
    if (outside := (at < 0) | (at > steps)).any():
        wrong = float(at[outside][0]) * end_time / steps
        raise ValueError(f"times must lie between 0 and the end time {end_time:.6g}, got {wrong:.6g}")
    before = np.floor(at)
    share = at - before
    numbers, places = np.unique(np.concatenate([before, np.ceil(at)]).astype(int), return_inverse=True)
    steps_used = tuple(numbers.tolist())
    if not share.any():
        return steps_used, None
    weights = np.zeros((len(at), len(numbers)))
    first, second = places.reshape(2, -1)
    np.add.at(weights, (np.arange(len(at)), first), 1.0 - share)
    np.add.at(weights, (np.arange(len(at)), second), share)
    return steps_used, weights


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
        return _mixed(self.weights, values, axis)

    def _backward(self, values: Array, axis: int) -> Array:
        return _mixed(self.weights.T, values, axis)


def _mixed(weights: Array, values: Array, axis: int) -> Array:
    before, count, after = values.shape[:axis], values.shape[axis], values.shape[axis + 1 :]
    moved = np.moveaxis(values.reshape(*before, weights.shape[1], count // weights.shape[1], *after), axis, 0)
    mixed = np.zeros((len(weights), *moved.shape[1:]))
    # term by term: sums of BLAS depend in their last bits on the rest of the batch
    for k, j in zip(*np.nonzero(weights), strict=True):
        mixed[k] += weights[k, j] * moved[j]
    return np.moveaxis(mixed, 0, axis).reshape(*before, -1, *after)
