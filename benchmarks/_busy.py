"""A forward model that keeps a core busy, or sleeps, for a given time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from invsamp.protocols import Array, VectorJacobianProduct


@njit(cache=True)
def spin(loops: int) -> float:
    """Keep a core busy; the result is not known at compile time."""
    x = 0.5
    for _ in range(loops):
        x = 3.7 * x * (1.0 - x)
    return x


@dataclass(frozen=True)
class Busy:
    """Forward model that observes theta plus an offset, after the given loops or seconds of sleep for each row."""

    loops: int
    seconds: float
    displacement: float
    parameters: tuple[str, ...] = ("x", "y")

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, 2)."""
        for _ in theta:
            spin(self.loops)
            if self.seconds:
                time.sleep(self.seconds)
        return theta + self.displacement

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations, and a product at no additional cost."""
        return self(theta), lambda cotangent: np.array(cotangent)


def calibrated(seconds: float) -> int:
    """Number of loops that take the given seconds."""
    spin(1000)
    best = min(_timed(lambda: spin(1_000_000)) for _ in range(10))
    return max(1, round(seconds / best * 1_000_000))


def _timed(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
