r"""Laws: what a rung samples, a density :math:`e^{-v}`, v a function of prior energy and misfit.

A law is a frozen dataclass of settings, which prints, compares and pickles. One that learns keeps what it has learnt in
its memory, plain arrays by name, which is saved and resumed with the rung.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from invsamp.arguments import array, real, sequence, store
from invsamp.contract import Array, Plain
from invsamp.evaluate.requests import Estimate
from invsamp.kernels.contract import Memory

#: What is asked for, in messages.
LAW = "a temperature, or a law such as tempered_likelihood(0.3)"


@runtime_checkable
class Law(Protocol):
    """The law of a rung.

    ``factors``: a and b where v = a (prior energy) + b (misfit), None where v is no such sum; then the rung's energies
    must be exact, as no penalty makes up for noise in a function of them that is not linear. ``needs_prior``: whether
    it takes the prior energy apart, so that estimates have to tell it, with its gradient. ``step_scale``: how much
    longer than given the steps are that the kernel makes in v; the temperature of a tempered law, for which published
    step sizes are those of U. ``log_weight`` of a law whose draws stand for the posterior by weights.
    """

    @property
    def factors(self) -> tuple[float, float] | None: ...

    @property
    def needs_prior(self) -> bool: ...

    @property
    def step_scale(self) -> float: ...

    def init(self) -> Memory:
        """What is learnt, before anything is; empty if nothing ever is."""
        ...

    def energy(self, estimate: Estimate, memory: Memory) -> Array:
        """Values of v (chains,): never NaN."""
        ...

    def gradient(self, estimate: Estimate, memory: Memory) -> Array:
        """Gradients of v with respect to the position (chains, d)."""
        ...

    def updated(self, memory: Memory, estimate: Estimate, iteration: int, warming: bool) -> Memory:
        """Memory after a step to ``estimate``, the rung's ``iteration``-th; called only where `init` is not empty.

        ``warming`` is whether the run is warming up. What is not frozen after that is a law that changes as it is
        sampled.
        """
        ...

    def log_weight(self, estimate: Estimate, memory: Memory) -> Array | None:
        """Log weights (chains,), up to a constant, by which draws are those of the posterior; None: they have none."""
        ...


@runtime_checkable
class LocalLaw(Law, Protocol):
    """A law whose slope in the energy changes from place to place, so that longer steps fit here than there."""

    def step_factor(self, estimate: Estimate, memory: Memory) -> Array:
        """How much longer (chains,): a positive function of the energy, bounded."""
        ...


@runtime_checkable
class ChangingLaw(Law, Protocol):
    """A law whose steps change their length with what is in its memory."""

    def scale(self, memory: Memory) -> float:
        """What stands in the place of ``step_scale``."""
        ...


@runtime_checkable
class ToldLaw(Law, Protocol):
    """A law of which a run's report tells what was learnt, and what was counted of the draws."""

    def told(self, memory: Memory) -> Plain:
        """That, by name, in plain types."""
        ...


class Linear:
    """What laws share whose v is a sum a (prior energy) + b (misfit) with constants: they learn nothing."""

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


@dataclass(frozen=True)
class Tempered(Linear):
    """Made by `tempered`."""

    temperature: float = 1.0
    needs_prior: ClassVar[bool] = False

    def __post_init__(self) -> None:
        store(self, temperature=real("temperature", self.temperature, least=1))

    def __str__(self) -> str:
        return f"T = {self.temperature:.3g}"

    @property
    def factors(self) -> tuple[float, float]:
        """Both one over the temperature."""
        return 1.0 / self.temperature, 1.0 / self.temperature

    @property
    def step_scale(self) -> float:
        """The temperature: steps of exp(-U / T) are those of exp(-v), v = U / T, if these are T times as long."""
        return self.temperature

    def energy(self, estimate: Estimate, memory: Memory) -> Array:
        """Values of v (chains,)."""
        return estimate.energy if self.temperature == 1.0 else estimate.energy / self.temperature

    def gradient(self, estimate: Estimate, memory: Memory) -> Array:
        """Gradients of v with respect to the position (chains, d)."""
        return estimate.gradient if self.temperature == 1.0 else estimate.gradient / self.temperature


