"""Problems in UFL as forward models: the loops over a batch and over steps, failures, ranks and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers._dolfinx import sum_over_ranks
from invsamp.solvers.fem.field_contract import grids_of
from invsamp.solvers.foreign import Form
from invsamp.solvers.forward_model import (
    Tangent,
    checked_product,
    checked_tangent,
    checked_theta,
    seconds_per_evaluation,
)
from invsamp.solvers.pde import access
from invsamp.solvers.pde.equation import Equation
from invsamp.solvers.pde.operator import Operator
from invsamp.solvers.pde.problem import PdeProblem
from invsamp.solvers.pde.sensors import Sensors
from invsamp.solvers.pde.tangents import Changes
from invsamp.solvers.time_steps import mixed

Array = npt.NDArray[np.float64]

#: Degrees of freedom, over all rows of a batch, whose factors are kept for the adjoint: about a kilobyte each in 2-D.
KEPT_DOFS = 300_000


class Trajectory(NamedTuple):
    """States (local entries) before the first step and after each, and where the operator was factored."""

    states: list[Array]
    operator: Operator


class PdeModel:
    """Observations of a partial differential equation as a forward model; made by ``observe`` of a problem.

    A call leaves the functions and constants of the form with the values that they had, but for what ``update`` sets.

    On a distributed mesh every rank calls the same methods with the same arguments and gets the same results, to the
    last bit. Each row of a batch is solved by itself, from the same initial guess: what comes out depends on theta
    alone. A row whose solve fails is NaN on every rank.

    Attributes
    ----------
    parameters : tuple of str
        Names of the unknowns; theta's columns, a vector taking several.
    sizes : tuple of int
        Columns of each.
    grids : dict of str
        Digests of the meshes at whose nodes unknowns are the values, by name.
    n_observations : int
    comm : communicator
        That of the mesh.
    """

    def __init__(
        self, problem: PdeProblem, sensors: Sensors, numbers: tuple[int, ...], between: Array | None = None
    ) -> None:
        equation = problem.equation
        self.problem, self.equation, self.sensors, self.numbers = problem, equation, sensors, numbers
        self.between, self.n_times = between, len(numbers) if between is None else len(between)
        self.parameters, self.sizes = equation.unknowns.names, equation.unknowns.sizes
        self.grids = grids_of(*(getattr(part, "field", None) for part in equation.unknowns.parts))
        self.comm = equation.comm
        self.n_observations = self.n_times * sensors.count
        self._dofs = int(equation.space.dofmap.index_map.size_global * equation.space.dofmap.index_map_bs)
        self._max_kept = max(1, KEPT_DOFS // max(self._dofs, 1))
        coefficients = [part.coefficient for part in equation.unknowns.parts]
        self._initial_part = None
        for number, coefficient in enumerate(coefficients):
            if coefficient is problem.initial:
                self._initial_part = number
        _check_effect(equation, sensors.forms, self._initial_part)
        self._moves = equation.operator_depends_on(problem.previous, problem.clock.time)
        self._varies = equation.operator_depends_on(*coefficients)
        # the first operator is shared by all rows where no unknown changes it
        self._fixed = equation.linear and not self._varies
        self._operators: list[Operator] = []

    def __repr__(self) -> str:
        columns = ", ".join(
            name if size == 1 else f"{name}[{size}]" for name, size in zip(self.parameters, self.sizes, strict=True)
        )
        kind = "linear" if self.equation.linear else "nonlinear"
        return (
            f"{type(self).__name__}({kind} in the state, unknowns ({columns}), {self.n_observations} observations, "
            f"{self._dofs} degrees of freedom on {self.comm.size} rank(s), operator factored {self.factored})"
        )

    @property
    def factored(self) -> str:
        """How often the operator is assembled and factored, in words."""
        if not self.equation.linear:
            return "at each step of Newton's method"
        if self._moves:
            return "at each time step"
        often = "once for each theta" if self._varies else "once"
        return often if self.problem.clock.update is None else f"{often}, and when update changes it"

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, dimension)."""
        theta = checked_theta(theta, self.equation.unknowns.dimension)
        y = np.full((len(theta), self.n_observations), np.nan)
        with self.problem.borrowed():
            for row, values in enumerate(theta):
                solution = self._solve(values, self._operator(0))
                if solution is not None:
                    y[row] = sum_over_ranks(self.comm, self._observe(solution))
        return y

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations and the product cotangent (batch, m) -> (batch, dimension), by the discrete adjoint."""
        theta = checked_theta(theta, self.equation.unknowns.dimension).copy()
        y, solutions = self._solved(theta)

        def vjp(cotangent: Array) -> Array:
            gradient = np.full(theta.shape, np.nan)
            with self.problem.borrowed():
                for row, solution in enumerate(solutions):
                    if solution is None or not np.isfinite(cotangent[row]).all():
                        continue
                    found = self._adjoint(theta[row], solution, cotangent[row])
                    if found is not None:
                        gradient[row] = sum_over_ranks(self.comm, found)
            return gradient

        return y, checked_product(vjp, y.shape)

    def tangent(self, theta: Array) -> Tangent:
        """Observations (batch, m), and products with k directions (batch, k, p) and cotangents (batch, k, m).

        The factors of every row are kept, as far as there is room: a product with a direction or a cotangent takes
        solves alone, unless the matrix changes from step to step.
        """
        theta = checked_theta(theta, self.equation.unknowns.dimension).copy()
        y, solutions = self._solved(theta)

        def products(of: Callable[[Array, Trajectory, Array], Array | None], vectors: Array, width: int) -> Array:
            found = np.full((*vectors.shape[:2], width), np.nan)
            with self.problem.borrowed():
                for row, solution in enumerate(solutions):
                    for k, vector in enumerate(vectors[row]):
                        if solution is None or not np.isfinite(vector).all():
                            continue
                        one = of(theta[row], solution, vector)
                        if one is not None:
                            found[row, k] = sum_over_ranks(self.comm, one)
            return found

        def jvp(directions: Array) -> Array:
            return products(self._along, directions, self.n_observations)

        def vjp(cotangents: Array) -> Array:
            return products(self._adjoint, cotangents, theta.shape[1])

        return checked_tangent((y, jvp, vjp), (len(theta), theta.shape[1]))

    @property
    def work(self) -> float:
        """The work of a row, counted: degrees of freedom times steps in time."""
        return float(self._dofs * self.problem.clock.steps)

    @cached_property
    def cost(self) -> float:
        """Seconds per evaluation of one row with its gradient, the least of three; the same on every rank."""
        seconds = seconds_per_evaluation(self, self.equation.unknowns.reference[None])
        return access.largest_over_ranks(self.comm, seconds)

    def _solved(self, theta: Array) -> tuple[Array, list[Trajectory | None]]:
        """Observations (batch, m) and solutions, each with an operator of its own where there is room."""
        y = np.full((len(theta), self.n_observations), np.nan)
        solutions: list[Trajectory | None] = []
        with self.problem.borrowed():
            for row, values in enumerate(theta):
                # the first one is what rows without room of their own, and calls without derivative, share
                number = row + 1 if len(theta) <= self._max_kept else 0
                solution = self._solve(values, self._operator(number))
                solutions.append(solution)
                if solution is not None:
                    y[row] = sum_over_ranks(self.comm, self._observe(solution))
        return y, solutions

    def _solve(self, theta: Array, operator: Operator) -> Trajectory | None:
        """The solution of one row (dimension,), and what `_adjoint` needs of it; None if the solve failed."""
        if not np.isfinite(theta).all():
            return None
        equation, problem = self.equation, self.problem
        equation.unknowns.write(theta)
        states = [problem.start()]
        for step in range(1, problem.clock.steps + 1):
            problem.clock.at(step)
            if problem.previous is not None:
                problem.previous.x.array[:] = states[-1]
            if not equation.solve(operator, states[-1]):
                return None
            states.append(equation.state.x.array.copy())
        return Trajectory(states, operator)

    def _observe(self, solution: Trajectory) -> Array:
        """This rank's part of the observations of a solution."""
        values = []
        for number in self.numbers:
            self._show(solution, number)
            values.append(self.sensors.values())
        return self._at_times(np.concatenate(values))

    def _at_times(self, at_steps: Array) -> Array:
        """Observations at the times from those at the steps around, or their changes."""
        return at_steps if self.between is None else mixed(self.between, at_steps, 0)

    def _adjoint(self, theta: Array, solution: Trajectory, cotangent: Array) -> Array | None:
        """This rank's part of the gradient (dimension,); None if the solve failed."""
        equation, problem = self.equation, self.problem
        equation.unknowns.write(theta)
        at_steps = cotangent if self.between is None else mixed(self.between.T, cotangent, 0)
        weights = dict(zip(self.numbers, at_steps.reshape(len(self.numbers), -1), strict=True))
        gradient = np.zeros(len(theta))
        carried = np.zeros(equation.owned)
        for step in range(problem.clock.steps, -1, -1):
            self._show(solution, step)
            if step in weights:
                carried = carried + self.sensors.seed(weights[step])
                self.sensors.add_gradient(gradient, theta, weights[step])
            # later than the last observation nothing needs to be solved
            size = float(np.abs(carried).max(initial=0.0))
            if step == 0 or not access.largest_over_ranks(self.comm, size) > 0.0:
                continue
            if not equation.solve_adjoint(solution.operator, carried):
                return None
            equation.add_gradient(gradient, theta, carried)
            carried = -equation.to_previous() if problem.previous is not None else np.zeros(equation.owned)
        if self._initial_part is not None:
            part = equation.unknowns.parts[self._initial_part]
            where = equation.unknowns.slices[self._initial_part]
            gradient[where] += part.pullback(theta[where], carried)
        return gradient

    @cached_property
    def _changes(self) -> Changes:
        return Changes(self.equation, self.problem.previous, self.sensors.forms)

    def _along(self, theta: Array, solution: Trajectory, direction: Array) -> Array | None:
        """This rank's part of the observations' change along a direction (dimension,); None if a solve failed."""
        changes = self._changes
        self.equation.unknowns.write(theta)
        changes.point(theta, direction)
        changes.state.x.array[:] = 0.0
        if self._initial_part is not None:
            changes.state.x.array[:] = changes.directions[self._initial_part].x.array
        found = []
        for step in range(max(self.numbers) + 1):
            self._show(solution, step)
            if step > 0:
                changes.previous.x.array[:] = changes.state.x.array
                if not changes.step(solution.operator):
                    return None
            if step in self.numbers:
                found.append(self.sensors.change(changes.state.x.array, changes.functionals()))
        return self._at_times(np.concatenate(found))

    def _show(self, solution: Trajectory, step: int) -> None:
        """Put everything as it was when a step was solved."""
        self.problem.clock.at(step)
        self.equation.state.x.array[:] = solution.states[step]
        if self.problem.previous is not None:
            self.problem.previous.x.array[:] = solution.states[max(step - 1, 0)]

    def _operator(self, number: int) -> Operator:
        number = 0 if self._fixed else number
        while len(self._operators) <= number:
            self._operators.append(self.equation.operator())
        return self._operators[number]


def _check_effect(equation: Equation, forms: Sequence[Form], initial: int | None) -> None:
    """Raise ValueError for unknowns that nothing depends on; part number ``initial`` is the initial state."""
    for number, part in enumerate(equation.unknowns.parts):
        if number != initial and not equation.depends_on_part(number, forms):
            raise ValueError(
                f"{', '.join(part.names)} must have an effect: neither the residual, nor the boundary conditions, "
                "nor a sensor depends on it"
            )
