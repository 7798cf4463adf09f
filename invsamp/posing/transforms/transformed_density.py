"""A density of theta as one of positions: in other coordinates, with their Jacobian."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from invsamp.arguments import store
from invsamp.posing.transforms.univariate import Coordinates
from invsamp.protocols import Array, FunctionCalls, Potential, derivative_error, function_calls, no_derivatives


@dataclass(frozen=True)
class TransformedPotential:
    """Energy of positions: that of theta, less the log Jacobian of the coordinates.

    Parameters
    ----------
    potential : Potential
        Of theta.
    coordinates : Coordinates
        Of its dimension, without vectors of their own.
    """

    potential: Potential
    coordinates: Coordinates
    dimension: int = field(init=False)

    def __post_init__(self) -> None:
        store(self, dimension=self.coordinates.dimension)

    @property
    def derivative_error(self) -> float:
        """As the density's."""
        return derivative_error(self.potential)

    @property
    def function_calls(self) -> FunctionCalls:
        """As the density's."""
        return function_calls(self.potential)

    @property
    def no_derivatives(self) -> str | None:
        """As the density's."""
        return no_derivatives(self.potential)

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        change = self.coordinates.evaluate(position)
        return np.asarray(self.potential.energy(change.theta) - change.log_jacobian)

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and gradient (chains, dimension)."""
        change = self.coordinates.evaluate(position)
        energy, gradient = self.potential.energy_and_gradient(change.theta)
        return energy - change.log_jacobian, gradient * change.derivative - change.log_jacobian_gradient
