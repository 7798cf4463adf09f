"""Coordinates for vectors whose entries constrain each other: increasing numbers, shares, correlations.

Each is a map from positions without bounds, written once, for complex numbers too: its derivatives are complex steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from invsamp.protocols import AnyArray, Array

_STEP = 1e-30


class VectorTransform(ABC):
    """Vector theta, (batch, k), of a position of the same shape. Where theta cannot be, its position is NaN."""

    @abstractmethod
    def theta(self, position: AnyArray) -> AnyArray:
        """Theta of positions (..., k), real or complex."""

    @abstractmethod
    def log_jacobian(self, position: AnyArray) -> AnyArray:
        """Log of the determinant of d theta / d position, (...), at positions (..., k), real or complex."""

    @abstractmethod
    def position(self, theta: Array) -> Array:
        """Inverse of `theta`, of the same shape."""

    def derivatives(self, position: Array) -> tuple[Array, Array]:
        """Jacobian d theta / d position, (batch, k, k), and the gradient of the log Jacobian, (batch, k)."""
        k = position.shape[1]
        moved = position[:, None, :] + 1j * _STEP * np.eye(k)
        jacobian = np.swapaxes(self.theta(moved).imag / _STEP, 1, 2)
        return np.ascontiguousarray(jacobian), np.ascontiguousarray(self.log_jacobian(moved).imag / _STEP)


@dataclass(frozen=True)
class Increasing(VectorTransform):
    """The first number, or the log of its distance to the lower end, and logarithms of the gaps after it.

    Between two ends, that of the logits.
    """

    lower: float = -math.inf
    upper: float = math.inf

    def theta(self, position: AnyArray) -> AnyArray:
        if self.upper < math.inf:
            return self.lower + (self.upper - self.lower) / (1.0 + np.exp(-self._summed(position)))
        return self._summed(position) if self.lower == -math.inf else self.lower + np.cumsum(np.exp(position), axis=-1)

    def log_jacobian(self, position: AnyArray) -> AnyArray:
        gaps = position[..., 1:].sum(axis=-1)
        if self.upper == math.inf:
            return gaps if self.lower == -math.inf else gaps + position[..., 0]
        u = self._summed(position)
        side = np.where(u.real < 0.0, -u, u)
        return gaps + (math.log(self.upper - self.lower) - side - 2.0 * np.log1p(np.exp(-side))).sum(axis=-1)

    def position(self, theta: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            u = theta
            if self.upper < math.inf:
                u = np.log(theta - self.lower) - np.log(self.upper - theta)
            first = u[..., :1]
            if -math.inf < self.lower and self.upper == math.inf:
                first = np.log(first - self.lower)
            return np.concatenate([first, np.log(np.diff(u, axis=-1))], axis=-1)

    @staticmethod
    def _summed(position: AnyArray) -> AnyArray:
        return np.cumsum(np.concatenate([position[..., :1], np.exp(position[..., 1:])], axis=-1), axis=-1)


@dataclass(frozen=True)
class Shares(VectorTransform):
    """All shares of a whole but the last, from the logarithms of their ratios to it."""

    def theta(self, position: AnyArray) -> AnyArray:
        return np.exp(self._logarithms(position)[..., :-1])

    def log_jacobian(self, position: AnyArray) -> AnyArray:
        return self._logarithms(position).sum(axis=-1)

    def position(self, theta: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(theta) - np.log(1.0 - theta.sum(axis=-1, keepdims=True)))

    @staticmethod
    def _logarithms(position: AnyArray) -> AnyArray:
        """Logarithms of all shares."""
        whole = np.concatenate([position, np.zeros((*position.shape[:-1], 1))], axis=-1)
        whole = whole - whole.real.max(axis=-1, keepdims=True)
        return whole - np.log(np.exp(whole).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Correlations(VectorTransform):
    """Correlations below the diagonal, row by row, from inverse hyperbolic tangents of partial ones.

    The partial correlation of entry (i, j) is that given all before j (Lewandowski, Kurowicka and Joe 2009, J.
    Multivariate Anal. 100, section 2.4).
    """

    size: int

    def theta(self, position: AnyArray) -> AnyArray:
        factor = self._factor(np.tanh(position))
        rows, columns = np.tril_indices(self.size, -1)
        return (factor[..., rows, :] * factor[..., columns, :]).sum(axis=-1)

    def log_jacobian(self, position: AnyArray) -> AnyArray:
        side = np.where(position.real < 0.0, -position, position)
        log_rest = 2.0 * (math.log(2.0) - side - np.log1p(np.exp(-2.0 * side)))  # of 1 - tanh^2
        columns = np.tril_indices(self.size, -1)[1]
        return (0.5 * (self.size - columns) * log_rest).sum(axis=-1)

    def position(self, theta: Array) -> Array:
        partial = np.empty(theta.shape)
        factor = np.zeros((*theta.shape[:-1], self.size, self.size))
        factor[..., 0, 0] = 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            for k, (i, j) in enumerate(zip(*np.tril_indices(self.size, -1), strict=True)):
                known = (factor[..., i, :j] * factor[..., j, :j]).sum(axis=-1)
                factor[..., i, j] = (theta[..., k] - known) / factor[..., j, j]
                partial[..., k] = factor[..., i, j] / np.sqrt(1.0 - (factor[..., i, :j] ** 2).sum(axis=-1))
                factor[..., i, i] = np.sqrt(1.0 - (factor[..., i, : j + 1] ** 2).sum(axis=-1))
            return np.asarray(np.arctanh(partial))

    def _factor(self, partial: AnyArray) -> AnyArray:
        """Cholesky factor of the correlations, (..., size, size)."""
        factor = np.zeros((*partial.shape[:-1], self.size, self.size), dtype=partial.dtype)
        factor[..., 0, 0] = 1.0
        k = 0
        for i in range(1, self.size):
            rest = np.ones(partial.shape[:-1], dtype=partial.dtype)
            for j in range(i):
                factor[..., i, j] = partial[..., k] * np.sqrt(rest)
                rest = rest * (1.0 - partial[..., k] ** 2)
                k += 1
            factor[..., i, i] = np.sqrt(rest)
        return factor