@dataclass(frozen=True)
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
        T. 1 is the posterior. A number in place of a law stands for this one.

    Raises
    ------
    ValueError
        If the temperature is below 1.
    """
    return Tempered(temperature)


def tempered_likelihood(beta: float) -> TemperedLikelihood:
    r"""The prior and a part of the data: :math:`v = U_0 + \beta \Phi`, :math:`U_0` the prior energy, Phi the misfit.

    A ladder of these ends at the prior, a proper law that can be drawn from directly. Tempering the prior too lets hot
    rungs wander where nothing is; a rung of this law stays within the prior. Its step size is that of v.

    Parameters
    ----------
    beta : float in [0, 1]
        1 is the posterior, 0 the prior.

    Raises
    ------
    ValueError
        If ``beta`` is out of range; in a run, if the problem does not tell prior energy and misfit apart
        (`invsamp.contract.SplitPotential`; a `Posterior` does).
    """
    return TemperedLikelihood(beta)


def as_law(name: str, value: Law | float) -> Law:
    """A law, or the one that a temperature stands for."""
    if isinstance(value, Law):
        return value
    return Tempered(real(name, value, least=1, also=", or a law such as tempered_likelihood(0.3)"))


def as_ladder(temperatures: Sequence[Law | float]) -> tuple[Law, ...]:
    """Laws from cold to hot; `ValueError` unless the first is the posterior's and each next one is flatter."""
    given = sequence("temperatures", temperatures, "a sequence of temperatures or laws")
    if any(isinstance(entry, Law) for entry in given):
        laws = tuple(as_law(f"temperatures[{k}]", entry) for k, entry in enumerate(given))
        check_ladder(laws)
        return laws
    return tuple(map(Tempered, check_temperatures(given)))


def check_ladder(laws: Sequence[Law]) -> None:
    """`ValueError` unless the first law is the posterior and each next one that is linear takes less of the misfit.

    A first law that is not linear may be another one, and so may a cold posterior.
    """
    if all(isinstance(law, Tempered) for law in laws):
        check_temperatures([law.temperature for law in laws if isinstance(law, Tempered)])
        return
    first = laws[0].factors
    if first is not None and not first[0] == first[1] >= 1.0:  # of others the engine asks for weights
        raise ValueError(
            f"the first law must be the posterior, tempered(1) or tempered_likelihood(1), got {laws[0]!r}: the draws "
            "are those of the first rung"
        )
    for k, (colder, hotter) in enumerate(itertools.pairwise(laws), start=1):
        if colder.factors and hotter.factors and not colder.factors[1] > hotter.factors[1]:
            raise ValueError(
                f"laws must take less of the misfit from rung to rung, got {colder} before {hotter} at index {k}"
            )


def check_temperatures(temperatures: Sequence[float]) -> tuple[float, ...]:
    """Temperatures as numbers; `ValueError` unless they start at 1 and increase."""
    checked: tuple[float, ...] = tuple(array("temperatures", temperatures, ("rungs",)).tolist())
    if checked[0] != 1.0:
        raise ValueError(f"temperatures must start at 1 (the posterior), got {checked[0]}")
    for k, (colder, hotter) in enumerate(itertools.pairwise(checked), start=1):
        if not colder < hotter:
            raise ValueError(f"temperatures must increase, got {colder} before {hotter} at index {k}")
    return checked


def temperatures_of(laws: Sequence[Law]) -> list[float] | None:
    """Their temperatures; None where a law has none."""
    found = [law.temperature for law in laws if isinstance(law, Tempered)]
    return found if len(found) == len(laws) else None


def noise_room(law: Law) -> float:
    r"""What a tempered law's temperature is to the noise of gradients, for any law that is linear.

    A step :math:`\eta`, as given, injects noise of variance :math:`2 \eta s` into the coordinates, s the step scale,
    and gradients of noise variance V bring :math:`(\eta s b)^2 V` along: room for :math:`\eta V < 2 / (s b^2)`.
    """
    assert law.factors is not None  # others have exact energies
    taken = law.step_scale * law.factors[1] ** 2
    return 1.0 / taken if taken else float("inf")


def combined(a: float, b: float, whole: Array, prior: Array | None) -> Array:
    """The sum a (prior) + b (whole - prior), of energies or of gradients.

    What has factor 0 takes no part, even where it is infinite: the prior's law knows nothing of a solve that failed.
    """
    if a == b:
        return whole if b == 1.0 else b * whole
    assert prior is not None  # laws that take it apart are refused where it is not told
    rest = (a - b) * prior
    return rest if b == 0.0 else rest + b * whole
