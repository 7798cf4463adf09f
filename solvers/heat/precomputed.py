"""Observations without a solve: where the conductivity is known, they are linear in the nodal data.

Gaussian bumps on the grid of the unit square are products of profiles along x and y: their cost goes with its side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.fields import GaussianBump, Unknown
from invsamp.solvers.fem.space import Sensors
from invsamp.solvers.fem.weighted import Precomputed, weighted
from invsamp.solvers.foreign import Given
from invsamp.solvers.heat.discretization import Discretization
from invsamp.solvers.heat.manufactured import Expansion, GaussianDerivatives, gaussian_derivatives

#: A bump's x, y, width and height.
Slots = tuple[Unknown, Unknown, Unknown, Unknown]


@dataclass(frozen=True, eq=False)
class BumpOnGrid:
    """Contribution of a bump to m observations.

    Parameters
    ----------
    grid : array, shape (side,)
        Coordinates of the nodes along one side.
    slots : (x, y, width, height)
        Numbers, or names of unknowns, which are theta's columns in this order.
    weights : mapping from orders of differentiation (in x, in y) to array, shape (m, side, side)
        Of the derivatives to the center, by observation, x and y.
    """

    grid: Array
    slots: Slots
    weights: Mapping[tuple[int, int], Array]
    method: ClassVar[str] = "weights on the grid"

    def evaluate(self, theta: Array) -> Array:
        """Values (batch, m)."""
        shape, height = self._slopes(theta, self._all, 0)
        return shape[:, :, 0] if self.slots[3] == 1.0 else shape[:, :, 0] * height

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Values (batch, m) and derivatives (batch, m, p)."""
        return self.rows(theta, self._all)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Values and the vector-Jacobian product."""
        y, jacobian = self.jacobian(theta)
        return y, lambda cotangent: np.einsum("bm,bmp->bp", cotangent, jacobian)

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Values (batch, k) and derivatives (batch, k, p) of chosen observations, (batch, k) or (1, k) for all rows."""
        return self._scaled(*self._slopes(theta, indices, 1))

    def _slopes(self, theta: Array, indices: npt.NDArray[np.intp], more: int) -> tuple[Array, Array | float]:
        """Of a bump of height 1, values, and with ``more`` derivatives, (batch, k, 1, 3 or 4); and the height."""
        hx, hy, width, height = self._profiles(theta, more)
        slopes = np.zeros((len(theta), indices.shape[1], 1 + 2 * more + (width is not None)))
        for (i, j), weights in self.weights.items():
            left, right = hx[i : i + 1 + more], hy[j : j + 1 + more]
            if width is not None:
                left, right = np.concatenate([left, width[:1]]), np.concatenate([right, width[1:]])
            _add_chosen(weights, indices, np.ascontiguousarray(left), np.ascontiguousarray(right), slopes)
        return slopes, height

    def _profiles(self, theta: Array, more: int) -> tuple[Array, Array, Array | None, Array | float]:
        """Derivatives to the center (order + 1, batch, side) along x and y; those to the width (2, ...); the height."""
        x, y, width, height = (self._slot(slot, theta) for slot in self.slots)
        center = np.empty((2, len(theta), 1))
        center[0, :, 0], center[1, :, 0] = x, y
        with np.errstate(over="ignore"):  # infinitely far away: a bump of zero
            return self._around(self.grid - center, width, height, more)

    def _around(self, away: Array, width: Given, height: Given, more: int) -> tuple[Array, Array, Array | None, Given]:
        if isinstance(width, float):
            inverse: Given = width**-2.0
        else:
            inverse = np.where(width > 0, width, np.nan)[:, None] ** -2.0
        h = gaussian_derivatives(away, inverse, self._order + more)
        slope = None
        if more and not isinstance(width, float):
            slope = (inverse / width[:, None]) * away * away * h[0]
        return h[:, 0], h[:, 1], slope, height if isinstance(height, float) else height[:, None]

    def _slot(self, slot: Unknown, theta: Array) -> Given:
        return theta[:, self.parameters.index(slot)] if isinstance(slot, str) else float(slot)

    def _scaled(self, slopes: Array, height: Array | float) -> tuple[Array, Array]:
        """Values and derivatives from those of a bump of height 1: (batch, m, 3 or 4), the value first."""
        shape = slopes[:, :, 0]
        if self._center_alone:
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
    def _center_alone(self) -> bool:
        return self.slots[3] == 1.0 and self.parameters == self.slots[:2]

    @cached_property
    def _all(self) -> npt.NDArray[np.intp]:
        return np.arange(len(next(iter(self.weights.values()))))[None]

    @cached_property
    def _order(self) -> int:
        return max(max(orders) for orders in self.weights)


