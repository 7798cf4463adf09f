r"""Targets below temperature 1, and temperatures that fall: what networks are sampled at in the literature.

Neither is the posterior, and a run of one says so. At a temperature below 1 draws crowd around modes, the more so the
lower it is. What they predict may be better, which is evidence about the prior or of the likelihood, not of the
sampler.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.arguments import real, store
from invsamp.evaluate.requests import Estimate, Memory
from invsamp.kernels.schedules import Schedule, step_size_at
from invsamp.protocols import Array, Plain
from invsamp.stored import stored_dataclass
from invsamp.tempering.linear_targets import AtTemperature, Tempered
from invsamp.tempering.target_distribution import TargetDistribution
from invsamp.warning_codes import coded


@stored_dataclass
class Cold(AtTemperature):
    """Made by `cold_posterior`."""

    temperature: float

    def __post_init__(self) -> None:
        store(self, temperature=real("temperature", self.temperature, above=0, below=1))

    def __str__(self) -> str:
        return f"T = {self.temperature:.3g} (cold posterior)"


@stored_dataclass
class Annealed:
    """Made by `annealed`."""

    temperature: Schedule
    final: float = 1.0
    needs_prior: ClassVar[bool] = False
    step_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not callable(self.temperature) or isinstance(self.temperature, type):
            raise ValueError(
                "temperature must be a schedule, a function of the number of steps such as exponential(100, 0.99), "
                f"got {self.temperature!r}"
            )
        store(self, final=real("final", self.final, above=0))
        self.at(0)

    @property
    def factors(self) -> None:
        """None: they change."""
        return None

    def at(self, iteration: int) -> float:
        """The temperature after so many steps."""
        return max(step_size_at(self.temperature, iteration), self.final)

    def init(self) -> Memory:
        """The first temperature."""
        return {"temperature": np.asarray(self.at(0))}

    def energy(self, estimate: Estimate, memory: Memory) -> Array:
        """Values of v (chains,)."""
        return estimate.energy / float(memory["temperature"])

    def gradient(self, estimate: Estimate, memory: Memory) -> Array:
        """Gradients of v with respect to the position (chains, d)."""
        return estimate.gradient / float(memory["temperature"])

    def updated(self, memory: Memory, estimate: Estimate, iteration: int, warming: bool) -> Memory:
        """The temperature of the next step."""
        return {"temperature": np.asarray(self.at(iteration))}

    def scale(self, memory: Memory) -> float:
        """The temperature: step sizes are those of U."""
        return float(memory["temperature"])

    def log_weight(self, estimate: Estimate, memory: Memory) -> Array | None:
        """None."""
        return None

    def report(self, memory: Memory) -> Plain:
        """The temperature that was reached."""
        return {"temperature": float(memory["temperature"])}

    def __str__(self) -> str:
        return f"T from {self.at(0):.3g} down to {self.final:.3g} by {self.temperature}"


def cold_posterior(temperature: float) -> Cold:
    r"""The posterior's density to the power :math:`1 / T > 1`: :math:`v = U / T`. Not the posterior, and runs say so.

    Parameters
    ----------
    temperature : float in (0, 1)
        T. Step sizes are those of U, as published.

    Raises
    ------
    ValueError
        If the temperature is not below 1 (`invsamp.tempering.tempered` is for others).

    References
    ----------
    Wenzel et al. (2020), "How good is the Bayes posterior in deep neural networks really?", ICML, eq. (1).

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.tempering.cold_posterior(0.25))
    T = 0.25 (cold posterior)
    """
    return Cold(temperature)


def annealed(temperature: Schedule, final: float = 1.0) -> Annealed:
    """A temperature that falls by a schedule, for a sampler of one rung; samplers without a test take minibatches.

    Draws that are kept before it has come to ``final``, or at a ``final`` below 1, are not those of the posterior, and
    the run says so. Warm-up counts as steps: with ``final=1`` and a schedule that is done by its end, annealing finds
    starts alone.

    Parameters
    ----------
    temperature : Schedule
        Of the number of steps, such as ``exponential(100, 0.99)`` or ``polynomial(10)``.
    final : float, > 0
        Where it stays.

    Raises
    ------
    ValueError
        If it is no schedule, or the temperature at its start is not positive.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.tempering.annealed(iv.kernels.schedules.exponential(10.0, 0.99)))
    T from 10 down to 1 by Exponential(step_size=10.0, rate=0.99, begin=0)
    """
    return Annealed(temperature, final)


def of_temperature(temperature: float | TargetDistribution) -> TargetDistribution:
    """The target that an argument of a preset of one rung means."""
    if isinstance(temperature, TargetDistribution):
        return temperature
    right = ", or a target: cold_posterior(0.1), annealed(exponential(100, 0.99))"
    if real("temperature", temperature, also=right) != 1.0:
        raise ValueError(f"temperature must be 1{right}, got {temperature!r}")
    return Tempered(1.0)


def label(target: TargetDistribution, iteration: int, steps: int) -> str | None:
    """Warning about draws of a first target that is not the posterior; None where it is.

    ``iteration`` steps were made, of which the last ``steps`` led to draws.
    """
    if isinstance(target, Cold):
        return coded(
            "IV-TARGET",
            f"the draws are those of a cold posterior, T = {target.temperature:.3g}, narrower than the "
            "posterior. Predictions may be good, but their spread understates the posterior's uncertainty",
        )
    if isinstance(target, Annealed):
        first, last = target.at(max(0, iteration - steps)), target.at(max(0, iteration - 1))
        if first != last:
            return coded(
                "IV-TARGET",
                f"the temperature fell from {first:.3g} to {last:.3g} while draws were kept: they have no common "
                "distribution",
            )
        if last != 1.0:
            return coded("IV-TARGET", f"the draws are those of temperature {last:.3g}, not 1, which is the posterior's")
    return None
