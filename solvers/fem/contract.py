"""What a finite element backend must offer: continuous fields, linear on triangles (P1), bilinear on squares (Q1).

Fields are columns, shape (n, k): k independent fields are one block. Where a mesh is spread over the ranks of a
communicator, n and c count this rank's own nodes and cells; every node, and every cell, is owned by one rank. All
methods are collective then: every rank calls them, in the same order and with the same k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import Comm, Given, Sparse

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.intp]

#: Of a mesh: a name that it knows, or a predicate, points (k, 2) -> mask (k,).
Part = str | Callable[[Array], Given]


@runtime_checkable
class Matrix(Protocol):
    """Symmetric matrix with the sparsity of the space's mass matrix."""

    def __matmul__(self, fields: Array) -> Array:
        """The product with fields (n, k), shape (n, k)."""
        ...


@runtime_checkable
class Factors(Protocol):
    """A factored matrix, some of whose nodes are fixed."""

    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k); they are not changed.

        The matrix is that of the free nodes, with the identity for the fixed ones: symmetric, so that this is its own
        transpose. Fixed values v are lifted by the caller: subtract matrix @ v (v zero at the free nodes), put v at the
        fixed nodes, solve.

        A solve that fails gives NaN, in the columns that failed or in all, and on every rank alike.
        """
        ...


@runtime_checkable
class Sensors(Protocol):
    """Linear functionals of a field."""

    @property
    def count(self) -> int:
        """Number of sensors."""
        ...

    def values(self, fields: Array) -> Array:
        """What the m sensors read of fields (n, k): shape (m, k), the same on every rank."""
        ...

    def transpose(self, cotangents: Array) -> Array:
        """This rank's part, shape (n, k), of the sum over sensors of cotangents (m, k) times their functionals."""
        ...


@runtime_checkable
class Space(Protocol):
    """P1, or Q1, on a `Mesh`."""

    mesh: Any  # the whole `Mesh`, on every rank
    comm: Comm  # None, or a communicator of mpi4py
    nodes: Array  # (n, 2)
    node_numbers: Numbers  # (n,), in the mesh
    midpoints: Array  # (c, 2), of the cells
    areas: Array  # (c,)
    cell_numbers: Numbers  # (c,), in the mesh

    @property
    def mass(self) -> Matrix:
        """Integrals of u v."""
        ...

    def on_boundary(self, part: Part | None = None) -> Mask:
        """Which nodes lie on a part of the boundary, shape (n,); on all of it for None."""
        ...

    def in_region(self, region: Part) -> Mask:
        """Which cells lie in a region, shape (c,); a predicate is asked about the cells' midpoints."""
        ...

    def stiffness(self, conductivity: Array) -> Matrix:
        """Integrals of conductivity * grad u . grad v for values (c,), combined from what was assembled once."""
        ...

    def combine(self, a: float, first: Any, b: float, second: Any) -> Matrix:
        """The matrix a * first + b * second, of matrices of this space."""
        ...

    def factor(self, matrix: Sparse, fixed: Mask) -> Factors:
        """Factor a matrix, with the nodes of the mask (n,) fixed."""
        ...

    def cell_products(self, u: Array, v: Array) -> Array:
        """Sums over s of the integrals of grad u_s . grad v_s over each cell, shape (c, k), for v (s, n, k).

        The derivative of sum_s v_s' K(conductivity) u_s to the conductivity; u has k columns, or one for all.
        """
        ...

    def edge_load(self, part: Part | None = None) -> Array:
        """Integrals of the basis functions over a part of the boundary, shape (n,): the load of a flux of 1."""
        ...

    def points(self, points: Array) -> Sensors:
        """Values at points (m, 2). ValueError, on every rank, for a point outside the mesh."""
        ...

    def averages(self, regions: Sequence[Part]) -> Sensors:
        """Means over regions. ValueError, on every rank, for an empty one."""
        ...

    def total(self, values: Array) -> Array:
        """Values of any shape, summed over the ranks; the same on every rank."""
        ...
