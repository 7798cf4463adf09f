r"""Sensitivities of trajectories that are solved already, and whether they can be trusted.

Under full error control every sensitivity keeps the local tolerance, relative to its size at the time. If it was larger
before, by a factor A, than where it is wanted, errors may be left that are A times that tolerance. For example,
sensitivities of relaxation oscillators grow by mu^2 in a jump and vanish after it. Then the trajectory is integrated
again with a smaller tolerance, such that the bound A * rtol falls to sqrt(rtol). The tolerance is then divided by ten
until the change shows that the error left is about sqrt(rtol) of their scale. Where rounding or the bound on steps ends
this sooner, sensitivities are given if the last change was below a tenth, and else are not. Derivatives of a method's
discrete steps (Rodas5P) lose far less, as errors along the flow shrink with it: there a tenth of the tolerance comes
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.integrators.trajectories import Array, Integers, Outcome

#: Integrates states and sensitivities of some rows, with the tolerances multiplied by a factor.
Run = Callable[[npt.NDArray[np.intp], float], Outcome]
_OK = int(Status.OK)
#: Largest change at the last tightening of the tolerance, relative to the largest value wanted, at which a sensitivity
#: is given.
MOST_CHANGE = 0.1
#: The same, in units of sqrt(rtol), at which no further tightening follows: a tenth of the tolerance leaves about a
#: tenth of the error.
ENOUGH = 3.0
#: Relative tolerance below which rounding counts.
LEAST_RTOL = 1e-12
#: The first tightening of the tolerance where sensitivities are those of the discrete steps.
GENTLY = 0.1


class Differentiated(NamedTuple):
    """The sensitivities that `differentiate` adds to solved trajectories."""

    slopes: Array  # (batch, n_times, columns, n_states), NaN where there are none
    status: Integers  # (batch,)
    evaluations: Integers  # (batch,), of these integrations alone
    steps: Integers  # (batch,)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # relative to a tiny state they overflow
def differentiate(
    states: Outcome,
    run: Run,
    columns: int,
    rtol: float,
    floor: Array | None,
    discrete: npt.NDArray[np.bool_] | None = None,
) -> Differentiated:
    """Sensitivities of the rows of ``states`` that were solved.

    Parameters
    ----------
    states : Outcome
    run : callable
    columns : int
        How many quantities the states are differentiated by.
    rtol : float
        Relative tolerance of ``run`` at factor 1.
    floor : array, shape (batch, columns, n_states), optional
        Size of a sensitivity below which it does not count. None tightens no tolerance.
    discrete : array of bool, shape (batch,), optional
        Rows whose sensitivities are the derivatives of the discrete steps; none by default.
    """
    shape = (*states.values.shape[:2], columns, states.values.shape[2])
    status = states.status.copy()
    evaluations, steps = np.zeros_like(status), np.zeros_like(status)
    rows = np.flatnonzero((status == Status.OK) | (status == Status.STOPPED))
    found = run(rows, 1.0)
    slopes = _slopes(found, shape)
    if len(rows) < len(status):
        slopes, some = np.full(shape, np.nan), slopes
        slopes[rows] = some
    status[rows[found.status != status[rows]]] = Status.NO_SENSITIVITIES
    evaluations[rows], steps[rows] = found.evaluations, found.steps
    if floor is not None:
        size, bound = _peaks(found, *shape[2:])
        bound *= np.sqrt(rtol)
        # the last of the times wanted is a bound from below, and mostly enough
        doubtful = (bound > (np.fmax(np.abs(slopes[rows, -1]), floor[rows]) / size[:, None]).max(axis=2)).any(axis=1)
        for k in np.flatnonzero(doubtful & (found.status == status[rows])):
            row, least = rows[k : k + 1], floor[rows[k]]
            excess = float((bound[k] / _largest(slopes[row], size[k], least)).max())
            if excess > 1.0:
                factor = 1.0 / excess if discrete is None or not discrete[rows[k]] else max(1.0 / excess, GENTLY)
                refined = _refined(row, run, slopes[row], factor, rtol, size[k], least)
                slopes[row], good, evaluated, stepped = refined
                evaluations[row] += evaluated
                steps[row] += stepped
                if not good:
                    status[row] = Status.NO_SENSITIVITIES
    lost = status == Status.NO_SENSITIVITIES
    if lost.any():
        slopes[lost] = np.nan
    if (status == Status.STOPPED).any():  # the event is found anew, at a time that differs by the tolerance
        slopes[np.isnan(states.values[:, :, 0])] = np.nan
    return Differentiated(slopes, status, evaluations, steps)


@njit(cache=True, error_model="numpy")
def is_final(
    values: Array, status: Integers, peaks: Array, n: int, absolute: Array, rtol: float, controlled: bool
) -> bool:
    """Whether all rows got through, with sensitivities that `differentiate` would give as they are.

    The first three are those of an `Outcome`.
    """
    for row in range(len(values)):
        if status[row] != _OK:
            return False
        if not controlled:
            continue
        last = values.shape[1] - 1
        for first in range(n, values.shape[2], n):
            bound = wanted = 0.0
            for i in range(n):
                size = peaks[row, i] if peaks[row, i] > 0.0 else 1.0
                bound = max(bound, peaks[row, first + i] / size)
                wanted = max(wanted, abs(values[row, last, first + i]) / size)
                wanted = max(wanted, absolute[row, first + i] / (rtol * size))
            if not math.sqrt(rtol) * bound <= wanted:
                return False
    return True


def _refined(
    row: npt.NDArray[np.intp], run: Run, slopes: Array, factor: float, rtol: float, size: Array, least: Array
) -> tuple[Array, bool, int, int]:
    """Sensitivities of one row at tolerances that suffice, whether there are such, evaluations and steps."""
    evaluations, steps, change, least_factor = 0, 0, math.inf, LEAST_RTOL / rtol
    # at least once more can the tolerance be tightened, or else it is compared with a looser one
    factor = max(factor, 10.0 * least_factor) if 10.0 * least_factor < 1.0 else 10.0
    while True:
        outcome = run(row, factor)
        evaluations += int(outcome.evaluations[0])
        steps += int(outcome.steps[0])
        if outcome.status[0] not in (Status.OK, Status.STOPPED):
            return slopes, change < MOST_CHANGE, evaluations, steps
        found = _slopes(outcome, slopes.shape)
        finest = found if factor < 1.0 else slopes
        change = float((_largest(found - slopes, size, 0.0) / _largest(finest, size, least)).max())
        slopes = finest
        if change < min(MOST_CHANGE, ENOUGH * math.sqrt(rtol)) or factor <= least_factor or factor > 1.0:
            return slopes, change < MOST_CHANGE, evaluations, steps
        factor = max(0.1 * factor, least_factor)


def _slopes(outcome: Outcome, shape: tuple[int, ...]) -> Array:
    return outcome.values[:, :, shape[3] :].reshape(len(outcome.values), *shape[1:])


def _peaks(outcome: Outcome, columns: int, n: int) -> tuple[Array, Array]:
    """Sizes of the states (rows, n), and in these units the largest entry of each sensitivity (rows, columns)."""
    size = np.where(outcome.peaks[:, :n] > 0.0, outcome.peaks[:, :n], 1.0)
    return size, (outcome.peaks[:, n:].reshape(len(size), columns, n) / size[:, None]).max(axis=2)


def _largest(slopes: Array, size: Array, floor: Array | float) -> Array:
    """Largest entry (columns,) of a trajectory's sensitivities (1, n_times, columns, n), at least ``floor``."""
    return np.asarray((np.maximum(np.fmax.reduce(np.abs(slopes[0]), axis=0), floor) / size).max(axis=1))