def precompute_observation(discretization: Discretization, sensors: Sensors, steps: tuple[int, ...]) -> Precomputed:
    """Solve one adjoint problem for each sensor and time."""
    functionals = discretization.functionals(sensors, steps)
    weights = {kind: getattr(functionals, kind) for kind in discretization.drivers}
    if discretization.exact:
        weights["initial"] = weights["initial"] + weights.pop("edge")
    bumps, rest = separate(discretization, weights)
    drivers = discretization.drivers
    others = {kind: (drivers[kind].values, drivers[kind].columns) for kind in rest}
    constant, parts = weighted(others, weights, discretization.space)
    return Precomputed(np.zeros(len(steps) * sensors.count) + constant, (*bumps, *parts))


def separate(
    discretization: Discretization, weights: Mapping[str, Array]
) -> tuple[list[tuple[BumpOnGrid, Numbers]], list[str]]:
    """Bumps among what drives the solution, each with its columns of theta, and the kinds that are left over.

    Parameters
    ----------
    discretization : Discretization
    weights : mapping from kind to array, shape (n, m)
        At this rank's nodes.
    """
    space, cells = discretization.space, discretization.cells
    found: dict[Slots, tuple[Numbers, dict[tuple[int, int], Array]]] = {}
    rest = []
    for kind, nodal in weights.items():
        driver = discretization.drivers[kind]
        terms = _terms(driver.field)
        if cells is None or not driver.columns.size or terms is None:
            rest.append(kind)
            continue
        slots, expansion = terms
        whole = np.zeros((len(space.mesh.points), nodal.shape[1]))
        whole[space.node_numbers] = nodal
        whole = space.total(whole)
        _, summed = found.setdefault(slots, (driver.columns, {}))
        for orders, coefficient in expansion.items():
            summed[orders] = summed.get(orders, 0.0) + coefficient * whole
    side = 1 + (cells or 0)
    grid = np.linspace(0.0, 1.0, side)
    bumps = []
    for slots, (columns, summed) in found.items():
        blocks = {orders: np.ascontiguousarray(nodal.T.reshape(-1, side, side)) for orders, nodal in summed.items()}
        bumps.append((BumpOnGrid(grid, slots, blocks), columns))
    return bumps, rest


def _terms(bump: Given) -> tuple[Slots, Expansion] | None:
    """Slots and expansion of what is separable; known factors are in the expansion."""
    if isinstance(bump, GaussianDerivatives):
        return (*bump.center, bump.width, 1.0), bump.expansion
    if not isinstance(bump, GaussianBump):
        return None
    if isinstance(bump.height, str):
        return (*bump.center, bump.width, bump.height), {(0, 0): 1.0}
    return (*bump.center, bump.width, 1.0), {(0, 0): float(bump.height)}


@njit(cache=True)
def _add_chosen(weights, indices, hx, hy, slopes):  # type: ignore[no-untyped-def]
    """Add to slopes (batch, k, 1, 3 or 4) the chosen observations by their weights (m, side, side).

    hx and hy have shape (1, 2 or 3, batch, side): profile, derivative to the center, derivative to the width.
    """
    side, profiles = weights.shape[1], len(hx)
    over_x = np.empty((profiles, side))
    for k in range(indices.shape[1]):
        for b in range(slopes.shape[0]):
            chosen = weights[indices[b if len(indices) > 1 else 0, k]]
            over_x[:] = 0.0
            # sums over x, for all y at once: these loops use vector instructions, sums over y would not
            for a in range(profiles):
                for i in range(side):
                    for j in range(side):
                        over_x[a, j] += hx[a, b, i] * chosen[i, j]
            for j in range(side):
                slopes[b, k, 0] += over_x[0, j] * hy[0, b, j]
            if profiles > 1:
                for j in range(side):
                    slopes[b, k, 1] += over_x[1, j] * hy[0, b, j]
                    slopes[b, k, 2] += over_x[0, j] * hy[1, b, j]
            if profiles > 2:
                for j in range(side):
                    slopes[b, k, 3] += over_x[2, j] * hy[0, b, j] + over_x[0, j] * hy[2, b, j]
