"""The spaces P1 and Q1 on dolfinx and PETSc, in one process or spread over the ranks of a communicator.

dolfinx spreads the mesh and assembles the element matrices, once. All matrices share one sparsity pattern, so that a
new conductivity is one sparse product with the element matrices, on each rank for its own cells. PETSc factors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse

from invsamp.solvers import _dolfinx
from invsamp.solvers.fem import elements
from invsamp.solvers.fem.contract import Array, Mask, Numbers, Part
from invsamp.solvers.fem.halo import Halo
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.petsc_factors import PetscFactors, Plan
from invsamp.solvers.fem.sides import Sides
from invsamp.solvers.foreign import Comm, Sparse


class DolfinxSpace:
    """P1 on triangles, Q1 on parallelograms, see `invsamp.solvers.fem.contract.Space`.

    Parameters
    ----------
    mesh : Mesh
        The same on every rank.
    comm : mpi4py communicator, optional
        Over whose ranks the mesh is spread; the process itself by default. On one rank nodes and cells are in the
        order of the mesh.

    Raises
    ------
    ImportError
        If dolfinx is not installed; the message says how to install it.
    ValueError
        If ``comm`` is no communicator.
    """

    def __init__(self, mesh: Mesh, comm: object = None) -> None:
        x = _dolfinx.load("backend='dolfinx'")
        if comm is not None and not isinstance(comm, x.MPI.Comm):
            raise ValueError(f"comm must be a communicator of mpi4py, got {comm!r}")
        self.mesh = mesh
        self.comm = x.MPI.COMM_SELF if comm is None else comm
        local = _distribute(mesh, self.comm)
        self._halo = local.halo
        self.node_numbers, self.cell_numbers = local.numbers[: local.halo.owned], local.cells
        self.nodes, self.midpoints = mesh.points[self.node_numbers], mesh.midpoints[self.cell_numbers]
        self.areas = local.mass.sum(axis=(1, 2))
        self._sides = Sides.make(local.corners, local.stiffness)
        self._pattern, slots = elements.pattern(local.corners, len(local.numbers))
        self._stiffness_of_cells = elements.weighted_sums(local.stiffness, slots, self._pattern.nnz)
        self.mass = self._matrix(elements.added(slots, local.mass.ravel(), self._pattern.nnz))
        self._positions = local.positions
        self._plans: dict[bytes, Plan] = {}

    def on_boundary(self, part: Part | None = None) -> Mask:
        """Which nodes lie on a part of the boundary, shape (n,)."""
        return np.asarray(self.mesh.part_nodes(part)[self.node_numbers])

    def in_region(self, region: Part) -> Mask:
        """Which cells lie in a region, shape (c,)."""
        return np.asarray(self.mesh.region_cells(region)[self.cell_numbers])

    def stiffness(self, conductivity: Array) -> DolfinxMatrix:
        """Integrals of conductivity * grad u . grad v for values (c,)."""
        return self._matrix(self._stiffness_of_cells @ np.asarray(conductivity, dtype=float))

    def combine(self, a: float, first: DolfinxMatrix, b: float, second: DolfinxMatrix) -> DolfinxMatrix:
        """The matrix a * first + b * second."""
        return self._matrix(a * first.entries + b * second.entries)

    def factor(self, matrix: DolfinxMatrix, fixed: Mask) -> PetscFactors:
        """Factor a matrix, with the nodes of the mask fixed."""
        fixed = np.asarray(fixed, dtype=bool)
        local = self._halo.extend(fixed[:, None].astype(float))[:, 0] > 0
        # two masks that differ elsewhere may be alike on this rank
        key = b"".join(self.comm.allgather(hashlib.sha256(local.tobytes()).digest()))
        if key not in self._plans:
            self._plans[key] = Plan(self._halo, self._pattern, local, self._positions, len(self.mesh.points))
        return PetscFactors(self._plans[key], matrix.entries)

    def cell_products(self, u: Array, v: Array) -> Array:
        """Sums over s of the integrals of grad u_s . grad v_s over each cell, shape (c, k)."""
        return self._sides.products(self._extended(u), self._extended(v))

    def edge_load(self, part: Part | None = None) -> Array:
        """Integrals of the basis functions over a part of the boundary, shape (n,)."""
        return np.asarray(elements.edge_loads(self.mesh, part)[self.node_numbers])

    def points(self, points: Array) -> DolfinxSensors:
        """Values at points (m, 2)."""
        return self._sensors(elements.point_rows(self.mesh, points))

    def averages(self, regions: Sequence[Part]) -> DolfinxSensors:
        """Means over regions."""
        return self._sensors(elements.average_rows(self.mesh, regions))

    def total(self, values: Array) -> Array:
        """Values summed over the ranks: bit for bit the same on every rank."""
        if self.comm.size == 1:
            return values
        values = np.ascontiguousarray(values, dtype=float)
        parts = np.empty((self.comm.size, *values.shape))
        # added up here: the sum of an MPI library may be rounded differently on each rank
        self.comm.Allgather(values, parts)
        return np.asarray(parts.sum(axis=0))

    def __reduce__(self) -> tuple[object, ...]:
        if self.comm.size > 1:
            raise TypeError(f"a mesh that is spread over {self.comm.size} ranks cannot be pickled")
        return DolfinxSpace, (self.mesh,)

    def __repr__(self) -> str:
        ranks = f", {self.comm.size} ranks" if self.comm.size > 1 else ""
        return f"DolfinxSpace({self.mesh!r}{ranks})"

    def _extended(self, fields: Array) -> Array:
        """Fields (s, n, k) with the ghosts' values appended."""
        if self.comm.size == 1:
            return fields
        columns = np.moveaxis(fields, 1, 0)
        extended = self._halo.extend(columns.reshape(len(columns), -1))
        return np.moveaxis(extended.reshape(-1, *columns.shape[1:]), 0, 1)

    def _matrix(self, entries: Array) -> DolfinxMatrix:
        return DolfinxMatrix(self._pattern, entries, self._halo)

    def _sensors(self, rows: Sparse) -> DolfinxSensors:
        return DolfinxSensors(self, sparse.csr_matrix(rows.tocsc()[:, self.node_numbers]))


