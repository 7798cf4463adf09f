"""The heat equation as a dolfinx tutorial solves it: assembly, factors, forward and adjoint march for each theta."""

from __future__ import annotations

from typing import Any

import numpy as np

from invsamp.protocols import Array
from invsamp.solvers import _dolfinx


class TextbookHeat:
    """Energy of one reading and its gradient to the center of a Gaussian bump; backward Euler, zero boundary values.

    Forms are compiled once. Each evaluation assembles and factors the matrix, and assembles every right-hand side.
    """

    def __init__(self, cells: int, steps: int, end_time: float, width: float, sensor: Array) -> None:
        x = self._x = _dolfinx.load()
        self.steps, self.width = steps, width
        mesh = x.mesh.create_unit_square(x.MPI.COMM_SELF, cells, cells)
        space = _dolfinx.function_space(mesh, "Lagrange", 1)
        u, v = x.ufl.TrialFunction(space), x.ufl.TestFunction(space)
        self.field = x.fem.Function(space)
        step = end_time / steps
        self.matrix_form = _dolfinx.compiled(
            u * v * x.ufl.dx + step * x.ufl.inner(x.ufl.grad(u), x.ufl.grad(v)) * x.ufl.dx
        )
        self.load_form = _dolfinx.compiled(self.field * v * x.ufl.dx)
        self.nodes = space.tabulate_dof_coordinates()[:, :2]
        on_edge = np.isclose(self.nodes * (1 - self.nodes), 0).any(axis=1)
        zero = x.fem.Function(space)
        self.boundary = [x.fem.dirichletbc(zero, np.flatnonzero(on_edge).astype(np.int32))]
        self.point = np.append(sensor, 0.0)
        self.cell = int(_dolfinx.containing_cells(mesh, self.point[None])[0][0])
        self.dofs = _dolfinx.cell_dofs(space)[self.cell]
        corners = np.column_stack([self.nodes[self.dofs], np.ones(3)])
        self.weights = np.linalg.solve(corners.T, np.append(sensor, 1.0))

    def energy_and_gradient(self, center: Array, datum: float, noise_sd: float) -> tuple[float, Array]:
        """Energy (y - datum)^2 / (2 sd^2) and its gradient (2,)."""
        x = self._x
        matrix = x.petsc.assemble_matrix(self.matrix_form, self.boundary)
        matrix.assemble()
        solver = x.PETSc.KSP().create(x.MPI.COMM_SELF)
        solver.setOperators(matrix)
        solver.setType("preonly")
        solver.getPC().setType("lu")
        away = self.nodes - center
        bump = np.exp(-(away**2).sum(axis=1) / (2 * self.width**2))
        self._march(solver, bump)
        residual = (float(self.field.eval(self.point[None], [self.cell])[0]) - datum) / noise_sd
        # the adjoint march begins with the sensor's functional; the matrix is symmetric
        start = np.zeros(len(bump))
        start[self.dofs] = self.weights * residual / noise_sd
        right = matrix.createVecRight()
        right.array[:] = start
        weights = self._march_back(solver, right)
        gradient = (weights * bump) @ away / self.width**2
        for petsc in (solver, matrix, right):
            petsc.destroy()
        return 0.5 * residual**2, gradient

    def _march(self, solver: Any, start: Array) -> None:
        vector = _dolfinx.petsc_vector(self.field)
        self.field.x.array[:] = start
        _dolfinx.set_boundary_values(self.field.x.array, self.boundary)
        for _ in range(self.steps):
            load = self._x.petsc.assemble_vector(self.load_form)
            self._x.petsc.set_bc(load, self.boundary)
            solver.solve(load, vector)
            load.destroy()

    def _march_back(self, solver: Any, right: Any) -> Array:
        vector = _dolfinx.petsc_vector(self.field)
        for _ in range(self.steps):
            self._x.petsc.set_bc(right, self.boundary)
            solver.solve(right, vector)
            load = self._x.petsc.assemble_vector(self.load_form)
            load.copy(right)
            load.destroy()
        self._x.petsc.set_bc(right, self.boundary)
        return right.array.copy()
