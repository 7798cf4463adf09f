"""Inputs, interruptions and results of the integration of a batch of trajectories."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode.integrators.event_handling import Events
from invsamp.solvers.ode.integrators.sparse_factors import Pattern

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Outcome(NamedTuple):
    """A batch of trajectories of ``n`` states (and their sensitivities, ``m`` components in all)."""

    values: Array  # (batch, n_times, m)
    status: Integers  # (batch,), values of `.methods.Status`
    evaluations: Integers  # (batch,), calls of the right-hand side
    steps: Integers  # (batch,), accepted
    ended: Array  # (batch,), the time reached
    peaks: Array  # (batch, m), the largest absolute value of each component on the way
    needed: Array  # (batch, n), absolute tolerances for which no amplified error counts: see `.amplification`


#: Of each kept step: its beginning, its length, and the bounds of time; the states follow.
HEAD = 4


class Course(NamedTuple):
    """Interruptions of trajectories: times at which the integration restarts, the new y there, and events.

    The arrays have a row for each trajectory, or one for all.
    """

    pauses: Array  # (rows, k), increasing
    jumps: Array  # (rows, k, m), added on leaving the pause
    shifts: Array  # (rows, k, columns): derivatives of the times by what the states are differentiated by
    which: Integers  # (rows, k): index in `events.changes` of a reset, -1 for none
    stop: int  # address of g with out[0] = g(t, y, p), whose change of sign ends the integration; 0 for none
    events: Events

    def of_rows(self, rows: npt.NDArray[np.intp]) -> Course:
        """That of some of the trajectories."""
        if len(self.pauses) == 1:
            return self
        return self._replace(
            pauses=self.pauses[rows], jumps=self.jumps[rows], shifts=self.shifts[rows], which=self.which[rows]
        )

    def with_pauses(self, pauses: Array, jumps: Array, shifts: Array, which: Integers) -> Course:
        """With more of them, a row for each trajectory; ``which`` has this shape or broadcasts to it."""
        more = pauses, jumps, shifts, np.broadcast_to(which, pauses.shape)
        pauses, jumps, shifts, which = (
            np.concatenate([np.broadcast_to(old, (len(pauses), *old.shape[1:])), new], axis=1)
            for old, new in zip(self[:4], more, strict=True)
        )
        order = np.argsort(pauses, axis=1, kind="stable")
        return self._replace(
            pauses=np.take_along_axis(pauses, order, 1),
            jumps=np.take_along_axis(jumps, order[..., None], 1),
            shifts=np.take_along_axis(shifts, order[..., None], 1),
            which=np.take_along_axis(which, order, 1),
        )


class Linear(NamedTuple):
    """Addresses of the functions of `codegen.rosenbrock_jacobians.Linearized`, and the pattern of J."""

    jacobian: int
    tangents: int
    pattern: Pattern


class Control(NamedTuple):
    """Error and step control of a batch; y has blocks of ``n_states`` components: the states, then each sensitivity."""

    n_states: int
    rtol: float
    absolute: Array  # (batch, m): absolute tolerances of the components
    max_steps: int
    threads: int = 1
    weight: float = 1.0  # of errors of sensitivities in the error test: their tolerances are 1 / weight as large
    variations: int = (
        0  # address from which `.lsoda_jacobian.state_jacobian` has the Jacobian; 0: LSODA takes differences
    )
    patience: int = -1  # steps that a stiff trajectory may have before it if an explicit method goes on; -1: any
    linear: Any = None  # a `Linear` for Rodas5P, a `cvode.Newton` for CVODE; compiled code has one type for each
    max_step: float = math.inf  # bound on the length of a step
    series: int = 0  # what Taylor's method needs: address of the function of `codegen.taylor_series`,
    order: int = 0  # its order,
    states_lead: bool = False  # and whether steps are those of the states alone, also where there are sensitivities
    steps: int = 0  # of an explicit pair: address of its function of `codegen.inlined_stages`; 0: there is none
    trail: Array = np.empty((1, 0, HEAD))  # (rows, kept, HEAD + n): steps are written there: see `.backward_sweep`
    rows: Integers = np.empty(0, dtype=np.int64)  # (batch,): to which rows of the trail; none writes nothing
