"""Treatment of moves that leave the problem's domain: reflection, and the baselines that it is compared with.

A boundary turns a problem into the one that is sampled: the same coordinates, with another domain or other energies.
Only `"reflect"` samples the posterior restricted to its domain.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, real, store
from invsamp.domains.contract import Domain, Reflection
from invsamp.domains.distance import Violation, nearest_points, squared_violation
from invsamp.protocols import (
    Array,
    Gradients,
    Parts,
    Potential,
    Problem,
    RemovableDomain,
    SampledProblem,
    SplitPotential,
    Terms,
    TermwisePotential,
)
from invsamp.stored import stored_dataclass


@runtime_checkable
class Boundary(Protocol):
    """Contract of a boundary."""

    @property
    def leaves(self) -> bool:
        """Whether draws may lie outside the domain."""

    def apply(self, problem: Problem) -> SampledProblem:
        """The problem that is sampled."""


@stored_dataclass
class Reflect:
    """Specular reflection: draws of the restricted posterior. The default."""

    leaves: ClassVar[bool] = False

    def apply(self, problem: Problem) -> SampledProblem:
        """The problem as it is."""
        return problem

    def __str__(self) -> str:
        return "reflect"


@stored_dataclass
class Ignore:
    """No domain: draws of the posterior without ``domain=``; the report says how many lie outside.

    A prior's own support stays, as there is no density beyond it. The model is solved outside the domain too.
    """

    leaves: ClassVar[bool] = True

    def apply(self, problem: Problem) -> SampledProblem:
        """The problem without its domain."""
        return _without_domain(problem, self)

    def __str__(self) -> str:
        return "ignore"


@stored_dataclass
class Penalize:
    r"""No domain, but the energy :math:`U(\theta) + c\, d(\theta)^2` with the distance d from the domain.

    See `penalized`.
    """

    strength: float
    leaves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        store(self, strength=real("strength", self.strength, above=0))

    def apply(self, problem: Problem) -> SampledProblem:
        """The problem without its domain, with the penalty in its energies."""
        free = _without_domain(problem, self)
        # of the domain alone: the bounds of the prior's support stay where they are
        assert isinstance(problem, RemovableDomain)  # or there would be none to leave out
        penalty = squared_violation(problem.domain, problem.dimension), float(self.strength)
        return _Changed(free, penalty=penalty)

    def __str__(self) -> str:
        return f"penalty {self.strength:g}"


@stored_dataclass
class Project:
    """The end of a move that left the domain is put on the nearest point of its boundary.

    Wrong at any step size: a share of the draws of the order of the square root of the step lies on the boundary
    itself. Kept as the control that tests and figures compare with.
    """

    leaves: ClassVar[bool] = False

    def apply(self, problem: Problem) -> SampledProblem:
        """The problem with a projecting domain."""
        domain = problem.sampling_domain
        return _Changed(problem, domain=Projecting(domain, problem.dimension))

    def __str__(self) -> str:
        return "project"


BY_NAME: dict[str, Boundary] = {"reflect": Reflect(), "ignore": Ignore(), "project": Project()}


def penalized(strength: float) -> Penalize:
    r"""Boundary by penalty (the "P-" baselines): no domain, but energy outside.

    .. math:: U_c(\theta) = U(\theta) + c\, d(\theta)^2

    d is the distance from the domain; for half-spaces :math:`d^2` is the sum of the squares of their violations, and
    for a level set the square of its level. At temperature tau the draws outside
    reach :math:`\sqrt{\tau / 2c}` far, and a step size must stay below :math:`1 / c`.

    Parameters
    ----------
    strength : float, > 0
        c, in energy per squared unit of the parameters.

    Raises
    ------
    ValueError
        If it is not a positive finite number.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.mala(0.1, boundary=iv.domains.penalized(100.0))
    >>> sampler.boundary
    Penalize(strength=100.0)
    """
    return Penalize(strength)


def projected() -> Project:
    """Boundary by projection on the nearest point: wrong, a control (see `Project`).

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.mala(0.1, boundary=iv.domains.projected())  # a control: draws pile up at the boundary
    >>> sampler.boundary
    Project()
    """
    return Project()


def as_boundary(boundary: Boundary | str) -> Boundary:
    """The part that a name or a part stands for; `ValueError` for anything else."""
    part = BY_NAME.get(boundary, boundary) if isinstance(boundary, str) else boundary
    found: Boundary = instance("boundary", part, Boundary, f"one of {list(BY_NAME)} or penalized(strength)")
    return found


class Projecting:
    """A domain whose moves end on its nearest point where they would leave it."""

    def __init__(self, domain: Domain, dimension: int) -> None:
        self._domain, self._nearest = domain, nearest_points(domain, dimension)

    def contains(self, position: Array) -> npt.NDArray[np.bool_]:
        """As the domain says, and a nearest point is inside, on whichever side of the boundary rounding has left it."""
        inside = np.array(self._domain.contains(position))
        away = position[~inside]
        rounding = 1e-12 * (1.0 + np.abs(away).max(axis=1, initial=0.0))
        inside[~inside] = np.abs(self._nearest(away) - away).max(axis=1, initial=0.0) <= rounding
        return inside

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Ends of straight moves, projected; ``bounces`` is 1 where that was needed."""
        end = position + move
        failed = np.asarray(~np.isfinite(end).all(axis=1))
        end[failed] = position[failed]
        outside = ~self._domain.contains(end)
        if outside.any():
            end[outside] = self._nearest(end[outside])
        return Reflection(end, move, outside.astype(np.int64), failed)


