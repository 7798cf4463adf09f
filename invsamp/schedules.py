"""Step-size schedules: iteration number -> step size.

A decreasing schedule makes early draws count as much as late ones; averages over a run with one are
weighted by nothing, so give it a long warm-up or let it level off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Schedule(Protocol):
    """Step size at iteration ``k``, counted from the start of warm-up."""

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        ...


@dataclass(frozen=True)
class Constant:
    """One step size for ever."""

    step_size: float

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        return self.step_size


@dataclass(frozen=True)
class Polynomial:
    r""":math:`\eta_k = \eta_0 (1 + k / b)^{-\gamma}`."""

    step_size: float
    offset: float
    exponent: float

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        return self.step_size * (1.0 + k / self.offset) ** -self.exponent


@dataclass(frozen=True)
class Exponential:
    r""":math:`\eta_k = \eta_0 \, \rho^{\max(k - k_0, 0)}`."""

    step_size: float
    rate: float
    begin: int = 0

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        return self.step_size * self.rate ** max(k - self.begin, 0)


@dataclass(frozen=True)
class CyclicCosine:
    r""":math:`\eta_k = \frac{\eta_0}{2} (1 + \cos(\pi (k \bmod c) / c))`, c the length of a cycle.

    References
    ----------
    Zhang et al. (2020), "Cyclical stochastic gradient MCMC for Bayesian deep learning", ICLR, eq. (1).
    """

    step_size: float
    cycle: int

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        return 0.5 * self.step_size * (1.0 + math.cos(math.pi * (k % self.cycle) / self.cycle))


def constant(step_size: float) -> Constant:
    """One step size; `ValueError` unless it is positive and finite."""
    return Constant(_positive("step_size", step_size))


def polynomial(step_size: float, offset: float = 1.0, exponent: float = 1 / 3) -> Polynomial:
    """Polynomial decay; `ValueError` unless all three numbers are positive."""
    return Polynomial(_positive("step_size", step_size), _positive("offset", offset), _positive("exponent", exponent))


def exponential(step_size: float, rate: float, begin: int = 0) -> Exponential:
    """Geometric decay by ``rate`` in (0, 1] per iteration after iteration ``begin``."""
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"rate must lie in (0, 1], got {rate}")
    return Exponential(_positive("step_size", step_size), rate, begin)


def cyclic_cosine(step_size: float, cycle: int) -> CyclicCosine:
    """Cosine cycles of ``cycle`` iterations, each from ``step_size`` down towards 0."""
    if cycle < 2:
        raise ValueError(f"cycle must be at least 2 iterations, got {cycle}")
    return CyclicCosine(_positive("step_size", step_size), cycle)


def _positive(name: str, value: float) -> float:
    if not (isinstance(value, int | float | np.number) and 0.0 < value < math.inf):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return float(value)
