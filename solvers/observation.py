"""Observation models of ordinary differential equations: which functions of the trajectory are data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from invsamp.solvers.ode import OdeModel

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OdeObservation:
    """Observed states of an `OdeModel` as a forward model; made by `OdeModel.observe`.

    Observations are ordered by time, then by state. The columns of theta are `parameters`. Rows that fail are NaN.
    """

    model: OdeModel
    times: Array
    t0: float
    initial: tuple[str | float, ...]
    observed: tuple[int, ...]
    parameters: tuple[str, ...]
    _timing: list[float] = field(default_factory=lambda: [0.0, 0.0], init=False, repr=False)

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_times * n_observed), at theta, shape (batch, n_parameters)."""
        began = time.perf_counter()
        p, x0 = self._split(theta)
        states = self.model.solve(p, x0, self.times, t0=self.t0).states[:, :, self.observed]
        self._timing[0] += time.perf_counter() - began
        self._timing[1] += len(p)
        return states.reshape(len(p), -1)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and their Jacobian (batch, m, n_parameters)."""
        p, x0 = self._split(theta)
        solution = self.model.solve_with_sensitivities(
            p,
            x0,
            self.times,
            t0=self.t0,
            initial_states=[s for s, entry in zip(self.model.states, self.initial, strict=True) if _is_name(entry)],
        )
        y = solution.states[:, :, self.observed].reshape(len(p), -1)
        return y, solution.sensitivities[:, :, self.observed].reshape(len(p), y.shape[1], -1)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations (batch, m) and the product cotangent (batch, m) -> (batch, n_parameters)."""
        y, jacobian = self.jacobian(theta)
        return y, lambda cotangent: np.einsum("bm,bmp->bp", cotangent, jacobian)

    @property
    def cost(self) -> float:
        """Mean seconds per evaluation so far; NaN before the first."""
        seconds, rows = self._timing
        return seconds / rows if rows else math.nan

    def _split(self, theta: Array) -> tuple[Array, Array]:
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != len(self.parameters):
            raise ValueError(f"theta must have shape (batch, {len(self.parameters)}), got {theta.shape}")
        q = len(self.model.parameters)
        x0 = np.empty((len(theta), len(self.initial)))
        unknown = [_is_name(entry) for entry in self.initial]
        x0[:, unknown] = theta[:, q:]
        x0[:, ~np.array(unknown)] = [entry for entry in self.initial if not _is_name(entry)]
        return theta[:, :q], x0


def _is_name(entry: str | float) -> bool:
    return isinstance(entry, str)
