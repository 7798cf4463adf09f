"""Independent draws, for the rung whose law is the prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from invsamp.contract import Array
from invsamp.evaluate.requests import Asks, Rows
from invsamp.kernels.contract import ActiveRung, Info, Memory, Moved, Point


@dataclass(frozen=True)
class PriorDraws:
    """Every step is an independent draw from the prior restricted to the domain. Made by `prior_draws`."""

    name: ClassVar[str] = "prior draws"
    gradient: ClassVar[bool] = False
    adjusted: ClassVar[bool] = True
    friction: ClassVar[float] = 1.0
    target_acceptance: ClassVar[float] = 1.0
    stability_limit: ClassVar[float] = 2.0
    longest_step: ClassVar[float] = 1.0
    short_step: ClassVar[float] = 1.0
    statistics: ClassVar[Mapping[str, type]] = {}

    def __str__(self) -> str:
        return "draws from the prior"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Nothing is kept."""
        return {}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> Asks[Moved]:
        """Draw every chain anew."""
        position = rung.prior_draws()
        there = Point(position, (yield from rung.evaluate(position)))
        return there, memory, Info(np.zeros(len(position)), len(position))

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """Nothing is kept."""
        return memory


def prior_draws() -> PriorDraws:
    """Kernel of a rung whose law is the prior, `tempered_likelihood(0)`: independent draws, in place of moves.

    As the last rung of a ladder it forgets at once where a chain came from, so that modes which no walk connects get
    their share by swaps. Needs a problem whose prior can be drawn from (`invsamp.contract.DrawablePrior`, as a
    `Posterior` is).

    Raises
    ------
    ValueError
        With another law, a problem without such a prior, or a boundary that changes it.
    """
    return PriorDraws()
