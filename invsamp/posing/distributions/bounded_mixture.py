"""Mixtures of Gaussians in unconstrained coordinates: of parameters that may have bounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from invsamp.arguments import array, instance, store
from invsamp.axis_labels import freeze
from invsamp.posing.distributions.base import Distribution
from invsamp.posing.distributions.gaussian_mixture import GaussianMixture
from invsamp.posing.transforms.univariate import Coordinates, Identity, Log, Logit, Transform
from invsamp.protocols import Array


@dataclass(frozen=True)
class BoundedMixture(Distribution):
    """Vector of numbers whose logarithms, logits, or selves are a mixture of Gaussians.

    Parameters
    ----------
    mixture : GaussianMixture
        Of k unconstrained numbers.
    lower, upper : array_like, shape (k,)
        Ends of the support: log-distances to the lower one, logits between two, and numbers themselves elsewhere.
    """

    mixture: GaussianMixture
    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        instance("mixture", self.mixture, GaussianMixture, "a GaussianMixture")
        for name in ("lower", "upper"):
            store(self, **{name: freeze(array(name, getattr(self, name), self.shape, finite=False))})

    def __repr__(self) -> str:
        return f"BoundedMixture({len(self.mixture.weights)} components of {self.shape[0]} coordinates)"

    @property
    def shape(self) -> tuple[int, ...]:
        """(k,)."""
        return self.mixture.shape

    @property
    def support(self) -> tuple[Array, Array]:
        """Lower and upper ends."""
        return np.asarray(self.lower, dtype=float), np.asarray(self.upper, dtype=float)

    @property
    def log_constant(self) -> float:
        """0: the density is normalized."""
        return 0.0

    @cached_property
    def coordinates(self) -> Coordinates:
        """From unconstrained numbers to these."""
        return coordinates_within(*self.support)

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Log density (batch,) and its gradient (batch, k)."""
        position = self.coordinates.to_position(columns)
        change = self.coordinates.evaluate(position)
        value, slope = self.mixture.evaluate(position)
        return value - change.log_jacobian, (slope - change.log_jacobian_gradient) / change.derivative

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, k)."""
        return self.coordinates.to_theta(self.mixture.sample(rng, n))


def coordinates_within(lower: Array, upper: Array) -> Coordinates:
    """Logarithms of what is bounded below, logits of what is bounded on both sides."""
    transforms: list[Transform] = []
    for low, high in zip(lower.tolist(), upper.tolist(), strict=True):
        bounded = np.isfinite(low), np.isfinite(high)
        transforms.append(Logit(low, high) if all(bounded) else Log(low) if bounded[0] else Identity())
    return Coordinates(transforms)
