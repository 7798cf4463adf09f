"""The Metropolis-adjusted microcanonical sampler."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.evaluate.requests import Memory
from invsamp.kernels.compiled import path_loop
from invsamp.kernels.contract import StepSize
from invsamp.kernels.paths import StraightPaths
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


@stored_dataclass
class Microcanonical(StraightPaths):
    r"""The Metropolis-adjusted microcanonical sampler (MAMS): paths at constant speed, turned by the gradient.

    With fresh directions u, uniform on the unit sphere of d unknowns in whitened coordinates w, a chain moves straight
    by :math:`\epsilon \sqrt{d}\, u`, and a kick over a time t turns u towards :math:`e = -\nabla v / |\nabla v|`:

    .. math:: u \leftarrow \frac{u + e\, (\sinh \delta + e \cdot u\, (\cosh \delta - 1))}{\cosh \delta + e \cdot u \sinh
              \delta}, \qquad \delta = \frac{t\, |\nabla v|}{d - 1},

    with the work :math:`(d - 1) \log(\cosh \delta + e \cdot u \sinh \delta)`. Far from the mode, where gradients are
    large, the speed stays what it is: energies mix faster than by Hamiltonian paths. How long paths are, and which
    are refused: see `invsamp.kernels.paths`. Times are those of `Hamiltonian`, whose momenta are :math:`\sqrt{d}` long.

    Parameters
    ----------
    length : float, > 0
        Mean length of a path in whitened coordinates by the square root of d.

    Raises
    ------
    ValueError
        If ``length`` is not positive. In a run, if there is one unknown alone: a direction cannot turn there.

    References
    ----------
    Robnik, Cohn-Gordon and Seljak (2025), "Metropolis adjusted microcanonical Hamiltonian Monte Carlo",
    arXiv:2503.01707. The kick: Ver Steeg and Galstyan (2021), "Hamiltonian dynamics with non-Newtonian
    momentum for rapid sampling", NeurIPS.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.Microcanonical(length=2.0)
    Microcanonical(length=2.0)
    """

    length: float = 1.0
    name: ClassVar[str] = "mams"
    microcanonical: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"Metropolis-adjusted microcanonical sampler (mean path length {self.length:g} sqrt(d))"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """As of all paths; at least two unknowns."""
        if shape[1] < 2:
            raise ValueError("Microcanonical needs at least 2 unknowns, got 1: a direction cannot turn. Use hmc()")
        return super().init(rng, shape)

    def fresh(self, normal: Array) -> Array:
        """Directions of standard normal numbers, as long as these are on average."""
        return at_constant_speed(normal)

    def kick(self, velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
        """Velocities turned against the gradient, their length kept."""
        return microcanonical_kick(velocity, gradient, half)


def at_constant_speed(normal: Array) -> Array:
    """Directions of standard normal numbers (chains, d), as long as these are on average."""
    out = np.empty(normal.shape)
    path_loop.at_constant_speed(normal, out)
    return out


def microcanonical_kick(velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
    """Velocities turned against the gradient, their length kept."""
    return path_loop.kicked(path_loop.microcanonical_kick, velocity, gradient, half)
