"""Observed states and their Jacobian as compiled functions of one theta, with the bits of `OdeObservation.linearize`.

Anything unusual is left to Python: trajectories that fail or that another method has to solve, sensitivities that need
more accuracy, and two integrations that disagree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import carray, types

from invsamp import compiled_calls
from invsamp.compiled_calls import CompiledRows, fixed, stored
from invsamp.solvers.ode.integrators import amplification, row_integration
from invsamp.solvers.ode.integrators.amplification import of_sensitivities
from invsamp.solvers.ode.integrators.batch import plain
from invsamp.solvers.ode.integrators.row_integration import RowIntegration, solved, solved_with_tolerances
from invsamp.solvers.ode.integrators.trajectories import Array
from invsamp.solvers.ode.model import jacobian_products, state_agreement
from invsamp.solvers.ode.model.initial_values import InitialValues
from invsamp.solvers.ode.model.jacobian_products import multiply, observed_slopes
from invsamp.solvers.ode.model.ode_solver import OdeSolver
from invsamp.solvers.ode.model.parameter_mapping import Naming
from invsamp.solvers.ode.model.state_agreement import MOST, largest_difference
from invsamp.solvers.ode.sensitivities import forward_sensitivities
from invsamp.solvers.ode.sensitivities.forward_sensitivities import is_final

Integers = npt.NDArray[np.intp]
#: Modules of what the functions below call.
_CALLED = (
    *(compiled_calls, amplification, row_integration, forward_sensitivities),
    *(jacobian_products, state_agreement),
)


class Plan(NamedTuple):
    """Arguments of the compiled functions below; arrays with one row are written over."""

    columns: Integers  # of each parameter, then of each other quantity, its column of theta; -1: known
    known: Array  # the values of those
    entries: Integers  # of each initial value its place among these; -1: a number
    numbers: Array  # these numbers
    moved: Integers  # places of the quantities that states are differentiated by
    seeds: Array  # derivatives of the initial values by these
    observed: Integers  # (observations, 2): time and state
    whole: Array  # (places,)
    quantities: Array  # (1, moved)
    nothing: Array  # (0, 0)
    jacobian: Array  # (1, observations, names)
    alone: RowIntegration  # of the states; the other one where that follows their steps
    together: RowIntegration  # of states and sensitivities
    led: bool  # whether steps of states and sensitivities are those of the states
    controlled: bool  # whether errors of sensitivities are
    rtol: float
    atol: float


def initial_obstacle(begin: object) -> str | None:
    """Why compiled code cannot set initial values; None if it can."""
    if not isinstance(begin, InitialValues):
        return "the ODE begins at a steady state"
    if begin.whole is not None or any(callable(entry) for entry in begin.entries.entries):
        return "initial values are formulas or functions"
    return None


def compiled_rows(
    model: OdeSolver,
    times: Array,
    t0: float,
    begin: InitialValues,
    naming: Naming,
    moving: tuple[int, ...],
    arrangement: tuple[Integers, Integers, Integers],
) -> CompiledRows:
    """Compiled functions of one row.

    Parameters
    ----------
    model, times, t0, begin, naming, moving, arrangement
        As in `invsamp.solvers.ode.model.observation.OdeObservation`; the model without a `OdeSolver.row_obstacle`, the
        initial values without an `initial_obstacle`.
    """
    n, q = len(model.states), len(model.parameters)
    observed, kept, columns = arrangement
    p, more, y0 = np.empty((1, q)), np.empty((1, len(begin.names))), np.empty((1, n))
    places = {name: k for k, name in enumerate((*model.parameters, *begin.names))}
    named = [places[entry] if isinstance(entry, str) else -1 for entry in begin.entries.entries]
    numbers = [entry if isinstance(entry, int | float) else 0.0 for entry in begin.entries.entries]
    led = model.steps_of_states
    together, owner = model.row_integration(p, n + n * len(kept), moving, times[None], t0)
    alone, other = (together, owner) if led else model.row_integration(p, n, (), times[None], t0)
    plan = Plan(
        columns,
        plain(naming.known),
        np.array(named, dtype=np.intp),
        np.array(numbers, dtype=float),
        kept,
        plain(begin.slopes(p, more, y0)[0, kept]),
        observed,
        np.empty(q + len(begin.names)),
        np.empty((1, len(kept))),
        np.empty((0, 0)),
        np.empty((1, len(observed), len(naming.names))),
        alone,
        together,
        led,
        model.error_control == "full",
        model.rtol,
        model.atol,
    )
    pointer = types.CPointer(types.float64)
    functions = (stored(each, *_CALLED) for each in (_solve, _product))
    solve, product = (fixed(each, (plan,), pointer, pointer) for each in functions)
    return CompiledRows(*(each._replace(owner=(each.owner, owner, other)) for each in (solve, product)))


def _solve(plan: Plan, theta: Any, y: Any) -> int:
    """As `CompiledRows.solve`; the steps are those of `OdeSolver.solve_from`."""
    alone, together, whole = plan.alone, plan.together, plan.whole
    names, n = plan.jacobian.shape[2], plan.entries.shape[0]
    given, seen = carray(theta, (names,)), carray(y, (plan.jacobian.shape[1],))
    for place in range(whole.shape[0]):
        column = plan.columns[place]
        whole[place] = given[column] if column >= 0 else plan.known[place]
    for k in range(together.parameters.shape[1]):
        together.parameters[0, k] = whole[k]  # which the other integration shares
    for k in range(plan.moved.shape[0]):
        plan.quantities[0, k] = whole[plan.moved[k]]
    for i in range(n):
        entry = plan.entries[i]
        together.initial[0, i] = whole[entry] if entry >= 0 else plan.numbers[i]
        alone.initial[0, i] = together.initial[0, i]
    for c in range(plan.seeds.shape[0]):
        for i in range(n):
            together.initial[0, n + c * n + i] = plan.seeds[c, i]
    if plan.led:
        if not solved_with_tolerances(together, plan.atol, plan.rtol, plan.quantities):
            return 1
    else:
        if not solved_with_tolerances(alone, plan.atol, plan.rtol, plan.nothing):
            return 1
        for i in range(n):
            together.absolute[0, i] = alone.absolute[0, i]
        of_sensitivities(plan.quantities, together.absolute)
        if not solved(together):
            return 1
        if largest_difference(alone.values, together.values, plan.quantities, plan.rtol, plan.atol)[1] > MOST:
            return 1
    if not is_final(together.values, together.status, together.peaks, n, together.absolute, plan.rtol, plan.controlled):
        return 1
    for place in range(plan.observed.shape[0]):
        seen[place] = alone.values[0, plan.observed[place, 0], plan.observed[place, 1]]
    observed_slopes(together.values, n, plan.observed, plan.moved, plan.columns, plan.jacobian)
    return 0


def _product(plan: Plan, cotangent: Any, out: Any) -> int:
    _, count, names = plan.jacobian.shape
    multiply(carray(cotangent, (1, count)), plan.jacobian, carray(out, (1, names)))
    return 0
