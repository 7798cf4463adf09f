"""Observations without a solve: sums over the nodes of weights times what is known or unknown there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.field_contract import FieldValues, Linear, by_row
from invsamp.solvers.fem.space import Space
from invsamp.solvers.forward_model import Product, Tangent, tangent_of


class Part(Protocol):
    """Contribution of some unknowns to m observations; a row of theta gives the same bits alone and in any batch."""

    @property
    def method(self) -> str:
        """How observations come about."""

    def evaluate(self, theta: Array) -> Array:
        """Shape (batch, m), for the part's own columns of theta."""

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Values (batch, m) and derivatives (batch, m, p)."""

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        """Values and the vector-Jacobian product."""

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Values (batch, k) and derivatives (batch, k, p) of chosen observations."""


@dataclass(frozen=True, eq=False)
class Precomputed:
    """An evaluator that adds what the unknowns contribute by weights."""

    constant: Array  # (m,), of what is known
    parts: tuple[tuple[Part, Numbers], ...]  # each with its columns of theta

    @property
    def method(self) -> str:
        """How observations come about."""
        return " and ".join(dict.fromkeys(part.method for part, _ in self.parts)) or "constants"

    def evaluate(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        y = np.repeat(self.constant[None], len(theta), axis=0)
        for part, columns in self.parts:
            y += part.evaluate(theta[:, columns])
        return y

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations and Jacobian (batch, m, p)."""
        return self._added(
            theta, np.repeat(self.constant[None], len(theta), axis=0), lambda part, own: part.jacobian(own)
        )

    def tangent(self, theta: Array) -> Tangent:
        """Observations, and products by the Jacobian."""
        return tangent_of(*self.jacobian(theta))

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Chosen observations (batch, k) and their derivatives (batch, k, p), at a cost in proportion to k."""
        return self._added(theta, self.constant[indices], lambda part, own: part.rows(own, indices))

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        """Observations and the vector-Jacobian product."""
        y = np.repeat(self.constant[None], len(theta), axis=0)
        products = []
        for part, columns in self.parts:
            values, pullback = part.linearize(theta[:, columns])
            y += values
            products.append((pullback, columns))

        def vjp(cotangent: Array) -> Array:
            gradient = np.zeros(theta.shape)
            for pullback, columns in products:
                gradient[:, columns] += pullback(cotangent)
            return gradient

        return y, vjp

    def _added(
        self, theta: Array, y: Array, derivatives: Callable[[Part, Array], tuple[Array, Array]]
    ) -> tuple[Array, Array]:
        jacobian = np.zeros((*y.shape, theta.shape[1]))
        for part, columns in self.parts:
            values, slopes = derivatives(part, theta[:, columns])
            y += values
            jacobian[:, :, columns] += slopes
        return y, jacobian


def weighted(
    fields: Mapping[str, tuple[FieldValues, Numbers]], weights: Mapping[str, Array], space: Space
) -> tuple[Array, list[tuple[Part, Numbers]]]:
    """Contributions of fields of several kinds to m observations: of the known ones, (m,), and parts for the others.

    Parameters
    ----------
    fields : mapping from kind to (values at this rank's nodes, columns of theta)
    weights : mapping from these kinds, and maybe others, to array, shape (n, m)
    space : Space
    """
    constant: Any = 0.0
    parts: list[tuple[Part, Numbers]] = []
    for kind, (values, columns) in fields.items():
        if not columns.size:
            constant = constant + space.total(values.values(np.empty((1, 0)))[0] @ weights[kind])
        elif isinstance(values, Linear):
            parts.append((_affine(values, weights[kind], space), columns))
        else:
            parts.append((_AtNodes(values, weights[kind], space), columns))
    return constant, parts


def pull_back(
    theta: Array, fields: Mapping[str, tuple[FieldValues, Numbers]], cotangents: Mapping[str, Array]
) -> Array:
    """This rank's derivatives to theta, shape (batch, p), from cotangents (n, batch) of fields, each row by itself."""
    pulled = np.zeros(theta.shape)
    for kind, (values, columns) in fields.items():
        if columns.size:
            pulled[:, columns] += by_row(values.pullback, theta[:, columns], cotangents[kind].T)
    return pulled


def _affine(values: Linear, weights: Array, space: Space) -> _Affine:
    offset = np.broadcast_to(values.offset, len(weights)) @ weights
    return _Affine(Linear(space.total(np.asarray(values.matrix.T @ weights)).T.copy(), space.total(offset)))


@dataclass(frozen=True, eq=False)
class _Affine:
    """A part that is linear in its unknowns."""

    observed: Linear  # matrix (m, p)
    method: ClassVar[str] = "a matrix"

    def evaluate(self, theta: Array) -> Array:
        return self.observed.values(theta)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        matrix = self.observed.matrix
        return self.evaluate(theta), np.broadcast_to(matrix, (len(theta), *matrix.shape))

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        return self.evaluate(theta), lambda cotangent: self.observed.pullback(theta, cotangent)

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        slopes, values = self.observed.matrix[indices], np.asarray(self.observed.offset)[indices]
        for row, one in enumerate(theta):
            values[row] += slopes[row] @ one
        return values, slopes


@dataclass(frozen=True, eq=False)
class _AtNodes:
    """Any field, by weights (n, m) at this rank's nodes."""

    field: FieldValues
    weights: Array
    space: Space
    method: ClassVar[str] = "weights at the nodes"

    def evaluate(self, theta: Array) -> Array:
        return self.space.total(by_row(lambda values: values @ self.weights, self.field.values(theta)))

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        m = self.weights.shape[1]
        slopes = np.empty((len(theta), m, theta.shape[1]))
        for row, values in enumerate(theta):
            slopes[row] = self.field.pullback(np.repeat(values[None], m, 0), self.weights.T)
        return self.evaluate(theta), self.space.total(slopes)

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        def pullback(cotangent: Array) -> Array:
            return self.space.total(by_row(self._pull, theta, cotangent))

        return self.evaluate(theta), pullback

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        values, slopes = np.empty(indices.shape), np.empty((*indices.shape, theta.shape[1]))
        field = self.field.values(theta)
        for row, chosen in enumerate(indices):
            weights = np.ascontiguousarray(self.weights[:, chosen].T)
            values[row] = weights @ field[row]
            slopes[row] = self.field.pullback(np.repeat(theta[row : row + 1], len(chosen), 0), weights)
        return self.space.total(values), self.space.total(slopes)

    def _pull(self, theta: Array, cotangent: Array) -> Array:
        return self.field.pullback(theta, cotangent @ self.weights.T)
