"""The spaces P1 and Q1 on scikit-fem and SciPy, in this process alone.

Element matrices are assembled once. All matrices share one sparsity pattern, so that a new conductivity is one sparse
product with the element matrices, and sums of matrices are sums of entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from numba import njit
from skfem import Basis, BilinearForm, ElementQuad1, ElementTriP1, MeshQuad, MeshTri
from skfem.helpers import dot, grad

from invsamp.solvers.fem import elements
from invsamp.solvers.fem.contract import Array, Mask, Part
from invsamp.solvers.fem.ldl import Elimination
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.recurrence import Marched, Recurrence
from invsamp.solvers.fem.sides import Sides
from invsamp.solvers.fem.triangular import Places, SymmetricFactors
from invsamp.solvers.foreign import Form, Given, Sparse


class SkfemSpace:
    """P1 on triangles, Q1 on parallelograms, see `invsamp.solvers.fem.contract.Space`.

    Parameters
    ----------
    mesh : Mesh
    """

    comm = None

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.nodes = mesh.points
        self.node_numbers = np.arange(len(mesh.points))
        self.midpoints = mesh.midpoints
        self.areas = mesh.areas
        self.cell_numbers = np.arange(len(mesh.cells))
        kind, element = (MeshTri, ElementTriP1()) if mesh.kind == "triangles" else (MeshQuad, ElementQuad1())
        # corners stay as they are: the pattern below is that of mesh.cells
        basis = Basis(kind(mesh.points.T.copy(), mesh.cells.T.copy(), sort_t=False), element)
        stiffness = _elements(_stiffness, basis)
        self._sides = Sides.make(mesh.cells, stiffness)
        self._pattern, slots = elements.pattern(mesh.cells, len(mesh.points))
        # unsigned, or numba looks for negative indices in the innermost loop
        self._places = (self._pattern.indptr.astype(np.uint32), self._pattern.indices.astype(np.uint32))
        self._stiffness_of_cells = elements.weighted_sums(stiffness, slots, self._pattern.nnz)
        entries = elements.added(slots, _elements(_mass, basis).ravel(), self._pattern.nnz)
        self.mass = SkfemMatrix(self._pattern, self._places, entries)
        self._plans: dict[bytes, Elimination] = {}

    def on_boundary(self, part: Part | None = None) -> Mask:
        """Which nodes lie on a part of the boundary, shape (n,)."""
        return self.mesh.part_nodes(part)

    def in_region(self, region: Part) -> Mask:
        """Which cells lie in a region, shape (c,)."""
        return self.mesh.region_cells(region)

    def stiffness(self, conductivity: Array) -> SkfemMatrix:
        """Integrals of conductivity * grad u . grad v for values (c,)."""
        return SkfemMatrix(
            self._pattern, self._places, self._stiffness_of_cells @ np.asarray(conductivity, dtype=float)
        )

    def combine(self, a: float, first: SkfemMatrix, b: float, second: SkfemMatrix) -> SkfemMatrix:
        """The matrix a * first + b * second."""
        return SkfemMatrix(self._pattern, self._places, a * first.entries + b * second.entries)

    def factor(self, matrix: SkfemMatrix, fixed: Mask) -> SkfemFactors:
        """Factor a matrix, with the nodes of the mask fixed."""
        key = np.packbits(fixed).tobytes()
        if key not in self._plans:
            self._plans[key] = Elimination.make(self._pattern, np.flatnonzero(~np.asarray(fixed, dtype=bool)))
        return SkfemFactors(self._plans[key].factor(matrix.entries))

    def cell_products(self, u: Array, v: Array) -> Array:
        """Sums over s of the integrals of grad u_s . grad v_s over each cell, shape (c, k)."""
        return self._sides.products(u, v)

    def edge_load(self, part: Part | None = None) -> Array:
        """Integrals of the basis functions over a part of the boundary, shape (n,)."""
        return elements.edge_loads(self.mesh, part)

    def points(self, points: Array) -> SkfemSensors:
        """Values at points (m, 2)."""
        return SkfemSensors(elements.point_rows(self.mesh, points))

    def averages(self, regions: Sequence[Part]) -> SkfemSensors:
        """Means over regions."""
        return SkfemSensors(elements.average_rows(self.mesh, regions))

    def total(self, values: Array) -> Array:
        """The values themselves: there is one rank."""
        return values

    def __repr__(self) -> str:
        return f"SkfemSpace({self.mesh!r})"


@dataclass(frozen=True, eq=False)
class SkfemMatrix:
    """Entries in the space's sparsity pattern."""

    pattern: Sparse
    places: tuple[Places, Places]  # starts of the rows, and columns, for compiled loops
    entries: Array

    def __matmul__(self, fields: Array) -> Array:
        """The product with fields (n, k)."""
        if fields.shape[1] == 1:
            single = np.empty(fields.shape)
            _product(*self.places, self.entries, fields[:, 0], single[:, 0])
            return single
        product: Array = self._matrix @ fields
        return product

    @cached_property
    def _matrix(self) -> Sparse:
        return sparse.csr_matrix((self.entries, self.pattern.indices, self.pattern.indptr), self.pattern.shape)


@dataclass(frozen=True, eq=False)
class SkfemFactors:
    """Factors of the free nodes' matrix; NaN solutions where it is not positive definite."""

    factors: SymmetricFactors | None

    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k)."""
        return np.full(right.shape, np.nan) if self.factors is None else self.factors.solve(right)

    def march(self, explicit: SkfemMatrix, recurrence: Recurrence) -> Marched:
        """Go through a recurrence of one column, as `invsamp.solvers.fem.recurrence.CompiledFactors.march`."""
        if self.factors is None:
            shape = recurrence.start.shape
            kept, sums = (np.full((len(found), *shape), np.nan) for found in (recurrence.keep, recurrence.weights))
            return Marched(kept, sums)
        return self.factors.march((*explicit.places, explicit.entries), recurrence)


@dataclass(frozen=True, eq=False)
class SkfemSensors:
    """Sensors as rows of a sparse matrix."""

    matrix: Sparse

    @property
    def count(self) -> int:
        """Number of sensors."""
        return int(self.matrix.shape[0])

    def values(self, fields: Array) -> Array:
        """What the sensors read of fields (n, k), shape (m, k)."""
        values: Array = self.matrix @ fields
        return values

    def transpose(self, cotangents: Array) -> Array:
        """The sum of cotangents (m, k) times the functionals, shape (n, k)."""
        sums: Array = self.matrix.T @ cotangents
        return sums


def _elements(form: Form, basis: Given) -> Array:
    """Element matrices (c, corners, corners), symmetric."""
    return np.ascontiguousarray(form.elemental(basis).tolocal())


@BilinearForm
def _mass(u: Given, v: Given, _: object) -> object:
    return u * v


@BilinearForm
def _stiffness(u: object, v: object, _: object) -> object:
    return dot(grad(u), grad(v))


@njit(cache=True)
def _product(starts, columns, entries, field, product):  # type: ignore[no-untyped-def]
    """One column, without the calls that lead to SciPy's loop: on a coarse mesh they cost more than it."""
    for row in range(len(product)):
        total = 0.0
        for p in range(starts[row], starts[row + 1]):
            total += entries[p] * field[columns[p]]
        product[row] = total