@dataclass(frozen=True, eq=False)
class DolfinxMatrix:
    """What this rank's cells add to a matrix: entries in the pattern over its own nodes and then the ghosts."""

    pattern: Sparse
    entries: Array
    halo: Halo

    def __matmul__(self, fields: Array) -> Array:
        """The product with fields (n, k)."""
        product: Array = self.halo.collect(self._local @ self.halo.extend(fields))
        return product

    @cached_property
    def _local(self) -> Sparse:
        return sparse.csr_matrix((self.entries, self.pattern.indices, self.pattern.indptr), self.pattern.shape)


@dataclass(frozen=True, eq=False)
class DolfinxSensors:
    """Sensors as rows of a sparse matrix, of which each rank holds the columns of its nodes."""

    space: DolfinxSpace
    matrix: Sparse

    @property
    def count(self) -> int:
        """Number of sensors."""
        return int(self.matrix.shape[0])

    def values(self, fields: Array) -> Array:
        """What the sensors read of fields (n, k), shape (m, k), the same on every rank."""
        return self.space.total(self.matrix @ fields)

    def transpose(self, cotangents: Array) -> Array:
        """The sum of cotangents (m, k) times the functionals, shape (n, k)."""
        sums: Array = self.matrix.T @ cotangents
        return sums


class _Local(NamedTuple):
    """This rank's part of a mesh; its own nodes, then the ghosts."""

    corners: Numbers  # (c, corners), local node numbers
    cells: Numbers  # (c,), numbers in the mesh
    numbers: Numbers  # (local,), of the nodes in the mesh
    positions: Numbers  # (local,), of the nodes among the rows of PETSc's matrices
    mass: Array  # (c, corners, corners)
    stiffness: Array  # (c, corners, corners)
    halo: Halo


def _distribute(mesh: Mesh, comm: Comm) -> _Local:
    """Spread a mesh over the ranks. On each, nodes and cells are in the order of the mesh."""
    spread = _dolfinx.cell_mesh(comm, mesh.points, mesh.cells)
    space = _dolfinx.function_space(spread, "Lagrange", 1)
    dofs, nodes = (
        _round(_dolfinx.cell_dofs(space)),
        _round(_dolfinx.original_nodes(spread)[_dolfinx.cell_nodes(spread)]),
    )
    index_map = space.dofmap.index_map
    owned = int(index_map.size_local)
    numbers = np.full(owned + int(index_map.num_ghosts), -1)
    numbers[dofs] = nodes
    order = np.concatenate([np.argsort(numbers[:owned]), owned + np.argsort(numbers[owned:])])
    renumbered = np.empty(len(order), dtype=np.intp)
    renumbered[order] = np.arange(len(order))
    numbers = numbers[order]
    cells = _dolfinx.original_cells(spread)
    by_number = np.argsort(cells)
    # PETSc numbers the nodes of the first rank, then those of the second, ...
    lists = comm.allgather(numbers[:owned])
    position, owner = np.empty(len(mesh.points), dtype=np.intp), np.empty(len(mesh.points), dtype=np.intp)
    position[np.concatenate(lists)] = np.arange(len(mesh.points))
    owner[np.concatenate(lists)] = np.repeat(np.arange(comm.size), [len(part) for part in lists])
    mass, stiffness = _element_matrices(spread)
    halo = Halo.make(comm, numbers, owned, owner[numbers[owned:]])
    corners = renumbered[dofs][by_number]
    return _Local(corners, cells[by_number], numbers, position[numbers], mass[by_number], stiffness[by_number], halo)


def _element_matrices(mesh: object) -> tuple[Array, Array]:
    """Mass and stiffness matrices (c, corners, corners) of the cells: the blocks of those of discontinuous fields."""
    x = _dolfinx.load()
    space = _dolfinx.function_space(mesh, "Discontinuous Lagrange", 1)
    u, v = x.ufl.TrialFunction(space), x.ufl.TestFunction(space)
    first = int(space.dofmap.index_map.local_range[0])
    dofs = _round(_dolfinx.cell_dofs(space))
    corners, found = dofs.shape[1], []
    for form in (u * v * x.ufl.dx, x.ufl.inner(x.ufl.grad(u), x.ufl.grad(v)) * x.ufl.dx):
        matrix = _dolfinx.assemble_matrix(form)
        indptr, columns, values = matrix.getValuesCSR()
        matrix.destroy()
        # cells of other ranks do not meet these: the columns are this rank's
        local = sparse.csr_matrix((values, columns - first, indptr), (dofs.size, dofs.size))
        blocks = [[np.asarray(local[dofs[:, i], dofs[:, j]]).ravel() for j in range(corners)] for i in range(corners)]
        found.append(np.ascontiguousarray(np.moveaxis(np.array(blocks), 2, 0)))
    return found[0], found[1]


def _round(corners: Numbers) -> Numbers:
    """Corners (c, k) in the order in which one goes round; dolfinx has those of a parallelogram row by row."""
    return corners[:, [0, 1, 3, 2]] if corners.shape[1] == 4 else corners
