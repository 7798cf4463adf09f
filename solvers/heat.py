"""Heat equation with an unknown source position, observed at points: a forward model with exact gradients.

The observations are linear in nodal fields that depend on the unknown centre. So one adjoint solve per sensor, at
construction, gives weights with which every later observation is a dot product, whatever the number of time steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.heat_fields import DecayingGaussian, Expansion, GaussianBump
from invsamp.solvers.heat_stepper import Array, Boundary, HeatStepper, Scheme


@dataclass(frozen=True)
class HeatEquation:
    """u_t = conductivity * Laplace(u) + f on the unit square, started around an unknown centre.

    Parameters
    ----------
    cells, steps : int
        Squares along one side; time steps.
    end_time : float
    initial : GaussianBump or DecayingGaussian
    boundary : {"dirichlet", "neumann", "exact"}
        Zero values or zero flux for `GaussianBump`; ``"exact"`` for `DecayingGaussian`.
    scheme : {"backward_euler", "crank_nicolson"}
    conductivity : float

    Raises
    ------
    ValueError
        If a setting is out of range, or ``boundary`` does not fit ``initial``.
    """

    cells: int
    steps: int
    end_time: float
    initial: GaussianBump | DecayingGaussian = field(default_factory=GaussianBump)
    boundary: Boundary = "dirichlet"
    scheme: Scheme = "backward_euler"
    conductivity: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.initial, (GaussianBump, DecayingGaussian)):
            raise ValueError(f"initial must be a GaussianBump or a DecayingGaussian, got {self.initial!r}")
        _ = self.stepper  # checks the other settings
        if (self.boundary == "exact") != isinstance(self.initial, DecayingGaussian):
            raise ValueError(f"boundary must be 'exact' for DecayingGaussian alone, got {self.boundary!r}")

    @cached_property
    def stepper(self) -> HeatStepper:
        """The discretisation, factored once."""
        return HeatStepper(self.cells, self.steps, self.end_time, self.conductivity, self.scheme, self.boundary)

    def solve(self, centre: Array, times: Sequence[float] | None = None) -> Array:
        """Nodal temperatures, shape (batch, n_times, n_nodes), for centres of shape (batch, 2).

        Nodes are ordered as ``stepper.nodes``. ``times`` must be times of the scheme; the end time by default.
        """
        stepper = self.stepper
        hx, hy = self.profiles(_check_batch("centre", centre), 2)
        source = self._nodal(self.initial.source(self.conductivity), hx, hy)
        profile = self.initial.profile(stepper.times)
        initial = self._nodal(self.initial.initial(), hx, hy)
        assert initial is not None
        return stepper.forward(initial, source, profile, self.step_numbers(times)).transpose(2, 0, 1)

    def observe(
        self,
        sensors: npt.ArrayLike,
        times: Sequence[float] | None = None,
        *,
        parameters: tuple[str, str] = ("x", "y"),
        precompute: bool = True,
    ) -> HeatObservation:
        """Forward model: temperatures at points.

        Parameters
        ----------
        sensors : array, shape (n_sensors, 2)
            Points of the unit square.
        times : sequence of float, optional
            Observation times, out of the times of the scheme; the end time by default.
        parameters : (str, str)
            Names of the unknown centre's coordinates.
        precompute : bool
            Whether to solve one adjoint problem per sensor and time now, and none later. Without, every evaluation
            marches through time. Both give the same numbers, to rounding.

        Raises
        ------
        ValueError
            If a sensor lies outside the unit square, or a time is not one of the scheme.
        """
        points = np.asarray(sensors, dtype=float)
        if points.ndim != 2 or points.shape[1] != 2 or not len(points):
            raise ValueError(f"sensors must have shape (n_sensors, 2), got {points.shape}")
        outside = ~((points >= 0) & (points <= 1)).all(axis=1)
        if outside.any():
            raise ValueError(f"sensors must lie in the unit square, got {points[outside][0].tolist()}")
        if len(set(parameters)) != 2:
            raise ValueError(f"parameters must be two distinct names, got {parameters}")
        steps = self.step_numbers(times)
        return HeatObservation(self, points, steps, tuple(parameters), precompute)

    def step_numbers(self, times: Sequence[float] | None) -> tuple[int, ...]:
        """Step numbers of ``times``, which must be times of the scheme."""
        if times is None:
            return (self.steps,)
        wanted = np.atleast_1d(np.asarray(times, dtype=float)) * self.steps / self.end_time
        numbers = np.rint(wanted)
        if not wanted.size or (np.diff(numbers) <= 0).any():
            raise ValueError(f"times must be a non-empty, increasing sequence, got {times}")
        bad = ~(np.abs(wanted - numbers) < 1e-9 * self.steps) | (numbers < 0) | (numbers > self.steps)
        if bad.any():
            step = self.end_time / self.steps
            raise ValueError(f"times must be multiples of the time step {step} up to {self.end_time}, got {times}")
        return tuple(int(number) for number in numbers)

    def profiles(self, centre: Array, order: int) -> tuple[Array, Array]:
        r"""Derivatives to the centre of the Gaussian along each axis of the grid.

        Returns
        -------
        hx, hy : array, shape (order + 1, batch, cells + 1)
            :math:`h_k = \partial^k g/\partial c^k`, :math:`g = \exp(-(x-c)^2/(2w^2))`, by the Hermite recursion
            :math:`h_{k+1} = ((x - c) h_k - k h_{k-1})/w^2`.
        """
        away = self.stepper.grid - centre.T[:, :, None]  # (axis, batch, grid)
        inverse = 1.0 / self.initial.width**2
        h = np.empty((order + 1, *away.shape))
        np.exp(-0.5 * inverse * away * away, out=h[0])
        for k in range(order):
            h[k + 1] = inverse * away * h[k]
            if k:
                h[k + 1] -= inverse * k * h[k - 1]
        return h[:, 0], h[:, 1]

    def separable_weights(self, seeds: Mapping[int, Array]) -> dict[tuple[int, int], Array]:
        """Weights (k, cells + 1, cells + 1) with which the k functionals act on each separable field.

        ``seeds`` are those of `HeatStepper.adjoint`.
        """
        stepper = self.stepper
        initial, source = stepper.adjoint(seeds, self.initial.profile(stepper.times))
        side = self.cells + 1
        weights: dict[tuple[int, int], Array] = {}
        expansions = ((initial, self.initial.initial()), (source, self.initial.source(self.conductivity)))
        for nodal, expansion in expansions:
            for orders, coefficient in expansion.items():
                weights[orders] = weights.get(orders, 0.0) + coefficient * nodal.T.reshape(-1, side, side)
        return weights

    @staticmethod
    def _nodal(expansion: Expansion, hx: Array, hy: Array) -> Array | None:
        if not expansion:
            return None
        terms = [c * np.einsum("bx,by->xyb", hx[i], hy[j]) for (i, j), c in expansion.items()]
        return np.sum(terms, axis=0).reshape(-1, hx.shape[1])


@dataclass(frozen=True, eq=False)
class HeatObservation:
    """Temperatures at sensors as a forward model of the centre; made by `HeatEquation.observe`.

    Observations are ordered by time, then by sensor. The columns of theta are `parameters`.
    """

    equation: HeatEquation
    sensors: Array
    steps: tuple[int, ...]
    parameters: tuple[str, ...]
    precomputed: bool

    def __post_init__(self) -> None:
        if self.precomputed:
            _ = self._weights

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_times * n_sensors), at theta, shape (batch, 2)."""
        theta = _check_batch("theta", theta)
        if not self.precomputed:
            fields = self.equation.solve(theta, self.equation.stepper.times[list(self.steps)].tolist())
            values = self._points @ fields.reshape(-1, fields.shape[2]).T
            return values.reshape(len(self.sensors), len(theta), -1).transpose(1, 2, 0).reshape(len(theta), -1)
        hx, hy = self.equation.profiles(theta, self._order)
        y = np.zeros((len(theta), len(self.steps) * len(self.sensors)))
        for (i, j), weights in self._weights.items():
            y += _contract((hx[i] @ weights).reshape(*y.shape, -1), hy[j])
        return y

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and their Jacobian (batch, m, 2)."""
        theta = _check_batch("theta", theta)
        if not self.precomputed:
            y, vjp = self.linearize(theta)
            rows = [vjp(np.tile(unit, (len(theta), 1))) for unit in np.eye(y.shape[1])]
            return y, np.stack(rows, axis=1)
        batch = len(theta)
        hx, hy = self.equation.profiles(theta, self._order + 1)
        y = np.zeros((batch, len(self.steps) * len(self.sensors)))
        jacobian = np.zeros((*y.shape, 2))
        for (i, j), weights in self._weights.items():
            halves = (hx[i : i + 2].reshape(2 * batch, -1) @ weights).reshape(2, *y.shape, -1)
            y += _contract(halves[0], hy[j])
            jacobian[:, :, 0] += _contract(halves[1], hy[j])
            jacobian[:, :, 1] += _contract(halves[0], hy[j + 1])
        return y, jacobian

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations (batch, m) and the product cotangent (batch, m) -> (batch, 2), by the discrete adjoint."""
        if self.precomputed:
            y, jacobian = self.jacobian(theta)
            return y, lambda cotangent: np.einsum("bm,bmp->bp", cotangent, jacobian)
        theta = _check_batch("theta", theta)

        def vjp(cotangent: Array) -> Array:
            blocks = np.asarray(cotangent, dtype=float).reshape(len(theta), len(self.steps), -1)
            seeds = {step: self._points.T @ blocks[:, k].T for k, step in enumerate(self.steps)}
            weights = self.equation.separable_weights(seeds)
            hx, hy = self.equation.profiles(theta, 3)
            gradient = np.zeros((len(theta), 2))
            for (i, j), w in weights.items():
                gradient[:, 0] += np.einsum("bxy,bx,by->b", w, hx[i + 1], hy[j])
                gradient[:, 1] += np.einsum("bxy,bx,by->b", w, hx[i], hy[j + 1])
            return gradient

        return self(theta), vjp

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Observations (batch, k) and their Jacobian (batch, k, 2), for each row of theta its own ``indices``.

        Precomputed, they cost in proportion to k. Otherwise one solve, and one adjoint solve for each of the k.
        """
        theta = _check_batch("theta", theta)
        y, jacobian = np.zeros(indices.shape), np.zeros((*indices.shape, 2))
        if self.precomputed:
            hx, hy = self.equation.profiles(theta, self._order + 1)
            for (i, j), blocks in self._blocks.items():
                _add_chosen(blocks, indices, hx[i : i + 2], hy[j : j + 2], y, jacobian)
            return y, jacobian
        everything, vjp = self.linearize(theta)
        row = np.arange(len(theta))
        for k, chosen in enumerate(indices.T):
            cotangent = np.zeros(everything.shape)
            cotangent[row, chosen] = 1.0
            jacobian[:, k] = vjp(cotangent)
        return everything[row[:, None], indices], jacobian

    @cached_property
    def cost(self) -> float:
        """Seconds per evaluation of one row with its gradient: the least of three."""
        theta, seconds = np.full((1, 2), 0.5), []
        for _ in range(3):
            began = time.perf_counter()
            y, vjp = self.linearize(theta)
            vjp(np.ones_like(y))
            seconds.append(time.perf_counter() - began)
        return min(seconds)

    @cached_property
    def _points(self) -> Any:
        return self.equation.stepper.point_values(self.sensors)

    @cached_property
    def _order(self) -> int:
        return max(max(orders) for orders in self._weights)

    @cached_property
    def _blocks(self) -> dict[tuple[int, int], Array]:
        """The weights once more, one matrix (cells + 1, cells + 1) for each observation."""
        side = self.equation.cells + 1
        return {
            orders: np.ascontiguousarray(w.reshape(side, -1, side).transpose(1, 0, 2))
            for orders, w in self._weights.items()
        }

    @cached_property
    def _weights(self) -> dict[tuple[int, int], Array]:
        """Separable weights per observation, as matrices (cells + 1, m * (cells + 1))."""
        rows, m = len(self.sensors), len(self.steps) * len(self.sensors)
        seeds = {}
        for k, step in enumerate(self.steps):
            seeds[step] = np.zeros((len(self.equation.stepper.nodes), m))
            seeds[step][:, k * rows : (k + 1) * rows] = self._points.T.toarray()
        side = self.equation.cells + 1
        return {
            orders: np.ascontiguousarray(w.transpose(1, 0, 2)).reshape(side, m * side)
            for orders, w in self.equation.separable_weights(seeds).items()
        }


@njit(cache=True)
def _add_chosen(blocks: Array, indices: npt.NDArray[np.intp], hx: Array, hy: Array, y: Array, jacobian: Array) -> None:
    """Add to y and its Jacobian the chosen observations by their weights (m, side, side); hx, hy (2, batch, side)."""
    side = blocks.shape[1]
    over_x = np.empty((2, side))
    for b in range(indices.shape[0]):
        for k in range(indices.shape[1]):
            weights = blocks[indices[b, k]]
            over_x[:] = 0.0
            # sums over x, for all y at once: these loops use vector instructions, sums over y would not
            for i in range(side):
                for j in range(side):
                    over_x[0, j] += hx[0, b, i] * weights[i, j]
                    over_x[1, j] += hx[1, b, i] * weights[i, j]
            for j in range(side):
                y[b, k] += over_x[0, j] * hy[0, b, j]
                jacobian[b, k, 0] += over_x[1, j] * hy[0, b, j]
                jacobian[b, k, 1] += over_x[0, j] * hy[1, b, j]


def _contract(half: Array, right: Array) -> Array:
    """Sum over y: (batch, m, y) with (batch, y) -> (batch, m)."""
    product: Array = (half @ right[:, :, None])[:, :, 0]
    return product


def _check_batch(name: str, values: Array) -> Array:
    values = np.asarray(values, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(f"{name} must have shape (batch, 2), got {values.shape}")
    return values
