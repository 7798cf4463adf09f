"""Moves on a coarse model that warm-up corrects, which the fine model only decides: as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from invsamp.arguments import integer, one_of, optional, store
from invsamp.corrections.learning import KINDS, LEAST_PAIRS, Kind
from invsamp.kernels import CrankNicolson
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.swap.rules import product_target

#: Pairs of solves that teach a correction, and the exchanges after which the fine rung moves by itself.
PAIRS, LOCAL = 100, 20
#: Numbers of coarse steps between two exchanges that are weighed against each other.
OFTEN = (1, 2, 5, 10, 20, 50, 100)
#: What a gradient costs beside an energy alone.
GRADIENT = 2.0


@dataclass(frozen=True)
class CorrectedExchange(Sampler):
    """See `invsamp.surrogate_exchange`: the rungs are those of the exchange as far as they are known before it.

    Parameters
    ----------
    correct : "auto", "none", "offset" or "affine"
        What warm-up learns, as of `invsamp.correct`.
    pairs : int
        Of solves that it learns from, at the least ten.
    every : int, optional
        Steps of the coarse rungs between two exchanges. Default: by measurement.
    local : int
        Exchanges between two moves that the fine rung makes by itself.
    alone : Sampler, optional
        What moves the coarse model. Default: chosen as `invsamp.sample` does.
    """

    rungs: Sequence[Rung] = field(default_factory=lambda: (Rung(kernel=CrankNicolson(LOCAL)), Rung(fidelity=1)))
    swap: Swap = field(default_factory=lambda: Swap(product_target(), every=1))
    correct: Kind | Literal["auto"] = "auto"
    pairs: int = PAIRS
    every: int | None = None
    local: int = LOCAL
    alone: Sampler | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("correct", self.correct, ("auto", *KINDS))
        every = optional(integer, "every", self.every, least=1)
        pairs, local = integer("pairs", self.pairs, least=LEAST_PAIRS), integer("local", self.local, least=1)
        store(self, pairs=pairs, local=local, every=every)

    def __str__(self) -> str:
        often = "as often as measurement says" if self.every is None else f"every {self.every} steps"
        moved = "what suits it" if self.alone is None else str(self.alone)
        return f"a coarse model, corrected by {self.pairs} pairs, moved by {moved}; the fine one decides {often}"


def exchange(coarse: Sampler, fidelity: str, every: int, local: int) -> Sampler:
    """The fine rung above those that move on a coarse fidelity."""
    rungs = [replace(rung, fidelity=fidelity) for rung in coarse.rungs]
    fine = Rung(rungs[0].law, 0, kernel=CrankNicolson(every * local))
    return Sampler([fine, *rungs], Swap(product_target(), every=every), coarse.preconditioner)


def how_often(steps: float, gradients: float, relative_cost: float) -> int:
    r"""Coarse steps between two exchanges, at the least cost of an effective draw.

    With :math:`\rho = (\tau - 1) / (\tau + 1)`, as of an autoregression, exchanges k steps apart are worth
    :math:`(1 - \rho^k) / (1 + \rho^k)` of a draw, and cost a fine energy and k steps of the coarse side.

    Parameters
    ----------
    steps : float
        :math:`\tau`, that are worth an independent draw of the coarse side.
    gradients : float
        Coarse ones, of all rungs, that a step takes.
    relative_cost : float
        Of a fine energy to a coarse one.
    """
    kept = max(0.0, 1.0 - 2.0 / (steps + 1.0))

    def cost(every: int) -> float:
        left = kept**every
        return (1.0 + every * gradients * GRADIENT / relative_cost) * (1.0 + left) / (1.0 - left)

    return min(OFTEN, key=cost) if kept < 1.0 else OFTEN[-1]
