"""Gradient descent, stochastic where gradients are: what SWAG and ensembles are made of. A baseline."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.arguments import real, store
from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.contract import NOTHING, ActiveRung, Moved, Point, where_solved
from invsamp.kernels.defaults import Baseline
from invsamp.stored import stored_dataclass


@stored_dataclass
class GradientDescent(Baseline):
    r"""SGD, :math:`u' = m u - \eta \nabla v`, :math:`x' = x + u'`: samples nothing. Its iterates spread by the noise of
    the gradients alone.

    Parameters
    ----------
    momentum : float in [0, 1)
        m, the share of the last move that is kept (the heavy ball of Polyak, 1964); 0: gradient descent itself.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.GradientDescent(momentum=0.9)
    GradientDescent(momentum=0.9)
    """

    momentum: float = 0.0
    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        store(self, momentum=real("momentum", self.momentum, least=0, below=1))

    def __str__(self) -> str:
        kept = f", momentum {self.momentum:g}" if self.momentum else ""
        return f"gradient descent{kept} (samples nothing)"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """The last move (chains, d), at first none."""
        return {"move": np.zeros(shape)} if self.momentum else {}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""
        move = -rung.step_size * rung.gradient(here.estimate)
        if self.momentum:
            move += self.momentum * memory["move"]
        end = here.position + move
        there, stayed = where_solved(rung, Point(end, (yield from rung.evaluate(end))), here)
        if not self.momentum:
            return there, memory, NOTHING
        if stayed is not None:
            move[stayed] = 0.0
        return there, {"move": move}, NOTHING
