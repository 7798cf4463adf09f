"""Integration of one trajectory with a bounded number of steps; a failure is a `Status`, never an exception."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.integrate import RK45, odeint

Array = npt.NDArray[np.float64]
#: (t, y, p) -> dy/dt, where y may hold sensitivities after the states
FlatRhs = Callable[[float, Array, tuple[float, ...]], Sequence[float]]


class Status(enum.IntEnum):
    """How the integration of one trajectory ended."""

    OK = 0
    TOO_MANY_STEPS = 1
    NON_FINITE = 2
    STEP_TOO_SMALL = 3


class Control(NamedTuple):
    """Error and step control: the first ``n_states`` components of y count in the error test, the rest do not."""

    n_states: int
    rtol: float
    atol: float
    max_steps: int


#: Weight of the sensitivities in the error test: an absolute tolerance that no error reaches. Not inf, because
#: LSODA divides by the weights when it perturbs the states for its Jacobian.
_UNCONTROLLED = 1e10


def lsoda(
    flat: FlatRhs, p: tuple[float, ...], y0: Array, times: Array, start: float, control: Control
) -> tuple[Array | None, Status]:
    """LSODA by `odeint`, which calls back for the right-hand side only."""
    early = start < times[0]
    atol = np.full(len(y0), _UNCONTROLLED)
    atol[: control.n_states] = control.atol
    try:
        # LSODA counts steps to its limit when the first derivative is infinite
        if not (np.isfinite(y0).all() and np.isfinite(flat(start, y0, p)).all()):
            return None, Status.NON_FINITE
        if times[-1] == start:
            return y0[None], Status.OK
        out, info = odeint(
            flat,
            y0,
            np.concatenate([[start], times]) if early else times,
            args=(p,),
            tfirst=True,
            rtol=control.rtol,
            atol=atol,
            mxstep=control.max_steps,
            full_output=True,
        )
    except (ArithmeticError, ValueError):  # 1/0, overflow, or math's domain error, within rhs
        return None, Status.NON_FINITE
    # mxstep bounds each output interval; the promise is about the whole trajectory
    if info["message"].startswith("Excess work") or info["nst"][-1] > control.max_steps:
        return None, Status.TOO_MANY_STEPS
    if not np.isfinite(out).all():  # LSODA may call this a success
        return None, Status.NON_FINITE
    if info["message"] != "Integration successful.":
        return None, Status.STEP_TOO_SMALL
    return out[1:] if early else out, Status.OK


def rk45(
    flat: FlatRhs, p: tuple[float, ...], y0: Array, times: Array, start: float, control: Control
) -> tuple[Array | None, Status]:
    """SciPy's RK45, stepped by hand so that the number of steps is bounded."""
    n = control.n_states
    # RK45 takes the root mean square over all components: rescale to get the mean over the states alone
    share = math.sqrt(n / len(y0))
    atol = np.full(len(y0), np.inf)
    atol[:n] = control.atol * share
    out = np.empty((len(times), len(y0)))
    done = 1 if times[0] == start else 0
    out[:done] = y0
    try:
        # RK45 never ends if its first step size is NaN
        if not (np.isfinite(y0).all() and np.isfinite(flat(start, y0, p)).all()):
            return None, Status.NON_FINITE
        solver = RK45(lambda t, y: flat(t, y, p), start, y0, times[-1], rtol=control.rtol * share, atol=atol)
        for _ in range(control.max_steps if done < len(times) else 0):
            solver.step()
            if solver.status == "failed":
                finite = np.isfinite(flat(solver.t, solver.y, p)).all() and np.isfinite(solver.K).all()
                return None, Status.STEP_TOO_SMALL if finite else Status.NON_FINITE
            reached = int(np.searchsorted(times, solver.t, side="right"))
            if reached > done:
                out[done:reached] = solver.dense_output()(times[done:reached]).T
                done = reached
            if solver.status == "finished":
                break
    except (ArithmeticError, ValueError):
        return None, Status.NON_FINITE
    if done < len(times):
        return None, Status.TOO_MANY_STEPS
    return (out, Status.OK) if np.isfinite(out).all() else (None, Status.NON_FINITE)
