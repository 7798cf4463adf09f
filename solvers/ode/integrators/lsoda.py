"""LSODA by SciPy's `odeint`: Adams and BDF formulas with automatic switching, row by row."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import scipy  # its integrators take half a second to import: not before they are wanted

from invsamp.solvers.ode.integrators.lsoda_jacobian import MOST_DENSE, bands, whole
from invsamp.solvers.ode.integrators.restarted_trajectory import Piece, RestartedTrajectory, Solved

#: ODEPACK keeps its state in common blocks: one solve at a time.
_ODEPACK = threading.Lock()


class Lsoda(RestartedTrajectory):
    """One trajectory."""

    def solved(self, piece: Piece) -> Solved:
        """As in the base class."""
        flat, y, nodes, lower, upper, critical, first_step, budget = piece
        most = self.control.max_step
        values, info = scipy.integrate.odeint(
            flat,
            y,
            nodes,
            h0=first_step,
            tfirst=True,
            rtol=self.rtol,
            atol=self.weights,
            mxstep=budget,
            hmax=most if math.isfinite(most) else 0.0,  # 0: any
            **self._newton(len(y), lower, upper),
            tcrit=nodes[-1:] if critical else None,
            full_output=True,
        )
        succeeded = info["message"] == "Integration successful."
        steps = int(info["nst"][-1]) if succeeded else 0  # the counters are not set otherwise
        # mxstep bounds each output interval; the promise is about the whole trajectory
        return Solved(values, steps, succeeded, info["message"].startswith("Excess work"))

    @classmethod
    @contextmanager
    def alone(cls) -> Iterator[None]:
        """As in the base class."""
        with _ODEPACK, warnings.catch_warnings():
            warnings.simplefilter("ignore", scipy.integrate.ODEintWarning)
            yield

    def _newton(self, m: int, lower: float, upper: float) -> dict[str, object]:
        """The Jacobian as a setting of `odeint`, if there is one."""
        rhs, variations, n, p, rtol = (
            self.rhs,
            self.control.variations,
            self.control.n_states,
            self.p,
            self.control.rtol,
        )
        if not variations:
            return {}
        if m > max(n, MOST_DENSE):
            return {
                "Dfun": lambda t, y: bands(variations, n, min(max(t, lower), upper), y, p),
                **{"ml": n - 1, "mu": n - 1},
            }
        floor = self.weights[:n] / rtol
        return {"Dfun": lambda t, y: whole(rhs, variations, n, min(max(t, lower), upper), y, p, floor)}
