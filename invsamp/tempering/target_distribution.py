r"""Targets: what a rung samples, a density :math:`e^{-v}`, v a function of prior energy and misfit.

A target is a frozen dataclass of settings, which prints, compares and pickles. One that learns keeps what it has
learned in its memory, plain arrays by name, which is saved and resumed with the rung.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from invsamp.evaluate.requests import Estimate, Memory
from invsamp.protocols import Array, Plain


@runtime_checkable
class TargetDistribution(Protocol):
    """The target of a rung.

    ``factors``: a and b where v = a (prior energy) + b (misfit), None where v is no such sum. With None the rung's
    energies must be exact, as no penalty corrects for noise in a nonlinear function of them. An exception is
    `invsamp.tempering.annealed`, whose factors fall: it may have noise where a kernel follows gradients alone.
    ``needs_prior``: whether it takes the prior energy apart, so that estimates have to give it, with its gradient.
    ``step_scale``: the factor by which the kernel's steps in v are longer than given. It is the temperature of a
    tempered target, for which published step sizes are those of U. ``log_weight``: log weights of draws, for a target
    whose draws represent the posterior by weights.
    """

    @property
    def factors(self) -> tuple[float, float] | None: ...

    @property
    def needs_prior(self) -> bool: ...

    @property
    def step_scale(self) -> float: ...

    def init(self) -> Memory:
        """Memory before anything is learned; empty if nothing ever is."""

    def energy(self, estimate: Estimate, memory: Memory) -> Array:
        """Values of v (chains,): never NaN."""

    def gradient(self, estimate: Estimate, memory: Memory) -> Array:
        """Gradients of v with respect to the position (chains, d)."""

    def updated(self, memory: Memory, estimate: Estimate, iteration: int, warming: bool) -> Memory:
        """Memory after a step to ``estimate``, the rung's ``iteration``-th; called only where `init` is not empty.

        ``warming`` is whether the run is warming up. What is not frozen after that is a target that changes as it is
        sampled.
        """

    def log_weight(self, estimate: Estimate, memory: Memory) -> Array | None:
        """Log weights (chains,), up to a constant, by which draws are those of the posterior; None: they have none."""


@runtime_checkable
class LocallyScaledTarget(TargetDistribution, Protocol):
    """A target whose slope in the energy changes from place to place, so that longer steps fit here than there."""

    def step_factor(self, estimate: Estimate, memory: Memory) -> Array:
        """How much longer (chains,): a positive function of the energy, bounded."""


@runtime_checkable
class ScheduledTarget(TargetDistribution, Protocol):
    """A target whose steps change their length with what is in its memory."""

    def scale(self, memory: Memory) -> float:
        """Step scale of this memory, which replaces ``step_scale``."""


@runtime_checkable
class ReportingTarget(TargetDistribution, Protocol):
    """A target of which a run's report gives what was learned, and what was counted of the draws."""

    def report(self, memory: Memory) -> Plain:
        """That, by name, in plain types."""
