"""Likelihoods of networks: minus the log density of each datum, given what the network says of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch

from invsamp import arguments
from invsamp.arguments import instance, real, store, text
from invsamp.posing.distributions.base import Distribution
from invsamp.posing.distributions.univariate import HalfNormal
from invsamp.protocols import Tensor
from invsamp.warning_codes import InvsampWarning


@runtime_checkable
class Likelihood(Protocol):
    """How data come about from the outputs of a network, independently of each other."""

    @property
    def unknowns(self) -> dict[str, Distribution]:
        """Positive unknowns of its own, numbers, with their priors; empty for most."""

    def energies(self, output: Tensor, target: Tensor, unknowns: dict[str, Tensor]) -> Tensor:
        """Minus log likelihoods (n,) of n data, from outputs (n, ...) and targets (n, ...)."""

    def check(self, output: Tensor, target: Tensor) -> None:
        """`ValueError` unless outputs (some, ...) of the first data and all targets (n, ...) are of a kind that it
        knows."""


@dataclass(frozen=True)
class Categorical:
    """Made by `categorical`."""

    unknowns: ClassVar[dict[str, Distribution]] = {}

    def energies(self, output: Tensor, target: Tensor, unknowns: dict[str, Tensor]) -> Tensor:
        """Minus log probabilities (n,) of the classes that were seen."""
        return torch.nn.functional.cross_entropy(output, target, reduction="none")

    def check(self, output: Tensor, target: Tensor) -> None:
        """`ValueError` unless outputs are logits (n, classes) and targets whole numbers below the number of classes."""
        if output.ndim != 2:
            raise ValueError(f"module must return logits (n, classes) for categorical(), got {tuple(output.shape)}")
        if target.ndim != 1 or target.dtype != torch.int64:
            hint = " (one column for each class: targets.argmax(1))" if target.shape[1:] == output.shape[1:] else ""
            raise ValueError(
                f"targets must be whole numbers (n,) for categorical(){hint}, got {target.dtype} of "
                f"{tuple(target.shape)}"
            )
        low, high, classes = int(target.min()), int(target.max()), output.shape[1]
        if classes == 1:
            raise ValueError("module must return a logit for each class for categorical(), got 1: two for two classes")
        if low < 0 or high >= classes:
            raise ValueError(f"targets must be classes from 0 to {classes - 1}, got {low if low < 0 else high}")
        if bool((output >= 0.0).all()) and torch.allclose(output.sum(dim=1), torch.ones_like(output[:, 0]), atol=1e-5):
            raise ValueError("module must return logits for categorical(), got probabilities: leave its softmax out")


@dataclass(frozen=True)
class Gaussian:
    """Made by `gaussian`."""

    scale: float | str
    prior: Distribution | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scale, str):
            text("scale", self.scale)
            target = HalfNormal(1.0) if self.prior is None else self.prior
            instance("prior", target, Distribution, "a distribution of a positive number, such as HalfNormal(1)")
            if target.shape != () or target.support[0] < 0.0 or math.isfinite(target.support[1]):
                raise ValueError(f"prior must be of a number on the whole positive axis, got {target!r}")
            store(self, prior=target)
            return
        if self.prior is not None:
            raise ValueError(f"prior must be None where the scale is a number, got {self.prior!r}")
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
        if output.shape[1:] != target.shape[1:]:
            hint = " (targets[:, None])" if output.shape[1:] == (1,) and target.ndim == 1 else ""
            raise ValueError(
                f"targets must have the shape of what the module returns, {_rows_of(output)}{hint}, got "
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
        if not isinstance(found, torch.Tensor):
            raise ValueError(f"likelihood must return a tensor, made by functions of torch, got {type(found).__name__}")
        if found.shape != output.shape[:1]:
            raise ValueError(
                f"likelihood must return the log likelihood of each datum, shape ({len(output)},), got "
                f"{tuple(found.shape)}: neither their sum nor their mean, which would be a posterior of fewer data"
            )
        return -found

    def check(self, output: Tensor, target: Tensor) -> None:
        """Warn where outputs that come nearer to the targets are less likely: it is a loss then, not minus one."""
        target = target[: len(output)]
        if target.shape == output.shape and target.is_floating_point():
            nearer = target
        elif target.dtype == torch.int64 and target.ndim == 1 and output.ndim == 2 and bool((target >= 0).all()):
            if int(target.max()) >= output.shape[1]:
                return
            nearer = output + torch.nn.functional.one_hot(target, output.shape[1])
        else:
            return
        try:
            here, there = (self.energies(part, target, {}).sum() for part in (output, nearer))
        except ValueError:
            raise
        except Exception as error:  # whatever a function of the user's raises
            raise ValueError(
                f"likelihood must take outputs and targets, got {type(error).__name__}: {error}"
            ) from error
        if bool(there > here):
            message = (
                f"the log likelihood falls from {-here:.4g} to {-there:.4g} where outputs come nearer to the targets: "
                "is it a loss? A log likelihood is minus a loss"
            )
            warnings.warn(message, InvsampWarning, stacklevel=4)


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
    if value is categorical or value is gaussian:
        name = value.__name__
        raise ValueError(f"likelihood must be called: {name}({'0.1' if value is gaussian else ''}), got {name}")
    if isinstance(value, Likelihood) and not isinstance(value, type):
        return value
    return FunctionLikelihood(arguments.function("likelihood", value, "(output, target) -> log likelihoods (n,)"))


def _rows_of(output: Tensor) -> str:
    return f"({', '.join(['n', *map(str, output.shape[1:])])}{',' if output.ndim == 1 else ''})"
