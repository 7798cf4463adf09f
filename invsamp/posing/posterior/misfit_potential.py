"""The misfit alone, without the prior energy: what maximum likelihood minimizes."""

from __future__ import annotations

from typing import cast

import numpy as np

from invsamp.protocols import (
    Array,
    Curved,
    CurvedPotential,
    Gradients,
    SplitPotential,
    derivative_error,
    function_calls,
    no_derivatives,
)


class MisfitPotential:
    """The negative log-likelihood of a potential, as a potential of its own in the same coordinates.

    Energies are +inf, and gradients 0, where those of the whole potential are.
    """

    def __init__(self, potential: SplitPotential) -> None:
        self._whole = potential
        self.dimension = potential.dimension
        self.derivative_error, self.no_derivatives = derivative_error(potential), no_derivatives(potential)
        self.function_calls = function_calls(potential)
        #: Whether it gives Gauss-Newton matrices with gradients.
        self.curved = isinstance(potential, CurvedPotential) and potential.curved
        #: Whether unknowns end where their positions are infinite.
        self.bounded = isinstance(potential, CurvedPotential) and potential.bounded

    def energy(self, position: Array) -> Array:
        """The misfit (chains,)."""
        return self._misfit(position, False)[0]

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """The misfit (chains,) and its gradient (chains, dimension)."""
        energy, gradient = self._misfit(position, "apart")
        assert gradient is not None  # it was asked for
        return energy, gradient

    def curvature(self, position: Array) -> Curved:
        """The misfit with its gradient and Gauss-Newton matrix; see `invsamp.protocols.CurvedPotential`."""
        found = cast(CurvedPotential, self._whole).curvature(position)
        known, column, matrix = np.isfinite(found.energy), np.arange(self.dimension), found.matrix.copy()
        gradient = np.where(known[:, None], found.gradient - found.prior_gradient, 0.0)
        matrix[:, column, column] -= np.where(known[:, None], found.prior_matrix, 0.0)
        none = np.zeros(position.shape)
        return Curved(_without(found.energy, found.prior), gradient, matrix, none[:, 0], none, none)

    def _misfit(self, position: Array, gradient: Gradients) -> tuple[Array, Array | None]:
        energy, slope, prior, prior_slope = self._whole.parts(position, gradient)
        if slope is not None and prior_slope is not None:
            slope = np.where(np.isfinite(energy)[:, None], slope - prior_slope, 0.0)
        return _without(energy, prior), slope


def _without(energy: Array, prior: Array) -> Array:
    with np.errstate(invalid="ignore"):  # infinite, both of them
        return np.where(np.isfinite(energy), energy - prior, np.inf)
