"""Hamiltonian Monte Carlo with jittered path lengths."""

from __future__ import annotations

from typing import ClassVar

from invsamp.kernels.compiled import path_loop
from invsamp.kernels.contract import StepSize
from invsamp.kernels.paths import StraightPaths
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


@stored_dataclass
class Hamiltonian(StraightPaths):
    r"""Hamiltonian Monte Carlo: paths of several leapfrog steps, each accepted or refused as a whole.

    With fresh momenta r ~ N(0, I) in whitened coordinates w, a leapfrog step of length
    :math:`\epsilon = \sqrt{2 \eta}` is

    .. math:: r \leftarrow r - \tfrac{\epsilon}{2} \nabla v(w), \qquad w \leftarrow w + \epsilon r, \qquad
              r \leftarrow r - \tfrac{\epsilon}{2} \nabla v(w),

    and a kick's work is the change of :math:`|r|^2 / 2`. One step of length :math:`\epsilon` is MALA's. How long paths
    are, and which are refused: see `invsamp.kernels.paths`.

    Parameters
    ----------
    length : float, > 0
        Mean length of a path in whitened coordinates, in which a posterior is about one wide. A quarter of the period
        of a standard normal is :math:`\pi/2`.

    Raises
    ------
    ValueError
        If ``length`` is not positive.

    References
    ----------
    Duane, Kennedy, Pendleton and Roweth (1987), Physics Letters B 195, 216-222.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.parallel_tempering([1.0, 4.0], kernel=iv.kernels.Hamiltonian(length=1.0))
    >>> sampler.rungs[0].kernel
    Hamiltonian(length=1.0)
    """

    length: float = 0.8
    name: ClassVar[str] = "hmc"
    microcanonical: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"Hamiltonian Monte Carlo (mean path length {self.length:g})"

    def fresh(self, normal: Array) -> Array:
        """Standard normal momenta."""
        return normal

    def kick(self, velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
        """Momenta less ``half`` times the gradient."""
        return hamiltonian_kick(velocity, gradient, half)


def hamiltonian_kick(velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
    r"""Momenta less ``half`` times the gradient, and the change of :math:`|r|^2 / 2`."""
    return path_loop.kicked(path_loop.hamiltonian_kick, velocity, gradient, half)
