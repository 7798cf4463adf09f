"""Energies of densities that take one position at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from invsamp.protocols import Array, Gradients, Parts

#: Of one position (d,): its log density; the same and its gradient (d,).
Value = Callable[[Array], float]
ValueAndSlope = Callable[[Array], tuple[float, Array]]


@dataclass
class RowPotential:
    """Energy of a log density of one position, with its gradient.

    Parameters
    ----------
    dimension : int
    value, value_and_slope : callable
        What raises, or is not finite, is a failed evaluation: energy +inf, gradient 0.
    """

    dimension: int
    value: Value
    value_and_slope: ValueAndSlope

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        return np.array([_energy(_tried(self.value, x)) for x in np.ascontiguousarray(position)])

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and its gradient (chains, dimension)."""
        energy, gradient = np.full(len(position), np.inf), np.zeros(position.shape)
        for k, x in enumerate(np.ascontiguousarray(position)):
            found = _tried(self.value_and_slope, x)
            if found is not None and np.isfinite(found[0]) and np.isfinite(found[1]).all():
                energy[k], gradient[k] = -found[0], -found[1]
        return energy, gradient


@dataclass
class SplitRowPotential:
    """Energy of a prior and a likelihood of one position, known apart.

    Parameters
    ----------
    dimension : int
    values : callable
        Position (d,) -> log prior density and log likelihood.
    slopes : callable
        The same, and the gradient (d,) of their sum.
    slopes_apart : callable
        The same, and the gradient (d,) of the log prior density.
    """

    dimension: int
    values: Callable[[Array], tuple[float, float]]
    slopes: Callable[[Array], tuple[float, float, Array]]
    slopes_apart: Callable[[Array], tuple[float, float, Array, Array]]

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        return self.parts(position, False).energy

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and its gradient (chains, dimension)."""
        found = self.parts(position, True)
        assert found.gradient is not None  # it was asked for
        return found.energy, found.gradient

    def parts(self, position: Array, gradient: Gradients) -> Parts:
        """Energy and, of it, what is the prior's; see `invsamp.protocols.SplitPotential`."""
        n = len(position)
        prior, likelihood = np.full(n, -np.inf), np.full(n, -np.inf)
        slope = np.zeros(position.shape) if gradient else None
        prior_slope = np.zeros(position.shape) if gradient == "apart" else None
        targets = [part for part in (prior, likelihood, slope, prior_slope) if part is not None]
        function = self.slopes_apart if gradient == "apart" else self.slopes if gradient else self.values
        for k, x in enumerate(np.ascontiguousarray(position)):
            found = _tried(function, x)
            for target, part in zip(targets, found or (), strict=False):
                target[k] = part
        # what is not finite anywhere is a failed evaluation
        energy, lost = -(prior + likelihood), ~np.isfinite(prior + likelihood)
        for part in targets[2:]:
            np.negative(part, out=part)
            lost |= ~np.isfinite(part).all(axis=1)
        energy[lost] = np.inf
        for part in targets[2:]:
            part[lost] = 0.0
        prior = np.where(np.isfinite(prior), -prior, np.inf)
        return Parts(energy, slope, prior, prior_slope)


def _tried(function: Callable[[Array], Any], x: Array) -> Any:
    """What the function gives; None where it fails."""
    try:
        return function(x)
    except (ArithmeticError, RuntimeError, ValueError):
        return None


def _energy(log_density: float | None) -> float:
    return -log_density if log_density is not None and np.isfinite(log_density) else np.inf
