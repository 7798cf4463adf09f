"""Stationary equations in UFL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array
from invsamp.solvers._dolfinx import load
from invsamp.solvers.fem.field_contract import Field
from invsamp.solvers.foreign import DirichletBC, Form, Function, Given
from invsamp.solvers.pde.equation import Equation, NewtonSettings
from invsamp.solvers.pde.model import PdeModel
from invsamp.solvers.pde.problem import Clock, PdeProblem
from invsamp.solvers.pde.sensors import make_sensors
from invsamp.solvers.pde.unknowns import Unknowns


class StationaryProblem(PdeProblem):
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
        PETSc's options for the linear solves; by default multigrid for large symmetric matrices, and a direct solve by
        MUMPS (`DIRECT`) for all others. Where the matrix is not symmetric, gradients need solves with its transpose:
        where a solver has none that is right, they are NaN.

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
        unknowns = Unknowns(parameters, fields)
        equation = Equation(residual, state, unknowns, boundary_conditions, newton, solver_options)
        # what the state happens to hold would only add rounding where one step solves the equation
        guess = np.zeros_like(state.x.array) if equation.linear else state.x.array.copy()
        super().__init__(equation, Clock(1.0, 1), guess)

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
        return StationaryModel(self, make_sensors(sensors, self.equation.state, self.unknowns), (1,))


class StationaryModel(PdeModel):
    """Observations of a `StationaryProblem`."""

    def solve(self, theta: npt.ArrayLike) -> Function:
        """The state for theta (dimension,): the problem's own Function, which the next `solve` overwrites.

        The unknowns in the form keep their values at theta, too.

        Raises
        ------
        RuntimeError
            If the solve failed.
        """
        values = array("theta", theta, (self.equation.unknowns.dimension,), finite=False, nan=True)
        if self._solve(values, self._operator(0)) is None:
            raise RuntimeError(f"the solve failed at theta {values.tolist()}")
        return self.equation.state
