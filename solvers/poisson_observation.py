"""What sensors see of a stationary solution, as a forward model with exact gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from invsamp.arguments import numbers
from invsamp.solvers.fem import boundary as edges
from invsamp.solvers.fem.boundary import Dirichlet, Neumann
from invsamp.solvers.fem.contract import Array, Factors, Matrix, Numbers, Space
from invsamp.solvers.fem.field_contract import Field, FieldValues, NamesAlone, union
from invsamp.solvers.fem.placement import at_cells, at_nodes, check_conductivity, fitting
from invsamp.solvers.fem.sensors import SensorLayout
from invsamp.solvers.fem.weighted import Precomputed, checked_product, pull_back, weighted
from invsamp.solvers.foreign import Comm

#: Nodes, over all rows of a batch, whose factors are kept between the solve and its adjoint: about a kilobyte each.
KEPT_NODES = 300_000


class Observed(Protocol):
    """What an observation has to know of its equation, a `PoissonEquation`."""

    @property
    def source(self) -> Field: ...

    @property
    def conductivity(self) -> Field: ...

    @property
    def boundary(self) -> edges.Boundary: ...

    @property
    def space(self) -> Space: ...

    @property
    def comm(self) -> Comm: ...


class PoissonObservation:
    """Sensors of a stationary solution as a forward model; made by `PoissonEquation.observe`.

    A solve that fails gives a row of NaN.

    Attributes
    ----------
    parameters : tuple of str
        The unknowns of the source, of the conductivity, and of fluxes and values on the boundary: theta's columns.
    sizes : tuple of int
        Columns of each.
    n_observations : int
    precomputed : bool
        Whether no evaluation solves anything.
    comm : communicator or None
    """

    def __init__(self, equation: Observed, sensors: SensorLayout, precompute: bool = True) -> None:
        self.equation, self.sensors, self.comm = equation, sensors, equation.comm
        self._precompute = precompute
        space = self._space = equation.space
        self._sensors = sensors.on(space)
        self.n_observations = self._sensors.count
        self._fixed = edges.fixed_nodes(equation.boundary, space)
        with fitting("source"):
            source = at_nodes(equation.source, space)
        with fitting("conductivity"):
            conductivity = at_cells(equation.conductivity, space)
        check_conductivity(conductivity, len(space.mesh.cells))
        kinds: dict[str, tuple[Field | NamesAlone, FieldValues | None]] = {
            "source": (equation.source, source),
            "conductivity": (equation.conductivity, conductivity),
            "load": (NamesAlone(edges.names(equation.boundary, Neumann)), edges.flux_load(equation.boundary, space)),
            "edge": (
                NamesAlone(edges.names(equation.boundary, Dirichlet)),
                edges.edge_values(equation.boundary, space),
            ),
        }
        self.parameters, self.sizes, columns = union([named for named, _ in kinds.values()])
        self._fields: dict[str, tuple[FieldValues, Numbers]] = {
            kind: (values, own) for (kind, (_, values)), own in zip(kinds.items(), columns, strict=True) if values
        }
        self._conductivity = self._fields.pop("conductivity")
        self.precomputed = precompute and not equation.conductivity.parameters
        self._common = None if equation.conductivity.parameters else self._known_system()
        self._weights = self._sensor_weights() if self.precomputed else None

    def __repr__(self) -> str:
        unknowns = ", ".join(n if k == 1 else f"{n}[{k}]" for n, k in zip(self.parameters, self.sizes, strict=True))
        return f"PoissonObservation({self.equation!r}, {self.sensors!r}, unknowns ({unknowns}); {self.method})"

    def __reduce__(self) -> tuple[object, ...]:
        """Factors are made again where the model is unpickled."""
        return PoissonObservation, (self.equation, self.sensors, self._precompute)

    @property
    def method(self) -> str:
        """What an evaluation takes: weights that were solved for at the start, solves, or factorizations too."""
        if self._weights is not None:
            return f"no solve, {self._weights.method} by one adjoint solve per sensor at the start"
        return "a solve with factors made at the start" if self._common else "a factorization and a solve"

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, n_parameters)."""
        theta = self._checked(theta)
        if self._weights is not None:
            return self._weights.evaluate(theta)
        y = np.full((len(theta), self.n_observations), np.nan)
        for rows, system in self._systems(theta):
            y[rows] = self._sensors.values(self._solve(theta[rows], system)).T
        return y

    def solve(self, theta: Array) -> Array:
        """Solutions at this rank's nodes, shape (batch, n_nodes); NaN in the rows that failed."""
        theta = self._checked(theta)
        fields = np.full((len(theta), len(self._space.nodes)), np.nan)
        for rows, system in self._systems(theta):
            fields[rows] = self._solve(theta[rows], system).T
        return fields

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations and the product cotangent (batch, m) -> (batch, n_parameters), by the adjoint."""
        theta = self._checked(theta).copy()
        y, product = self._solved(theta) if self._weights is None else self._weights.linearize(theta)
        return y, checked_product(product, y.shape)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and their Jacobian (batch, m, n_parameters), by one adjoint solve per sensor."""
        theta, m = self._checked(theta), self.n_observations
        if self._weights is not None:
            return self._weights.jacobian(theta)
        y, matrix = np.full((len(theta), m), np.nan), np.full((len(theta), m, theta.shape[1]), np.nan)
        seeds = self._sensors.transpose(np.eye(m))
        for rows, system in self._systems(theta):
            fields = self._solve(theta[rows], system)
            y[rows] = self._sensors.values(fields).T
            for row, u in zip(range(len(theta))[rows], fields.T, strict=True):
                matrix[row] = self._pull(np.tile(theta[row], (m, 1)), system, u[:, None], seeds)
        return y, matrix

    @property
    def work(self) -> float:
        """What a row takes, counted: nodes, or with weights a sum for each observation."""
        if self._weights is not None:
            return float(self.n_observations)
        return float(self._space.total(np.array([len(self._space.nodes)]))[0])

    @cached_property
    def cost(self) -> float:
        """Seconds per evaluation of one row with its gradient, the least of three; the same on every rank."""
        theta, seconds = np.full((1, sum(self.sizes)), 0.5), []
        for _ in range(3):
            began = time.perf_counter()
            y, vjp = self.linearize(theta)
            vjp(np.ones_like(y))
            seconds.append(time.perf_counter() - began)
        return min(seconds) if self.comm is None else float(self.comm.bcast(min(seconds), root=0))

    def _solved(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """`linearize` by a solve and its adjoint."""
        y = np.full((len(theta), self.n_observations), np.nan)
        keep = len(theta) * len(self._space.nodes) <= KEPT_NODES
        solved: list[tuple[slice, _System | None, Array]] = []
        for rows, system in self._systems(theta):
            u = self._solve(theta[rows], system)
            y[rows] = self._sensors.values(u).T
            solved.append((rows, system if keep or system is self._common else None, u))

        def vjp(cotangent: Array) -> Array:
            gradient = np.full(theta.shape, np.nan)
            for rows, system, u in solved:
                system = system or next(self._systems(theta[rows]))[1]
                gradient[rows] = self._pull(theta[rows], system, u, self._sensors.transpose(cotangent[rows].T))
            return gradient

        return y, vjp

    def _systems(self, theta: Array) -> Iterator[tuple[slice, _System]]:
        """Systems, and the rows of theta that share each; rows of a conductivity that is not positive are left out."""
        if self._common is not None:
            yield slice(0, len(theta)), self._common
            return
        values, own = self._conductivity
        with np.errstate(invalid="ignore"):
            conductivity = values.values(theta[:, own])
            bad = ~((conductivity > 0) & (conductivity < np.inf))
        failed = self._space.total(bad.sum(axis=1).astype(float)) > 0
        for row in np.flatnonzero(~failed):
            yield slice(row, row + 1), self._system(conductivity[row])

    def _system(self, conductivity: Array) -> _System:
        stiffness = self._space.stiffness(conductivity)
        return _System(stiffness, self._space.factor(stiffness, self._fixed))

    def _known_system(self) -> _System:
        """Of a conductivity without unknowns."""
        conductivity = self._conductivity[0].values(np.empty((1, 0)))[0]
        return self._system(conductivity)

    def _solve(self, theta: Array, system: _System) -> Array:
        """Solutions (n, k) of rows that share a system."""
        fixed, data = self._fixed, {k: values.values(theta[:, own]).T for k, (values, own) in self._fields.items()}
        right = self._space.mass @ data["source"]
        if "load" in data:
            right += data["load"]
        right[fixed] = 0.0
        if "edge" in data:
            right -= system.stiffness @ data["edge"]
            right[fixed] = data["edge"][fixed]
        return system.factors.solve(right)

    def _adjoint(self, system: _System, seeds: Array) -> dict[str, Array]:
        """Derivatives (n, k) of functionals to the source, the load, and the values at the fixed nodes."""
        multiplier = system.factors.solve(seeds)  # the matrix is symmetric
        multiplier[self._fixed] = 0.0
        # what is lifted acts on the fixed nodes' neighbors
        reaction = np.where(self._fixed[:, None], seeds - system.stiffness @ multiplier, 0.0)
        return {"source": self._space.mass @ multiplier, "load": multiplier, "edge": reaction}

    def _pull(self, theta: Array, system: _System, u: Array, seeds: Array) -> Array:
        """Gradients (k, n_parameters), at theta of this shape, of functionals, seeds (n, k), of u (n, k) or (n, 1)."""
        cotangents = self._adjoint(system, seeds)
        fields = {**self._fields, "conductivity": self._conductivity}
        if self._conductivity[1].size:
            cotangents["conductivity"] = -self._space.cell_products(u[None], cotangents["load"][None])
        return self._space.total(pull_back(theta, fields, cotangents))

    def _sensor_weights(self) -> Precomputed:
        assert self._common is not None
        weights = self._adjoint(self._common, self._sensors.transpose(np.eye(self.n_observations)))
        constant, parts = weighted(self._fields, weights, self._space)
        return Precomputed(np.zeros(self.n_observations) + constant, tuple(parts))

    def _checked(self, theta: Array) -> Array:
        theta = numbers("theta", theta)
        if theta.ndim != 2 or theta.shape[1] != sum(self.sizes):
            raise ValueError(f"theta must have shape (batch, {sum(self.sizes)}), got {theta.shape}")
        return theta


class _System(NamedTuple):
    stiffness: Matrix
    factors: Factors
