"""What the spaces of both libraries share: element matrices, assembled once, in one sparsity pattern.

A new conductivity is one sparse product with the element matrices, and sums of matrices are sums of entries. In one
process compiled loops factor, whichever library assembled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from numba import njit

from invsamp.solvers.fem import elements
from invsamp.solvers.fem.contract import Array, Factors, Mask, Numbers, Part
from invsamp.solvers.fem.halo import Halo
from invsamp.solvers.fem.ldl import Elimination
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.sides import Sides
from invsamp.solvers.fem.triangular import Places
from invsamp.solvers.foreign import Comm, Sparse


class AssembledSpace:
    """P1 on triangles, Q1 on parallelograms, see `invsamp.solvers.fem.contract.Space`.

    Parameters
    ----------
    mesh : Mesh
    corners : array of int, shape (c, corners)
        Local node numbers of this rank's cells.
    mass, stiffness : array, shape (c, corners, corners)
        Their element matrices.
    node_numbers, cell_numbers : array of int, shape (n,), (c,)
        Of this rank's own nodes and cells in the mesh; of local nodes the own ones come first.
    halo : Halo, optional
        Between the ranks, where there are several.
    """

    def __init__(
        self,
        mesh: Mesh,
        corners: Numbers,
        mass: Array,
        stiffness: Array,
        node_numbers: Numbers,
        cell_numbers: Numbers,
        halo: Halo | None = None,
        comm: Comm = None,
    ) -> None:
        self.mesh, self.comm, self._halo = mesh, comm, halo
        self.node_numbers, self.cell_numbers = node_numbers, cell_numbers
        self.nodes, self.midpoints = mesh.points[node_numbers], mesh.midpoints[cell_numbers]
        self.areas = mesh.areas[cell_numbers]
        self._sides = Sides.make(corners, stiffness)
        local = len(node_numbers) if halo is None else halo.owned + halo.ghosts
        self._pattern, slots = elements.pattern(corners, local)
        # unsigned, or numba looks for negative indices in the innermost loop
        self._places = (self._pattern.indptr.astype(np.uint32), self._pattern.indices.astype(np.uint32))
        self._stiffness_of_cells = elements.weighted_sums(stiffness, slots, self._pattern.nnz)
        self.mass = self._matrix(elements.added(slots, mass.ravel(), self._pattern.nnz))
        self._eliminations: dict[bytes, Elimination] = {}

    def on_boundary(self, part: Part | None = None) -> Mask:
        """Which nodes lie on a part of the boundary, shape (n,)."""
        return np.asarray(self.mesh.part_nodes(part)[self.node_numbers])

    def in_region(self, region: Part) -> Mask:
        """Which cells lie in a region, shape (c,)."""
        return np.asarray(self.mesh.region_cells(region)[self.cell_numbers])

    def stiffness(self, conductivity: Array) -> AssembledMatrix:
        """Integrals of conductivity * grad u . grad v for values (c,)."""
        return self._matrix(self._stiffness_of_cells @ np.asarray(conductivity, dtype=float))

    def combine(self, a: float, first: AssembledMatrix, b: float, second: AssembledMatrix) -> AssembledMatrix:
        """The matrix a * first + b * second."""
        return self._matrix(a * first.entries + b * second.entries)

    def factor(self, matrix: AssembledMatrix, fixed: Mask) -> Factors:
        """Factor a matrix, with the nodes of the mask fixed."""
        key = np.packbits(fixed).tobytes()
        if key not in self._eliminations:
            self._eliminations[key] = Elimination.make(self._pattern, np.flatnonzero(~np.asarray(fixed, dtype=bool)))
        return self._eliminations[key].factor(matrix.entries)

    def cell_products(self, u: Array, v: Array) -> Array:
        """Sums over s of the integrals of grad u_s . grad v_s over each cell, shape (c, k)."""
        return self._sides.products(u, v)

    def edge_load(self, part: Part | None = None) -> Array:
        """Integrals of the basis functions over a part of the boundary, shape (n,)."""
        return np.asarray(elements.edge_loads(self.mesh, part)[self.node_numbers])

    def points(self, points: Array) -> RowSensors:
        """Values at points (m, 2)."""
        return self._sensors(elements.point_rows(self.mesh, points))

    def averages(self, regions: Sequence[Part]) -> RowSensors:
        """Means over regions."""
        return self._sensors(elements.average_rows(self.mesh, regions))

    def total(self, values: Array) -> Array:
        """Values summed over the ranks; of one rank the values themselves."""
        return values

    def __repr__(self) -> str:
        ranks = "" if self.comm is None or self.comm.size == 1 else f", {self.comm.size} ranks"
        return f"{type(self).__name__}({self.mesh!r}{ranks})"

    def _matrix(self, entries: Array) -> AssembledMatrix:
        return AssembledMatrix(self._pattern, self._places, entries, self._halo)

    def _sensors(self, rows: Sparse) -> RowSensors:
        return RowSensors(self, sparse.csr_matrix(rows.tocsc()[:, self.node_numbers]))


@dataclass(frozen=True, eq=False)
class AssembledMatrix:
    """What this rank's cells add to a matrix: entries in the space's sparsity pattern over its local nodes."""

    pattern: Sparse
    places: tuple[Places, Places]  # starts of the rows, and columns, for compiled loops
    entries: Array
    halo: Halo | None

    def __matmul__(self, fields: Array) -> Array:
        """The product with fields (n, k)."""
        if self.halo is not None:
            return self.halo.collect(self._local @ self.halo.extend(fields))
        if fields.shape[1] == 1:
            single = np.empty(fields.shape)
            _product(*self.places, self.entries, fields[:, 0], single[:, 0])
            return single
        product: Array = self._local @ fields
        return product

    @cached_property
    def _local(self) -> Sparse:
        return sparse.csr_matrix((self.entries, self.pattern.indices, self.pattern.indptr), self.pattern.shape)


@dataclass(frozen=True, eq=False)
class RowSensors:
    """Sensors as rows of a sparse matrix, of which each rank holds the columns of its nodes."""

    space: AssembledSpace
    matrix: Sparse

    @property
    def count(self) -> int:
        """Number of sensors."""
        return int(self.matrix.shape[0])

    def values(self, fields: Array) -> Array:
        """What the sensors read of fields (n, k), shape (m, k), the same on every rank."""
        return self.space.total(self.matrix @ fields)

    def transpose(self, cotangents: Array) -> Array:
        """This rank's part of the sum of cotangents (m, k) times the functionals, shape (n, k)."""
        sums: Array = self.matrix.T @ cotangents
        return sums


@njit(cache=True)
def _product(starts, columns, entries, field, product):  # type: ignore[no-untyped-def]
    """One column, without the calls that lead to SciPy's loop: on a coarse mesh they cost more than it."""
    for row in range(len(product)):
        total = 0.0
        for p in range(starts[row], starts[row + 1]):
            total += entries[p] * field[columns[p]]
        product[row] = total
