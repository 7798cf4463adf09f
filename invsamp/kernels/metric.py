"""Whitened coordinates: theta = L w, with the preconditioner P = L L^T.

A Langevin step in w is the preconditioned step in theta. The classes share one interface, so the
loop never asks which of them it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from invsamp.kernels.compiled.row_products import RowMatrix, product, row_matrix
from invsamp.protocols import Array
from invsamp.stored import stored, stored_dataclass


@stored_dataclass
class IdentityMetric:
    """No preconditioner."""

    matrix = None  # what a domain needs for its reflections

    def whiten(self, gradient: Array) -> Array:
        """L^T g: the gradient with respect to w."""
        return gradient

    def color(self, move: Array) -> Array:
        """L v: a move of w as a move of theta."""
        return move

    def uncolor(self, move: Array) -> Array:
        """L^-1 v: a move of theta as a move of w."""
        return move

    def whiten_covariance(self, covariance: Array) -> Array:
        """L^T S L, for S isotropic (chains,), diagonal (chains, d) or full (chains, d, d)."""
        return covariance


@stored
@dataclass(frozen=True, eq=False)
class DiagonalMetric:
    """Preconditioner diag(scale^2)."""

    scale: Array

    @property
    def matrix(self) -> Array:
        """The diagonal of P, shape (d,)."""
        return self.scale**2

    def whiten(self, gradient: Array) -> Array:
        """L^T g."""
        return gradient * self.scale

    def color(self, move: Array) -> Array:
        """L v."""
        return move * self.scale

    def uncolor(self, move: Array) -> Array:
        """L^-1 v."""
        return move / self.scale

    def whiten_covariance(self, covariance: Array) -> Array:
        """L^T S L; an isotropic S becomes diagonal."""
        if covariance.ndim == 3:
            return covariance * np.outer(self.scale, self.scale)
        by_entry = covariance[:, None] if covariance.ndim == 1 else covariance
        return by_entry * self.scale**2


@stored
@dataclass(frozen=True, eq=False)
class DenseMetric:
    """Preconditioner P = L L^T with L lower triangular."""

    factor: Array
    matrix: Array = field(init=False, repr=False)
    _inverse: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_inverse", np.linalg.inv(self.factor))
        object.__setattr__(self, "matrix", self.factor @ self.factor.T)

    @cached_property
    def whitening(self) -> RowMatrix:
        """L, by which rows of gradients are multiplied."""
        return row_matrix(self.factor)

    @cached_property
    def coloring(self) -> RowMatrix:
        """Its transpose, by which rows of moves are."""
        return row_matrix(self.factor.T)

    def whiten(self, gradient: Array) -> Array:
        """L^T g."""
        return product(gradient, self.whitening)

    def color(self, move: Array) -> Array:
        """L v."""
        return product(move, self.coloring)

    def uncolor(self, move: Array) -> Array:
        """L^-1 v."""
        return move @ self._inverse.T

    def whiten_covariance(self, covariance: Array) -> Array:
        """L^T S L, always full."""
        if covariance.ndim == 1:
            return covariance[:, None, None] * (self.factor.T @ self.factor)
        if covariance.ndim == 2:
            return np.einsum("ki,nk,kj->nij", self.factor, covariance, self.factor)
        return self.factor.T @ covariance @ self.factor


@stored
@dataclass(frozen=True, eq=False)
class LowRankMetric:
    r"""Preconditioner :math:`L (I + V \Lambda V^T)^{-1} L^T`, with L diagonal (d,) or lower triangular (d, d).

    Its square root is :math:`L (I + V ((1 + \Lambda)^{-1/2} - 1) V^T)`; V (d, r) is orthonormal, all entries of
    :math:`\Lambda` (r,) are above -1.
    """

    factor: Array
    vectors: Array
    values: Array

    @cached_property
    def matrix(self) -> Array:
        """P (d, d): what bounds need, and nothing else."""
        root = self.color(np.eye(len(self.factor)))
        return root.T @ root

    def whiten(self, gradient: Array) -> Array:
        """The root's transpose times g."""
        scaled = gradient * self.factor if self.factor.ndim == 1 else gradient @ self.factor
        return self._along(scaled, 1.0 / np.sqrt(1.0 + self.values))

    def color(self, move: Array) -> Array:
        """The root times v."""
        turned = self._along(move, 1.0 / np.sqrt(1.0 + self.values))
        return turned * self.factor if self.factor.ndim == 1 else turned @ self.factor.T

    def uncolor(self, move: Array) -> Array:
        """The root's inverse times v."""
        scaled = move / self.factor if self.factor.ndim == 1 else np.linalg.solve(self.factor, move.T).T
        return self._along(np.asarray(scaled), np.sqrt(1.0 + self.values))

    @property
    def variances(self) -> Array:
        """The diagonal of P (d,)."""
        factor, shares = self.factor, self.values / (1.0 + self.values)
        whole = factor**2 if factor.ndim == 1 else np.square(factor).sum(axis=1)
        vectors = factor[:, None] * self.vectors if factor.ndim == 1 else factor @ self.vectors
        return np.asarray(whole - np.square(vectors) @ shares)

    def covariance_times(self, vector: Array) -> Array:
        r""":math:`(I + V \Lambda V^T)^{-1}` times v (d,) or (..., d): the covariance in the coordinates of L."""
        return self._along(vector, 1.0 / (1.0 + self.values))

    def whiten_covariance(self, covariance: Array) -> Array:
        """The root's transpose times S times the root, always full."""
        return DenseMetric(self.color(np.eye(len(self.factor))).T).whiten_covariance(covariance)

    def _along(self, values: Array, factors: Array) -> Array:
        return np.asarray(values + ((values @ self.vectors) * (factors - 1.0)) @ self.vectors.T)


Metric = IdentityMetric | DiagonalMetric | DenseMetric | LowRankMetric
