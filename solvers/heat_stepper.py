r"""The heat equation on the unit square, marched in time, and its discrete adjoint.

Linear finite elements on ``cells x cells`` squares, each cut into two triangles, and the theta scheme

.. math::

    (M + \vartheta\,\Delta t\,\kappa K)\,u^{n+1} = (M - (1-\vartheta)\,\Delta t\,\kappa K)\,u^n
        + \Delta t\,M\,(\vartheta f^{n+1} + (1-\vartheta) f^n)

with :math:`\vartheta = 1` (backward Euler) or :math:`1/2` (Crank-Nicolson). Source and boundary values enter by their
nodal interpolants. The matrix is factored once for all times, right-hand sides and adjoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.sparse.linalg import splu
from skfem import Basis, BilinearForm, ElementTriP1, MeshTri
from skfem.helpers import dot, grad

Array = npt.NDArray[np.float64]
Scheme = Literal["backward_euler", "crank_nicolson"]
Boundary = Literal["dirichlet", "neumann", "exact"]

IMPLICITNESS = {"backward_euler": 1.0, "crank_nicolson": 0.5}
BOUNDARIES = ("dirichlet", "neumann", "exact")


@dataclass(frozen=True)
class HeatStepper:
    """Discretised heat equation, u_t = conductivity * Laplace(u) + f.

    Parameters
    ----------
    cells : int, >= 2
        Squares along one side.
    steps : int, >= 1
        Time steps.
    end_time : float, > 0
    conductivity : float, > 0
    scheme : {"backward_euler", "crank_nicolson"}
    boundary : {"dirichlet", "neumann", "exact"}
        Zero values; zero flux; or the initial field's boundary values times ``profile`` at each time.

    Raises
    ------
    ValueError
        If a setting is out of range.
    """

    cells: int
    steps: int
    end_time: float
    conductivity: float = 1.0
    scheme: Scheme = "backward_euler"
    boundary: Boundary = "dirichlet"

    def __post_init__(self) -> None:
        for name, least in (("cells", 2), ("steps", 1)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
        for name in ("end_time", "conductivity"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")
        if self.scheme not in IMPLICITNESS:
            raise ValueError(f"scheme must be one of {list(IMPLICITNESS)}, got {self.scheme!r}")
        if self.boundary not in BOUNDARIES:
            raise ValueError(f"boundary must be one of {list(BOUNDARIES)}, got {self.boundary!r}")

    @property
    def times(self) -> Array:
        """Times of the steps, shape (steps + 1,), from 0 to ``end_time``."""
        return np.linspace(0.0, self.end_time, self.steps + 1)

    @property
    def grid(self) -> Array:
        """Coordinates of the nodes along one side, shape (cells + 1,)."""
        return np.linspace(0.0, 1.0, self.cells + 1)

    @property
    def nodes(self) -> Array:
        """Node coordinates, shape (n_nodes, 2), in C order of the grid (x, y): y varies fastest."""
        return np.stack(np.meshgrid(self.grid, self.grid, indexing="ij"), axis=-1).reshape(-1, 2)

    def point_values(self, points: Array) -> Any:
        """Sparse matrix (n_points, n_nodes) that evaluates a nodal field at ``points``, shape (n_points, 2)."""
        values = sparse.csr_matrix(self._system.basis.probes(np.ascontiguousarray(points.T)))
        return values[:, self._system.order]

    def forward(
        self, initial: Array, source: Array | None = None, profile: Array | None = None, keep: Sequence[int] = (-1,)
    ) -> Array:
        """March fields forward in time.

        Parameters
        ----------
        initial : array, shape (n_nodes, k)
            Initial nodal values of k independent solutions.
        source : array, shape (n_nodes, k), optional
            Nodal values of f, up to the factor ``profile``.
        profile : array, shape (steps + 1,), optional
            Factor of the source, and of exact boundary values, at each time; 1 by default.
        keep : sequence of int
            Step numbers at which to return the solution; -1 is the last.

        Returns
        -------
        array, shape (len(keep), n_nodes, k)
        """
        system, edge_factor, load_factor = self._system, *self._factors(profile)
        inner, edge = system.inner, system.edge
        kept = {step % (self.steps + 1): None for step in keep}
        load = None if source is None else system.mass_inner @ source
        u = np.array(initial, dtype=float)
        u[edge] = edge_factor[0] * initial[edge]
        stored: dict[int, Array] = {0: u}
        for step in range(1, max(kept) + 1):
            right = system.explicit_inner @ u
            if load is not None:
                right += load_factor[step] * load
            u = np.empty_like(u)
            u[edge] = edge_factor[step] * initial[edge]
            if edge.size:
                right -= system.implicit_edge @ u[edge]
            u[inner] = system.solve(right)
            if step in kept:
                stored[step] = u
        return np.stack([stored[step % (self.steps + 1)] for step in keep])

    def adjoint(self, seeds: Mapping[int, Array], profile: Array | None = None) -> tuple[Array, Array]:
        r"""Transpose of `forward`: derivatives of :math:`\sum_n \langle s^n, u^n \rangle` to the nodal data.

        Parameters
        ----------
        seeds : mapping from step number to array, shape (n_nodes, k)
            The cotangents s^n, for k independent functionals.
        profile : array, shape (steps + 1,), optional
            As in `forward`.

        Returns
        -------
        initial_weights, source_weights : array, shape (n_nodes, k)
            The functional is the sum over the nodes of weights times data.
        """
        system, edge_factor, load_factor = self._system, *self._factors(profile)
        inner, edge = system.inner, system.edge
        last = max(seeds)
        cotangent = np.array(seeds[last], dtype=float)
        initial_weights = np.zeros_like(cotangent)
        load_weights = np.zeros((len(inner), cotangent.shape[1]))
        for step in range(last, 0, -1):
            multiplier = system.solve(cotangent[inner])  # the matrix is symmetric
            load_weights += load_factor[step] * multiplier
            if edge.size:
                initial_weights[edge] += edge_factor[step] * (cotangent[edge] - system.implicit_edge.T @ multiplier)
            cotangent = system.explicit_inner.T @ multiplier
            if step - 1 in seeds:
                cotangent += seeds[step - 1]
        initial_weights[inner] = cotangent[inner]
        initial_weights[edge] += edge_factor[0] * cotangent[edge]
        return initial_weights, system.mass_inner.T @ load_weights

    def _factors(self, profile: Array | None) -> tuple[Array, Array]:
        """Factors of the boundary values at each time, and of the load in the step that ends there."""
        profile = np.ones(self.steps + 1) if profile is None else np.asarray(profile, dtype=float)
        implicit = IMPLICITNESS[self.scheme]
        load = np.zeros(self.steps + 1)
        load[1:] = self.end_time / self.steps * (implicit * profile[1:] + (1 - implicit) * profile[:-1])
        return (profile if self.boundary == "exact" else np.zeros(self.steps + 1)), load

    @cached_property
    def _system(self) -> _System:
        mesh = MeshTri.init_tensor(self.grid, self.grid)
        basis = Basis(mesh, ElementTriP1())
        # from the mesh's numbering to C order of the grid
        order = np.lexsort((np.rint(mesh.p[1] * self.cells), np.rint(mesh.p[0] * self.cells)))
        mass = _mass.assemble(basis)[order][:, order]
        stiffness = self.conductivity * _stiffness.assemble(basis)[order][:, order]
        implicit, step = IMPLICITNESS[self.scheme], self.end_time / self.steps
        matrix = (mass + implicit * step * stiffness).tocsc()
        explicit = (mass - (1 - implicit) * step * stiffness).tocsr()
        on_edge = np.isclose(self.nodes, 0).any(1) | np.isclose(self.nodes, 1).any(1)
        on_edge &= self.boundary != "neumann"
        inner, edge = np.flatnonzero(~on_edge), np.flatnonzero(on_edge)
        factors = splu(matrix[inner][:, inner], permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        return _System(
            basis, order, inner, edge, factors, matrix[inner][:, edge].tocsr(), explicit[inner], mass.tocsr()[inner]
        )


class _System(NamedTuple):
    """Assembled operators; rows of the inner nodes, whose values are unknown."""

    basis: Any
    order: npt.NDArray[np.intp]
    inner: npt.NDArray[np.intp]
    edge: npt.NDArray[np.intp]
    factors: Any
    implicit_edge: Any
    explicit_inner: Any
    mass_inner: Any

    def solve(self, right: Array) -> Array:
        solution: Array = self.factors.solve(right)
        return solution


@BilinearForm
def _mass(u: Any, v: Any, _: Any) -> Any:
    return u * v


@BilinearForm
def _stiffness(u: Any, v: Any, _: Any) -> Any:
    return dot(grad(u), grad(v))
