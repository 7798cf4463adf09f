"""Independent draws, for the rung whose target is the prior."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.contract import ActiveRung, Info, Moved, Point
from invsamp.kernels.defaults import KernelDefaults
from invsamp.stored import stored_dataclass


@stored_dataclass
class PriorDraws(KernelDefaults):
    """Every step is an independent draw from the prior restricted to the domain. Made by `prior_draws`."""

    name: ClassVar[str] = "prior draws"
    gradient = False
    adjusted = True
    longest_step = 1.0

    def __str__(self) -> str:
        return "draws from the prior"

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Draw every chain anew."""
        position = rung.prior_draws()
        there = Point(position, (yield from rung.evaluate(position)))
        return there, memory, Info(np.zeros(len(position)), len(position))


def prior_draws() -> PriorDraws:
    """Kernel of a rung whose target is the prior, `tempered_likelihood(0)`: independent draws, in place of moves.

    As the last rung of a ladder it forgets at once where a chain came from, so that modes which no walk connects get
    their share by swaps. Needs a problem whose prior can be drawn from (`invsamp.protocols.DrawablePrior`, as a
    `Posterior` is).

    Raises
    ------
    ValueError
        With another target, a problem without such a prior, or a boundary that changes it.

    Examples
    --------
    >>> import invsamp as iv
    >>> hottest = iv.ladder.Rung(iv.tempering.tempered_likelihood(0.0), kernel=iv.kernels.prior_draws())
    >>> print(hottest.kernel)
    draws from the prior
    """
    return PriorDraws()
