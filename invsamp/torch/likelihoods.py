"""Likelihoods of networks: minus the log density of each datum, given what the network says of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch

from invsamp import arguments
from invsamp.arguments import instance, optional, real, store, text
from invsamp.contract import Tensor
from invsamp.posing.distribution import Distribution
from invsamp.posing.distributions import HalfNormal

#: What torch calls a tensor.


@runtime_checkable
class Likelihood(Protocol):
    """How data come about from the outputs of a network, independently of each other."""

    @property
    def unknowns(self) -> dict[str, Distribution]:
        """Positive unknowns of its own, numbers, with their priors; empty for most."""
        ...

    def energies(self, output: Tensor, target: Tensor, unknowns: dict[str, Tensor]) -> Tensor:
        """Minus log likelihoods (n,) of n data, from outputs (n, ...) and targets (n, ...)."""
        ...

    def check(self, output: Tensor, target: Tensor) -> None:
        """`ValueError` unless outputs and targets are of a kind that it knows."""
        ...


@dataclass(frozen=True)
class Categorical:
    """Made by `categorical`."""

    unknowns: ClassVar[dict[str, Distribution]] = {}

    def energies(self, output: Tensor, target: Tensor, unknowns: dict[str, Tensor]) -> Tensor:
        """Minus log probabilities (n,) of the classes that were seen."""
        return torch.nn.functional.cross_entropy(output, target, reduction="none")

    def check(self, output: Tensor, target: Tensor) -> None:
        """`ValueError` unless outputs are (n, classes) and targets whole numbers below the number of classes."""
        if output.ndim != 2:
            raise ValueError(f"module must return logits (n, classes) for categorical(), got {tuple(output.shape)}")
        if target.ndim != 1 or target.dtype != torch.int64:
            raise ValueError(
                f"targets must be whole numbers (n,) for categorical(), got {target.dtype} of {tuple(target.shape)}"
            )
        low, high, classes = int(target.min()), int(target.max()), output.shape[1]
        if low < 0 or high >= classes:
            raise ValueError(f"targets must be classes from 0 to {classes - 1}, got {low if low < 0 else high}")


@dataclass(frozen=True)
class Gaussian:
    """Made by `gaussian`."""

    scale: float | str
    prior: Distribution | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scale, str):
            text("scale", self.scale)
            law = HalfNormal(1.0) if self.prior is None else self.prior
            instance("prior", law, Distribution, "a distribution of a positive number, such as HalfNormal(1)")
            if law.shape != () or law.support[0] < 0.0 or math.isfinite(law.support[1]):
                raise ValueError(f"prior must be of a number on the whole positive axis, got {law!r}")
            store(self, prior=law)
            return
        optional(_no_prior, "prior", self.prior)
        store(self, scale=real("scale", self.scale, above=0, also=", or the name of an unknown"))

    @property
    def unknowns(self) -> dict[str, Distribution]:
        """The scale, where it is unknown."""
        return {self.scale: self.prior} if isinstance(self.scale, str) and self.prior is not None else {}

    def energies(self, output: Tensor, target: Tensor, unknowns: dict[str, Tensor]) -> Tensor:
        """Minus log densities (n,), summed over what a datum holds."""
        scale = unknowns[self.scale] if isinstance(self.scale, str) else torch.as_tensor(self.scale, dtype=output.dtype)
        wrong = ((output - target) / scale).reshape(len(output), -1)
        log_scale = torch.log(scale) + 0.5 * math.log(2.0 * math.pi)
        return 0.5 * (wrong * wrong).sum(dim=1) + wrong.shape[1] * log_scale

    def check(self, output: Tensor, target: Tensor) -> None:
        """`ValueError` unless outputs and targets have one shape."""
        if output.shape != target.shape:
            raise ValueError(
                f"targets must have the shape of what the module returns, {tuple(output.shape)}, got "
                f"{tuple(target.shape)}"
            )
        if not target.is_floating_point():
            raise ValueError(f"targets must be real numbers for gaussian(), got {target.dtype}")


@dataclass(frozen=True)
class FunctionLikelihood:
    """A function of outputs and targets as a likelihood."""

    function: Callable[[Tensor, Tensor], Tensor]
    unknowns: ClassVar[dict[str, Distribution]] = {}

    def energies(self, output: Tensor, target: Tensor, unknowns: dict[str, Tensor]) -> Tensor:
        """Minus what the function returns, (n,)."""
        found = self.function(output, target)
        if found.shape != output.shape[:1]:
            raise ValueError(
                f"likelihood must return the log likelihood of each datum, shape ({len(output)},), got "
                f"{tuple(found.shape)}: neither their sum nor their mean, which would be a posterior of fewer data"
            )
        return -found

    def check(self, output: Tensor, target: Tensor) -> None:
        """Nothing is known of it."""


def categorical() -> Categorical:
    """Classes (n,), whole numbers from 0, of which the network gives logits (n, classes)."""
    return Categorical()


def gaussian(scale: float | str, prior: Distribution | None = None) -> Gaussian:
    """Real numbers, each with an independent normal error.

    Parameters
    ----------
    scale : float, or str
        Standard deviation, in units of the targets. A name: it is an unknown of this name, sampled as its logarithm.
    prior : Distribution, optional
        Of that unknown, on the whole positive axis: ``HalfNormal(1)`` by default.

    Raises
    ------
    ValueError
        If the scale is neither positive nor a name, or the prior is not that of a positive number.
    """
    return Gaussian(scale, prior)


def as_likelihood(value: object) -> Likelihood:
    """A likelihood, or a function that returns the log likelihood of each datum."""
    if isinstance(value, torch.nn.Module):
        raise ValueError(
            f"likelihood must be categorical(), gaussian(...) or a function, got {value!r}: a loss is minus a log "
            "likelihood, and mostly a mean. Write lambda output, target: -loss(output, target), with reduction='none'"
        )
    if isinstance(value, Likelihood) and not isinstance(value, type):
        return value
    return FunctionLikelihood(arguments.function("likelihood", value, "(output, target) -> log likelihoods (n,)"))


def _no_prior(name: str, value: object) -> None:
    raise ValueError(f"{name} must be None where the scale is a number, got {value!r}")
