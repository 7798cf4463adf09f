r"""Stationary diffusion, :math:`-\nabla\cdot(a \nabla u) = f`, seen by sensors: a forward model with exact gradients.

Linear finite elements; the conductivity a is constant in each cell, the source f enters by its nodal interpolant. Per
theta the stiffness matrix is combined from what was assembled once, and factored; the same factors serve the adjoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from invsamp.solvers.fem import boundary as edges
from invsamp.solvers.fem.backends import check_backend, make_space
from invsamp.solvers.fem.boundary import Boundary, Dirichlet, Neumann
from invsamp.solvers.fem.contract import Array, Factors, Matrix, Space
from invsamp.solvers.fem.fields import FieldValues, Linear, as_field, union
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.placement import at_cells, at_nodes
from invsamp.solvers.fem.sensors import SensorLayout, as_layout

#: Nodes, over all rows of a batch, whose factors are kept between the solve and its adjoint: about a kilobyte each.
KEPT_NODES = 300_000


@dataclass(frozen=True, repr=False)
class PoissonEquation:
    r"""The equation :math:`-\nabla\cdot(a \nabla u) = f` on a mesh.

    Parameters
    ----------
    cells : int, optional
        Squares along one side of the unit square; or give ``mesh``.
    conductivity : field, float, str, array (n_cells,) or callable
        The coefficient a, evaluated at the midpoints of the cells; see `invsamp.solvers.fem.fields.as_field`. A
        `LogField` keeps it positive; a theta for which it is not is a failed solve.
    source : field, float, str, array (n_nodes,) or callable
        The right-hand side f.
    boundary : "dirichlet" or mapping from part to condition
        Zero values, or `dirichlet(value)` and `neumann(flux)` by part; no flux elsewhere.
    mesh : Mesh, optional
    backend : {"skfem", "dolfinx"}
    comm : communicator of mpi4py, optional
        Over which dolfinx spreads the mesh.

    Raises
    ------
    ValueError
        If a setting is out of range, a fixed conductivity is not positive, or no value is given on the boundary, which
        leaves the solution undetermined.
    ImportError
        If dolfinx is asked for and not installed.
    """

    cells: int | None = None
    conductivity: Any = 1.0
    source: Any = 1.0
    boundary: Boundary = "dirichlet"
    mesh: Mesh | None = None
    backend: str = "skfem"
    comm: Any = None

    def __post_init__(self) -> None:
        if (self.cells is None) == (self.mesh is None):
            raise ValueError(f"either cells or mesh must be given, got cells={self.cells!r} and mesh={self.mesh!r}")
        if self.mesh is None:
            assert self.cells is not None
            object.__setattr__(self, "mesh", unit_square(self.cells))
        check_backend(self.backend, self.comm)
        for name in ("conductivity", "source"):
            object.__setattr__(self, name, as_field(name, getattr(self, name)))
        object.__setattr__(self, "boundary", edges.checked_boundary(self.boundary, ("dirichlet",)))
        if isinstance(self.boundary, Mapping) and not any(isinstance(c, Dirichlet) for c in self.boundary.values()):
            raise ValueError(
                "boundary must give values somewhere, by 'dirichlet' or dirichlet(...), got "
                + edges.shown(self.boundary)
            )

    def __repr__(self) -> str:
        return (
            f"PoissonEquation({self.mesh!r}, conductivity={self.conductivity!r}, source={self.source!r}, "
            f"boundary={edges.shown(self.boundary)}, backend={self.backend!r})"
        )

    @cached_property
    def space(self) -> Space:
        """The finite element space, assembled once."""
        assert self.mesh is not None
        return make_space(self.mesh, self.backend, self.comm)

    def observe(self, sensors: Any, *, precompute: bool = True) -> PoissonObservation:
        """Forward model: what sensors read of the solution.

        Parameters
        ----------
        sensors : array, shape (n_sensors, 2), or `point_sensors`, `region_averages`, or a sequence of the latter two
        precompute : bool
            Where the conductivity is known, the observations are linear in source and boundary data. Then one adjoint
            solve per sensor, now, replaces all later solves. False: solve for every theta. Both give the same numbers,
            to rounding.

        Raises
        ------
        ValueError
            If a sensor lies outside the mesh, a region is empty, or a field does not fit the mesh.
        """
        return PoissonObservation(self, as_layout(sensors), precompute)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is assembled."""
        return {name: value for name, value in self.__dict__.items() if name != "space"}


