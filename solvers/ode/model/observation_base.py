"""The base of all forward models that observe trajectories of an `OdeModel`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from invsamp.arguments import numbers
from invsamp.solvers.ode.integrators.batch import plain
from invsamp.solvers.ode.integrators.trajectories import Array
from invsamp.solvers.ode.model.jacobian_products import multiply
from invsamp.solvers.ode.model.ode_solver import OdeSolver


class TimedModel:
    """Base of forward models that keep seconds and rows, with the product of a Jacobian."""

    _timing: list[float]  # seconds, rows

    @property
    def cost(self) -> float:
        """Mean seconds per evaluation so far; NaN before the first."""
        seconds, rows = self._timing
        return seconds / rows if rows else math.nan

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and their Jacobian (batch, m, n_parameters)."""
        raise NotImplementedError

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations (batch, m) and the product cotangent (batch, m) -> (batch, n_parameters)."""
        y, jacobian = self.jacobian(theta)
        jacobian = plain(jacobian)

        def product(cotangent: Array) -> Array:
            out = np.empty((jacobian.shape[0], jacobian.shape[2]))
            multiply(plain(cotangent), jacobian, out)
            return out

        return y, product

    def _note_time(self, began: float, rows: int) -> None:
        self._timing[0] += time.perf_counter() - began
        self._timing[1] += rows


def checked_theta(theta: Array, count: int) -> Array:
    """Theta (batch, count); ValueError if it is none."""
    theta = numbers("theta", theta)
    if theta.ndim != 2 or theta.shape[1] != count:
        raise ValueError(f"theta must have shape (batch, {count}), got {theta.shape}")
    return theta


class ObservedTrajectories(TimedModel):
    """Base of forward models that solve with ``model`` and keep what failures said."""

    model: OdeSolver
    _said: list[str]  # what the last failure said

    @property
    def derivative_error(self) -> float:
        """By how much derivatives may miss those of the values, relative to themselves: the cube root of ``rtol``.

        Both hold to the tolerance alone, and what they miss grows along the trajectory.
        """
        return math.cbrt(self.model.rtol)

    @property
    def message(self) -> str | None:
        """The message of the last failure: the solver's status, where it came about, and what to try."""
        return self._said[-1] if self._said else None

    @property
    def no_derivatives(self) -> str | None:
        """Why there is no Jacobian; None if there is one."""
        return self.model.no_derivatives

    @property
    def work(self) -> float:
        """The expected work of a row for a unit of time, by tolerance and order: states times evaluations."""
        return len(self.model.states) * self.model.evaluations_expected
