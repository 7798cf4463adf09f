"""Batches of trajectories by any method in a bounded number of steps; a failure is a `Status`, not an exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode.integrators.batch import integrate
from invsamp.solvers.ode.integrators.cvode import Cvode
from invsamp.solvers.ode.integrators.explicit_rk import stepper
from invsamp.solvers.ode.integrators.lsoda import Lsoda
from invsamp.solvers.ode.integrators.restarted_trajectory import by_rows
from invsamp.solvers.ode.integrators.rosenbrock import RODAS
from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.tableau_dormand_prince import TABLES
from invsamp.solvers.ode.integrators.taylor import TAYLOR
from invsamp.solvers.ode.integrators.trajectories import Array, Control, Course, Outcome


def with_fallback(
    solved: Callable[[str, npt.NDArray[np.intp] | slice], Outcome],
    methods: Sequence[str],
    batch: int,
    switched: npt.NDArray[np.bool_] | None,
) -> tuple[Outcome, npt.NDArray[np.bool_]]:
    """Trajectories by one method, and by the next where that fails.

    Parameters
    ----------
    solved : callable
        From the name of a method and some rows, or all of them as a slice, to their outcome.
    methods : sequence of str
        Their names, in the order in which they are tried.
    batch : int
        Number of rows.
    switched : array of bool, shape (batch,), optional
        Rows that are not left to the first method.

    Returns
    -------
    outcome, switched
        Which rows another method solved. Where all fail it is the first one's failure, if there is one.
    """
    known = np.zeros(batch, dtype=bool) if switched is None else switched
    every = switched is None or not known.any()
    first = solved(methods[0], slice(None) if every else np.flatnonzero(~known))
    if every and (len(methods) == 1 or not np.logical_or.reduce(first.status)):  # of `OK`, which is 0
        return first, known if switched is None else known.copy()
    failed = known.copy()
    failed[~known] = ~_got_through(first)
    if len(methods) == 1 or not failed.any():
        return first, failed & known
    rows = np.flatnonzero(failed)
    second, _ = with_fallback(lambda method, some: solved(method, rows[some]), methods[1:], len(rows), None)
    taken = known[rows] | _got_through(second)
    parts = []
    for one, two in zip(first, second, strict=True):
        whole = np.empty((batch, *two.shape[1:]), dtype=two.dtype)
        whole[~known] = one
        whole[rows[taken]] = two[taken]
        parts.append(whole)
    now = known.copy()
    now[rows[taken]] = True
    return Outcome(*parts), now


def _got_through(outcome: Outcome) -> npt.NDArray[np.bool_]:
    return np.asarray((outcome.status == _OK) | (outcome.status == _STOPPED))


#: As numbers: an enumeration's members take a microsecond each.
_OK, _STOPPED = int(Status.OK), int(Status.STOPPED)


def explicit_method(name: str, control: Control) -> Stepper:
    """The method of that name, one of `EXPLICIT`, for `invsamp.solvers.ode.integrators.adaptive_step`."""
    return TAYLOR if name == "Taylor" else _pair(name, control.steps != 0)


@cache
def _pair(name: str, whole: bool) -> Stepper:
    return stepper(name, TABLES[name](), whole)


def _explicit(name: str, *arguments: Any) -> Outcome:
    return integrate(explicit_method(name, arguments[-1]), *arguments)


EXPLICIT = (*TABLES, "Taylor")
#: From the name of a method to its integrator of batches.
INTEGRATORS: dict[str, Callable[[int, Array, Array, Array, Array, Course, Control], Outcome]] = {
    "CVODE": partial(by_rows, Cvode),
    "LSODA": partial(by_rows, Lsoda),
    "Rodas5P": partial(integrate, RODAS),
    **{name: partial(_explicit, name) for name in EXPLICIT},
}