class PoissonObservation:
    """Sensors of a stationary solution as a forward model; made by `PoissonEquation.observe`.

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

    def __init__(self, equation: PoissonEquation, sensors: SensorLayout, precompute: bool = True) -> None:
        self.equation, self.sensors, self.comm = equation, sensors, equation.comm
        self._precompute = precompute
        space = self._space = equation.space
        self._sensors = sensors.on(space)
        self.n_observations = self._sensors.count
        self._fixed = edges.fixed_nodes(equation.boundary, space)
        self._parts, fields = _bind(equation, space)
        self.parameters, self.sizes, columns = union(fields)
        self._columns = _Parts(*columns)
        self.precomputed = precompute and not equation.conductivity.parameters
        self._common = None if equation.conductivity.parameters else self._known_system()
        self._weights = self._sensor_weights() if self.precomputed else None

    def __repr__(self) -> str:
        unknowns = ", ".join(n if k == 1 else f"{n}[{k}]" for n, k in zip(self.parameters, self.sizes, strict=True))
        work = (
            "no solve, one adjoint solve per sensor was made at the start"
            if self.precomputed
            else ("a solve with factors made at the start" if self._common else "a factorisation and a solve")
        )
        return f"PoissonObservation({self.equation!r}, {self.sensors!r}, unknowns ({unknowns}); per theta {work})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Factors are made again where the model is unpickled."""
        return PoissonObservation, (self.equation, self.sensors, self._precompute)

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, dimension)."""
        theta = self._checked(theta)
        if self._weights is not None:
            return self._from_weights(theta)
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
        """Observations and the product cotangent (batch, m) -> (batch, dimension), by the adjoint."""
        theta = self._checked(theta).copy()
        if self._weights is not None:
            return self._from_weights(theta), lambda cotangents: self._pull_weights(theta, cotangents)
        y = np.full((len(theta), self.n_observations), np.nan)
        keep = len(theta) * len(self._space.nodes) <= KEPT_NODES
        solved: list[tuple[slice, _System | None, Array]] = []
        for rows, system in self._systems(theta):
            u = self._solve(theta[rows], system)
            y[rows] = self._sensors.values(u).T
            solved.append((rows, system if keep or system is self._common else None, u))

        def vjp(cotangents: Array) -> Array:
            gradient = np.full(theta.shape, np.nan)
            for rows, system, u in solved:
                system = system or next(self._systems(theta[rows]))[1]
                seeds = self._sensors.transpose(np.asarray(cotangents, dtype=float)[rows].T)
                gradient[rows] = self._pull(theta[rows], system, u, seeds)
            return gradient

        return y, vjp

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and their Jacobian (batch, m, dimension), by one adjoint solve per sensor."""
        theta, m = self._checked(theta), self.n_observations
        y, matrix = np.full((len(theta), m), np.nan), np.full((len(theta), m, theta.shape[1]), np.nan)
        if self._weights is not None:
            for row, values in enumerate(theta):
                matrix[row] = self._pull_weights(np.tile(values, (m, 1)), np.eye(m))
            return self._from_weights(theta), matrix
        seeds = self._sensors.transpose(np.eye(m))
        for rows, system in self._systems(theta):
            fields = self._solve(theta[rows], system)
            y[rows] = self._sensors.values(fields).T
            for row, u in zip(range(len(theta))[rows], fields.T, strict=True):
                matrix[row] = self._pull(np.tile(theta[row], (m, 1)), system, np.tile(u[:, None], (1, m)), seeds)
        return y, matrix

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

    def _systems(self, theta: Array) -> Iterator[tuple[slice, _System]]:
        """Systems, and the rows of theta that share each; rows of a conductivity that is not positive are left out."""
        if self._common is not None:
            yield slice(0, len(theta)), self._common
            return
        conductivity = self._parts.conductivity.values(theta[:, self._columns.conductivity])
        with np.errstate(invalid="ignore"):
            bad = ~((conductivity > 0) & (conductivity < np.inf))
        failed = self._space.total(bad.sum(axis=1).astype(float)) > 0
        for row in np.flatnonzero(~failed):
            yield slice(row, row + 1), self._system(conductivity[row])

    def _system(self, conductivity: Array) -> _System:
        stiffness = self._space.stiffness(conductivity)
        return _System(stiffness, self._space.factor(stiffness, self._fixed))

    def _known_system(self) -> _System:
        """Of a conductivity without unknowns."""
        conductivity = self._parts.conductivity.values(np.empty((1, 0)))[0]
        wrong = conductivity[~((conductivity > 0) & (conductivity < np.inf))]
        if self._space.total(np.array([float(len(wrong))]))[0]:
            raise ValueError(f"conductivity must be positive and finite in every cell, got {wrong[:1].tolist()}")
        return self._system(conductivity)

    def _solve(self, theta: Array, system: _System) -> Array:
        """Solutions (n, k) of rows that share a system."""
        parts, columns, fixed = self._parts, self._columns, self._fixed
        right = self._space.mass @ parts.source.values(theta[:, columns.source]).T
        if parts.flux is not None:
            right += parts.flux.values(theta[:, columns.flux]).T
        right[fixed] = 0.0
        if parts.edge is not None:
            edge = parts.edge.values(theta[:, columns.edge]).T
            right -= system.stiffness @ edge
            right[fixed] = edge[fixed]
        return system.factors.solve(right)

    def _adjoint(self, system: _System, seeds: Array) -> tuple[Array, Array]:
        """Derivatives of functionals (n, k) to the load, and to the values at the fixed nodes."""
        multiplier = system.factors.solve(seeds)  # the matrix is symmetric
        multiplier[self._fixed] = 0.0
        # what is lifted acts on the fixed nodes' neighbours
        reaction = np.where(self._fixed[:, None], seeds - system.stiffness @ multiplier, 0.0)
        return multiplier, reaction

    def _pull(self, theta: Array, system: _System, u: Array, seeds: Array) -> Array:
        """Gradients (k, dimension) of functionals, seeds (n, k), of solutions u (n, k) at theta (k, dimension)."""
        multiplier, reaction = self._adjoint(system, seeds)
        gradient = self._pull_data(theta, _Weights(self._space.mass @ multiplier, multiplier, reaction))
        own = self._columns.conductivity
        if own.size:
            sensitivity = -self._space.cell_products(u[None], multiplier[None])
            gradient[:, own] += self._parts.conductivity.pullback(theta[:, own], sensitivity.T)
        return self._space.total(gradient)

    def _pull_data(self, theta: Array, cotangents: _Weights) -> Array:
        """This rank's gradients (k, dimension) from cotangents (n, k) of the source, the load and the fixed values."""
        gradient = np.zeros((len(theta), sum(self.sizes)))
        for name, values in cotangents._asdict().items():
            part, own = getattr(self._parts, name), getattr(self._columns, name)
            if part is not None and own.size:
                gradient[:, own] += part.pullback(theta[:, own], values.T)
        return gradient

    def _sensor_weights(self) -> _Weights:
        assert self._common is not None
        multiplier, reaction = self._adjoint(self._common, self._sensors.transpose(np.eye(self.n_observations)))
        return _Weights(self._space.mass @ multiplier, multiplier, reaction)

    def _from_weights(self, theta: Array) -> Array:
        assert self._weights is not None
        y = np.zeros((len(theta), self.n_observations))
        for name, weights in self._weights._asdict().items():
            part, own = getattr(self._parts, name), getattr(self._columns, name)
            if part is not None:
                y += part.values(theta[:, own]) @ weights
        return self._space.total(y)

    def _pull_weights(self, theta: Array, cotangents: Array) -> Array:
        assert self._weights is not None
        sums = _Weights(*(weights @ np.asarray(cotangents, dtype=float).T for weights in self._weights))
        return self._space.total(self._pull_data(theta, sums))

    def _checked(self, theta: Array) -> Array:
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != sum(self.sizes):
            raise ValueError(f"theta must have shape (batch, {sum(self.sizes)}), got {theta.shape}")
        return theta


class _System(NamedTuple):
    stiffness: Matrix
    factors: Factors


class _Parts(NamedTuple):
    """What the solution depends on; or the columns of each."""

    source: Any
    conductivity: Any
    flux: Any
    edge: Any


class _Weights(NamedTuple):
    """Of the sensors, each (n, m): an observation is the sum over the nodes of weights times data."""

    source: Array
    flux: Array
    edge: Array


class _Names(NamedTuple):
    parameters: tuple[str, ...]
    sizes: tuple[int, ...]


def _bind(equation: PoissonEquation, space: Space) -> tuple[_Parts, list[Any]]:
    """What the solution depends on, on a space, and what names its unknowns."""
    source: FieldValues = at_nodes(equation.source, space)
    edge: Linear | None = edges.edge_values(equation.boundary, space)
    flux: Linear | None = edges.flux_load(equation.boundary, space)
    names = [edges.names(equation.boundary, kind) for kind in (Neumann, Dirichlet)]
    boundary = [_Names(found, (1,) * len(found)) for found in names]
    parts = _Parts(source, at_cells(equation.conductivity, space), flux, edge)
    return parts, [equation.source, equation.conductivity, *boundary]
