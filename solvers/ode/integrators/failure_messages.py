"""Why trajectories failed, and what to try, in words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode.integrators.methods import Status
from invsamp.solvers.ode.integrators.trajectories import Array


def failure(status: npt.NDArray[np.int64], ended: Array, until: float, *, method: str, max_steps: int) -> str | None:
    """What the first of the failed trajectories of a batch says; None if there is none.

    Parameters
    ----------
    status, ended : arrays, shape (batch,)
    until : float
        The last time that is wanted.
    method : {"auto", "RK45", "DOP853", "Rodas5P", "LSODA"}
    max_steps : int
    """
    failed = np.flatnonzero(status != Status.OK)
    if not len(failed):
        return None
    row = int(failed[0])
    kind, other = Status(int(status[row])), 'method="RK45"' if method == "LSODA" else 'method="LSODA"'
    reached = f"{kind.name} by {method} after t = {ended[row]:.6g} of {until:.6g}"
    many = f" ({len(failed)} of {len(status)} trajectories failed)" if len(status) > 1 else ""
    if kind == Status.STIFF and method != "auto":
        advice = f'the system is stiff, and {max_steps} explicit steps do not get there: {other} or "Rodas5P"'
    elif kind in (Status.TOO_MANY_STEPS, Status.STIFF):
        tried = ", nor do implicit methods" if method == "auto" else ""
        advice = f"{max_steps} steps do not get there{tried}: a larger max_steps, or a looser rtol"
    elif kind == Status.NON_FINITE:
        advice = "the solution blows up, or leaves where rhs is defined: keep the parameters away from there"
    elif kind == Status.TOO_MANY_EVENTS:
        advice = (
            f"the events have no end: they follow ever faster, or what one changes sets off the next, and {max_steps} "
            f"steps do not get past. Let an event change the states far enough, or stop= end what comes to rest"
        )
    elif kind == Status.STEP_TOO_SMALL:
        advice = "the solution blows up, or rhs jumps: give the times of jumps as breakpoints"
    elif kind == Status.STOPPED:
        advice = "the event came before the last observation: a value after it does not exist"
    else:
        advice = (
            f"the states are solved, their derivatives are not: they overflow, lose all accuracy, or need more than "
            f"{max_steps} steps. Try {other}, a larger max_steps, a tighter rtol, or MultipleShooting where they grow "
            f"with time"
        )
    return f"{reached}{many}. {advice[0].upper()}{advice[1:]}"
