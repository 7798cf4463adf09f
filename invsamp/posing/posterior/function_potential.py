"""Potentials from functions, and sums over data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array, integer, optional, store
from invsamp.posing.compiled.energy_pointer import EnergySource, NotCompiled, jitted
from invsamp.protocols import Array, Gradients, Parts, Terms


@dataclass(frozen=True)
class FunctionPotential:
    """Potential from one function.

    Parameters
    ----------
    function : callable
        Position (chains, dimension) -> energy (chains,), gradient (chains, dimension).
    dimension : int
        Number of parameters.
    """

    function: Callable[[Array], tuple[Array, Array]]
    dimension: int

    def compiled_energy(self) -> EnergySource | NotCompiled:
        """As a compiled function, where it is one of numba's; see `invsamp.protocols.CompiledPotential`."""
        if not jitted(self.function):
            return NotCompiled("the energy is no function of numba.njit")
        return EnergySource(self.function, None, 1.0, by_row=False)

    def __post_init__(self) -> None:
        arguments.function("function", self.function)
        store(self, dimension=integer("dimension", self.dimension, least=1))

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        return self.function(position)[0]

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and gradient (chains, dimension)."""
        return self.function(position)


@dataclass(frozen=True)
class SumPotential:
    r"""Potential that is a sum over data, for minibatches: :math:`U = U_0 + \sum_i u(\theta; x_i)`.

    Parameters
    ----------
    data : ndarray, shape (size, ...)
        One row per datum.
    term : callable
        Position (chains, dimension), data (chains, batch, ...) -> energies (chains, batch) and their
        gradients (chains, batch, dimension).
    dimension : int
        Number of parameters.
    prior : callable, optional
        Position -> energy (chains,), gradient (chains, dimension) of :math:`U_0`; zero by default.
    """

    data: Array
    term: Callable[[Array, Array], tuple[Array, Array]]
    dimension: int
    prior: Callable[[Array], tuple[Array, Array]] | None = None

    def __post_init__(self) -> None:
        if array("data", self.data).ndim == 0:
            raise ValueError(f"data must have a row per datum, got {self.data!r}")
        arguments.function("term", self.term)
        optional(arguments.function, "prior", self.prior)
        store(self, dimension=integer("dimension", self.dimension, least=1))

    @property
    def size(self) -> int:
        """Number of data."""
        return len(self.data)

    def terms(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """Terms at ``indices``, shape (chains, batch)."""
        prior = self._prior(position)
        return Terms(*prior, *self.term(position, self.data[indices]))

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and gradient (chains, dimension) of the full sum."""
        energy, gradient, _, _ = self.parts(position, True)
        assert gradient is not None  # it was asked for
        return energy, gradient

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        return self.parts(position, False).energy

    def parts(self, position: Array, gradient: Gradients) -> Parts:
        """Energy, and of it what is the prior's; see `invsamp.protocols.SplitPotential`."""
        everything = np.broadcast_to(self.data, (len(position), *self.data.shape))
        prior, slope = self._prior(position)
        energies, gradients = self.term(position, everything)
        return Parts(prior + energies.sum(axis=1), slope + gradients.sum(axis=1), prior, slope)

    def _prior(self, position: Array) -> tuple[Array, Array]:
        if self.prior is None:
            return np.zeros(len(position)), np.zeros_like(position)
        return self.prior(position.copy())  # which may write into it, and the data's terms are for the same
