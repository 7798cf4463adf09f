"""The solution of a batch of trajectories, and the interface of solvers for observations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode.integrators.trajectories import Array, Integers

BoolArray = npt.NDArray[np.bool_]


class Solution(NamedTuple):
    """States of a batch of trajectories; NaN where there is none."""

    states: Array  # (batch, n_times, n_states)
    status: Integers  # (batch,), values of `Status`
    evaluations: Integers  # (batch,), calls of the right-hand side
    steps: Integers  # (batch,), accepted steps
    ended: Array  # (batch,), time reached: of the event where the status is STOPPED
    switched: BoolArray  # (batch,), whether another method took over from the first: ``method="auto"``


class SensitiveSolution(NamedTuple):
    """States and their derivatives with respect to parameters, then initial values."""

    states: Array  # (batch, n_times, n_states)
    sensitivities: Array  # (batch, n_times, n_states, n_parameters + n_initial)
    status: Integers  # (batch,)
    evaluations: Integers  # (batch,)
    steps: Integers  # (batch,)
    ended: Array  # (batch,)
    switched: BoolArray  # (batch,)
