"""Densities by themselves, without a forward model: `Target` and its potentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array, generator, instance, integer, numbers, one_of, optional, store, text
from invsamp.contract import Array, Gradients, Parts, Potential, Terms
from invsamp.domains import Domain, DomainLike, Unbounded, bound_domain, named_columns, point_inside
from invsamp.names import check_names
from invsamp.posing.walk import walk

#: What is asked for, in messages.
POTENTIAL = "a Potential, which has dimension, energy and energy_and_gradient"


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
        """Energy, and of it what is the prior's; see `invsamp.contract.SplitPotential`."""
        everything = np.broadcast_to(self.data, (len(position), *self.data.shape))
        prior, slope = self._prior(position)
        energies, gradients = self.term(position, everything)
        return Parts(prior + energies.sum(axis=1), slope + gradients.sum(axis=1), prior, slope)

    def _prior(self, position: Array) -> tuple[Array, Array]:
        if self.prior is None:
            return np.zeros(len(position)), np.zeros_like(position)
        return self.prior(position.copy())  # which may write into it, and the data's terms are for the same


@dataclass(frozen=True)
class Target:
    """A density to sample that is not posed as an inverse problem: an analytic test case, a user's own energy.

    Parameters
    ----------
    potentials : Potential, or mapping of names to potentials
        One potential, or several fidelities of it from the coarsest to the finest.
    domain : Domain, constraint, or a sequence of these, optional
        Where the parameters must lie.
    start : callable or ndarray, optional
        ``start(rng, n)`` -> starting points (n, dimension), or an array (k, dimension) to draw them from
        with replacement. Default: standard normal draws inside the domain, or uniform ones where none are found.
    names : sequence of str, optional
        One name per parameter. Default: one vector ``theta``.

    Raises
    ------
    ValueError
        If the potentials differ in dimension, the names or the domain do not match it, or draws could not be stored by
        these names.
    """

    potentials: Potential | Mapping[str, Potential]
    domain: DomainLike = field(default_factory=Unbounded)
    start: Callable[[np.random.Generator, int], Array] | Array | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        levels = self._levels
        for name, level in levels.items():
            shown = f"potentials[{name!r}]" if isinstance(self.potentials, Mapping) else "potentials"
            text(f"name of {shown}", name), instance(shown, level, Potential, POTENTIAL)
        if not levels:
            raise ValueError("potentials must hold at least one potential, got an empty mapping")
        dimensions = {name: level.dimension for name, level in levels.items()}
        if len(set(dimensions.values())) > 1:
            raise ValueError(f"potentials must share one dimension, got {dimensions}")
        if self.names is not None:
            store(self, names=arguments.names("names", self.names))
            if len(self.names) != self.dimension:
                raise ValueError(f"names must have {self.dimension} entries, got {list(self.names)}")
            check_names(self.shapes)
        if self.start is not None and not callable(self.start):
            start = array("start", self.start, also=", or a function of a generator and a number")
            if start.ndim > 2 or start.shape[-1:] != (self.dimension,):
                raise ValueError(f"start must have shape (k, {self.dimension}), got {start.shape}")
        domain = bound_domain(self.domain, named_columns(self.shapes), self.dimension)
        object.__setattr__(self, "domain", domain)

    @property
    def _levels(self) -> Mapping[str, Potential]:
        return self.potentials if isinstance(self.potentials, Mapping) else {"target": self.potentials}

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return next(iter(self._levels.values())).dimension

    @property
    def fidelities(self) -> tuple[str, ...]:
        """Names of the fidelities, from the coarsest to the finest."""
        return tuple(self._levels)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of each parameter."""
        return {"theta": (self.dimension,)} if self.names is None else {name: () for name in self.names}

    @property
    def sampling_domain(self) -> Domain:
        """Domain of the positions."""
        return cast(Domain, self.domain)

    @property
    def support(self) -> Domain:
        """Domain of theta: the same, as positions are the parameters themselves."""
        return self.sampling_domain

    def described(self) -> dict[str, Any]:
        """Its potentials, by which a run that goes on recognises it."""
        return {"forward": self._levels}

    def without_domain(self) -> Target:
        """The same target without its domain."""
        return replace(self, domain=Unbounded())

    def potential(self, fidelity: str | None = None) -> Potential:
        """The potential of one fidelity, the finest by default; `ValueError` for an unknown name."""
        name = self.fidelities[-1] if fidelity is None else fidelity
        return self._levels[one_of("fidelity", name, self.fidelities)]

    def sample_start(self, rng: np.random.Generator, n: int) -> Array:
        """Starting points inside the domain, shape (n, dimension).

        Where the default, standard normal draws, hardly ever lies there, uniform draws of a bounded domain, or else
        points about as the restricted normal law, by walks from one that is inside.

        Raises
        ------
        ValueError
            If none is found.
        """
        generator("rng", rng), integer("n", n, least=0)
        domain = self.sampling_domain
        found = np.empty((0, self.dimension))
        for _ in range(1000):
            points = self._propose_start(rng, n)
            found = np.concatenate([found, points[domain.contains(points)]])
            if len(found) >= n:
                return found[:n]
        if self.start is None and np.isfinite(domain.bounding_box(self.dimension)).all():
            with suppress(ValueError):  # where it fills too little of its bounding box
                return domain.sample_uniform(rng, n)
        inside = None if self.start is not None else point_inside(domain, self.dimension, rng)
        if inside is None:
            raise ValueError(f"start must give points inside the domain, got {len(found)} of {n} in 1000 tries")
        return self.sample_inside(rng, n, inside[None])

    def sample_inside(self, rng: np.random.Generator, n: int, positions: Array) -> Array:
        """Points, shape (n, dimension), about as a standard normal law in the domain, by walks from some inside.

        Raises
        ------
        ValueError
            If none of ``positions`` (k, dimension) lies inside.
        """
        inside = positions[self.sampling_domain.contains(positions)]
        if not len(inside):
            raise ValueError(f"positions must lie inside the domain, got none of {len(positions)}")
        start = inside[rng.integers(len(inside), size=n)]
        scale = np.ones(self.dimension)
        return walk(rng, start, lambda x: -0.5 * np.square(x).sum(axis=1), self.sampling_domain, scale)

    def _propose_start(self, rng: np.random.Generator, n: int) -> Array:
        if self.start is None:
            return rng.standard_normal((n, self.dimension))
        if callable(self.start):
            return numbers("start", self.start(rng, n)).reshape(n, self.dimension)
        pool = numbers("start", self.start).reshape(-1, self.dimension)
        return pool[rng.integers(len(pool), size=n)]

    def to_theta(self, position: Array) -> Array:
        """Natural parameters: the positions themselves."""
        return position

    def to_position(self, theta: Array) -> Array:
        """Positions: the parameters themselves."""
        return theta
