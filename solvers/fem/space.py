"""Finite element spaces: continuous fields, linear on simplices (P1), bilinear on parallelograms (Q1).

Fields are columns, shape (n, k): k independent fields are one block. Where a mesh is spread over the ranks of a
communicator, n and c count this rank's own nodes and cells; every node, and every cell, is owned by one rank. All
methods are collective then: every rank calls them, in the same order and with the same k.

Element matrices are assembled once, by one library or another, and added up in one sparsity pattern. A new conductivity
is one sparse product with them, and sums of matrices are sums of entries. In one process compiled loops factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse

from invsamp.solvers.fem import elements
from invsamp.solvers.fem.contract import Array, Mask, Numbers, Part
from invsamp.solvers.fem.factors.ldl import Elimination
from invsamp.solvers.fem.factors.multifrontal import Multifrontal
from invsamp.solvers.fem.factors.recurrence import Factors
from invsamp.solvers.fem.halo import Halo
from invsamp.solvers.fem.matrices import Matrix
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.sides import Sides
from invsamp.solvers.foreign import Comm, Sparse

#: Free nodes above which matrices are factored by fronts.
MULTIFRONTAL = 12_000


class Partition(NamedTuple):
    """One rank's part of a mesh; of its local nodes the own ones stand first, then the ghosts."""

    corners: Numbers  # (c, corners), local node numbers of this rank's cells
    cells: Numbers  # (c,), numbers in the mesh
    nodes: Numbers  # (local,), numbers in the mesh
    halo: Halo | None = None  # between the ranks, where there are several
    comm: Comm = None  # of mpi4py


class Space:
    """P1 on simplices, Q1 on parallelograms.

    Parameters
    ----------
    mesh : Mesh
        The whole one, on every rank.
    part : Partition, optional
        What of it is this rank's; all of it by default.

    Attributes
    ----------
    nodes, midpoints : array, shape (n, d), (c, d)
        Of this rank's nodes and cells.
    areas : array, shape (c,)
    mass : Matrix
        Integrals of u v.
    """

    def __init__(self, mesh: Mesh, part: Partition | None = None) -> None:
        from invsamp.solvers.fem.element_matrices import element_matrices

        if part is None:
            part = Partition(mesh.cells, np.arange(len(mesh.cells)), np.arange(len(mesh.points)))
        self.mesh, self.comm, self._halo = mesh, part.comm, part.halo
        own = len(part.nodes) if part.halo is None else part.halo.owned
        self.node_numbers, self.cell_numbers = part.nodes[:own], part.cells
        self.nodes, self.midpoints = mesh.points[self.node_numbers], mesh.midpoints[part.cells]
        self.areas = mesh.areas[part.cells]
        mass, stiffness = (matrices[part.cells] for matrices in element_matrices(mesh))
        self._sides = Sides.make(part.corners, stiffness)
        self._pattern, slots = elements.pattern(part.corners, len(part.nodes))
        # unsigned, or numba looks for negative indices in the innermost loop
        self._places = (self._pattern.indptr.astype(np.uint32), self._pattern.indices.astype(np.uint32))
        self._stiffness_of_cells = elements.weighted_sums(stiffness, slots, self._pattern.nnz)
        self.mass = self._matrix(elements.added(slots, mass.ravel(), self._pattern.nnz))
        self._eliminations: dict[bytes, Elimination | Multifrontal] = {}

    def on_boundary(self, part: Part | None = None) -> Mask:
        """Which nodes lie on a part of the boundary, shape (n,); on all of it for None."""
        return np.asarray(self.mesh.part_nodes(part)[self.node_numbers])

    def in_region(self, region: Part) -> Mask:
        """Which cells lie in a region, shape (c,); a predicate is called with the cells' midpoints."""
        return np.asarray(self.mesh.region_cells(region)[self.cell_numbers])

    def stiffness(self, conductivity: Array) -> Matrix:
        """Integrals of conductivity * grad u . grad v for values (c,)."""
        return self._matrix(self._stiffness_of_cells @ np.asarray(conductivity, dtype=float))

    def combine(self, a: float, first: Matrix, b: float, second: Matrix) -> Matrix:
        """The matrix a * first + b * second."""
        return self._matrix(a * first.entries + b * second.entries)

    def factor(self, matrix: Matrix, fixed: Mask, few: bool = False) -> Factors:
        """Factor a matrix, with the nodes of the mask fixed; ``few`` says that there will be few right-hand sides."""
        key = np.packbits(fixed).tobytes()
        if key not in self._eliminations:
            free = np.flatnonzero(~np.asarray(fixed, dtype=bool))
            # below, rows with few entries are quicker than dense blocks
            large = len(free) > MULTIFRONTAL
            made = (
                Multifrontal.make(self._pattern, free, self.nodes) if large else Elimination.make(self._pattern, free)
            )
            self._eliminations[key] = made
        return self._eliminations[key].factor(matrix.entries)

    def cell_products(self, u: Array, v: Array) -> Array:
        """Sums over s of the integrals of grad u_s . grad v_s over each cell, shape (c, k), for v (s, n, k).

        The derivative of sum_s v_s' K(conductivity) u_s to the conductivity; u has k columns, or one for all.
        """
        return self._sides.products(u, v)

    def edge_load(self, part: Part | None = None) -> Array:
        """Integrals of the basis functions over a part of the boundary, shape (n,): the load of a flux of 1."""
        return np.asarray(elements.edge_loads(self.mesh, part)[self.node_numbers])

    def points(self, points: Array) -> Sensors:
        """Values at points (m, d). ValueError, on every rank, for a point outside the mesh."""
        return self._sensors(elements.point_rows(self.mesh, points))

    def averages(self, regions: Sequence[Part]) -> Sensors:
        """Means over regions. ValueError, on every rank, for an empty one."""
        return self._sensors(elements.average_rows(self.mesh, regions))

    def total(self, values: Array) -> Array:
        """Values summed over the ranks; of one rank the values themselves."""
        return values

    def __repr__(self) -> str:
        ranks = "" if self.comm is None or self.comm.size == 1 else f", {self.comm.size} ranks"
        return f"{type(self).__name__}({self.mesh!r}{ranks})"

    def _matrix(self, entries: Array) -> Matrix:
        return Matrix(self._pattern, self._places, entries, self._halo)

    def _sensors(self, rows: Sparse) -> Sensors:
        return Sensors(self, sparse.csr_matrix(rows.tocsc()[:, self.node_numbers]))


@dataclass(frozen=True, eq=False)
class Sensors:
    """Sensors as rows of a sparse matrix, of which each rank holds the columns of its nodes."""

    space: Space
    matrix: Sparse

    @property
    def count(self) -> int:
        """Number of sensors."""
        return int(self.matrix.shape[0])

    def values(self, fields: Array) -> Array:
        """The readings of the sensors for fields (n, k), shape (m, k), the same on every rank."""
        return self.space.total(self.matrix @ fields)

    def transpose(self, cotangents: Array) -> Array:
        """This rank's part of the sum of cotangents (m, k) times the functionals, shape (n, k)."""
        sums: Array = self.matrix.T @ cotangents
        return sums
