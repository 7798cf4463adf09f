r"""Paths that rotate about a Gaussian reference: their acceptance does not depend on how finely a field is resolved.

In coordinates w in which the reference N(m, C) is a standard normal distribution, the energy of a target is
:math:`v(w) = R(w) + |w|^2 / 2`. A drift over an angle h solves the reference's own dynamics exactly,

.. math:: w \leftarrow w \cos h + r \sin h, \qquad r \leftarrow r \cos h - w \sin h,

and kicks follow the gradient of R alone. If the target is the reference, no move is refused, whatever h is. In
directions that the data do not inform, R is constant. There the paths are those of the prior, in any number of
dimensions.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import ClassVar, NamedTuple

import numpy as np

from invsamp.arguments import optional, real, store
from invsamp.evaluate.requests import Memory
from invsamp.kernels.contract import ActiveRung, Mask, Point, StepSize
from invsamp.kernels.gaussian_reference import ModeReference, as_reference
from invsamp.kernels.hamiltonian import hamiltonian_kick
from invsamp.kernels.metric import LowRankMetric, Metric
from invsamp.kernels.microcanonical import at_constant_speed, microcanonical_kick
from invsamp.kernels.paths import Dynamics, Paths
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass

#: The longest angle of a step: without a force the positions are independent after it.
QUARTER = 0.5 * math.pi


class _Rotations(Paths):
    """Base of the kernels that rotate."""

    reference: ModeReference | None
    longest_step = QUARTER
    #: A chain where the energy bends four times more than elsewhere moves on there, for an eighth more solves.
    short_step = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, reference=optional(as_reference, "reference", self.reference))

    def steps(self, rung: ActiveRung, share: float) -> tuple[int, StepSize]:
        r"""As many steps as it takes where none is longer than the step size, of the same angle each.

        So whole paths are spread evenly, too. Of steps over :math:`\pi / 2` every second path would come back to where
        it began, or to the other side of the reference's mean.
        """
        longest = np.minimum(rung.step_size / rung.step_scale, QUARTER)
        leaps = self.count(rung, share, longest)
        return leaps, np.minimum(2.0 * self.length * share / leaps, longest)


@stored_dataclass
class InfinityHamiltonian(_Rotations):
    r"""Hamiltonian Monte Carlo that rotates about a Gaussian reference (:math:`\infty`-HMC).

    A step over an angle h is a kick :math:`r \leftarrow r - \tfrac h2 \nabla R(w)`, a rotation by h, and another kick;
    see `invsamp.kernels.rotations`. How long paths are, and which are refused: see `invsamp.kernels.paths`. One step
    over :math:`\pi / 2` where R is constant is an independent draw from the reference, as that of `CrankNicolson` with
    the step size 1. A path that leaves the domain is refused: it does not move straight, and bounds reflect nothing.

    In the reference's directions, those that the data inform, a path begins with the velocity

    .. math:: (1 - \alpha) r + \sqrt{1 - (1 - \alpha)^2}\, \xi, \qquad \xi \sim N(0, I),

    r being the velocity at the end of the last path, or the first one of it, reversed, where it was refused. All other
    velocities are drawn anew.

    Parameters
    ----------
    length : float, > 0
        Mean angle of a path. A quarter of the reference's period is :math:`\pi / 2`; longer ones pay where the target
        is wider than the reference in some directions.
    reference : ModeReference, optional
        A mode's Gaussian of low rank, ``modes.reference``. Default: the Gaussian of the prior, as of `CrankNicolson`.
        For a target that takes the prior and the misfit a and b times it is adapted, see
        `invsamp.kernels.gaussian_reference`.
    friction : float in (0, 1]
        :math:`\alpha`, the share of the velocity that is lost between paths; less than 1 with a ``reference`` alone.
        Where the target is much wider than the reference, chains go on over several paths, and these may be short.

    Raises
    ------
    ValueError
        If ``length`` is not positive, or the friction is out of range. In a run, with a preconditioner: the reference
        is one.

    References
    ----------
    Velocities that are kept in part: Horowitz (1991), Physics Letters B 268, 247-252.
    Beskos, Pinski, Sanz-Serna and Stuart (2011), "Hybrid Monte Carlo on Hilbert spaces", Stochastic Processes and their
    Applications 121, section 3. About a mode's Gaussian: Beskos, Girolami, Lan, Farrell and Stuart (2017), "Geometric
    MCMC for infinite-dimensional inverse problems", J. Comput. Phys. 335; there in each step anew.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.InfinityHamiltonian(length=1.0)
    InfinityHamiltonian(length=1.0, friction=1.0)
    """

    length: float = 1.6
    reference: ModeReference | None = field(default=None, repr=False)
    friction: float = 1.0
    name: ClassVar[str] = "infinity_hmc"

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, friction=real("friction", self.friction, above=0, most=1))
        if self.friction < 1.0 and self.reference is None:
            raise ValueError(f"friction must be 1 without a reference, got {self.friction!r}")

    @property
    def target_acceptance(self) -> float:  # type: ignore[override]
        """Higher where velocities are kept: each refusal reverses one."""
        return 0.8 if self.friction == 1.0 else 0.93

    @property
    def _directions(self) -> Array:
        """Orthonormal directions (d, r) in which velocities are kept."""
        assert self.reference is not None
        return self.reference.metric.vectors

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """As of `Paths`; with a friction below 1 also velocities (chains, r) in the reference's directions."""
        memory = super().init(rng, shape)
        if self.friction == 1.0:
            return memory
        return memory | {"velocity": rng.standard_normal((shape[0], self._directions.shape[1]))}

    def refreshed(self, velocity: Array, memory: Memory) -> Array:
        """Refreshed in part along the reference's directions."""
        if self.friction == 1.0:
            return velocity
        kept, along = 1.0 - self.friction, velocity @ self._directions
        change = kept * memory["velocity"] + (math.sqrt(1.0 - kept**2) - 1.0) * along
        return velocity + change @ self._directions.T

    def remembered(self, accept: Mask, end: Array, start: Array) -> Memory:
        """The velocity at the end, or where the path was refused that at its start, reversed."""
        if self.friction == 1.0:
            return {}
        return {"velocity": np.where(accept[:, None], end, -start) @ self._directions}

    def __str__(self) -> str:
        kept = "" if self.friction == 1.0 else f", friction {self.friction:g}"
        return f"infinity-HMC (mean angle of a path {self.length:g}{kept}) about {_about(self.reference)}"

    def dynamics(self, rung: ActiveRung) -> Dynamics:
        """Rotations between kicks."""
        return _Rotating(rung, *rung.reference)


