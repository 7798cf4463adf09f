"""Targets linear in the energies: the posterior at a temperature, and the prior with a part of the data."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from invsamp.arguments import real, store
from invsamp.evaluate.requests import Estimate, Memory
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


class Linear:
    """Base of targets whose v is a sum a (prior energy) + b (misfit) with constants: they learn nothing."""

    @property
    def factors(self) -> tuple[float, float]:
        """a and b."""
        raise NotImplementedError

    def init(self) -> Memory:
        """Nothing."""
        return {}

    def energy(self, estimate: Estimate, memory: Memory) -> Array:
        """Values of v (chains,)."""
        return combined(*self.factors, estimate.energy, estimate.prior)

    def gradient(self, estimate: Estimate, memory: Memory) -> Array:
        """Gradients of v with respect to the position (chains, d)."""
        return combined(*self.factors, estimate.gradient, estimate.prior_gradient)

    def updated(self, memory: Memory, estimate: Estimate, iteration: int, warming: bool) -> Memory:
        """Nothing."""
        return memory

    def log_weight(self, estimate: Estimate, memory: Memory) -> Array | None:
        """None."""
        return None


class AtTemperature(Linear):
    """Base of targets whose v is the energy, prior and misfit together, over a temperature."""

    temperature: float
    needs_prior: ClassVar[bool] = False

    @property
    def factors(self) -> tuple[float, float]:
        """Both one over the temperature."""
        return 1.0 / self.temperature, 1.0 / self.temperature

    @property
    def step_scale(self) -> float:
        """The temperature: steps of exp(-U / T) are those of exp(-v), v = U / T, if these are T times as long."""
        return self.temperature


@stored_dataclass
class Tempered(AtTemperature):
    """Made by `tempered`."""

    temperature: float = 1.0

    def __post_init__(self) -> None:
        store(self, temperature=real("temperature", self.temperature, least=1))

    def __str__(self) -> str:
        return f"T = {self.temperature:.3g}"

    def energy(self, estimate: Estimate, memory: Memory) -> Array:
        """Values of v (chains,)."""
        return estimate.energy if self.temperature == 1.0 else estimate.energy / self._divisor

    def gradient(self, estimate: Estimate, memory: Memory) -> Array:
        """Gradients of v with respect to the position (chains, d)."""
        return estimate.gradient if self.temperature == 1.0 else estimate.gradient / self._divisor

    @cached_property
    def _divisor(self) -> Array:
        """The temperature as an array, by which an array is divided in half the time."""
        return np.array(self.temperature)


@stored_dataclass
class TemperedLikelihood(Linear):
    """Made by `tempered_likelihood`."""

    beta: float
    needs_prior: ClassVar[bool] = True
    step_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        store(self, beta=real("beta", self.beta, least=0, most=1))

    def __str__(self) -> str:
        return f"beta = {self.beta:.3g}"

    @property
    def factors(self) -> tuple[float, float]:
        """1 and beta."""
        return 1.0, self.beta


def tempered(temperature: float) -> Tempered:
    r"""The posterior at a temperature: :math:`v = U / T`, U the energy, prior and misfit together.

    Parameters
    ----------
    temperature : float, >= 1
        T. 1 is the posterior. A number in place of a target stands for this one.

    Raises
    ------
    ValueError
        If the temperature is below 1.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.tempering.tempered(4.0))
    T = 4
    """
    return Tempered(temperature)


def tempered_likelihood(beta: float) -> TemperedLikelihood:
    r"""The prior and a part of the data: :math:`v = U_0 + \beta \Phi`, :math:`U_0` the prior energy, Phi the misfit.

    A ladder of these ends at the prior, a proper target that can be drawn from directly. Tempering the prior too lets
    hot rungs wander where nothing is; a rung of this target stays within the prior. Its step size is that of v.

    Parameters
    ----------
    beta : float in [0, 1]
        1 is the posterior, 0 the prior.

    Raises
    ------
    ValueError
        If ``beta`` is out of range; in a run, if the problem does not separate prior energy and misfit
        (`invsamp.protocols.SplitPotential`; a `Posterior` does).

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.tempering.tempered_likelihood(0.5))
    beta = 0.5
    """
    return TemperedLikelihood(beta)


def combined(a: float, b: float, whole: Array, prior: Array | None) -> Array:
    """The sum a (prior) + b (whole - prior), of energies or of gradients.

    What has factor 0 takes no part, even where it is infinite: the prior's target knows nothing of a solve that failed.
    """
    if a == b:
        return whole if b == 1.0 else b * whole
    assert prior is not None  # targets that take it apart are refused where it is unknown
    rest = (a - b) * prior
    return rest if b == 0.0 else rest + b * whole
