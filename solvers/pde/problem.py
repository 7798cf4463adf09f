"""The base of stationary and time-dependent problems in UFL: a residual for each step, and when the steps end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import function, integer, optional, real, store
from invsamp.solvers.foreign import Constant, Function, Given
from invsamp.solvers.pde import access
from invsamp.solvers.pde.equation import Equation
from invsamp.solvers.time_steps import bracketed

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """The times of a scheme with equal steps, and what depends on them.

    Parameters
    ----------
    end_time : float, > 0
    steps : int, >= 1
    time : dolfinx.fem.Constant, optional
        Set to the new time of every step.
    step_size : dolfinx.fem.Constant, optional
        Set to ``end_time / steps`` with every step.
    update : callable, optional
        Called with the new time before every step, for what else depends on it.
    """

    end_time: float
    steps: int
    time: Constant = None
    step_size: Constant = None
    update: Callable[[float], Given] | None = None

    def __post_init__(self) -> None:
        store(
            self,
            end_time=real("end_time", self.end_time, above=0),
            steps=integer("steps", self.steps, least=1),
            update=optional(function, "update", self.update, "(time)"),
        )
        for name, constant in (("time", self.time), ("step_size", self.step_size)):
            if constant is not None and not (access.is_constant(constant) and np.size(constant.value) == 1):
                raise ValueError(f"{name} must be a scalar dolfinx.fem.Constant, got {constant!r}")
        if self.time is not None and self.time is self.step_size:
            raise ValueError("time and step_size must be two constants, got one for both")

    def at(self, step: int) -> None:
        """Set what depends on time for the step that ends at time number ``step``."""
        now = self.end_time * step / self.steps
        if self.step_size is not None:
            self.step_size.value = self.end_time / self.steps
        if self.time is not None:
            self.time.value = now
        if self.update is not None:
            self.update(now)

    def bracketed(self, times: Sequence[float] | None) -> tuple[tuple[int, ...], Array | None]:
        """Numbers of the steps around ``times``, and the weights of these; see `invsamp.solvers.time_steps`."""
        return bracketed(times, self.steps, self.end_time)


class PdeProblem:
    """Base of the problems. A stationary one is a single step, without a previous state.

    Parameters
    ----------
    equation : Equation
    clock : Clock
    start : array
        Local entries of the state before the first step, unless ``initial`` is given.
    previous, initial : Function, optional
        The state at the last time, and at time 0.
    """

    def __init__(
        self, equation: Equation, clock: Clock, start: Array, previous: Function = None, initial: Function = None
    ) -> None:
        self.equation, self.unknowns, self.clock = equation, equation.unknowns, clock
        self.previous, self.initial, self._start = previous, initial, start

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Let functions and constants of the form have other values; afterwards they have their own again.

        Other problems may hold them, too, or begin with what they hold.
        """
        used = [self.equation.state, self.previous, *(part.coefficient for part in self.unknowns.parts)]
        used += [self.clock.time, self.clock.step_size]
        held = [(one, access.values_of(one).copy()) for one in used if one is not None]
        try:
            yield
        finally:
            for one, values in held:
                access.values_of(one)[...] = values

    def start(self) -> Array:
        """Local entries of the state before the first step, for the present unknowns."""
        return self._start if self.initial is None else self.initial.x.array.copy()
