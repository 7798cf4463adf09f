"""SWAG: a Gaussian from the iterates of stochastic gradient descent. A baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, optional
from invsamp.protocols import Array


@dataclass(frozen=True)
class Swag:
    r"""A Gaussian, half diagonal and half of low rank. Made by `swag`. Approximate: its spread is that of the iterates.

    Attributes
    ----------
    mean, variance : ndarray, shape (d,)
    deviations : ndarray, shape (rank, d)
        Of the last iterates from the mean.
    """

    mean: Array
    variance: Array
    deviations: Array

    @property
    def covariance(self) -> Array:
        r"""(d, d): :math:`\tfrac12 \mathrm{diag}(s^2) + \tfrac12 D^T D / (K - 1)`."""
        low_rank = self.deviations.T @ self.deviations / (len(self.deviations) - 1)
        return np.asarray(0.5 * np.diag(self.variance) + 0.5 * low_rank)

    def draws(self, n: int, seed: int | None = None) -> Array:
        """Independent draws (n, d)."""
        n = integer("n", n, least=1)
        rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
        rank, d = self.deviations.shape
        diagonal = np.sqrt(0.5 * self.variance) * rng.standard_normal((n, d))
        return np.asarray(
            self.mean + diagonal + rng.standard_normal((n, rank)) @ self.deviations / math.sqrt(2 * (rank - 1))
        )


def swag(iterates: npt.ArrayLike, rank: int = 20) -> Swag:
    """The Gaussian of some iterates of `invsamp.samplers.sgd`, thinned as one likes.

    The covariance of iterates depends on step size and batch; it is the posterior's for one choice of these alone, and
    only if noise and curvature have the same shape.

    Parameters
    ----------
    iterates : array_like of float (n, d)
        Such as ``run.theta[0]``.
    rank : int, >= 2
        K, of the last iterates whose deviations make the low-rank part.

    Raises
    ------
    ValueError
        If there are fewer iterates than ``rank``.

    References
    ----------
    Maddox, Garipov, Izmailov, Vetrov and Wilson (2019), "A simple baseline for Bayesian uncertainty in deep learning",
    NeurIPS, eq. (1), with deviations from the final mean in place of running ones.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> iterates = np.random.default_rng(0).normal(size=(50, 3))
    >>> gaussian = iv.results.swag(iterates, rank=10)
    >>> gaussian.mean.shape
    (3,)
    """
    rank, values = integer("rank", rank, least=2), array("iterates", iterates, ("n", "d"))
    if len(values) < rank:
        raise ValueError(f"iterates must be at least rank={rank}, got {len(values)}")
    mean = values.mean(axis=0)
    return Swag(mean, values.var(axis=0), values[-rank:] - mean)