class _Changed:
    """A problem with another domain or a penalty."""

    def __init__(
        self, problem: Problem, domain: object | None = None, penalty: tuple[Violation, float] | None = None
    ) -> None:
        self._problem, self._penalty = problem, penalty
        self.sampling_domain = problem.sampling_domain if domain is None else domain

    def potential(self, fidelity: str | None = None) -> Potential:
        """The potential of one fidelity, with the penalty."""
        potential = self._problem.potential(fidelity)
        if self._penalty is None:
            return potential
        return _Penalized(potential, *self._penalty)


class _Penalized:
    """A potential with a penalty outside a domain; it offers `terms` and `parts` where the potential does."""

    def __init__(self, potential: Any, violation: Violation, strength: float) -> None:
        self._potential, self._violation, self._strength = potential, violation, strength
        self.dimension = potential.dimension
        if isinstance(potential, TermwisePotential):
            self.size, self.terms = potential.size, self._terms
        if isinstance(potential, SplitPotential):
            self.parts = self._parts

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        penalty = self._penalty(position)[0]  # first, as the potential may write into the positions
        return penalty + self._potential.energy(position)

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and gradient (chains, dimension)."""
        penalty, slope = self._penalty(position)
        energy, gradient = self._potential.energy_and_gradient(position)
        return energy + penalty, gradient + slope

    def _penalty(self, position: Array) -> tuple[Array, Array]:
        value, gradient = self._violation(position)
        return self._strength * value, self._strength * gradient

    def _terms(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """Terms at ``indices``, shape (chains, batch): the penalty is part of the prior's energy."""
        penalty, slope = self._penalty(position)
        terms: Terms = self._potential.terms(position, indices)
        return terms._replace(prior_energy=terms.prior_energy + penalty, prior_gradient=terms.prior_gradient + slope)

    def _parts(self, position: Array, gradient: Gradients) -> Parts:
        """Energy, and its part from the prior and the penalty."""
        penalty, slope = self._penalty(position)
        energy, whole, prior, prior_slope = self._potential.parts(position, gradient)
        return Parts(
            energy + penalty,
            None if whole is None else whole + slope,
            prior + penalty,
            None if prior_slope is None else prior_slope + slope,
        )


def _without_domain(problem: Problem, boundary: Boundary) -> Problem:
    if not isinstance(problem, RemovableDomain):
        raise ValueError(
            f"boundary {str(boundary)!r} needs a problem that can be evaluated outside its domain "
            f"(without_domain()), got {type(problem).__name__}"
        )
    return problem.without_domain()
