"""What solving a batch of trajectories gives, and what observations need of whatever solves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode.integrators import Array
from invsamp.solvers.ode.right_hand_side import Jacobian
from invsamp.solvers.ode.tracing import Rhs
from invsamp.solvers.ode.trajectories import Integers

BoolArray = npt.NDArray[np.bool_]


class Solution(NamedTuple):
    """States of a batch of trajectories; NaN where there is none."""

    states: Array  # (batch, n_times, n_states)
    status: Integers  # (batch,), values of `Status`
    evaluations: Integers  # (batch,), calls of the right-hand side
    steps: Integers  # (batch,), accepted steps
    ended: Array  # (batch,), time reached: of the event where the status is STOPPED
    switched: BoolArray  # (batch,), whether Rodas5P or LSODA took over from the explicit method: ``method="auto"``


class SensitiveSolution(NamedTuple):
    """States and their derivatives with respect to parameters, then initial values."""

    states: Array  # (batch, n_times, n_states)
    sensitivities: Array  # (batch, n_times, n_states, n_parameters + n_initial)
    status: Integers  # (batch,)
    evaluations: Integers  # (batch,)
    steps: Integers  # (batch,)
    ended: Array  # (batch,)
    switched: BoolArray  # (batch,)


class Solver(Protocol):
    """An `OdeModel`, as far as observations know it."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]  # its settings are changed by `dataclasses.replace`

    @property
    def rhs(self) -> Rhs: ...
    @property
    def states(self) -> tuple[str, ...]: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...
    @property
    def method(self) -> str: ...
    @property
    def rtol(self) -> float: ...
    @property
    def atol(self) -> float: ...
    @property
    def jacobian(self) -> Jacobian | None: ...
    @property
    def no_derivatives(self) -> str | None: ...
    @property
    def evaluations_expected(self) -> float: ...

    def solve(
        self,
        parameters: npt.ArrayLike,
        initial: npt.ArrayLike,
        times: npt.ArrayLike,
        *,
        t0: npt.ArrayLike | None = None,
    ) -> Solution:
        """Trajectories."""

    def solve_from(
        self,
        p: Array,
        x0: Array,
        seeds: Array,
        quantities: Array,
        grid: Array,
        start: Array,
        own: tuple[int, ...] | None = None,
    ) -> SensitiveSolution:
        """Trajectories with sensitivities."""

    def failure(self, solution: Solution | SensitiveSolution, until: float) -> str | None:
        """What the first failed trajectory says."""

    def moving(self, among: Sequence[int]) -> tuple[int, ...]:
        """Parameters on which trajectories depend."""
