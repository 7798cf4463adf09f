"""Gradient descent, stochastic where gradients are: what SWAG is made of. A baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from invsamp.evaluate.requests import Asks
from invsamp.kernels.baseline import Baseline
from invsamp.kernels.contract import NOTHING, ActiveRung, Memory, Moved, Point, where_solved


@dataclass(frozen=True)
class GradientDescent(Baseline):
    r"""SGD, :math:`x' = x - \eta \nabla v`: samples nothing. Its iterates spread by the noise of the gradients
    alone."""

    name: ClassVar[str] = "sgd"

    def __str__(self) -> str:
        return "gradient descent (samples nothing)"

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> Asks[Moved]:
        """Move every chain once."""
        end = here.position - rung.step_size * rung.gradient(here.estimate)
        there = Point(end, (yield from rung.evaluate(end)))
        return where_solved(rung, there, here)[0], memory, NOTHING