@stored_dataclass
class InfinityMicrocanonical(_Rotations):
    r"""Microcanonical in the directions that the data inform, and rotating about the reference in all others.

    With the reference's directions V (d, r), the velocity's part along V has constant speed and is turned by the
    gradient of the whole v there, as of `Microcanonical` in r unknowns. The rest is that of `InfinityHamiltonian`. The
    energy of the informed directions mixes faster. Steps are about as long. Without a reference that has two directions
    at least it is `InfinityHamiltonian`.

    Parameters
    ----------
    length : float, > 0
        Mean angle of a path, and its mean length in the informed directions over the square root of their number.
    reference : ModeReference, optional
        As of `InfinityHamiltonian`.

    Raises
    ------
    ValueError
        If ``length`` is not positive. In a run, with a preconditioner.

    References
    ----------
    The parts: Robnik, Cohn-Gordon and Seljak (2025), arXiv:2503.01707; Beskos et al. (2011). Together: here.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.InfinityMicrocanonical(length=1.0)
    InfinityMicrocanonical(length=1.0)
    """

    length: float = 1.5
    reference: ModeReference | None = field(default=None, repr=False)
    name: ClassVar[str] = "infinity_mams"

    def __str__(self) -> str:
        return f"infinity-MAMS (mean length of a path {self.length:g}) about {_about(self.reference)}"

    def dynamics(self, rung: ActiveRung) -> Dynamics:
        """Rotations between kicks, but for the informed directions."""
        metric = rung.reference.metric
        if not isinstance(metric, LowRankMetric) or metric.vectors.shape[1] < 2:
            return _Rotating(rung, *rung.reference)
        return _Apart(_Rotating(rung, *rung.reference), metric.vectors)


class _Rotating(NamedTuple):
    rung: ActiveRung
    mean: Array
    metric: Metric

    def white(self, position: Array) -> Array:
        return self.metric.uncolor(position - self.mean)

    def fresh(self, normal: Array) -> Array:
        return normal

    def height(self, point: Point) -> tuple[Array, Array]:
        w = self.white(point.position)
        energy = self.rung.energy(point.estimate) - 0.5 * np.square(w).sum(axis=1)
        return energy, self.metric.whiten(self.rung.gradient(point.estimate)) - w

    def kick(self, velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
        return hamiltonian_kick(velocity, gradient, half)

    def drift(self, position: Array, velocity: Array, step: StepSize) -> tuple[Array, Array, Mask | None]:
        w, c, s = self.white(position), np.cos(step), np.sin(step)
        return self.ended(position, c * w + s * velocity, c * velocity - s * w)

    def ended(self, position: Array, w: Array, velocity: Array) -> tuple[Array, Array, Mask | None]:
        """Positions at w, or as they were beyond the domain."""
        end = self.mean + self.metric.color(w)
        inside = self.rung.contains(end)
        if inside.all():
            return end, velocity, None
        return np.where(inside[:, None], end, position), velocity, ~inside


class _Apart(NamedTuple):
    """Velocities hold V times that of the informed directions, and what is orthogonal to V."""

    whole: _Rotating
    vectors: Array  # V (d, r)

    def split(self, values: Array) -> tuple[Array, Array]:
        """Along V (chains, r), and the rest (chains, d)."""
        along = values @ self.vectors
        return along, values - along @ self.vectors.T

    def fresh(self, normal: Array) -> Array:
        along, rest = self.split(normal)
        return rest + at_constant_speed(along) @ self.vectors.T

    def height(self, point: Point) -> tuple[Array, Array]:
        energy, gradient = self.whole.height(point)
        along = self.whole.white(point.position) @ self.vectors
        return energy + 0.5 * np.square(along).sum(axis=1), gradient + along @ self.vectors.T

    def kick(self, velocity: Array, gradient: Array, half: StepSize) -> tuple[Array, Array]:
        (u, rest), (steep, slope) = self.split(velocity), self.split(gradient)
        u, work = microcanonical_kick(u, steep, half)
        rest, more = hamiltonian_kick(rest, slope, half)
        return rest + u @ self.vectors.T, work + more

    def drift(self, position: Array, velocity: Array, step: StepSize) -> tuple[Array, Array, Mask | None]:
        (along, w), (u, rest) = self.split(self.whole.white(position)), self.split(velocity)
        c, s = np.cos(step), np.sin(step)
        informed = (along + step * u) @ self.vectors.T
        return self.whole.ended(position, c * w + s * rest + informed, c * rest - s * w + u @ self.vectors.T)


def _about(reference: ModeReference | None) -> str:
    return "the prior" if reference is None else str(reference)
