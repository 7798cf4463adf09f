"""A prior in the positions in which a sampler moves: coordinates, the domain, starting points."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from invsamp.arguments import generator, instance, integer, mapping, numbers, one_of, optional
from invsamp.domains import Box, Product, Unbounded
from invsamp.domains._interior import point_inside
from invsamp.domains.constraints import DomainLike, bound_domain, named_columns
from invsamp.domains.contract import Domain
from invsamp.posing.distributions.multivariate import Flat
from invsamp.posing.distributions.random_field import FieldDistribution
from invsamp.posing.posterior.centering import Minimum, centering_at
from invsamp.posing.posterior.constrained_random_walk import walk
from invsamp.posing.posterior.coordinates import choose_coordinates
from invsamp.posing.posterior.gaussian_reference import reference_of_prior
from invsamp.posing.priors.joint_prior import Prior, by_name
from invsamp.posing.priors.sampled_prior import Sampled
from invsamp.posing.transforms.univariate import Coordinates, Logit
from invsamp.protocols import Array, GaussianField, RandomField, Reference

#: Fewer prior draws than this fraction inside the domain, and it is left to walkers to find starting points.
LEAST_ACCEPTED = 1e-4


class PriorInPositions:
    """An `invsamp.Posterior` without its data: see there.

    Parameters
    ----------
    prior, domain, transforms
        As of `invsamp.Posterior`.
    """

    def __init__(self, prior: Prior, domain: DomainLike | None, transforms: Mapping[str, str] | None) -> None:
        instance("prior", prior, Prior, "a Prior")
        self.prior, self.dimension, self.names, self.shapes = prior, prior.dimension, prior.names, prior.shapes
        self.domain = bound_domain(domain, named_columns(prior.shapes), prior.dimension)
        bounds = _flat_bounds(prior)
        if not isinstance(bounds, Unbounded):
            self.domain = self.domain & bounds
        constrained = self.domain.constrains(prior.dimension)
        self._sampled = Sampled.of(prior, [name for name in self.names if constrained[prior.slices[name]].any()])
        base = self._sampled.base
        self.coordinates = choose_coordinates(base, self.domain, optional(mapping, "transforms", transforms) or {})
        self.sampling_domain = with_support(base, self.coordinates, self.domain)

    @property
    def limits(self) -> dict[str, tuple[Array, Array] | None]:
        """Ends of the prior's support by name; None of vectors whose entries constrain each other."""
        prior, found = self.prior, dict[str, tuple[Array, Array] | None]()
        for name, distribution in prior.distributions.items():
            lower, upper = (end[prior.slices[name]] for end in prior.support)
            found[name] = None if distribution.vector_transform is not None else (lower, upper)
        return found

    @property
    def centering(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Of parameters whose ``centered`` is a run's choice: which of their entries are centered, in their shape."""
        return self._sampled.centering

    @property
    def given_centering(self) -> dict[str, npt.NDArray[np.bool_]]:
        """The same of parameters whose ``centered`` was given."""
        return self._sampled.given_centering

    def with_centering(self, centered: Mapping[str, npt.ArrayLike]) -> Self:
        """The same posterior, in positions in which those entries of some of these parameters are centered.

        Parameters
        ----------
        centered : mapping from name to array_like of bool
            By names of `centering`; the others stay as they are.

        Raises
        ------
        ValueError
            If a name is another, or an array does not broadcast to the parameter's shape.
        """
        known = self.centering
        for name in mapping("centered", centered):
            one_of("centered", name, known)
        other = copy.copy(self)
        other._sampled = self._sampled.with_centering(centered) if centered else self._sampled  # noqa: SLF001
        return other

    def centering_at(self, position: Array, misfit_slope: Array, curvature: Array) -> dict[str, npt.NDArray[np.bool_]]:
        """Which entries of these parameters are better centered, by what is known at a minimum of the energy.

        See `invsamp.posing.posterior.centering`.

        Parameters
        ----------
        position : ndarray, shape (d,)
            Of a minimum in positions in which nothing is centered, as those of this posterior have to be.
        misfit_slope : ndarray, shape (d,)
            Gradient of the misfit.
        curvature : ndarray, shape (d, d)
            Hessian of the energy.
        """
        minimum = Minimum(position, misfit_slope, curvature)
        return centering_at(minimum, self._sampled, self.coordinates, self.reference(), self.log_prior_at)

    def without_domain(self) -> Self:
        """The same posterior, in the same coordinates, without ``domain``; the supports of the prior stay."""
        free = copy.copy(self)
        free.domain = _flat_bounds(self.prior)
        free.sampling_domain = with_support(self._sampled.base, self.coordinates, free.domain)
        return free

    def with_bounds(self) -> Self:
        """The same posterior, with bounds at the ends of its prior's supports that logits send to infinity.

        The distribution is the same; a maximum may lie on a bound, where in logits it would be infinitely far.
        """
        default = choose_coordinates(self._sampled.base, self.domain, {}).bounded.transforms
        pairs = zip(self.coordinates.transforms, default, strict=True)
        transforms = [bounded_transform if isinstance(own, Logit) else own for own, bounded_transform in pairs]
        bounded = copy.copy(self)
        bounded.coordinates = Coordinates(transforms, self.coordinates.vectors)
        bounded.sampling_domain = with_support(self._sampled.base, bounded.coordinates, self.domain)
        return bounded

    def to_theta(self, position: npt.ArrayLike) -> Array:
        """Natural parameters (..., dimension) at positions of that shape."""
        u = self.coordinates.to_theta(position)
        return self._sampled.theta(u.reshape(-1, self.dimension)).reshape(u.shape)

    def to_position(self, theta: npt.ArrayLike) -> Array:
        """Positions (..., dimension) of natural parameters of that shape; inverse of `to_theta`."""
        points = numbers("theta", theta)
        if self._sampled.hierarchy is not None and points.shape[-1:] == (self.dimension,):
            points = self._sampled.whitened(points.reshape(-1, self.dimension)).reshape(points.shape)
        return self.coordinates.to_position(points)

    def sample_prior(self, rng: np.random.Generator, n: int) -> Array:
        """Independent draws, shape (n, dimension), of the prior restricted to the domain.

        Raises
        ------
        ValueError
            If fewer than one draw of the prior in 10,000 lies inside the domain.
        """
        return self.to_theta(self._prior_positions(rng, n))

    @property
    def grids(self) -> dict[str, str]:
        """Digests of the meshes at whose nodes random fields of the prior have their values, by name."""
        return {name: field.grid for name, field in self._random_fields.items() if hasattr(field, "grid")}

    def gaussian_marginals(self) -> dict[str, tuple[Array, Array]]:
        """Prior mean and sd of each value, both (n,), by name of the Gaussian fields of which nothing is unknown."""
        fields = self._random_fields.items()
        found = {name: field.marginals for name, field in fields if isinstance(field, GaussianField)}
        return {name: known for name, known in found.items() if known is not None}

    @property
    def _random_fields(self) -> dict[str, RandomField]:
        named = self.prior.distributions.items()
        return {name: one.field for name, one in named if isinstance(one, FieldDistribution)}

    def reference(self) -> Reference:
        """The prior's Gaussian distribution in positions, or one with its medians and quartiles where it is another.

        Exact where normal parameters are sampled as themselves and log-normal ones as logarithms; the domain is not
        part of it.
        """
        return reference_of_prior(self.prior, self._sampled, self.coordinates)

    def sample_start(self, rng: np.random.Generator, n: int) -> Array:
        """Positions, shape (n, dimension), of prior draws inside the domain.

        Where fewer than one draw in 10,000 lies inside, a point inside is looked for, and walkers go from there until
        they are spread about as the restricted prior is (`invsamp.posing.posterior.constrained_random_walk`).

        Raises
        ------
        ValueError
            If there is no such point, or none is found; if no one can draw from the prior.
        """
        generator("rng", rng), integer("n", n, least=0)
        try:
            return self._prior_positions(rng, n)
        except ValueError as error:
            if isinstance(error.__cause__, NotImplementedError):  # a prior that no one can draw from
                raise
            inside = point_inside(self.sampling_domain, self.dimension, rng)
            if inside is None:
                raise ValueError(f"{error}, and no other point was found there: give one, start=...") from None
            return self.sample_inside(rng, n, inside[None])

    def sample_inside(self, rng: np.random.Generator, n: int, positions: Array) -> Array:
        """Positions, shape (n, dimension), about as the prior restricted to the domain, by walks from some inside.

        Raises
        ------
        ValueError
            If none of ``positions`` (k, dimension) lies inside, where the prior has a density.
        """
        with np.errstate(divide="ignore"):
            free = self.to_position(self.prior.sample(rng, max(n, 100)))
        free = free[np.isfinite(free).all(axis=1)]
        low, high = np.quantile(free, (0.25, 0.75), axis=0)
        inside = positions[self.sampling_domain.contains(positions)]
        inside = inside[np.isfinite(self.log_prior_at(inside))]
        if not len(inside):
            raise ValueError(
                f"positions must lie inside the domain, where the prior has a density, got none of {len(positions)}"
            )
        start = inside[rng.integers(len(inside), size=n)]
        # coordinates without bounds need not begin where the others do
        without = ~self.sampling_domain.constrains(self.dimension)
        start[:, without] = free[rng.integers(len(free), size=n)][:, without]
        return walk(rng, start, self.log_prior_at, self.sampling_domain, high - low)

    def _prior_positions(self, rng: np.random.Generator, n: int) -> Array:
        """Positions, shape (n, dimension), of independent draws of the restricted prior."""
        found: list[Array] = []
        drawn = accepted = 0
        while accepted < n:
            position = self.to_position(self.prior.sample(rng, max(n, 100) if drawn == 0 else 10_000))
            position = position[np.isfinite(position).all(axis=1) & self.sampling_domain.contains(position)]
            drawn += max(n, 100) if drawn == 0 else 10_000
            accepted += len(position)
            found.append(position)
            if drawn >= 50_000 and accepted < LEAST_ACCEPTED * drawn:
                raise ValueError(
                    f"domain must overlap the prior: {accepted} of {drawn} prior draws lie inside {self.domain!r}"
                )
        return np.concatenate(found)[:n]

    @property
    def support(self) -> Domain:
        """Where theta may lie: ``domain`` and the intervals of the prior, without what is merely positive."""
        lower, upper = self.prior.support
        interval = np.isfinite(lower) & np.isfinite(upper)
        if not interval.any():
            return self.domain
        return self.domain & Box(np.where(interval, lower, -np.inf), np.where(interval, upper, np.inf))

    def log_prior(self, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike]) -> Array:
        """Log prior density of theta, shape (batch,), without the domain."""
        return self.prior.log_density(self._theta(theta))

    def log_prior_at(self, position: Array) -> Array:
        """Log prior density of positions (batch, dimension), as of positions, without the domain, shape (batch,)."""
        change = self.coordinates.evaluate(position)
        value: Array = self._sampled.log_density(change.theta) + change.log_jacobian
        return value

    def packed(self, argument: str, values: Mapping[str, npt.ArrayLike]) -> Array:
        """Theta (..., dimension) from values by name; ``argument`` is what messages call them."""
        return self.prior.packed(argument, values)

    def _theta(self, theta: npt.ArrayLike | Mapping[str, npt.ArrayLike]) -> Array:
        named = by_name(theta)
        points = numbers("theta", theta) if named is None else self.prior.packed("theta", named)
        points = points[None, :] if points.ndim == 1 else points
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(f"theta must have shape (batch, {self.dimension}), got {points.shape}")
        return points


