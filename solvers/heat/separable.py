"""Gaussian bumps on the grid of the unit square: products of profiles along x and y, whose cost goes with its side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.fields import GaussianBump, Unknown
from invsamp.solvers.heat.discretisation import Discretisation
from invsamp.solvers.heat.manufactured import Expansion, GaussianDerivatives, gaussian_derivatives

#: A bump's x, y, width and height.
Slots = tuple[Unknown, Unknown, Unknown, Unknown]


@dataclass(frozen=True, eq=False)
class BumpOnGrid:
    """What a bump adds to m observations.

    Parameters
    ----------
    grid : array, shape (side,)
        Coordinates of the nodes along one side.
    slots : (x, y, width, height)
        Numbers, or names of unknowns, which are theta's columns in this order.
    weights : mapping from orders of differentiation (in x, in y) to array, shape (side, m * side)
        Of the derivatives to the centre; m blocks, x first.
    """

    grid: Array
    slots: Slots
    weights: Mapping[tuple[int, int], Array]

    def evaluate(self, theta: Array) -> Array:
        """Values (batch, m)."""
        hx, hy, _, height = self._profiles(theta, 0)
        y = np.zeros((len(theta), self._count))
        for (i, j), weights in self.weights.items():
            y += _contract((hx[i] @ weights).reshape(*y.shape, -1), hy[j])
        return y if self.slots[3] == 1.0 else y * height

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Values (batch, m) and derivatives (batch, m, p)."""
        batch = len(theta)
        hx, hy, width, height = self._profiles(theta, 1)
        slopes = np.zeros((batch, self._count, 3 + (width is not None)))
        for (i, j), weights in self.weights.items():
            left = hx[i : i + 2] if width is None else np.concatenate([hx[i : i + 2], width[:1]])
            halves = (left.reshape(-1, left.shape[2]) @ weights).reshape(len(left), batch, self._count, -1)
            slopes[:, :, 0] += _contract(halves[0], hy[j])
            slopes[:, :, 1] += _contract(halves[1], hy[j])
            slopes[:, :, 2] += _contract(halves[0], hy[j + 1])
            if width is not None:
                slopes[:, :, 3] += _contract(halves[2], hy[j]) + _contract(halves[0], width[1])
        return self._scaled(slopes, height)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Values and the vector-Jacobian product."""
        y, jacobian = self.jacobian(theta)
        return y, lambda cotangent: np.einsum("bm,bmp->bp", cotangent, jacobian)

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Values (batch, k) and derivatives (batch, k, p) of chosen observations."""
        hx, hy, width, height = self._profiles(theta, 1)
        slopes = np.zeros((*indices.shape, 3 + (width is not None)))
        for (i, j), blocks in self._blocks.items():
            left, right = hx[i : i + 2], hy[j : j + 2]
            if width is not None:
                left, right = np.concatenate([left, width[:1]]), np.concatenate([right, width[1:]])
            _add_chosen(blocks, indices, np.ascontiguousarray(left), np.ascontiguousarray(right), slopes)
        return self._scaled(slopes, height)

    def _profiles(self, theta: Array, more: int) -> tuple[Array, Array, Array | None, Array | float]:
        """Derivatives to the centre (order + 1, batch, side) along x and y; those to the width (2, ...); the height."""
        x, y, width, height = (self._slot(slot, theta) for slot in self.slots)
        centre = np.empty((2, len(theta), 1))
        centre[0, :, 0], centre[1, :, 0] = x, y
        away = self.grid - centre
        if isinstance(width, float):
            inverse: Any = width**-2.0
        else:
            inverse = np.where(width > 0, width, np.nan)[:, None] ** -2.0
        h = gaussian_derivatives(away, inverse, self._order + more)
        slope = None
        if more and not isinstance(width, float):
            slope = (inverse / width[:, None]) * away * away * h[0]
        return h[:, 0], h[:, 1], slope, height if isinstance(height, float) else height[:, None]

    def _slot(self, slot: Unknown, theta: Array) -> Any:
        return theta[:, self.parameters.index(slot)] if isinstance(slot, str) else float(slot)

    def _scaled(self, slopes: Array, height: Array | float) -> tuple[Array, Array]:
        """Values and derivatives from those of a bump of height 1: (batch, m, 3 or 4), the value first."""
        shape = slopes[:, :, 0]
        if self._centre_alone:
            return shape.copy(), slopes[:, :, 1:]
        jacobian = np.zeros((*shape.shape, len(self.parameters)))
        for slot, column in zip(self.slots, (1, 2, 3, 0), strict=True):
            if isinstance(slot, str):
                change = slopes[:, :, column]
                jacobian[:, :, self.parameters.index(slot)] += change if column == 0 else change * height
        return shape * height, jacobian

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknowns, once each."""
        return tuple(dict.fromkeys(slot for slot in self.slots if isinstance(slot, str)))

    @cached_property
    def _centre_alone(self) -> bool:
        return self.slots[3] == 1.0 and self.parameters == self.slots[:2]

    @cached_property
    def _count(self) -> int:
        return next(iter(self.weights.values())).shape[1] // len(self.grid)

    @cached_property
    def _order(self) -> int:
        return max(max(orders) for orders in self.weights)

    @cached_property
    def _blocks(self) -> dict[tuple[int, int], Array]:
        """The weights once more, one matrix (side, side) for each observation."""
        side = len(self.grid)
        return {
            orders: np.ascontiguousarray(w.reshape(side, -1, side).transpose(1, 0, 2))
            for orders, w in self.weights.items()
        }


def separate(
    discretisation: Discretisation, weights: Mapping[str, Array]
) -> tuple[list[tuple[BumpOnGrid, Numbers]], list[str]]:
    """Bumps among what drives the solution, each with its columns of theta, and the kinds that are left over.

    Parameters
    ----------
    discretisation : Discretisation
    weights : mapping from kind to array, shape (n, m)
        At this rank's nodes.
    """
    equation, space = discretisation.equation, discretisation.space
    found: dict[Slots, tuple[Numbers, dict[tuple[int, int], Array]]] = {}
    rest = []
    for kind, nodal in weights.items():
        driver = discretisation.drivers[kind]
        terms = _terms(driver.field)
        if equation.cells is None or not driver.columns.size or terms is None:
            rest.append(kind)
            continue
        slots, expansion = terms
        whole = np.zeros((len(space.mesh.points), nodal.shape[1]))
        whole[space.node_numbers] = nodal
        whole = space.total(whole)
        _, summed = found.setdefault(slots, (driver.columns, {}))
        for orders, coefficient in expansion.items():
            summed[orders] = summed.get(orders, 0.0) + coefficient * whole
    side = 1 + (equation.cells or 0)
    grid = np.linspace(0.0, 1.0, side)
    bumps = []
    for slots, (columns, summed) in found.items():
        blocks = {
            orders: np.ascontiguousarray(np.swapaxes(nodal.reshape(side, side, -1), 1, 2)).reshape(side, -1)
            for orders, nodal in summed.items()
        }
        bumps.append((BumpOnGrid(grid, slots, blocks), columns))
    return bumps, rest


def _terms(bump: Any) -> tuple[Slots, Expansion] | None:
    """Slots and expansion of what is separable; known factors are in the expansion."""
    if isinstance(bump, GaussianDerivatives):
        return (*bump.center, bump.width, 1.0), bump.expansion
    if not isinstance(bump, GaussianBump):
        return None
    if isinstance(bump.height, str):
        return (*bump.center, bump.width, bump.height), {(0, 0): 1.0}
    return (*bump.center, bump.width, 1.0), {(0, 0): float(bump.height)}


@njit(cache=True)
def _add_chosen(blocks, indices, hx, hy, slopes):  # type: ignore[no-untyped-def]
    """Add to slopes (batch, k, 3 or 4) the chosen observations by their weights (m, side, side).

    hx and hy have shape (2 or 3, batch, side): profile, derivative to the centre, derivative to the width.
    """
    side, width = blocks.shape[1], len(hx) > 2
    over_x = np.empty((3, side))
    for b in range(indices.shape[0]):
        for k in range(indices.shape[1]):
            weights = blocks[indices[b, k]]
            over_x[:] = 0.0
            # sums over x, for all y at once: these loops use vector instructions, sums over y would not
            for i in range(side):
                for j in range(side):
                    over_x[0, j] += hx[0, b, i] * weights[i, j]
                    over_x[1, j] += hx[1, b, i] * weights[i, j]
            if width:
                for i in range(side):
                    for j in range(side):
                        over_x[2, j] += hx[2, b, i] * weights[i, j]
            for j in range(side):
                slopes[b, k, 0] += over_x[0, j] * hy[0, b, j]
                slopes[b, k, 1] += over_x[1, j] * hy[0, b, j]
                slopes[b, k, 2] += over_x[0, j] * hy[1, b, j]
            if width:
                for j in range(side):
                    slopes[b, k, 3] += over_x[2, j] * hy[0, b, j] + over_x[0, j] * hy[2, b, j]


def _contract(half: Array, right: Array) -> Array:
    """Sum over y: (batch, m, y) with (batch, y) -> (batch, m)."""
    contracted: Array = (half @ right[:, :, None])[:, :, 0]
    return contracted
