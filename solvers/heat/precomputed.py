"""Observations without a solve: where the conductivity is known they are linear in the nodal data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from invsamp.solvers.fem.contract import Array, Numbers, Sensors, Space
from invsamp.solvers.fem.fields import FieldValues, Linear
from invsamp.solvers.heat.discretisation import Discretisation
from invsamp.solvers.heat.separable import BumpOnGrid, separate

Product = Callable[[Array], Array]


class Part(Protocol):
    """What some unknowns add to the m observations."""

    def evaluate(self, theta: Array) -> Array:
        """Shape (batch, m), for the part's own columns of theta."""
        ...

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Values (batch, m) and derivatives (batch, m, p)."""
        ...

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        """Values and the vector-Jacobian product."""
        ...

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Values (batch, k) and derivatives (batch, k, p) of chosen observations."""
        ...


@dataclass(frozen=True, eq=False)
class Precomputed:
    """An evaluator that adds what the unknowns contribute by weights."""

    constant: Array  # (m,), of what is known
    parts: tuple[tuple[Part, Numbers], ...]  # each with its columns of theta
    method: str

    def evaluate(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        if self._only is not None:
            return self._only.evaluate(theta) + self.constant
        y = np.tile(self.constant, (len(theta), 1))
        for part, columns in self.parts:
            y += part.evaluate(theta[:, columns])
        return y

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations and Jacobian (batch, m, p)."""
        if self._only is not None:
            values, slopes = self._only.jacobian(theta)
            return values + self.constant, slopes
        y = np.tile(self.constant, (len(theta), 1))
        jacobian = np.zeros((*y.shape, theta.shape[1]))
        for part, columns in self.parts:
            values, slopes = part.jacobian(theta[:, columns])
            y += values
            jacobian[:, :, columns] += slopes
        return y, jacobian

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        """Observations and the vector-Jacobian product."""
        if self._only is not None:
            values, pullback = self._only.linearize(theta)
            return values + self.constant, pullback
        y = np.tile(self.constant, (len(theta), 1))
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

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Chosen observations (batch, k) and their derivatives (batch, k, p), at a cost in proportion to k."""
        if self._only is not None:
            values, slopes = self._only.rows(theta, indices)
            return values + self.constant[indices], slopes
        y, jacobian = self.constant[indices], np.zeros((*indices.shape, theta.shape[1]))
        for part, columns in self.parts:
            values, slopes = part.rows(theta[:, columns], indices)
            y += values
            jacobian[:, :, columns] += slopes
        return y, jacobian

    @cached_property
    def _only(self) -> Part | None:
        """The part that all columns belong to, in order: nothing has to be put together."""
        if len(self.parts) != 1 or not np.array_equal(self.parts[0][1], np.arange(len(self.parts[0][1]))):
            return None
        return self.parts[0][0]


def precompute_observation(discretisation: Discretisation, sensors: Sensors, steps: tuple[int, ...]) -> Precomputed:
    """Solve one adjoint problem for each sensor and time."""
    space, weights = discretisation.space, discretisation.functionals(sensors, steps)
    total = {kind: getattr(weights, kind) for kind in discretisation.drivers}
    if discretisation.exact:
        total["initial"] = total["initial"] + total.pop("edge")
    constant = np.zeros(len(steps) * sensors.count)
    bumps, rest = separate(discretisation, total)
    parts: list[tuple[Any, Numbers]] = [*bumps]
    for kind in rest:
        driver = discretisation.drivers[kind]
        if not driver.columns.size:
            constant += space.total(driver.values.values(np.empty((1, 0)))[0] @ total[kind])
        elif isinstance(driver.values, Linear):
            parts.append((_affine(driver.values, total[kind], space), driver.columns))
        else:
            parts.append((_AtNodes(driver.values, total[kind], space), driver.columns))
    kinds = {BumpOnGrid: "weights on the grid", _AtNodes: "weights at the nodes", _Affine: "a matrix"}
    method = " and ".join(dict.fromkeys(kinds[type(part)] for part, _ in parts)) or "constants"
    return Precomputed(constant, tuple(parts), method)


def _affine(values: Linear, weights: Array, space: Space) -> _Affine:
    offset = np.broadcast_to(values.offset, len(weights)) @ weights
    return _Affine(space.total(np.asarray(values.matrix.T @ weights)), space.total(offset))


@dataclass(frozen=True, eq=False)
class _Affine:
    """A part that is linear in its unknowns: offset + theta @ matrix, matrix (p, m)."""

    matrix: Array
    offset: Array

    def evaluate(self, theta: Array) -> Array:
        values: Array = theta @ self.matrix + self.offset
        return values

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        slopes = np.broadcast_to(self.matrix.T, (len(theta), *self.matrix.T.shape))
        return self.evaluate(theta), slopes

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        return self.evaluate(theta), lambda cotangent: cotangent @ self.matrix.T

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        slopes = self.matrix.T[indices]
        return np.einsum("bp,bkp->bk", theta, slopes) + self.offset[indices], slopes


@dataclass(frozen=True, eq=False)
class _AtNodes:
    """Any field, by weights (n, m) at this rank's nodes."""

    field: FieldValues
    weights: Array
    space: Space

    def evaluate(self, theta: Array) -> Array:
        return self.space.total(self.field.values(theta) @ self.weights)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        slopes = [self.field.pullback(np.repeat(row[None], self.weights.shape[1], 0), self.weights.T) for row in theta]
        return self.evaluate(theta), self.space.total(np.array(slopes))

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        def pullback(cotangent: Array) -> Array:
            return self.space.total(self.field.pullback(theta, cotangent @ self.weights.T))

        return self.evaluate(theta), pullback

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        chosen = np.swapaxes(self.weights[:, indices], 0, 1)  # (batch, n, k)
        values = np.einsum("bn,bnk->bk", self.field.values(theta), chosen)
        slopes = [self.field.pullback(theta, chosen[:, :, k]) for k in range(indices.shape[1])]
        return self.space.total(values), self.space.total(np.stack(slopes, axis=1))