def _flat_bounds(prior: Prior) -> Domain:
    """The domains on which parameters are uniform."""
    bounds: Domain = Unbounded()
    for name, distribution in prior.distributions.items():
        if isinstance(distribution, Flat):
            own = bound_domain(Product({name: distribution.domain}), named_columns(prior.shapes), prior.dimension)
            bounds = own if isinstance(bounds, Unbounded) else bounds & own
    return bounds


def with_support(prior: Prior, coordinates: Coordinates, domain: Domain) -> Domain:
    """The domain of the positions: `domain`, and the finite ends of the supports in these coordinates.

    Also what constrains the entries of vectors that are sampled as themselves.
    """
    lower, upper = (coordinates.to_position(end) for end in prior.support)
    for columns, _ in coordinates.vectors:
        lower[columns], upper[columns] = -np.inf, np.inf
    own = [columns for columns, _ in coordinates.vectors]
    for name, distribution in prior.distributions.items():
        if prior.slices[name] not in own and not isinstance(vector_domain := distribution.vector_domain, Unbounded):
            domain = domain & bound_domain(Product({name: vector_domain}), named_columns(prior.shapes), prior.dimension)
    if np.isfinite(lower).any() or np.isfinite(upper).any():
        return domain & Box(lower, upper)
    return domain
