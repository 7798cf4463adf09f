"""Time-stepped equations in UFL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from invsamp.solvers._dolfinx import load
from invsamp.solvers.fem.field_contract import Field
from invsamp.solvers.foreign import Constant, DirichletBC, Form, Function, Given
from invsamp.solvers.pde import access
from invsamp.solvers.pde.checks import check_state
from invsamp.solvers.pde.derivatives import depends_on
from invsamp.solvers.pde.equation import Equation, NewtonSettings
from invsamp.solvers.pde.model import PdeModel
from invsamp.solvers.pde.problem import Clock, PdeProblem
from invsamp.solvers.pde.sensors import make_sensors
from invsamp.solvers.pde.unknowns import Unknowns


class TimeDependentProblem(PdeProblem):
    """F(u, u_previous, m, t; v) = 0 in every time step, for all test functions v.

    Parameters
    ----------
    residual : ufl.Form
        F of one step, any implicit one-step scheme that a user writes, with the length of the step in it.
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
        Set to ``end_time / steps`` in every solve, so that the form and the clock cannot differ. Problems may share it.
    update : callable, optional
        Called with the new time before every step, forwards and in the adjoint: for boundary values that move, say.

    Raises
    ------
    ImportError
        If dolfinx is not installed.
    ValueError
        As in `StationaryProblem`; if a time or a number of steps is not positive, or the residual does not hold
        ``step_size``.
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
        clock = Clock(end_time, steps, time, step_size, update)
        check_state(state)
        for name, other in (("previous", previous), ("initial", initial)):
            if name == "initial" and other is None:
                continue
            if not access.is_function(other) or other is state or other.function_space != state.function_space:
                raise ValueError(f"{name} must be another function of the state's space, got {other!r}")
        if initial is previous:
            raise ValueError("initial must not be previous, which changes in every step: leave it out")
        unknowns = Unknowns(parameters, fields)
        for part in unknowns.parts:
            if any(part.coefficient is known for known in (time, step_size)):
                raise ValueError(f"{part.names[0]} must not be the time or its step, which the scheme sets")
        equation = Equation(residual, state, unknowns, boundary_conditions, newton, solver_options, previous)
        if step_size is not None and not depends_on(equation.residual, step_size):
            raise ValueError(
                "step_size must be a constant that the residual holds, got another one: a form with a number in its "
                "place, such as float(dt.value), keeps that number"
            )
        super().__init__(equation, clock, previous.x.array.copy(), previous, initial)

    def observe(self, sensors: Given, times: Sequence[float] | None = None) -> TimeDependentModel:
        """Forward model: values of the state at points, or functionals of it, at chosen times.

        Parameters
        ----------
        sensors : array, shape (n_sensors, dimension), or sequence of ufl.Form
            As in `StationaryProblem.observe`.
        times : sequence of float, optional
            Increasing, from 0 on; the end time by default. Between times of the scheme observations are linear in
            time. They are ordered by time, then by sensor.

        Raises
        ------
        ValueError
            If a point lies outside the mesh, times do not increase or lie outside of [0, end_time], or an unknown or
            ``time`` has no effect.
        """
        numbers, between = self.clock.bracketed(times)
        made, clock, equation = make_sensors(sensors, self.equation.state, self.unknowns), self.clock, self.equation
        held = [depends_on(form, clock.time) for form in (equation.residual, *made.forms)]
        held += [bc.g is getattr(clock.time, "_cpp_object", None) for bc in equation.bcs]
        if clock.time is not None and clock.update is None and not any(held):
            raise ValueError(
                "time must be a constant that the residual, a boundary value or a sensor holds, got another one: a "
                "form with a number in its place, such as float(t.value), keeps that number"
            )
        return TimeDependentModel(self, made, numbers, between)


class TimeDependentModel(PdeModel):
    """Observations of a `TimeDependentProblem`."""

    @property
    def output_shape(self) -> tuple[int, int]:
        """Times and sensors."""
        return self.n_times, self.sensors.count

    @property
    def times(self) -> tuple[float, ...]:
        """When the sensors read."""
        clock = self.problem.clock
        steps = tuple(clock.end_time * number / clock.steps for number in self.numbers)
        return steps if self.between is None else tuple((self.between @ steps).tolist())
