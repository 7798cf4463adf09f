"""Solves with symmetric matrices by PETSc: by factors, or by multigrid where a large one has few right-hand sides.

Data that depend on the sparsity alone (the elimination order, the symbolic factors) are kept and used again, also for
other values. Each `Slot` is one PETSc matrix with its factors, lent to one `PetscFactors` at a time.
"""

from __future__ import annotations

import weakref

import numpy as np

from invsamp.solvers._dolfinx import configure, load, multigrid
from invsamp.solvers.fem.contract import Array, Mask, Numbers
from invsamp.solvers.fem.factors.recurrence import Factors
from invsamp.solvers.foreign import Comm, Given, Mat, Solver, Sparse

#: Nodes from which multigrid takes less than factors do, for few right-hand sides; and how many those are.
LARGE, FEW = 50_000, 6


class Plan:
    """How matrices with one sparsity and one set of fixed nodes are factored.

    Parameters
    ----------
    comm : communicator of mpi4py
    owned : int
        How many nodes are this rank's.
    pattern : scipy.sparse.csr_matrix, shape (local, local)
        Sparsity of this rank's part, over its own nodes and then the ghosts; with the whole diagonal.
    fixed : mask, shape (local,)
    numbers : array of int, shape (local,)
        Of the local nodes among all ranks': those that a rank owns are consecutive.
    size : int
        Nodes that all ranks own together.
    """

    def __init__(self, comm: Comm, owned: int, pattern: Sparse, fixed: Mask, numbers: Numbers, size: int) -> None:
        self.comm, self.owned, self.size = comm, owned, size
        self.numbers = numbers
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        columns = pattern.indices
        # a ghost's identity row is its owner's business
        unit = (rows == columns) & fixed[rows] & (rows < self.owned)
        kept = (~fixed[rows] & ~fixed[columns]) | unit
        self._chosen = np.flatnonzero(kept)
        self._unit = np.flatnonzero(unit[self._chosen])
        integers = load().PETSc.IntType
        self.indices = columns[self._chosen].astype(integers)
        self.indptr = np.searchsorted(rows[self._chosen], np.arange(pattern.shape[0] + 1)).astype(integers)
        self._slots: dict[bool, list[Slot]] = {False: [], True: []}

    def values(self, entries: Array) -> Array:
        """Entries of the matrix to factor, out of those in the pattern."""
        values = entries[self._chosen]
        values[self._unit] = 1.0
        return values

    def usable(self, entries: Array) -> bool:
        """Whether a matrix is finite on all ranks. Collective."""
        return bool(everywhere(self.comm, np.array([np.isfinite(entries).all()]))[0])

    def slot(self, holder: PetscFactors, multigrid: bool) -> Slot:
        """A slot that is free on every rank, for ``holder`` alone until it is forgotten. Collective."""
        slots = self._slots[multigrid]
        # garbage may be collected at different times on different ranks
        free = everywhere(self.comm, np.array([slot.free for slot in slots], dtype=bool))
        if free.any():
            slot = slots[int(np.argmax(free))]
        else:
            # all are kept: communicators, of which each slot needs its own, are scarce
            slot = Slot(self, multigrid)
            slots.append(slot)
        slot.lend(holder)
        return slot


