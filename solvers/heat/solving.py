"""Observations by solves, and their derivatives by adjoint solves: in time, by marching forwards and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.space import Sensors
from invsamp.solvers.forward_model import Tangent
from invsamp.solvers.heat.discretization import Discretization
from invsamp.solvers.heat.march import System
from invsamp.solvers.heat.precomputed import precompute_observation

#: Nodes, over all rows of a batch, whose factors are kept between the solve and its adjoint: about a kilobyte each.
#: Those of a single row always are: the adjoint needs their memory anyway.
KEPT_NODES = 300_000


@dataclass(frozen=True, eq=False)
class Solving:
    """An evaluator that solves. Rows of one conductivity are one block of right-hand sides."""

    discretization: Discretization
    sensors: Sensors
    steps: tuple[int, ...]

    @property
    def method(self) -> str:
        """How observations come about."""
        return "solves, factored once" if self.discretization.system is not None else "a factorization, and solves"

    def evaluate(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        y = np.full((len(theta), self._count), np.nan)
        for rows, system in self.discretization.groups(theta):
            states = self.discretization.scheme.forward(system, self.discretization.data(theta[rows]), self.steps)
            y[rows] = self._read(states)
        return y

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations, and the product with cotangents (batch, m) by one march back."""
        model, linear = self.discretization, self.discretization.system is not None
        keep_systems = linear or len(theta) <= max(1, KEPT_NODES // len(model.space.nodes))
        y = np.full((len(theta), self._count), np.nan)
        solved = []
        for rows, system in self.discretization.groups(theta):
            keep = self.steps if linear else range(max(self.steps) + 1)
            states = model.scheme.forward(system, model.data(theta[rows]), keep)
            y[rows] = self._read(states if linear else states[list(self.steps)])
            solved.append((rows, system if keep_systems else None, None if linear else states))

        def vjp(cotangent: Array) -> Array:
            gradient = np.full(theta.shape, np.nan)
            for rows, system, states in solved:
                seeds = self._seeds(np.asarray(cotangent, dtype=float)[rows])
                system = system or model.scheme.system(model.conductivities(theta[rows[:1]])[0])
                weights, sensitivity = model.scheme.adjoint(system, seeds, states)
                gradient[rows] = model.pull(theta[rows], weights, sensitivity)
            return model.space.total(gradient)

        return y, vjp

    def tangent(self, theta: Array) -> Tangent:
        """Observations and both products, with the factors of every row kept; see `forward_model.Tangent`."""
        model, every = self.discretization, range(max(self.steps) + 1)
        y = np.full((len(theta), self._count), np.nan)
        solved: dict[int, tuple[System, Array]] = {}
        for rows, system in model.groups(theta):
            states = model.scheme.forward(system, model.data(theta[rows]), every)
            y[rows] = self._read(states[list(self.steps)])
            solved |= {int(row): (system, states[:, :, k : k + 1]) for k, row in enumerate(rows)}

        def jvp(directions: Array) -> Array:
            found = np.full((*directions.shape[:2], self._count), np.nan)
            for row, (system, states) in solved.items():
                along = model.scheme.tangent(system, *model.push(theta[row], directions[row]), states)
                found[row] = self._read(along[list(self.steps)])
            return found

        def vjp(cotangents: Array) -> Array:
            found = np.full((*cotangents.shape[:2], theta.shape[1]), np.nan)
            for row, (system, states) in solved.items():
                unknown = None if model.system is not None else states
                weights, sensitivity = model.scheme.adjoint(system, self._seeds(cotangents[row]), unknown)
                at = np.repeat(theta[row : row + 1], cotangents.shape[1], axis=0)
                found[row] = model.pull(at, weights, sensitivity)
            return model.space.total(found)

        return y, jvp, vjp

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations and Jacobian (batch, m, p); one march back with m columns for each row."""
        if self.discretization.system is not None:
            weighted = precompute_observation(self.discretization, self.sensors, self.steps)
            return self.evaluate(theta), weighted.jacobian(theta)[1]
        return self._derivatives(theta, np.tile(np.arange(self._count), (len(theta), 1)))

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Chosen observations (batch, k) and their derivatives (batch, k, p)."""
        return self._derivatives(theta, indices)

    def _derivatives(self, theta: Array, indices: Numbers) -> tuple[Array, Array]:
        model = self.discretization
        y, jacobian = np.full(indices.shape, np.nan), np.full((*indices.shape, theta.shape[1]), np.nan)
        for rows, system in self.discretization.groups(theta):
            for row in rows:
                one = theta[row : row + 1]
                states = model.scheme.forward(system, model.data(one), range(max(self.steps) + 1))
                y[row] = self._read(states[list(self.steps)])[0, indices[row]]
                unit = np.eye(self._count)[indices[row]]
                unknown = None if model.system is not None else states
                weights, sensitivity = model.scheme.adjoint(system, self._seeds(unit), unknown)
                jacobian[row] = model.pull(np.repeat(one, len(unit), axis=0), weights, sensitivity)
        return y, model.space.total(jacobian)

    @property
    def _count(self) -> int:
        return len(self.steps) * self.sensors.count

    def _read(self, states: Array) -> Array:
        """Observations (batch, m) of the states (times, n, batch) at the steps."""
        return np.concatenate([self.sensors.values(state) for state in states]).T

    def _seeds(self, cotangents: Array) -> dict[int, Array]:
        """Cotangents at the nodes, by step, from cotangents (k, m) of the observations."""
        blocks = cotangents.reshape(len(cotangents), len(self.steps), self.sensors.count)
        return {step: self.sensors.transpose(blocks[:, k].T) for k, step in enumerate(self.steps)}
