"""Time-stepped equations in UFL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import function, integer, optional, real, store
from invsamp.solvers._dolfinx import load
from invsamp.solvers.fem.field_contract import Field
from invsamp.solvers.foreign import Constant, DirichletBC, Form, Function, Given
from invsamp.solvers.pde import access
from invsamp.solvers.pde.checks import check_state
from invsamp.solvers.pde.equation import Equation, NewtonSettings
from invsamp.solvers.pde.model import PdeModel
from invsamp.solvers.pde.operator import Operator
from invsamp.solvers.pde.sensors import Sensors, make_sensors
from invsamp.solvers.pde.stationary import check_effect
from invsamp.solvers.pde.unknowns import Unknowns
from invsamp.solvers.time_steps import step_numbers

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """The times of a scheme with equal steps, and what must be told of them.

    Parameters
    ----------
    end_time : float, > 0
    steps : int, >= 1
    time : dolfinx.fem.Constant, optional
        Set to the new time of every step.
    step_size : dolfinx.fem.Constant, optional
        Set to ``end_time / steps``.
    update : callable, optional
        Called with the new time before every step, for what else depends on it.
    """

    end_time: float
    steps: int
    time: Constant = None
    step_size: Constant = None
    update: Callable[[float], Given] | None = None

    def __post_init__(self) -> None:
        store(
            self,
            end_time=real("end_time", self.end_time, above=0),
            steps=integer("steps", self.steps, least=1),
            update=optional(function, "update", self.update, "(time)"),
        )
        for name, constant in (("time", self.time), ("step_size", self.step_size)):
            if constant is not None and not (access.is_constant(constant) and np.size(constant.value) == 1):
                raise ValueError(f"{name} must be a scalar dolfinx.fem.Constant, got {constant!r}")
        if self.step_size is not None:
            self.step_size.value = self.end_time / self.steps

    def at(self, step: int) -> None:
        """Set what depends on time for the step that ends at time number ``step``."""
        now = self.end_time * step / self.steps
        if self.time is not None:
            self.time.value = now
        if self.update is not None:
            self.update(now)

    def step_numbers(self, times: Sequence[float] | None) -> tuple[int, ...]:
        """Numbers of ``times``, which must be times of the scheme; the last one for None."""
        return step_numbers(times, self.steps, self.end_time)


class TimeDependentProblem:
    """F(u, u_previous, m, t; v) = 0 in every time step, for all test functions v.

    Parameters
    ----------
    residual : ufl.Form
        F of one step, any implicit one-step scheme that a person writes, with the length of the step in it.
    state, previous : dolfinx.fem.Function
        u at the new and at the last time, of one space. A step's initial guess is the last time's values.
    parameters, fields, boundary_conditions, newton, solver_options
        As in `StationaryProblem`.
    end_time : float, > 0
    steps : int, >= 1
    initial : dolfinx.fem.Function, optional
        Values at time 0, of the same space; it may be one of the unknowns. By default those that ``previous`` has now.
    time : dolfinx.fem.Constant, optional
        Set to the new time of every step; write ``time - step`` for the last one.
    step_size : dolfinx.fem.Constant, optional
        Set to ``end_time / steps``, so that the form and the clock cannot differ.
    update : callable, optional
        Called with the new time before every step, forwards and in the adjoint: for boundary values that move, say.

    Raises
    ------
    ImportError
        If dolfinx is not installed.
    ValueError
        As in `StationaryProblem`; if a time or a number of steps is not positive.
    """

    def __init__(
        self,
        residual: Form,
        state: Function,
        previous: Function,
        parameters: Mapping[str, object] | None = None,
        *,
        end_time: float,
        steps: int,
        fields: Mapping[Function, Field] | None = None,
        boundary_conditions: Sequence[DirichletBC] = (),
        initial: Given = None,
        time: Constant = None,
        step_size: Constant = None,
        update: Callable[[float], Given] | None = None,
        newton: NewtonSettings | None = None,
        solver_options: Mapping[str, object] | None = None,
    ) -> None:
        load("TimeDependentProblem")
        self.clock = Clock(end_time, steps, time, step_size, update)
        check_state(state)
        for name, other in (("previous", previous), ("initial", initial)):
            if name == "initial" and other is None:
                continue
            if not access.is_function(other) or other is state or other.function_space != state.function_space:
                raise ValueError(f"{name} must be another function of the state's space, got {other!r}")
        if initial is previous:
            raise ValueError("initial must not be previous, which changes in every step: leave it out")
        self.unknowns = Unknowns(parameters, fields)
        for part in self.unknowns.parts:
            if any(part.coefficient is known for known in (time, step_size)):
                raise ValueError(f"{part.names[0]} must not be the time or its step, which the scheme sets")
        self.equation = Equation(residual, state, self.unknowns, boundary_conditions, newton, solver_options, previous)
        self.previous, self.initial = previous, initial
        self._start = previous.x.array.copy()

    def start(self) -> Array:
        """Local entries of the state at time 0, for the present unknowns."""
        return self._start if self.initial is None else self.initial.x.array.copy()

    def observe(self, sensors: Given, times: Sequence[float] | None = None) -> TimeDependentModel:
        """Forward model: values of the state at points, or functionals of it, at chosen times.

        Parameters
        ----------
        sensors : array, shape (n_sensors, dimension), or sequence of ufl.Form
            As in `StationaryProblem.observe`.
        times : sequence of float, optional
            Out of the times of the scheme, 0 among them; the end time by default. Observations are ordered by time,
            then by sensor.

        Raises
        ------
        ValueError
            If a point lies outside the mesh, a time is not one of the scheme, or an unknown has no effect.
        """
        numbers = self.clock.step_numbers(times)
        return TimeDependentModel(self, make_sensors(sensors, self.equation.state, self.unknowns), numbers)


class Trajectory(NamedTuple):
    """States (local entries) at all times, and where the operator was factored."""

    states: list[Array]
    operator: Operator


class TimeDependentModel(PdeModel):
    """Observations of a `TimeDependentProblem`."""

    def __init__(self, problem: TimeDependentProblem, sensors: Sensors, numbers: tuple[int, ...]) -> None:
        super().__init__(problem.equation, sensors)
        self.problem, self.numbers = problem, numbers
        self.n_observations = len(numbers) * sensors.count
        self.output_shape = len(numbers), sensors.count
        equation, clock = problem.equation, problem.clock
        self._initial_part = None
        for number, part in enumerate(equation.unknowns.parts):
            if part.coefficient is problem.initial:
                self._initial_part = number
        check_effect(equation, sensors.forms, self._initial_part)
        coefficients = [part.coefficient for part in equation.unknowns.parts]
        self._moves = equation.operator_depends_on(problem.previous, clock.time)
        self._varies = equation.operator_depends_on(*coefficients)
        # then all rows of a batch share it
        self._fixed = equation.operator() if equation.linear and not self._varies else None

    @property
    def work(self) -> float:
        """What a row takes, counted: degrees of freedom times steps in time."""
        return super().work * self.problem.clock.steps

    @property
    def factored(self) -> str:
        """How often the operator is assembled and factored, in words."""
        if not self.equation.linear:
            return "at each step of Newton's method"
        if self._moves:
            return "at each time step"
        often = "once for each theta" if self._varies else "once"
        return often if self.problem.clock.update is None else f"{often}, and when update changes it"

    def _solve(self, theta: Array, operator: Operator) -> Trajectory | None:
        if not np.isfinite(theta).all():
            return None
        equation, problem = self.equation, self.problem
        equation.unknowns.write(theta)
        operator = operator if self._fixed is None else self._fixed
        states = [problem.start()]
        for step in range(1, problem.clock.steps + 1):
            problem.clock.at(step)
            problem.previous.x.array[:] = states[-1]
            if not equation.solve(operator, states[-1]):
                return None
            states.append(equation.state.x.array.copy())
        return Trajectory(states, operator)

    def _observe(self, solution: Trajectory) -> Array:
        values = []
        for number in self.numbers:
            self._show(solution, number)
            values.append(self.sensors.values())
        return np.concatenate(values)

    def _adjoint(self, theta: Array, solution: Trajectory, cotangent: Array) -> Array | None:
        equation, problem = self.equation, self.problem
        equation.unknowns.write(theta)
        weights = dict(zip(self.numbers, cotangent.reshape(len(self.numbers), -1), strict=True))
        gradient = np.zeros(len(theta))
        carried = np.zeros(equation.owned)
        for step in range(problem.clock.steps, -1, -1):
            self._show(solution, step)
            if step in weights:
                carried = carried + self.sensors.seed(weights[step])
                self.sensors.add_gradient(gradient, theta, weights[step])
            if step == 0 or not (carried_anything(equation, carried)):
                continue
            if not equation.solve_adjoint(solution.operator, carried):
                return None
            equation.add_gradient(gradient, theta, carried)
            carried = -equation.to_previous()
        if self._initial_part is not None:
            part = equation.unknowns.parts[self._initial_part]
            where = equation.unknowns.slices[self._initial_part]
            gradient[where] += part.pullback(theta[where], carried)
        return gradient

    def _show(self, solution: Trajectory, step: int) -> None:
        """Put everything as it was when a step was solved."""
        self.problem.clock.at(step)
        self.equation.state.x.array[:] = solution.states[step]
        self.problem.previous.x.array[:] = solution.states[max(step - 1, 0)]


def carried_anything(equation: Equation, carried: Array) -> bool:
    """Whether any rank has a right-hand side: later than the last observation nothing needs to be solved."""
    return access.largest_over_ranks(equation.comm, float(np.abs(carried).max(initial=0.0))) > 0.0
