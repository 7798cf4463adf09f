"""Mixtures of Gaussians; kernel density estimates are mixtures, too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from invsamp.arguments import array, generator, integer, store
from invsamp.axis_labels import freeze
from invsamp.posing.distributions.base import Distribution, ends
from invsamp.protocols import Array

#: Differences of points and centers that are held at once, as numbers.
_AT_ONCE = 2**21


@dataclass(frozen=True)
class GaussianMixture(Distribution):
    """Mixture of K Gaussians of a number or a vector.

    Parameters
    ----------
    weights : array_like, shape (K,), > 0
        Normalized here.
    means : array_like, shape (K,) or (K, d)
    covariances : array_like, shape (K,) or (K, d, d)
        Variances of numbers. One for all components may have a first axis of length 1.

    Raises
    ------
    ValueError
        If shapes do not fit, a weight is not positive, or a covariance is not positive definite.

    Examples
    --------
    >>> import invsamp as iv
    >>> mixture = iv.distributions.GaussianMixture([0.3, 0.7], [-2.0, 1.0], [0.5, 1.0])
    >>> iv.Prior(x=mixture).labels
    ('x',)
    """

    weights: Any
    means: Any
    covariances: Any

    def __post_init__(self) -> None:
        weights = array("weights", self.weights, ("K",), above=0)
        means = array("means", self.means)
        covariances = array("covariances", self.covariances)
        if means.ndim not in (1, 2) or len(means) != len(weights):
            raise ValueError(f"means must have shape ({len(weights)},) or ({len(weights)}, d), got {means.shape}")
        own = means.shape[1:] * 2
        if covariances.shape[1:] != own or len(covariances) not in (1, len(weights)):
            raise ValueError(f"covariances must have shape {(len(weights), *own)}, got {covariances.shape}")
        wide = covariances.reshape(len(covariances), *(own or (1, 1)))
        try:
            factors = np.linalg.cholesky(wide)
        except np.linalg.LinAlgError:
            raise ValueError(f"covariances must be positive definite, got {covariances.tolist()}") from None
        if not np.allclose(wide, np.swapaxes(wide, 1, 2), rtol=1e-8, atol=0.0):
            raise ValueError("covariances must be symmetric")
        store(self, weights=freeze(weights), means=freeze(means), covariances=freeze(covariances))
        object.__setattr__(self, "_factors", factors)

    def __repr__(self) -> str:
        shape = f"{self.shape[0]} coordinates" if self.shape else "a number"
        return f"GaussianMixture({len(self.weights)} components of {shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """() or (d,)."""
        return np.shape(self.means)[1:]

    @property
    def support(self) -> tuple[Array, Array]:
        """Everywhere."""
        return ends(-np.inf, np.inf, self.shape)

    @property
    def log_constant(self) -> float:
        """0: the density is normalized."""
        return 0.0

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array, Array]:
        """Centers (K, d), inverses of the factors (1 or K, d, d), log weights with constants, weights."""
        factors: Array = self._factors  # type: ignore[attr-defined]
        d = factors.shape[1]
        inverse = np.stack([solve_triangular(factor, np.eye(d), lower=True) for factor in factors])
        weights = np.asarray(self.weights) / np.sum(self.weights)
        constant = -np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1) - 0.5 * d * math.log(2.0 * math.pi)
        return np.asarray(self.means).reshape(-1, d), inverse, np.log(weights) + constant, weights

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Log density (batch,) and its gradient (batch, d)."""
        centers, inverse, logs, _ = self._parts
        some = max(1, _AT_ONCE // centers.size)
        blocks = [self._block(columns[i : i + some], centers, inverse, logs) for i in range(0, len(columns), some)]
        if not blocks:
            return np.empty(0), np.empty(columns.shape)
        return np.concatenate([value for value, _ in blocks]), np.concatenate([slope for _, slope in blocks])

    @staticmethod
    def _block(x: Array, centers: Array, inverse: Array, logs: Array) -> tuple[Array, Array]:
        if len(inverse) == 1:
            z = (x @ inverse[0].T)[:, None, :] - centers @ inverse[0].T
        else:
            z = np.einsum("kij,nkj->nki", inverse, x[:, None, :] - centers)
        parts = logs - 0.5 * np.square(z).sum(axis=2)
        top = parts.max(axis=1, keepdims=True)
        share = np.exp(parts - top)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        if len(inverse) == 1:
            slope = -np.einsum("nk,nki->ni", share, z) @ inverse[0]
        else:
            slope = -np.einsum("nk,nki,kij->nj", share, z, inverse)
        return (top + np.log(total))[:, 0], slope

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, *shape)."""
        generator("rng", rng), integer("n", n, least=0)
        centers, _, _, weights = self._parts
        factors: Array = self._factors  # type: ignore[attr-defined]
        chosen = rng.choice(len(weights), size=n, p=weights)
        noise = rng.standard_normal((n, centers.shape[1]))
        moved = np.einsum("nij,nj->ni", factors[chosen if len(factors) > 1 else np.zeros(n, int)], noise)
        return (centers[chosen] + moved).reshape(n, *self.shape)
