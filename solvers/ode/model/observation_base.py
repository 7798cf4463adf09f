"""What every forward model that observes trajectories of an `OdeModel` says of itself."""

from __future__ import annotations

import math

from invsamp.solvers.ode.model.ode_solver import OdeSolver


class ObservedTrajectories:
    """Base of forward models that solve with ``model`` and keep what failures said, seconds and rows."""

    model: OdeSolver
    _said: list[str]  # what the last failure said
    _timing: list[float]  # seconds, rows

    @property
    def derivative_error(self) -> float:
        """By how much derivatives may miss those of the values, relative to themselves: the cube root of ``rtol``.

        Both hold to the tolerance alone, and what they miss grows along the trajectory.
        """
        return math.cbrt(self.model.rtol)

    @property
    def message(self) -> str | None:
        """What the last failure said: the solver's status, where it came about, and what to try."""
        return self._said[-1] if self._said else None

    @property
    def no_derivatives(self) -> str | None:
        """Why there is no Jacobian; None if there is one."""
        return self.model.no_derivatives

    @property
    def work(self) -> float:
        """What a row takes for a unit of time, as tolerance and order let one expect: states times evaluations."""
        return len(self.model.states) * self.model.evaluations_expected

    @property
    def cost(self) -> float:
        """Mean seconds per evaluation so far; NaN before the first."""
        seconds, rows = self._timing
        return seconds / rows if rows else math.nan
