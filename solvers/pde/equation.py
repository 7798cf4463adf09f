r"""A residual F(u, m; v) = 0 in UFL: its solution by Newton's method and its adjoint.

Let :math:`J(u, m)` be a functional and :math:`F_\lambda = F(u, m; \lambda)`. The Lagrangian :math:`J - F_\lambda`
equals J wherever F vanishes, whatever :math:`\lambda` is. The :math:`\lambda` that makes it stationary in u solves the
adjoint equation :math:`(\partial F/\partial u)^T \lambda = \partial J/\partial u`, and then
:math:`dJ/dm = \partial J/\partial m - \partial F_\lambda/\partial m`. UFL gives all of these derivatives; what is
differentiated is the discrete problem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, integer, mapping, optional, real, store
from invsamp.solvers._dolfinx import compiled, load, set_boundary_values
from invsamp.solvers.foreign import Coefficient, DirichletBC, Form, Function
from invsamp.solvers.pde import access
from invsamp.solvers.pde.boundary import BoundaryUnknowns
from invsamp.solvers.pde.checks import check_boundary_conditions, check_residual
from invsamp.solvers.pde.derivatives import depends_on, differentiate, expand, partial, with_degrees
from invsamp.solvers.pde.operator import Operator
from invsamp.solvers.pde.unknowns import Unknowns

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NewtonSettings:
    """When Newton's method stops.

    Parameters
    ----------
    tolerance : float, > 0
        Largest last step, relative to the largest entry of the state. As the steps shrink quadratically, the error left
        is about the tolerance's square.
    max_iterations : int
        Steps before the solve counts as failed.
    max_halvings : int
        How often a step is halved until the residual falls.

    Raises
    ------
    ValueError
        If a setting is out of range.
    """

    tolerance: float = 1e-8
    max_iterations: int = 25
    max_halvings: int = 10

    def __post_init__(self) -> None:
        store(
            self,
            tolerance=real("tolerance", self.tolerance, above=0, below=1),
            max_iterations=integer("max_iterations", self.max_iterations, least=1),
            max_halvings=integer("max_halvings", self.max_halvings, least=0),
        )


class Equation:
    """The residual, its derivatives, and one place for the state and the adjoint.

    Parameters
    ----------
    residual : ufl.Form
        Linear in one test function.
    state : Function
        What is solved for.
    unknowns : Unknowns
    boundary_conditions : sequence of DirichletBC
    previous : Function, optional
        The state at the last time.
    newton : NewtonSettings, optional
    solver_options : mapping, optional
        As in `Operator`.

    Attributes
    ----------
    linear : bool
        Whether the residual is affine in the state.
    residual : ufl.Form
        With the degrees of quadrature of all that is derived from it.

    Raises
    ------
    ValueError
        If the residual is not a residual of the state.
    """

    def __init__(
        self,
        residual: Form,
        state: Function,
        unknowns: Unknowns,
        boundary_conditions: Sequence[DirichletBC],
        newton: NewtonSettings | None = None,
        solver_options: Mapping[str, object] | None = None,
        previous: Function = None,
    ) -> None:
        x = load()
        check_residual(residual, state, previous)
        residual = with_degrees(residual)
        for part in unknowns.parts:
            if part.coefficient is state or part.coefficient is previous:
                raise ValueError(f"{part.names[0]} must not be the state or the previous state, which are solved for")
        self.state, self.unknowns, self.residual = state, unknowns, residual
        given = optional(instance, "newton", newton, NewtonSettings, "a NewtonSettings")
        self.newton: NewtonSettings = given or NewtonSettings()
        self.space, self.comm = state.function_space, state.function_space.mesh.comm
        self.bcs = check_boundary_conditions(boundary_conditions, self.space)
        self._options = optional(mapping, "solver_options", solver_options)
        self.adjoint, self._right, self._step = (x.fem.Function(self.space) for _ in range(3))
        self._residual = compiled(residual)
        self._derivative = expand(x.ufl.derivative(residual, state, x.ufl.TrialFunction(self.space)))
        if not self._derivative.integrals():
            raise ValueError("residual must depend on the state, got one whose derivative to it vanishes")
        self._jacobian = compiled(self._derivative)
        self.linear = not depends_on(self._derivative, state)
        self._held = (*self._derivative.coefficients(), *self._derivative.constants())
        (test,) = residual.arguments()
        self.weak = x.ufl.replace(residual, {test: self.adjoint})
        mesh = self.space.mesh
        self._partials = [partial(self.weak, part.coefficient, mesh) for part in unknowns.parts]
        self._boundary = BoundaryUnknowns(self.bcs, unknowns, self.space)
        self._to_state = self._vector_form(state) if self._boundary else None
        self._to_previous = self._vector_form(previous) if previous is not None else None
        dofs = [np.asarray(bc.dof_indices()[0]) for bc in self.bcs]
        self._fixed = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *dofs])).astype(np.intp)
        self.owned = access.owned_dofs(self.space)
        self.fixed_owned = self._fixed[self._fixed < self.owned]

    def operator(self) -> Operator:
        """A new matrix and solver for the derivative to the state."""
        # of a scheme in time each matrix has many right-hand sides
        return Operator(self._jacobian, self.bcs, self._options, few=self._to_previous is None)

    def operator_depends_on(self, *coefficients: Coefficient) -> bool:
        """Whether the derivative to the state changes with any of the functions and constants."""
        return any(depends_on(self._derivative, coefficient) for coefficient in coefficients if coefficient is not None)

    def depends_on_part(self, number: int, forms: Sequence[Form]) -> bool:
        """Whether the residual, a boundary value or one of the forms depends on a part of the unknowns."""
        if self._partials[number] is not None or self._boundary.holds(number):
            return True
        part = self.unknowns.parts[number]
        return any(differentiate(form, part.coefficient, self.space.mesh) is not None for form in forms)

    def ready(self, operator: Operator) -> bool:
        """Have the operator's factors be those at the present values; False if that failed.

        It is factored only if something that it depends on has changed since: its coefficients, the state among them
        where the equation is not linear, or the points of the mesh.
        """
        held = [access.values_of(one) for one in self._held]
        held.append(self.space.mesh.geometry.x)
        return operator.holds(held) or operator.factor(held)

    def solve(self, operator: Operator, guess: Array) -> bool:
        """Solve for the state at the present unknowns, from ``guess`` (local entries); False if that failed.

        The same decision falls on every rank.
        """
        self.state.x.array[:] = guess
        set_boundary_values(self.state.x.array, self.bcs)
        self.state.x.scatter_forward()
        size = self._assemble_residual()
        if self.linear:
            if not math.isfinite(size) or not self.ready(operator):
                return False
            return operator.solve(access.vector(self._right), self._step, verified=True) and self._move(1.0)
        for _ in range(self.newton.max_iterations):
            if not math.isfinite(size):
                return False
            if not self.ready(operator) or not operator.solve(access.vector(self._right), self._step):
                return False
            step = access.vector(self._step).norm(load().PETSc.NormType.INFINITY)
            last = step <= self.newton.tolerance * access.vector(self.state).norm(load().PETSc.NormType.INFINITY)
            size = self._move_downhill(size, last)
            if last:
                return math.isfinite(size) and not operator.undetermined
        return False

    def solve_adjoint(self, operator: Operator, seed: Array) -> bool:
        """Solve the adjoint equation for ``seed``, this rank's owned part of the derivative to the state."""
        if not self.ready(operator):
            return False
        right = self._right.x.array
        right[: self.owned] = seed
        right[self.fixed_owned] = 0.0  # boundary values do not answer to the residual
        return operator.solve(access.vector(self._right), self.adjoint, transposed=True, verified=True)

    def add_gradient(self, gradient: Array, theta: Array, seed: Array) -> None:
        """Add this rank's part of the gradient through residual and boundary values, after `solve_adjoint`."""
        parts, columns = self.unknowns.parts, self.unknowns.slices
        for part, found, where in zip(parts, self._partials, columns, strict=True):
            if found is not None:
                gradient[where] -= part.pullback(theta[where], found.assemble())
        if self._to_state is not None:
            reaction = seed - access.assemble_vector(self._to_state, self._right)
            for k, cotangent in self._boundary.cotangents(reaction):
                gradient[columns[k]] += parts[k].pullback(theta[columns[k]], cotangent)

    @property
    def has_unknown_boundary(self) -> bool:
        """Whether unknowns are boundary values."""
        return bool(self._boundary)

    def change_boundary(self, directions: Sequence[Coefficient], into: Array) -> None:
        """Write the changes of boundary values along directions of the unknowns, at this rank's entries."""
        self._boundary.change(directions, into)

    def to_previous(self) -> Array:
        """This rank's part of the residual's derivative to the previous state, applied to the adjoint."""
        return access.assemble_vector(self._to_previous, self._right).copy()

    def _vector_form(self, function: Function) -> Form:
        x = load()
        return compiled(expand(x.ufl.derivative(self.weak, function, x.ufl.TestFunction(function.function_space))))

    def _assemble_residual(self) -> float:
        values = access.assemble_vector(self._residual, self._right)
        values[self.fixed_owned] = 0.0
        return float(access.vector(self._right).norm())

    def _move(self, length: float) -> bool:
        self.state.x.array[:] -= length * self._step.x.array
        return True

    def _move_downhill(self, size: float, last: bool) -> float:
        """Take the step, shortened until the residual falls; its new size, NaN if it does not fall."""
        length = 1.0
        self._move(length)
        new = self._assemble_residual()
        # the last step is within rounding: there is nothing left to fall
        for _ in range(0 if last else self.newton.max_halvings):
            if new < size:
                break
            length /= 2.0
            self._move(-length)
            new = self._assemble_residual()
        return new if last or new < size else math.nan
