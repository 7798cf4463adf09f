"""Densities to sample by themselves, without a prior, data and noise: `Target`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array, generator, instance, integer, mapping, numbers, one_of, optional, store
from invsamp.domains import Unbounded
from invsamp.domains._interior import point_inside
from invsamp.domains.constraints import DomainLike, bound_domain, named_columns
from invsamp.domains.contract import Domain
from invsamp.posing.checks.gradient_check import GradientCheck, check_gradient
from invsamp.posing.distributions.base import as_shape
from invsamp.posing.expressions.variable_names import check_names
from invsamp.posing.forward_models.fidelity_order import check_fidelities
from invsamp.posing.forward_models.log_density import LogDensity
from invsamp.posing.posterior.constrained_random_walk import walk
from invsamp.posing.priors.joint_prior import by_name
from invsamp.posing.transforms.transformed_density import TransformedPotential
from invsamp.posing.transforms.univariate import Coordinates, Identity, Log, Logit, Transform
from invsamp.protocols import Array, Facts, Plain, Potential

#: What is asked for, in messages.
POTENTIAL = "a LogDensity, or a Potential, which has dimension, energy and energy_and_gradient"


@dataclass(frozen=True)
class Target:
    """A density to sample that is not posed as an inverse problem: an analytic test case, a user's own energy.

    Where there is a prior, and a likelihood beside it, `Posterior` is the better choice: starts are drawn from the
    prior, likelihoods can be tempered, and parameters have names and coordinates.

    A target has no prior that gives the scale of its parameters. Without ``start``, chains and the first descents begin
    at standard normal draws, whatever the scale is. Where no sampler is chosen, further descents then search boxes
    around the modes found so far until none is new; ``run.report["modes"]["region"]`` has the box that was searched.
    Modes far outside, and narrow ones inside, may be missed: give a ``start`` that covers where the mass may lie.

    Parameters
    ----------
    potentials : LogDensity or Potential, or mapping of names to these
        One density, or several fidelities of it from the coarsest to the finest. A `Potential` has ``dimension``;
        ``energy(theta)``, minus the log density (batch,) at theta (batch, dimension); ``energy_and_gradient(theta)``.
    domain : Domain, constraint or its text, or a sequence of these, optional
        Where the parameters must lie.
    start : callable or ndarray, optional
        ``start(rng, n)`` -> starting points (n, dimension), or an array (k, dimension) to draw them from
        with replacement. Default: standard normal draws inside the domain, or uniform ones where none are found.
    names : sequence of str, or mapping from name to shape, optional
        One name per parameter, or per vector or array of parameters: ``{"mu": (), "x": 8}``. Default: one vector
        ``theta``.
    transforms : mapping from name to {"log", "logit"}, optional
        Coordinates in which moves are made: logarithms of positive parameters, logits of those in (0, 1). The densities
        are of theta all the same; the Jacobian is added to them. Domain and start are in theta too.

    Raises
    ------
    ValueError
        If the potentials differ in dimension, the names or the domain do not match it, or draws could not be stored by
        these names. If the domain constrains a parameter that has a transform.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> gamma = iv.LogDensity(lambda x: (np.log(x) - x).sum(axis=1), lambda x: 1 / x - 1)
    >>> iv.Target(gamma, names={"rate": 3}, transforms={"rate": "log"}).check_gradient().passed
    True
    """

    potentials: Potential | Mapping[str, Potential]
    domain: DomainLike = field(default_factory=Unbounded)
    start: Callable[[np.random.Generator, int], Array] | Array | None = None
    names: Sequence[str] | Facts | None = None
    transforms: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.names, Mapping):
            shapes = {n: as_shape(shape, f"names[{n!r}]") for n, shape in self.names.items()}
            store(self, names=shapes)
        elif self.names is not None:
            store(self, names=arguments.names("names", self.names))
        levels = self._levels
        check_fidelities("potentials", levels)
        for name, level in levels.items():
            shown = f"potentials[{name!r}]" if isinstance(self.potentials, Mapping) else "potentials"
            _check_potential(shown, level)
        if not levels:
            raise ValueError("potentials must hold at least one potential, got an empty mapping")
        levels = {name: _sized(level, self.names) for name, level in levels.items()}
        store(self, potentials=levels if isinstance(self.potentials, Mapping) else next(iter(levels.values())))
        dimensions = {name: level.dimension for name, level in levels.items()}
        if len(set(dimensions.values())) > 1:
            raise ValueError(f"potentials must share one dimension, got {dimensions}")
        if self.names is not None:
            if _size(self.names) != self.dimension:
                given = dict(self.names) if isinstance(self.names, Mapping) else list(self.names)
                raise ValueError(f"names must have {self.dimension} entries, got {given}")
            check_names(self.shapes)
        if self.start is not None and not callable(self.start):
            start = array("start", self.start, also=", or a function of a generator and a number")
            if start.ndim > 2 or start.shape[-1:] != (self.dimension,):
                raise ValueError(f"start must have shape (k, {self.dimension}), got {start.shape}")
        domain = bound_domain(self.domain, named_columns(self.shapes), self.dimension)
        object.__setattr__(self, "domain", domain)
        store(self, transforms=optional(mapping, "transforms", self.transforms))
        self._check_transforms()

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
        if isinstance(self.names, Mapping):
            return dict(self.names)
        return {"theta": (self.dimension,)} if self.names is None else {name: () for name in self.names}

    @cached_property
    def coordinates(self) -> Coordinates:
        """The transform of every column."""
        kinds: dict[str, Transform] = {"log": Log(), "logit": Logit(0.0, 1.0)}
        chosen = self.transforms or {}
        return Coordinates(
            [
                kinds[chosen[name]] if name in chosen else Identity()
                for name, shape in self.shapes.items()
                for _ in range(math.prod(shape))
            ]
        )

    @property
    def limits(self) -> dict[str, tuple[Array, Array] | None]:
        """Ends between which the transforms hold each parameter, by name."""
        ends, found = {"log": (0.0, np.inf), "logit": (0.0, 1.0)}, dict[str, tuple[Array, Array] | None]()
        for name, shape in self.shapes.items():
            lower, upper = ends.get((self.transforms or {}).get(name, ""), (-np.inf, np.inf))
            found[name] = np.full(math.prod(shape), lower), np.full(math.prod(shape), upper)
        return found

    @property
    def sampling_domain(self) -> Domain:
        """Domain of the positions."""
        return cast(Domain, self.domain)

    @property
    def support(self) -> Domain:
        """Domain of theta: the same, as it constrains what is sampled as itself."""
        return self.sampling_domain

    @property
    def starts_guessed(self) -> bool:
        """Whether no ``start`` was given, so that standard normal draws are a guess of the scale."""
        return self.start is None

    def described(self) -> Plain:
        """Its potentials, by which a run that goes on recognizes it."""
        parts: Plain = {"forward": self._levels}
        return parts | {"transforms": self.transforms} if self.transforms else parts

    def without_domain(self) -> Target:
        """The same target without its domain."""
        return replace(self, domain=Unbounded())

    def potential(self, fidelity: str | None = None) -> Potential:
        """The potential of one fidelity, the finest by default; `ValueError` for an unknown name."""
        name = self.fidelities[-1] if fidelity is None else fidelity
        found = self._levels[one_of("fidelity", name, self.fidelities)]
        return cast(Potential, TransformedPotential(found, self.coordinates)) if self.transforms else found

    def sample_start(self, rng: np.random.Generator, n: int) -> Array:
        """Starting positions inside the domain, shape (n, dimension).

        Where the default, standard normal draws, hardly ever lies there, uniform draws of a bounded domain, or else
        points about as the restricted normal distribution, by walks from one that is inside.

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
        """Points, shape (n, dimension), about as a standard normal in the domain, by walks from some inside.

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
            return self._possible(numbers("start", self.start(rng, n)).reshape(n, self.dimension))
        pool = self._possible(numbers("start", self.start).reshape(-1, self.dimension))
        return pool[rng.integers(len(pool), size=n)]

    def _possible(self, theta: Array) -> Array:
        """Positions of starting points; `ValueError` where they have none."""
        position = self.to_position(theta)
        wrong = ~np.isfinite(position).all(axis=1)
        if self.transforms and wrong.any():
            raise ValueError(f"start must lie where {self.transforms} allow it, got {theta[np.argmax(wrong)].tolist()}")
        return position

    def to_theta(self, position: Array) -> Array:
        """Natural parameters (..., dimension): the positions themselves, unless there are transforms."""
        return self.coordinates.to_theta(position) if self.transforms else position

    def to_position(self, theta: Array) -> Array:
        """Positions (..., dimension) of natural parameters."""
        return self.coordinates.to_position(theta) if self.transforms else theta

    def check_gradient(
        self,
        theta: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
        fidelity: str | None = None,
        seed: int = 0,
    ) -> GradientCheck:
        """Check of the energy's gradient at one theta, in a random direction; see `Posterior.check_gradient`.

        Parameters
        ----------
        theta : array_like (dimension,) or mapping, optional
            Where; a starting point by default.
        fidelity : str, optional
            The finest by default.
        seed : int
            Of the direction and the starting point.
        """
        rng = np.random.default_rng(integer("seed", seed, least=0))
        position = self.sample_start(rng, 1)[0]
        if theta is not None:
            named = by_name(theta)
            if named is not None and set(named) != set(self.shapes):
                raise ValueError(f"theta must have a value for each of {list(self.shapes)}, got {list(named)}")
            values = [theta] if named is None else [named[name] for name in self.shapes]
            point = np.concatenate([numbers("theta", value).ravel() for value in values])
            if point.shape != (self.dimension,):
                raise ValueError(f"theta must have shape ({self.dimension},), got {point.shape}")
            position = self.to_position(point)
        return check_gradient(self.potential(fidelity), position, rng.standard_normal(self.dimension))

    def _check_transforms(self) -> None:
        constrained = self.sampling_domain.constrains(self.dimension)
        first = 0
        for name, shape in self.shapes.items():
            last = first + math.prod(shape)
            if (self.transforms or {}).get(name) and constrained[first:last].any():
                raise ValueError(
                    f"transforms must leave out {name!r}, which the domain constrains, got {self.transforms}"
                )
            first = last
        for name, kind in (self.transforms or {}).items():
            if name not in self.shapes:
                raise ValueError(f"transforms must hold names of {list(self.shapes)}, got {name!r}")
            one_of(f"transforms[{name!r}]", kind, ("log", "logit"))


def _size(names: Sequence[str] | Facts) -> int:
    return sum(math.prod(shape) for shape in names.values()) if isinstance(names, Mapping) else len(names)


def _sized(level: object, names: Sequence[str] | Facts | None) -> Any:
    """A density that knows its dimension; other potentials as they are."""
    if not isinstance(level, LogDensity):
        return level
    if level.parameters is not None:
        raise ValueError(f"parameters must be None for a density without a prior, got {list(level.parameters)}")
    if level.dimension is not None:
        return level
    if names is None:
        raise ValueError("dimension must be given, LogDensity(..., dimension=2), or the names of a Target, got None")
    return replace(level, dimension=_size(names))


def _check_potential(shown: str, level: object) -> None:
    """`ValueError`, with what to do, for what is none."""
    if isinstance(level, Potential) and not isinstance(level, type):
        return
    if callable(getattr(level, "potential", None)):
        raise ValueError(f"{shown} must be {POTENTIAL}, got {level!r}, which iv.sample takes as it is")
    if callable(getattr(level, "linearize", None)):
        raise ValueError(
            f"{shown} must be {POTENTIAL}, got {level!r}: a forward model needs a prior, data and noise, "
            "iv.Posterior(prior, model, data, noise); one whose output is a log density, iv.LogDensity(model)"
        )
    if callable(level) and not isinstance(level, type):
        raise ValueError(
            f"{shown} must be {POTENTIAL}, got {level!r}: wrap a function that returns log densities by "
            "iv.LogDensity(function, gradient, dimension=...)"
        )
    instance(shown, level, Potential, POTENTIAL)
