"""Whether two integrations of the same trajectories agree: states alone, and states with their sensitivities.

Their steps are not the same, so one sees what the other has stepped over. Both are then within their tolerances, as far
as each can know, and the gradients belong to other values.
"""

from __future__ import annotations

import warnings
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs

Array = npt.NDArray[np.float64]

#: Difference that is reported, in units of the tolerances of the states and of what moves them as much as a relative
#: change of a parameter by the tolerance does.
MOST = 1e3

_warned: WeakSet[Rhs] = WeakSet()


def warn_of_disagreement(
    rhs: Rhs, states: Array, sensitive: Array, quantities: Array, rtol: float, atol: float
) -> None:
    """Warn, once for a right-hand side, if integrations of the same rows differ by far more than tolerances explain.

    Parameters
    ----------
    rhs : callable
    states, sensitive : arrays, shapes (batch, n_times, n) and (batch, n_times, n + n * columns)
        States alone, and together with their sensitivities.
    quantities : array, shape (batch, columns)
        What the states are differentiated by.
    rtol, atol : float
    """
    if rhs in _warned:
        return
    row, worst = largest_difference(states, sensitive, quantities, rtol, atol)
    if worst > MOST:
        _warned.add(rhs)
        warnings.warn(
            f"two integrations of one trajectory, with and without sensitivities, differ by {worst:.2g} "
            f"tolerances (row {row} of the batch). One of them stepped over a short event, or errors grow "
            "fast. Give max_step= below the shortest duration of such events, breakpoints= at their times, "
            "or a smaller rtol",
            stacklevel=2,
        )


@njit(cache=True, nogil=True, error_model="numpy")
def largest_difference(
    states: Array, sensitive: Array, quantities: Array, rtol: float, atol: float
) -> tuple[int, float]:
    """The row with the largest difference of states (batch, n_times, n), and that in units of its tolerance.

    The latter is 0 where no difference can be one to report. NaN, where there is no state or no sensitivity, counts as
    no difference.
    """
    batch, n_times, n = states.shape
    columns = sensitive.shape[2] // n - 1
    at, worst = 0, 0.0
    doubtful = False  # in units of tolerances that are no larger
    for row in range(batch):
        for k in range(n_times):
            for i in range(n):
                tolerance = atol + rtol * abs(states[row, k, i])
                doubtful |= abs(sensitive[row, k, i] - states[row, k, i]) > MOST * tolerance
    if not doubtful:
        return at, worst
    size = np.empty(n)
    for row in range(batch):
        for i in range(n):
            size[i] = 0.0
        for k in range(n_times):
            for i in range(n):
                reached = abs(states[row, k, i])
                for c in range(columns):
                    reached = max(reached, abs(sensitive[row, k, n + c * n + i] * quantities[row, c]))
                # what moves a state a little moves it by more at other times: the largest so far
                size[i] = max(size[i], reached)
                difference, tolerance = abs(sensitive[row, k, i] - states[row, k, i]), atol + rtol * size[i]
                if difference > worst * tolerance:  # seldom: divisions take long
                    at, worst = row, difference / tolerance
    return at, worst
