"""A prior as a posterior samples it: independent parameters in place of those that depend on each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.posing.priors.conditional_distribution import Conditional
from invsamp.posing.priors.joint_prior import Prior
from invsamp.posing.priors.noncentering import Hierarchy
from invsamp.protocols import Array


@dataclass(frozen=True)
class Sampled:
    """Coordinates u that a posterior samples in place of theta, with their independent prior, and the way to theta.

    Attributes
    ----------
    base : Prior
        Of u, but for the densities of what is sampled as itself though it depends on others.
    hierarchy : Hierarchy or None
        None: u is theta.
    """

    base: Prior
    hierarchy: Hierarchy | None

    @classmethod
    def of(cls, prior: Prior, as_themselves: Collection[str] = ()) -> Sampled:
        """That of a prior, with more parameters sampled as themselves than their distributions say."""
        if prior.hierarchy is None:
            return cls(prior, None)
        return cls._standing_for(prior, prior.hierarchy.as_itself(as_themselves))

    @classmethod
    def as_itself(cls, prior: Prior) -> Sampled:
        """That of a prior with u as theta; `ValueError` if ends of a parameter's support depend on others."""
        if prior.hierarchy is None:
            return cls(prior, None)
        for node in prior.hierarchy.conditionals:
            node.check_centered()
        return cls._standing_for(prior, prior.hierarchy.as_itself())

    @classmethod
    def _standing_for(cls, prior: Prior, hierarchy: Hierarchy) -> Sampled:
        sampled = {node.name: node.sampled for node in hierarchy.parameters}
        return cls(Prior(**(dict(prior.distributions) | sampled)), hierarchy)

    @property
    def centering(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Of parameters whose form is a run's choice: which of their entries are centered, in their shape."""
        return {node.name: node.entries for node in self._conditionals if node.automatic}

    @property
    def given_centering(self) -> dict[str, npt.NDArray[np.bool_]]:
        """The same of those that have two forms, one of which was asked for."""
        return {node.name: node.entries for node in self._conditionals if node.asked}

    @property
    def _conditionals(self) -> list[Conditional]:
        return [] if self.hierarchy is None else self.hierarchy.conditionals

    def with_centering(self, centered: Mapping[str, npt.ArrayLike]) -> Sampled:
        """The same with those entries of some of these parameters centered that are True."""
        assert self.hierarchy is not None
        return self._standing_for(self.base, self.hierarchy.with_forms(centered))

    def theta(self, u: Array) -> Array:
        """Theta (batch, dimension) at u."""
        if self.hierarchy is None:
            return u
        moved, _ = self.hierarchy.forward(u)
        return moved.theta[:, : self.hierarchy.dimension]

    def whitened(self, theta: Array) -> Array:
        """The u of theta (batch, dimension)."""
        return theta if self.hierarchy is None else self.hierarchy.whitened(theta)

    def log_density(self, u: Array) -> Array:
        """Log density of u, (batch,)."""
        value = self.base.log_density(u)
        return value if self.hierarchy is None else value + self.hierarchy.forward(u)[0].log_density
