"""A network in the place of a model, or of what a coarse one lacks: fitted to solves of the fine one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from invsamp.arguments import integer, sequence
from invsamp.posing.forward_models.adapters import TorchModel
from invsamp.protocols import Array, ForwardModel, Tensor, Torch
from invsamp.surrogates.residuals import Surrogate, known_parameters

#: Every so manieth pair is held out, to stop the training by.
HELD_OUT = 5
#: First rate of Adam, which falls along a cosine.
RATE = 1e-2


@dataclass(frozen=True)
class NetworkModel(Surrogate):
    """A forward model that a network is, or corrects. Made by `network_model`.

    Attributes
    ----------
    error : float or None
        Root mean square of what is missing on pairs that were held out, over that of the same without the network (of
        the coarse model, or of the mean); None before it is fitted. Above 1 it does harm.
    """

    hidden: tuple[int, ...]
    steps: int
    seed: int
    parameters: tuple[str, ...] | None = None
    error: float | None = None

    def fitted(self, theta: Array, missing: Array) -> NetworkModel:
        """The model fitted to what is missing (n, m) at theta (n, p)."""
        found, error = _trained(theta, missing, self)
        return replace(self, error=error, found=found)


def network_model(
    coarse: ForwardModel | None = None,
    hidden: Iterable[int] = (32, 32),
    *,
    steps: int = 2000,
    parameters: Iterable[str] | None = None,
    seed: int = 0,
) -> NetworkModel:
    r"""A multilayer perceptron as a forward model, or as what a coarse model lacks of the fine one.

    .. math:: y(\theta) = y_0(\theta) + \mathrm{net}(\theta)

    with :math:`y_0` the coarse model, or nothing. It has ``fit(theta, observations)``, so it can be a coarse fidelity
    that `invsamp.correct` fits to its pairs of solves. Then the fine model decides each move of
    `invsamp.samplers.surrogate_exchange`. So errors of the network cost acceptance, never exactness. It should be
    compared with the affine map of `correct`. With hundreds of pairs, networks are better where unknowns are few, and
    not where they are many. ``error``, on held-out pairs, shows which.

    Parameters
    ----------
    coarse : ForwardModel, optional
        Which is corrected. Without one the network is fitted by hand before it is used.
    hidden : sequence of int
        Widths of the layers, with tanh between them.
    steps : int
        Of Adam on all pairs; the best step by the held-out fifth of the pairs is kept.
    parameters : names, optional
        As in `invsamp.with_jacobian`; those of the coarse model by default.
    seed : int
        Of the first weights and the pairs that are held out.

    Raises
    ------
    ValueError
        If an argument is wrong.
    """
    own = known_parameters(coarse, parameters)
    widths = tuple(integer(f"hidden[{k}]", width, least=1) for k, width in enumerate(sequence("hidden", hidden)))
    return NetworkModel(coarse, widths, integer("steps", steps, least=1), integer("seed", seed, least=0), own)


class _Perceptron(torch.nn.Module):
    """A perceptron between standardized inputs and outputs."""

    def __init__(self, x: Array, y: Array, hidden: tuple[int, ...]) -> None:
        super().__init__()
        widths = [x.shape[1], *hidden, y.shape[1]]
        layers: list[Torch] = []
        for before, after in itertools.pairwise(widths):
            layers += [torch.nn.Linear(before, after), torch.nn.Tanh()]
        self.net = torch.nn.Sequential(*layers[:-1]).double()
        spread = x.std(axis=0)
        scale = float(np.sqrt(np.square(y - y.mean(axis=0)).mean())) or 1.0
        held = x.mean(axis=0), np.where(spread > 0.0, spread, 1.0), y.mean(axis=0), np.array(scale)
        for name, values in zip(("center", "spread", "mean", "scale"), held, strict=True):
            self.register_buffer(name, torch.from_numpy(np.asarray(values)))

    def forward(self, theta: object) -> Tensor:
        return self.mean + self.scale * self.net((theta - self.center) / self.spread)


def _trained(x: Array, y: Array, model: NetworkModel) -> tuple[TorchModel, float]:
    """A network fitted to residuals y (n, m) at x (n, p), and its error on those that were held out."""
    order = np.random.default_rng(model.seed).permutation(len(x))
    held, rest = order[::HELD_OUT], np.setdiff1d(order, order[::HELD_OUT])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(model.seed)
        fitted = _Perceptron(x[rest], y[rest], model.hidden)
    tensors = [torch.from_numpy(np.array(part)) for part in (x[rest], y[rest], x[held], y[held])]
    adam = torch.optim.Adam(fitted.parameters(), lr=RATE)
    best, kept = math.inf, fitted.state_dict()
    for step in range(model.steps):
        for group in adam.param_groups:
            group["lr"] = 0.5 * RATE * (1.0 + math.cos(math.pi * step / model.steps))
        adam.zero_grad()
        loss = ((fitted(tensors[0]) - tensors[1]) / fitted.scale).square().mean()
        loss.backward()
        adam.step()
        if step % 10 == 9 or step == model.steps - 1:
            with torch.no_grad():
                missed = float((fitted(tensors[2]) - tensors[3]).square().mean())
            if missed < best:
                best, kept = missed, {name: part.clone() for name, part in fitted.state_dict().items()}
    fitted.load_state_dict(kept)
    reference = np.square(y[held] - (0.0 if model.coarse is not None else y[rest].mean(axis=0))).mean()
    return TorchModel(fitted.requires_grad_(False)), math.sqrt(best / reference) if reference > 0.0 else 0.0
