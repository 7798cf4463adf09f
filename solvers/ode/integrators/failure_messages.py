"""Why trajectories failed, and what to try, in words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.integrators.trajectories import Array


def failure(status: npt.NDArray[np.int64], ended: Array, until: float, *, method: str, max_steps: int) -> str | None:
    """The message of the first failed trajectory of a batch; None if there is none.

    Parameters
    ----------
    status, ended : arrays, shape (batch,)
    until : float
        The last output time.
    method : {"auto", "RK45", "DOP853", "Rodas5P", "LSODA", "CVODE"}
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
        advice = f'the system is stiff: {max_steps} explicit steps do not reach the end. Use {other} or "Rodas5P"'
    elif kind in (Status.TOO_MANY_STEPS, Status.STIFF):
        tried = ", even with implicit methods" if method == "auto" else ""
        advice = f"{max_steps} steps do not reach the end{tried}. Use a larger max_steps, or a looser rtol"
    elif kind == Status.NON_FINITE:
        advice = "the solution diverges, or leaves the domain of rhs. Exclude such parameters by the prior or a domain"
    elif kind == Status.TOO_MANY_EVENTS:
        advice = (
            f"the events do not end within {max_steps} steps: they follow ever faster, or the change by one triggers "
            f"the next. Let an event change the states far enough, or end the integration by stop="
        )
    elif kind == Status.STEP_TOO_SMALL:
        advice = "the solution diverges, or rhs jumps: give the times of jumps as breakpoints"
    elif kind == Status.STOPPED:
        advice = "the event of stop= came before the last observation, so there is no value at that time"
    else:
        advice = (
            f"the states were solved, but not their derivatives: they overflow, lose all accuracy, or need more than "
            f"{max_steps} steps. Try {other}, a larger max_steps, a tighter rtol, or MultipleShooting where they grow "
            f"with time"
        )
    return f"{reached}{many}. {advice[0].upper()}{advice[1:]}"
