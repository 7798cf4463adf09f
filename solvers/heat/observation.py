"""Sensors' readings of a diffusion equation, as a forward model with exact gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.sensors import SensorLayout
from invsamp.solvers.fem.space import Sensors
from invsamp.solvers.fem.weighted import Precomputed
from invsamp.solvers.foreign import Comm
from invsamp.solvers.forward_model import Tangent, checked_product, checked_tangent, seconds_per_evaluation
from invsamp.solvers.heat.diffusion import DiffusionEquation
from invsamp.solvers.heat.interpolated import Interpolated
from invsamp.solvers.heat.precomputed import precompute_observation
from invsamp.solvers.heat.solving import Solving


@dataclass(frozen=True, eq=False)
class Observation:
    """Sensors' readings, as a forward model of the unknowns.

    Observations are ordered by time, then by sensor. The columns of theta are `parameters`, a vector-valued one taking
    one for each entry. A solve that fails gives a row of NaN.

    Attributes
    ----------
    equation : DiffusionEquation
    sensors : SensorLayout
    steps : tuple of int
        Numbers of the time steps that are observed.
    precomputed : bool
        Whether no evaluation solves anything.
    between : array, shape (n_times, n_steps), or None
        Weights of the steps in observations between them; None where observations are at the steps.
    """

    equation: DiffusionEquation
    sensors: SensorLayout
    steps: tuple[int, ...]
    precomputed: bool
    between: Array | None = None

    def __post_init__(self) -> None:
        _ = self._evaluator

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknowns."""
        return self.equation.parameters

    @property
    def sizes(self) -> tuple[int, ...]:
        """Entries of each of them."""
        return self.equation.sizes

    @property
    def grids(self) -> dict[str, str]:
        """Digests of the meshes at whose nodes unknowns are the values, by name."""
        return self.equation.grids

    @property
    def comm(self) -> Comm:
        """The communicator over which the mesh is spread, or None."""
        return self.equation.comm

    @property
    def n_observations(self) -> int:
        """Number of times times number of sensors."""
        return self._times * self._bound.count

    @property
    def _times(self) -> int:
        return len(self.steps) if self.between is None else len(self.between)

    @property
    def method(self) -> str:
        """How observations come about: by solves, or without one by weights that were solved for beforehand."""
        return self._evaluator.method

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, n_parameters)."""
        return self._evaluator.evaluate(self.equation.check_theta(theta))

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and their Jacobian (batch, m, n_parameters)."""
        return self._evaluator.jacobian(self.equation.check_theta(theta))

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations (batch, m) and the product cotangent (batch, m) -> (batch, n_parameters)."""
        y, product = self._evaluator.linearize(self.equation.check_theta(theta).copy())
        return y, checked_product(product, y.shape)

    def tangent(self, theta: Array) -> Tangent:
        """Observations (batch, m), and products with k directions (batch, k, p) and cotangents (batch, k, m).

        The factors of every row are kept: a product with a direction or a cotangent takes solves alone.
        """
        theta = self.equation.check_theta(theta).copy()
        return checked_tangent(self._evaluator.tangent(theta), theta.shape)

    @property
    def work(self) -> float:
        """The work of a row, counted: nodes times steps, or with weights a sum for each observation."""
        if self.precomputed:
            return float(self.n_observations)
        space = self.equation.space
        return float(space.total(np.array([len(space.nodes)]))[0]) * max(1, *self.steps, 1)

    @cached_property
    def cost(self) -> float:
        """Seconds per evaluation of one row with its gradient: the least of three; on several ranks their mean."""
        seconds = seconds_per_evaluation(self, np.full((1, sum(self.equation.sizes)), 0.5))
        spent, ranks = self.equation.space.total(np.array([seconds, 1.0]))
        return float(spent / ranks)

    @cached_property
    def _bound(self) -> Sensors:
        return self.sensors.on(self.equation.space)

    @cached_property
    def _evaluator(self) -> Precomputed | Solving | Interpolated:
        discretization = self.equation.discretization
        at_steps: Precomputed | Solving
        if self.precomputed:
            at_steps = precompute_observation(discretization, self._bound, self.steps)
        else:
            at_steps = Solving(discretization, self._bound, self.steps)
        return at_steps if self.between is None else Interpolated(at_steps, self.between, self._bound.count)


class HeatObservation(Observation):
    """Sensors' readings of the heat equation; made by `HeatEquation.observe`. See `Observation`."""

    @property
    def output_shape(self) -> tuple[int, int]:
        """Times and sensors."""
        return self._times, self._bound.count

    @property
    def times(self) -> Array:
        """When the sensors read (n_times,)."""
        equation: Any = self.equation  # a HeatEquation, which imports this module
        at_steps = np.asarray(equation.times[list(self.steps)])
        return at_steps if self.between is None else self.between @ at_steps

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Observations (batch, k) and their Jacobian (batch, k, p), for each row of theta its own ``indices``.

        Precomputed, they cost in proportion to k. Otherwise one solve, and adjoint solves for the k.
        """
        theta, indices = self.equation.check_theta(theta), np.asarray(indices)
        if indices.ndim != 2 or len(indices) != len(theta) or not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(
                f"indices must be integers of shape ({len(theta)}, k), got {indices.dtype} of shape {indices.shape}"
            )
        if indices.size and not 0 <= indices.min() <= indices.max() < self.n_observations:
            raise ValueError(
                f"indices must lie between 0 and {self.n_observations - 1}, got {indices.min()} to {indices.max()}"
            )
        return self._evaluator.rows(theta, indices)


class PoissonObservation(Observation):
    """Sensors' readings of Poisson's equation; made by `PoissonEquation.observe`. See `Observation`."""

    def solve(self, theta: Array) -> Array:
        """Solutions at this rank's nodes, shape (batch, n_nodes); NaN in the rows that failed."""
        return self.equation.discretization.fields(self.equation.check_theta(theta), self.steps)[:, 0]
