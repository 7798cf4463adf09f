"""One trajectory after the other, integrated where compiled code asks for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.compiled_calls import call_fixed, fixed
from invsamp.solvers.ode.integrators.adaptive_step import march, scratch_of
from invsamp.solvers.ode.integrators.amplification import of_sensitivities, set_tolerances
from invsamp.solvers.ode.integrators.batch import plain
from invsamp.solvers.ode.integrators.function_pointers import INNER
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.trajectories import Array, Control, Course, Integers, Outcome


class RowIntegration(NamedTuple):
    """The integration of one trajectory of n states, m components in all, with arrays that each use writes over."""

    address: int  # of `adaptive_step.march`, with all its arguments fixed
    context: int
    parameters: Array  # (1, q)
    initial: Array  # (1, m)
    absolute: Array  # (1, m)
    values: Array  # (1, n_times, m)
    status: Integers  # (1,)
    peaks: Array  # (1, m)
    needed: Array  # (1, n)
    unsolved: Array  # (0, n)
    again: npt.NDArray[np.bool_]  # (1,)


def row_integration(
    method: Stepper, rhs: int, parameters: Array, m: int, times: Array, start: float, course: Course, control: Control
) -> tuple[RowIntegration, object]:
    """An integration without interruptions, and what keeps it in memory.

    Parameters
    ----------
    method, rhs, course, control
        As of `invsamp.solvers.ode.integrators.batch.integrate`.
    parameters : array, shape (1, q)
        Read at each use.
    m : int
        Number of components.
    times : array, shape (1, n_times)
    start : float
    """
    n = control.n_states
    outcome = Outcome(
        values=np.empty((1, times.shape[1], m)),
        status=np.empty(1, dtype=np.int64),
        evaluations=np.empty(1, dtype=np.int64),
        steps=np.empty(1, dtype=np.int64),
        ended=np.empty(1),
        peaks=np.empty((1, m)),
        needed=np.empty((1, n)),
    )
    initial, control = np.empty((1, m)), control._replace(absolute=np.empty((1, m)))
    begin, scratch = np.array([start]), scratch_of(method, control, m, 0)
    arguments = rhs, parameters, initial, plain(times), begin, course, control, outcome, scratch, 0, 1
    made = fixed(march(method, False, False), arguments)
    found = RowIntegration(
        *made[:2],
        parameters,
        initial,
        control.absolute,
        outcome.values,
        outcome.status,
        outcome.peaks,
        outcome.needed,
        np.empty((0, n)),
        np.empty(1, dtype=np.bool_),
    )
    return found, (made.owner, found)


@njit(**{**INNER, "_nrt": False})
def solved(row: RowIntegration) -> bool:
    """Integrate with the tolerances that are there; whether it got through."""
    unused = row.needed[0]
    return call_fixed(row.address, row.context, unused, unused) == 0 and row.status[0] == 0


@njit(**{**INNER, "_nrt": False})
def solved_with_tolerances(row: RowIntegration, atol: float, rtol: float, quantities: Array) -> bool:
    """As `invsamp.solvers.ode.model.ode_solver.OdeSolver.integrated`; whether it got through."""
    y, absolute, again = row.initial, row.absolute, row.again
    set_tolerances(atol, rtol, y, row.unsolved, y, absolute, again)
    while True:
        of_sensitivities(quantities, absolute)
        if not solved(row):
            return False
        if not set_tolerances(atol, rtol, y, row.needed, row.peaks, absolute, again):
            return True
