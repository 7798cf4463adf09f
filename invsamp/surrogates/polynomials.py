"""Polynomials of a few unknowns, fitted to values at states."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array, VectorJacobianProduct
from invsamp.surrogates.affine import least_squares

#: Degrees of one that is chosen for what a coarse model lacks, and pairs that each of its products needs.
DEGREES, PAIRS_EACH = (4, 3, 2), 3
#: How far beyond the states that taught it a polynomial that is held goes on, as a share of their range.
BEYOND = 0.25


def degree_for(unknowns: int, pairs: int) -> int | None:
    """The highest degree that so many pairs can determine; None: the products of two are too many already."""
    most = pairs / PAIRS_EACH
    return next((k for k in DEGREES if math.comb(unknowns + k, k) - 1 <= most), None)


@dataclass(frozen=True)
class Polynomial:
    """All products of at most so many unknowns.

    Parameters
    ----------
    degree : int
    held : bool
        Whether it stays what it is from a quarter of their range beyond the states that it was fitted to, unknown by
        unknown: hot rungs go far, and high powers give no information there.
    """

    degree: int
    held: bool = False

    def fitted(self, theta: Array, values: Array) -> FittedPolynomial:
        """Of values (n, m) at theta (n, p), by a ridge regression."""
        center, spread = theta.mean(axis=0), theta.std(axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        x, p = (theta - center) / spread, theta.shape[1]
        powers = np.zeros((0, p), dtype=int)
        varied = np.flatnonzero(np.ptp(theta, axis=0) > 0.0)
        for degree in range(1, self.degree + 1):
            chosen = list(itertools.combinations_with_replacement(varied, degree))
            more = np.zeros((len(chosen), p), dtype=int)
            np.add.at(more, (np.repeat(np.arange(len(chosen)), degree), np.ravel(chosen)), 1)
            powers = np.concatenate([powers, more])
        products = _products(x, powers)
        mean, values_mean = products.mean(axis=0), values.mean(axis=0)
        scale = np.sqrt(np.square(products - mean).mean(axis=0))
        scale = np.where(scale > 0.0, scale, 1.0)
        factor = least_squares((products - mean) / scale, values - values_mean) / scale  # (m, products)
        beyond = BEYOND * np.ptp(x, axis=0) if self.held else np.inf
        ends = (x.min(axis=0) - beyond, x.max(axis=0) + beyond)
        return FittedPolynomial(center, spread, ends, powers, factor, values_mean - factor @ mean)


@dataclass(frozen=True, eq=False)
class FittedPolynomial:
    """Its values, and their derivatives."""

    center: Array
    spread: Array
    ends: tuple[Array, Array]  # of the standardized unknowns, beyond which it stays what it is
    powers: npt.NDArray[np.int_]  # (products, p)
    factor: Array  # (m, products)
    constant: Array

    @property
    def degree(self) -> int:
        """Of its highest product."""
        return int(self.powers.sum(axis=1).max())

    def __call__(self, theta: Array) -> Array:
        """Values (n, m)."""
        products = _products(self._standardized(theta)[0], self.powers)
        return np.asarray(np.einsum("bk,mk->bm", products, self.factor) + self.constant)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Values, and the product of cotangents (n, m) with the Jacobians there."""
        at = theta.copy()
        return self(theta), lambda cotangent: self._pulled(at, cotangent)

    def _pulled(self, theta: Array, cotangent: Array) -> Array:
        x, inside = self._standardized(theta)
        weights = np.einsum("bm,mk->bk", cotangent, self.factor)
        gradient = np.zeros(x.shape)
        for j in range(x.shape[1]):
            lower = self.powers.copy()
            lower[:, j] = np.maximum(lower[:, j] - 1, 0)
            gradient[:, j] = np.einsum("bk,bk,k->b", weights, _products(x, lower), self.powers[:, j].astype(float))
        return np.where(inside, gradient, 0.0) / self.spread

    def _standardized(self, theta: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Unknowns (n, p) within the ends, and which of them were."""
        x = (theta - self.center) / self.spread
        within = np.clip(x, *self.ends)
        return within, np.asarray(within == x)


def _products(x: Array, powers: npt.NDArray[np.int_]) -> Array:
    """Products (n, k) of the columns of x (n, p) to some powers (k, p)."""
    products = np.ones((len(x), len(powers)))
    for j in range(x.shape[1]):
        for power in range(1, int(powers[:, j].max(initial=0)) + 1):
            rows = powers[:, j] == power
            products[:, rows] *= x[:, j : j + 1] ** power
    return products
