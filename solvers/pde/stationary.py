"""Stationary equations in UFL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array
from invsamp.solvers._dolfinx import load
from invsamp.solvers.fem.field_contract import Field
from invsamp.solvers.foreign import DirichletBC, Form, Function, Given
from invsamp.solvers.pde.equation import Equation, NewtonSettings
from invsamp.solvers.pde.model import PdeModel
from invsamp.solvers.pde.operator import Operator
from invsamp.solvers.pde.sensors import Sensors, make_sensors
from invsamp.solvers.pde.unknowns import Unknowns

Array = npt.NDArray[np.float64]


class StationaryProblem:
    """F(u, m; v) = 0 for all test functions v, linear or nonlinear in the state u.

    Parameters
    ----------
    residual : ufl.Form
        F, with the state as a Function (not a trial function) and one test function of its space.
    state : dolfinx.fem.Function
        u. Where F is not linear in it, the values that it has now are the initial guess of every solve.
    parameters : mapping from name to dolfinx.fem.Constant or dolfinx.fem.Function
        Unknowns. A constant takes one column of theta for each entry. A function takes one for each of its values,
        ordered by their points (x runs fastest, then y), whatever the number of ranks; its components stand together.
    fields : mapping from dolfinx.fem.Function to Field
        Functions whose values are those of a parametrized field (`invsamp.solvers.fem.fields`), with its names.
    boundary_conditions : sequence of dolfinx.fem.DirichletBC
        Their values may be unknowns too.
    newton : NewtonSettings, optional
    solver_options : mapping of str, optional
        PETSc's options for the linear solves; by default a direct solve by MUMPS (`DIRECT`). Where the matrix is not
        symmetric, gradients need solves with its transpose: where a solver has none that is right, they are NaN.

    Raises
    ------
    ImportError
        If dolfinx is not installed; the message says how to install it.
    ValueError
        If the residual is not a residual of the state, or an unknown is not a constant or function.

    Notes
    -----
    The communicator is the mesh's: make the mesh on `MPI.COMM_SELF` for a model of one's own on every rank.

    Examples
    --------
    >>> u, v = Function(V), ufl.TestFunction(V)
    >>> a = Constant(mesh, 1.0)
    >>> F = a * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - 10.0 * v * ufl.dx
    >>> model = StationaryProblem(F, u, {"a": a}, boundary_conditions=[bc]).observe([[0.5, 0.5]])
    """

    def __init__(
        self,
        residual: Form,
        state: Function,
        parameters: Mapping[str, object] | None = None,
        *,
        fields: Mapping[Function, Field] | None = None,
        boundary_conditions: Sequence[DirichletBC] = (),
        newton: NewtonSettings | None = None,
        solver_options: Mapping[str, object] | None = None,
    ) -> None:
        load("StationaryProblem")
        self.unknowns = Unknowns(parameters, fields)
        self.equation = Equation(residual, state, self.unknowns, boundary_conditions, newton, solver_options)
        # what the state happens to hold would only add rounding where one step solves the equation
        self.guess = np.zeros_like(state.x.array) if self.equation.linear else state.x.array.copy()

    def observe(self, sensors: Given) -> StationaryModel:
        """Forward model: values of the state at points, or functionals of it.

        Parameters
        ----------
        sensors : array, shape (n_sensors, dimension), or sequence of ufl.Form
            Points of the mesh, or functionals such as ``u * dx``, which may hold unknowns.

        Raises
        ------
        ValueError
            If a point lies outside the mesh, or an unknown has no effect.
        """
        return StationaryModel(self, make_sensors(sensors, self.equation.state, self.unknowns))


class Solution(NamedTuple):
    """State (local entries), and where its operator was factored."""

    state: Array
    operator: Operator


class StationaryModel(PdeModel):
    """Observations of a `StationaryProblem`."""

    def __init__(self, problem: StationaryProblem, sensors: Sensors) -> None:
        super().__init__(problem.equation, sensors)
        self.problem = problem
        check_effect(self.equation, sensors.forms)
        coefficients = [part.coefficient for part in self.equation.unknowns.parts]
        once = self.equation.linear and not self.equation.operator_depends_on(*coefficients)
        self._fixed = self.equation.operator() if once else None

    @property
    def factored(self) -> str:
        """How often the operator is assembled and factored, in words."""
        if self._fixed is not None:
            return "once"
        return "once for each theta" if self.equation.linear else "at each step of Newton's method"

    def solve(self, theta: npt.ArrayLike) -> Function:
        """The state for theta (dimension,): the problem's own Function, which the next solve overwrites.

        Raises
        ------
        RuntimeError
            If the solve failed.
        """
        values = array("theta", theta, (self.equation.unknowns.dimension,), finite=False, nan=True)
        if self._solve(values, self._operator(0)) is None:
            raise RuntimeError(f"the solve failed at theta {values.tolist()}")
        return self.equation.state

    def _solve(self, theta: Array, operator: Operator) -> Solution | None:
        if not np.isfinite(theta).all():
            return None
        self.equation.unknowns.write(theta)
        operator = operator if self._fixed is None else self._fixed
        if not self.equation.solve(operator, self.problem.guess):
            return None
        return Solution(self.equation.state.x.array.copy(), operator)

    def _observe(self, solution: Solution) -> Array:
        return self.sensors.values()

    def _adjoint(self, theta: Array, solution: Solution, cotangent: Array) -> Array | None:
        equation = self.equation
        equation.unknowns.write(theta)
        equation.state.x.array[:] = solution.state
        seed = self.sensors.seed(cotangent)
        if not equation.solve_adjoint(solution.operator, seed):
            return None
        gradient = np.zeros(len(theta))
        equation.add_gradient(gradient, theta, seed)
        self.sensors.add_gradient(gradient, theta, cotangent)
        return gradient


def check_effect(equation: Equation, forms: Sequence[Form], initial: int | None = None) -> None:
    """Raise ValueError for unknowns that nothing depends on; part number ``initial`` is the initial state."""
    for number, part in enumerate(equation.unknowns.parts):
        if number != initial and not equation.depends_on_part(number, forms):
            raise ValueError(
                f"{', '.join(part.names)} must have an effect: neither the residual, nor the boundary conditions, "
                "nor a sensor depends on it"
            )
