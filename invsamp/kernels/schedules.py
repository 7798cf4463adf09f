r"""Step-size schedules: iteration number -> step size.

Every draw counts the same in a run's summaries, whatever the step that led to it. With steps that vary, the weighted
average :math:`\sum \eta_k f_k / \sum \eta_k` (Welling and Teh 2011, eq. 11) has the least variance, as draws after
small steps hardly differ from their neighbors. Its step-size bias, of the order of
:math:`\sum \eta_k^2 / \sum \eta_k`, is larger than the plain average's. ``run.data.sample_stats["step_size"]`` holds
the weights of a run with a schedule.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

from invsamp.arguments import integer, real
from invsamp.stored import stored_dataclass

__all__ = ["constant", "cyclic_cosine", "exponential", "polynomial"]


class Schedule(Protocol):
    """Step size at iteration ``k``, counted from the start of warm-up."""

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""


@runtime_checkable
class SpreadSchedule(Protocol):
    """A schedule that takes its form from the length of the run."""

    def over(self, steps: int) -> Schedule:
        """The schedule of a run of that many steps, warm-up included."""


@stored_dataclass
class Constant:
    """One step size for all steps."""

    step_size: float

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        return self.step_size


@stored_dataclass
class Polynomial:
    r""":math:`\eta_k = \eta_0 (1 + k / b)^{-\gamma}`."""

    step_size: float
    offset: float
    exponent: float

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        return self.step_size * (1.0 + k / self.offset) ** -self.exponent


@stored_dataclass
class Exponential:
    r""":math:`\eta_k = \eta_0 \, \rho^{\max(k - k_0, 0)}`."""

    step_size: float
    rate: float
    begin: int = 0

    def __call__(self, k: int) -> float:
        """Step size at iteration k."""
        return self.step_size * self.rate ** max(k - self.begin, 0)


@stored_dataclass
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


@stored_dataclass
class Cycles:
    """`CyclicCosine` with its cycles counted, not measured: they fill the run, warm-up included."""

    step_size: float
    cycles: int

    def over(self, steps: int) -> CyclicCosine:
        """The schedule of a run of that many steps; `ValueError` if they are fewer than two per cycle."""
        if steps < 2 * self.cycles:
            raise ValueError(f"cycles must be at most half of the {steps} steps of the run, got {self.cycles}")
        return CyclicCosine(self.step_size, math.ceil(steps / self.cycles))

    def __call__(self, k: int) -> float:
        """Not known before the length of the run is."""
        raise ValueError(f"{self} needs the length of the run: call over(steps) first, as `invsamp.sample` does")


def over(schedule: Any, steps: int | None) -> Schedule:
    """The schedule of a run of ``steps`` steps, warm-up included: itself unless it is spread over the run."""
    if steps is None:
        return schedule  # type: ignore[no-any-return]
    found: Schedule = schedule.over(steps) if isinstance(schedule, SpreadSchedule) else schedule
    for k in (0, steps - 1):  # rather now than when the steps before are made
        step_size_at(found, k)
    return found


def step_size_at(schedule: Schedule, k: int) -> float:
    """Step size of a schedule at iteration k; `ValueError` unless it is a positive number."""
    try:
        return real("step_size", schedule(k), above=0)
    except ValueError as error:
        raise ValueError(f"{error} from {schedule} at iteration {k}") from None


def constant(step_size: float) -> Constant:
    """One step size at every iteration.

    Parameters
    ----------
    step_size : float, > 0

    Raises
    ------
    ValueError
        If it is not a positive finite number.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.sgld(iv.kernels.schedules.constant(0.01))
    >>> sampler.rungs[0].step_size
    Constant(step_size=0.01)
    """
    return Constant(real("step_size", step_size, above=0))


def polynomial(step_size: float, offset: float = 1.0, exponent: float = 1 / 3) -> Polynomial:
    r"""Polynomial decay, :math:`\eta_k = \eta_0 (1 + k / b)^{-\gamma}`.

    Parameters
    ----------
    step_size : float, > 0
        :math:`\eta_0`, at the first iteration.
    offset : float, > 0
        :math:`b`, iterations before the decay sets in.
    exponent : float, > 0
        :math:`\gamma`. The default, 1/3, makes bias and variance of the weighted averages fall alike (Teh, Thiery and
        Vollmer 2016, JMLR 17(7)).

    Raises
    ------
    ValueError
        If a number is not positive and finite.

    Examples
    --------
    >>> import invsamp as iv
    >>> schedule = iv.kernels.schedules.polynomial(0.1, offset=10.0)
    >>> [round(float(schedule(step)), 4) for step in (0, 1000)]
    [0.1, 0.0215]
    """
    return Polynomial(
        real("step_size", step_size, above=0), real("offset", offset, above=0), real("exponent", exponent, above=0)
    )


def exponential(step_size: float, rate: float, begin: int = 0) -> Exponential:
    r"""Geometric decay, :math:`\eta_k = \eta_0 \, \rho^{\max(k - k_0, 0)}`.

    Parameters
    ----------
    step_size : float, > 0
        :math:`\eta_0`, up to iteration ``begin``.
    rate : float in (0, 1]
        :math:`\rho`, per iteration.
    begin : int
        :math:`k_0`, the last iteration before the decay.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import invsamp as iv
    >>> schedule = iv.kernels.schedules.exponential(0.1, rate=0.99)
    >>> [round(float(schedule(step)), 4) for step in (0, 100)]
    [0.1, 0.0366]
    """
    return Exponential(
        real("step_size", step_size, above=0), real("rate", rate, above=0, most=1), integer("begin", begin)
    )


def cyclic_cosine(step_size: float, cycle: int | None = None, *, cycles: int | None = None) -> CyclicCosine | Cycles:
    """Cosine cycles, each from ``step_size`` down towards 0.

    Parameters
    ----------
    step_size : float
        At the start of each cycle.
    cycle : int, >= 2
        Length of a cycle in iterations.
    cycles : int, >= 1
        Or, instead, their number: they fill the run, ``warmup + draws * thin`` steps.

    Raises
    ------
    ValueError
        If a number is out of range, or not exactly one of ``cycle`` and ``cycles`` is given.

    Examples
    --------
    >>> import invsamp as iv
    >>> schedule = iv.kernels.schedules.cyclic_cosine(0.1, cycle=100)
    >>> [round(float(schedule(step)), 4) for step in (0, 50, 99)]
    [0.1, 0.05, 0.0]
    """
    if (cycle is None) == (cycles is None):
        raise ValueError(f"exactly one of cycle and cycles must be given, got cycle={cycle} and cycles={cycles}")
    size = real("step_size", step_size, above=0)
    if cycles is not None:
        return Cycles(size, integer("cycles", cycles, least=1))
    return CyclicCosine(size, integer("cycle", cycle, least=2))
