"""The derivative of a residual to its state as a matrix, factored, and solves with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from invsamp.solvers._dolfinx import compiled, configure, load, multigrid, petsc_vector, unread
from invsamp.solvers.foreign import DirichletBC, Form, Solver, Vec

#: LU with pivoting by MUMPS. On several ranks the last bits depend on which message comes first.
DIRECT = {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "mumps"}
#: Unknowns from which multigrid takes less than a direct solve, where a matrix is used for few right-hand sides.
LARGE = 50_000
#: Largest residual of a verified solve, relative to its right-hand side. A singular matrix passes for a regular one
#: after rounding, and SuperLU_DIST was seen to solve with the matrix itself instead of its transpose.
LARGEST_RESIDUAL = 1e-3
#: Norm of the rows' sums, relative to that of a matrix, which is rounding.
ROUNDING = 1e-15
#: PETSc's codes for: not supported, no such type, no such factors. They concern the options, not of the matrix.
_WRONG_OPTIONS = (56, 86, 92)

Array = npt.NDArray[np.float64]


class Operator:
    """One matrix and one solver, used again and again: the pattern is analyzed once.

    Parameters
    ----------
    form : compiled bilinear form
    boundary_conditions : sequence of DirichletBC
        Their rows and columns are the identity's.
    options : mapping of str, optional
        PETSc's options of the solver. By default `DIRECT`; and `multigrid` for a matrix of `LARGE` size that is
        symmetric and meant for few right-hand sides, unless that does not converge.
    few : bool
        Whether each matrix is meant for few right-hand sides.

    Attributes
    ----------
    undetermined : bool
        Whether the matrix takes constants to zero: a solution, if there is one, is known up to a constant only.
    """

    def __init__(
        self,
        form: Form,
        boundary_conditions: Sequence[DirichletBC],
        options: Mapping[str, object] | None = None,
        few: bool = False,
    ) -> None:
        x = load()
        self._form, self._bcs = compiled(form), list(boundary_conditions)
        self._matrix = x.petsc.create_matrix(self._form)
        self._comm = self._matrix.comm.tompi4py()
        self._large = options is None and few and self._matrix.getSize()[0] >= LARGE
        self._solvers: dict[str, Solver] = {}
        self._options, self._unchecked = dict(DIRECT if options is None else options), options is not None
        self._solver = self._configured(self._options)
        self._held: list[Array] | None = None
        self._symmetric = self.undetermined = False

    def holds(self, values: Sequence[Array]) -> bool:
        """Whether the factors are those of `factor` with equal values, on all ranks. Collective."""
        held = self._held is not None and all(
            np.array_equal(mine, other) for mine, other in zip(self._held, values, strict=True)
        )
        return bool(self._comm.allreduce(held, op=load().MPI.LAND))

    def factor(self, values: Sequence[Array]) -> bool:
        """Assemble at the present values and factor; False if that failed.

        Parameters
        ----------
        values : sequence of array
            What the matrix depends on, to know it again.

        Raises
        ------
        ValueError
            If PETSc has no such solver for this matrix.
        """
        x = load()
        self._held = None
        try:
            self._matrix.zeroEntries()
            x.petsc.assemble_matrix(self._matrix, self._form, self._bcs)
            self._matrix.assemble()
            # a direct solver may not come back from a matrix that is not finite
            if not math.isfinite(self._matrix.norm()):
                return False
            self.undetermined = self._annihilates_constants()
            self._symmetric = self._equals_transpose()
            self._solver = self._configured(multigrid() if self._large and self._symmetric else self._options)
            self._solver.setOperators(self._matrix)
            self._solver.setUp()
        except x.PETSc.Error as error:
            if error.ierr in _WRONG_OPTIONS:
                raise ValueError(
                    f"solver_options must name solvers that PETSc has for a matrix on {self._comm.size} rank(s), "
                    f"got {self._options} ({error})"
                ) from None
            return False
        self._held = [np.array(one) for one in values]
        return True

    def solve(self, right: Vec, out: Vec, transposed: bool = False, verified: bool = False) -> bool:
        """Solve into the function ``out`` for the right-hand side in the vector ``right``; False if that failed.

        A verified solve has failed, too, if its residual is too large, or adding a constant changes nothing. Matrices
        on the way to a solution, of Newton's method, may be singular.

        Raises
        ------
        ValueError
            If PETSc has read some of the options nowhere.
        """
        solved = self._tried(right, out, transposed, verified)
        self._check_options()
        if solved:
            return True
        direct = self._configured(self._options)
        if self._held is None or self._solver == direct:
            return False
        # multigrid did not converge: the matrix may be indefinite
        self._solver = direct
        try:
            self._solver.setOperators(self._matrix)
            self._solver.setUp()
        except load().PETSc.Error:
            return False
        return self._tried(right, out, transposed, verified)

    def _tried(self, right: Vec, out: Vec, transposed: bool, verified: bool) -> bool:
        """One attempt, by the present solver."""
        x = load()
        solution = petsc_vector(out)
        try:
            # not every solver has transposed solves: hypre's multigrid has none
            other = transposed and not self._symmetric
            (self._solver.solveTranspose if other else self._solver.solve)(right, solution)
        except x.PETSc.Error:
            return False
        # both are the same on every rank
        converged = self._solver.getConvergedReason() > 0 and math.isfinite(solution.norm())
        out.x.scatter_forward()
        wrong = verified and (self.undetermined or self._is_wrong(right, solution, transposed))
        return bool(converged) and not wrong

    def _equals_transpose(self) -> bool:
        """Whether the matrix and its transpose have the same product with a vector of many values."""
        vector = self._matrix.createVecRight()
        vector.setArray(np.cos(np.arange(*vector.getOwnershipRange(), dtype=float)))
        products = vector.duplicate(), vector.duplicate()
        self._matrix.mult(vector, products[0])
        self._matrix.multTranspose(vector, products[1])
        size = products[1].norm()
        products[0].axpy(-1.0, products[1])
        symmetric = products[0].norm() <= 1e-12 * size
        for used in (vector, *products):
            used.destroy()
        return bool(symmetric)

    def _annihilates_constants(self) -> bool:
        """Whether rows sum to zero, to rounding."""
        ones, sums = self._matrix.createVecs()
        ones.set(1.0)
        self._matrix.mult(ones, sums)
        found = sums.norm() <= ROUNDING * self._matrix.norm()
        ones.destroy(), sums.destroy()
        return bool(found)

    def _is_wrong(self, right: Vec, solution: Vec, transposed: bool) -> bool:
        """Whether a solve solved something else."""
        residual = right.duplicate()
        (self._matrix.multTranspose if transposed else self._matrix.mult)(solution, residual)
        residual.axpy(-1.0, right)
        wrong = residual.norm() > LARGEST_RESIDUAL * right.norm()
        residual.destroy()
        return bool(wrong)

    def _check_options(self) -> None:
        """After a first attempt: all are read by then, those of parts of a solver and of its factors too."""
        if not self._unchecked:
            return
        self._unchecked = False
        wrong = unread(self._solver.getOptionsPrefix(), self._options)
        if wrong:
            raise ValueError(
                f"solver_options must be options that the solver reads, got {wrong}, which it does not: misspelled, or "
                "of another kind of solver"
            )

    def _configured(self, options: Mapping[str, object]) -> Solver:
        """The solver with these options, made once."""
        x = load()
        key = repr(sorted(options.items()))
        if key in self._solvers:
            return self._solvers[key]
        solver = x.PETSc.KSP().create(self._matrix.comm)
        solver.setOperators(self._matrix)
        try:
            self._matrix.setOptionsPrefix(configure(solver, options))
        except x.PETSc.Error as error:
            raise ValueError(
                f"solver_options must be options that PETSc knows, got {dict(options)} ({error})"
            ) from None
        # what is not a setting of the solver itself, MUMPS's own say, is read when it factors: the entries stay
        solver.setErrorIfNotConverged(False)
        self._solvers[key] = solver
        return solver