class Slot:
    """One PETSc matrix and its factors, or its multigrid."""

    def __init__(self, plan: Plan, multigrid: bool) -> None:
        self._plan, self._multigrid = plan, multigrid
        # two factors by SuperLU_DIST on one communicator were seen to end in a crash
        self.comm = plan.comm.Dup()
        self._matrix: Mat = None
        self._conditioner: Solver = None
        self._holder: Given = lambda: None

    @property
    def free(self) -> bool:
        """Whether no one holds it."""
        return self._holder() is None

    def lend(self, holder: PetscFactors) -> None:
        """Let ``holder`` have it until it is forgotten."""
        self._holder = weakref.ref(holder)

    def factor(self, values: Array) -> Solver:
        """The solver with the matrix of these values; None if there is none. Collective."""
        x = load()
        if self._matrix is None:
            self._make()
        try:
            self._matrix.zeroEntries()
            self._matrix.setValuesLocalCSR(self._plan.indptr, self._plan.indices, values, addv=x.PETSc.InsertMode.ADD)
            self._matrix.assemble()
            self._conditioner.setOperators(self._matrix)
            self._conditioner.setUp()
            return self._conditioner if self._multigrid else self._conditioner.getFactorMatrix()
        except x.PETSc.Error:
            # what an error left behind is not used again
            self._conditioner.destroy()
            self._matrix.destroy()
            self._matrix = self._conditioner = None
            return None

    def _make(self) -> None:
        x, plan = load(), self._plan
        # petsc4py keeps what was spread over ranks until all of them are ready to let go
        x.PETSc.garbage_cleanup(self.comm)
        matrix = x.PETSc.Mat().create(self.comm)
        matrix.setSizes(((plan.owned, plan.size), (plan.owned, plan.size)))
        matrix.setType(x.PETSc.Mat.Type.AIJ)
        # rows at the seams grow by what other ranks add: the bound is that of the first fill alone
        widest = int(np.diff(plan.indptr).max(initial=1))
        matrix.setPreallocationNNZ((2 * widest, widest))
        numbers = x.PETSc.LGMap().create(plan.numbers.astype(x.PETSc.IntType), comm=self.comm)
        matrix.setLGMap(numbers, numbers)
        matrix.setOption(x.PETSc.Mat.Option.NEW_NONZERO_ALLOCATION_ERR, False)
        matrix.setOption(x.PETSc.Mat.Option.SYMMETRIC, True)
        self._matrix = matrix
        if self._multigrid:
            self._conditioner = x.PETSc.KSP().create(self.comm)
            configure(self._conditioner, multigrid())
            self._conditioner.setErrorIfNotConverged(True)
            return
        # SuperLU_DIST takes half a time longer for the factors than MUMPS, and a tenth of it for a solve
        fast = x.PETSc.Sys.hasExternalPackage("superlu_dist")
        conditioner = x.PETSc.PC().create(self.comm)
        conditioner.setType(x.PETSc.PC.Type.LU if fast else x.PETSc.PC.Type.CHOLESKY)
        conditioner.setFactorSolverType("superlu_dist" if fast else "mumps")
        self._conditioner = conditioner


class PetscFactors(Factors):
    """A factored matrix; see `invsamp.solvers.fem.factors.recurrence.Factors`. Made on all ranks of the plan together.

    With multigrid, the matrix is factored for more than `FEW` right-hand sides, and where multigrid does not converge.
    """

    def __init__(self, plan: Plan, entries: Array, multigrid: bool = False) -> None:
        self._plan, self._entries, self._solved = plan, entries, 0
        self._factors: Solver = None
        if plan.usable(entries):
            self._prepare(multigrid)

    def _prepare(self, multigrid: bool) -> None:
        self._multigrid = multigrid
        self._slot = self._plan.slot(self, multigrid)
        self._factors = self._slot.factor(self._plan.values(self._entries))

    def solve(self, right: Array) -> Array:
        """Solve for right-hand sides (n, k); NaN columns, on every rank, where that fails."""
        if self._factors is None or not right.shape[1]:
            return np.full(right.shape, np.nan)
        self._solved += right.shape[1]
        if self._multigrid and self._solved > FEW:
            self._prepare(False)
        found = self._attempt(right)
        if self._multigrid and np.isnan(found).any():
            self._prepare(False)
            found = self._attempt(right)
        return found

    def _attempt(self, right: Array) -> Array:
        plan, x = self._plan, load()
        if self._factors is None:
            return np.full(right.shape, np.nan)
        blocks = [np.array(right, dtype=float, order="F"), np.full(right.shape, np.nan, order="F")]
        try:
            self._solve(*blocks)
        except x.PETSc.Error:
            blocks[1][:] = np.nan
        solution = np.ascontiguousarray(blocks[1])
        solution[:, ~everywhere(plan.comm, np.isfinite(solution).all(axis=0))] = np.nan
        return solution

    def _solve(self, right: Array, solution: Array) -> None:
        plan, x = self._plan, load()
        # SuperLU_DIST was seen to give wrong solutions where the number of columns changes between solves
        for column in range(right.shape[1]):
            vectors = [
                x.PETSc.Vec().createWithArray(block[:, column], size=(plan.owned, plan.size), comm=self._slot.comm)
                for block in (right, solution)
            ]
            self._factors.solve(*vectors)
            for vector in vectors:
                vector.destroy()


def everywhere(comm: Comm, held: Mask) -> Mask:
    """Which of these hold on every rank."""
    return np.asarray(np.logical_and.reduce(comm.allgather(held)))
