"""Energies of densities that take one position at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array, Gradients, Parts

#: Which rows of a batch.
Rows = npt.NDArray[np.bool_]
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
        density = np.empty(len(position))
        lost = _filled(lambda x: (self.value(x),), position, (density,))
        return _energy(density, lost)

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and its gradient (chains, dimension)."""
        density, slope = np.empty(len(position)), np.empty(position.shape)
        lost = _filled(self.value_and_slope, position, (density, slope))
        return _energy(density, lost), _gradient(slope, lost)


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
        n, apart = len(position), gradient == "apart"
        prior, likelihood = np.empty(n), np.empty(n)
        slopes = [np.empty(position.shape) for _ in range(bool(gradient) + apart)]
        function = self.slopes_apart if apart else self.slopes if gradient else self.values
        lost = _filled(function, position, (prior, likelihood, *slopes))
        energy, found = _energy(prior + likelihood, lost), [_gradient(slope, lost) for slope in slopes]
        prior_energy = -prior if lost is None else np.where(np.isfinite(prior), -prior, np.inf)
        return Parts(energy, found[0] if gradient else None, prior_energy, found[1] if apart else None)


def _filled(function: Callable[[Array], Sequence[Any]], position: Array, targets: Sequence[Array]) -> Rows | None:
    """Write what a function gives for each position into a row of each target, NaN where it fails.

    Returns which rows have anything that is not finite; None for none.
    """
    for k, x in enumerate(np.ascontiguousarray(position)):
        try:
            found = function(x)
        except (ArithmeticError, RuntimeError, ValueError):
            found = (np.nan,) * len(targets)
        for target, part in zip(targets, found, strict=True):
            target[k] = part
    if all(math.isfinite(np.add.reduce(target, axis=None)) for target in targets):  # the usual case, in few calls
        return None
    lost = ~np.logical_and.reduce([np.isfinite(target.reshape(len(target), -1)).all(axis=1) for target in targets])
    return lost if lost.any() else None


def _energy(density: Array, lost: Rows | None) -> Array:
    """Minus the density, in place; +inf in lost rows."""
    np.negative(density, out=density)
    if lost is not None:
        density[lost] = np.inf
    return density


def _gradient(slope: Array, lost: Rows | None) -> Array:
    """Minus the slope, in place; 0 in lost rows."""
    np.negative(slope, out=slope)
    if lost is not None:
        slope[lost] = 0.0
    return slope
