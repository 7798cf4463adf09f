"""The spaces P1 and Q1 on dolfinx and PETSc, in one process or spread over the ranks of a communicator.

dolfinx spreads the mesh; each rank adds up the element matrices of its own cells. On several ranks PETSc factors.
"""

from __future__ import annotations

import hashlib

import numpy as np

from invsamp.solvers import _dolfinx
from invsamp.solvers.fem.contract import Array, Mask, Numbers
from invsamp.solvers.fem.factors.petsc import LARGE, PetscFactors, Plan
from invsamp.solvers.fem.factors.recurrence import Factors
from invsamp.solvers.fem.halo import Halo
from invsamp.solvers.fem.matrices import Matrix
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.space import Partition, Space
from invsamp.solvers.foreign import Comm


class DolfinxSpace(Space):
    """P1 on simplices, Q1 on parallelograms, see `invsamp.solvers.fem.space.Space`.

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
        part, self._positions = _distribute(mesh, x.MPI.COMM_SELF if comm is None else comm)
        super().__init__(mesh, part)
        self._plans: dict[bytes, Plan] = {}

    def factor(self, matrix: Matrix, fixed: Mask, few: bool = False) -> Factors:
        """Factor a matrix, with the nodes of the mask fixed; ``few`` says that there will be few right-hand sides."""
        size = len(self.mesh.points)
        multigrid = few and size >= LARGE
        if self._halo is None and not multigrid:
            return super().factor(matrix, fixed)
        fixed = np.asarray(fixed, dtype=bool)
        local = fixed if self._halo is None else self._halo.extend(fixed[:, None].astype(float))[:, 0] > 0
        # two masks that differ elsewhere may be alike on this rank
        key = b"".join(self.comm.allgather(hashlib.sha256(local.tobytes()).digest()))
        if key not in self._plans:
            owned = len(self.node_numbers)
            self._plans[key] = Plan(self.comm, owned, self._pattern, local, self._positions, size)
        return PetscFactors(self._plans[key], matrix.entries, multigrid)

    def cell_products(self, u: Array, v: Array) -> Array:
        """Sums over s of the integrals of grad u_s . grad v_s over each cell, shape (c, k)."""
        return super().cell_products(self._extended(u), self._extended(v))

    def total(self, values: Array) -> Array:
        """Values summed over the ranks: bit for bit the same on every rank."""
        if self._halo is None:
            return values
        return _dolfinx.sum_over_ranks(self.comm, values)

    def __reduce__(self) -> tuple[object, ...]:
        if self._halo is not None:
            raise TypeError(f"a mesh that is spread over {self.comm.size} ranks cannot be pickled")
        return DolfinxSpace, (self.mesh,)

    def _extended(self, fields: Array) -> Array:
        """Fields (s, n, k) with the ghosts' values appended."""
        if self._halo is None:
            return fields
        columns = np.moveaxis(fields, 1, 0)
        extended = self._halo.extend(columns.reshape(len(columns), -1))
        return np.moveaxis(extended.reshape(-1, *columns.shape[1:]), 0, 1)


def _distribute(mesh: Mesh, comm: Comm) -> tuple[Partition, Numbers]:
    """Spread a mesh over the ranks. On each, nodes and cells are in the order of the mesh.

    Returns this rank's part, and where its local nodes stand among the rows of PETSc's matrices.
    """
    spread = _dolfinx.cell_mesh(comm, mesh.points, mesh.cells)
    space = _dolfinx.function_space(spread, "Lagrange", 1)
    dofs, nodes = (
        _round(_dolfinx.cell_dofs(space), mesh.kind),
        _round(_dolfinx.original_nodes(spread)[_dolfinx.cell_nodes(spread)], mesh.kind),
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
    halo = Halo.make(comm, numbers, owned, owner[numbers[owned:]]) if comm.size > 1 else None
    return Partition(renumbered[dofs][by_number], cells[by_number], numbers, halo, comm), position[numbers]


def _round(corners: Numbers, kind: str) -> Numbers:
    """Corners (c, k) in the order in which one goes round; dolfinx has those of a parallelogram row by row."""
    return corners[:, [0, 1, 3, 2]] if kind == "parallelograms" else corners
