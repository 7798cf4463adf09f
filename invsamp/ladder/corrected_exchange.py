"""Moves on a coarse model that warm-up corrects, which the fine model only decides: as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal

from invsamp.arguments import boolean, integer, one_of, optional, store
from invsamp.kernels import CrankNicolson
from invsamp.kernels.gaussian_reference import mode_of
from invsamp.ladder.rung import Rung
from invsamp.ladder.sampler import Sampler, Swap
from invsamp.stored import stored_dataclass
from invsamp.surrogates.chain import Chain
from invsamp.surrogates.learning import LEAST_PAIRS
from invsamp.surrogates.pairs import KINDS, Kind
from invsamp.swaps.rules import product_target
from invsamp.swaps.schemes import Upwards, deo

#: Pairs of solves that teach a correction, and the exchanges after which the fine rung moves by itself.
PAIRS, LOCAL = 100, 20


@stored_dataclass
class CorrectedExchange(Sampler):
    """See `invsamp.samplers.surrogate_exchange`: its rungs as far as they are known before it.

    Parameters
    ----------
    correct : "auto", "none", "offset", "affine" or "polynomial"
        What warm-up learns, as of `invsamp.correct`.
    pairs : int
        Of solves that it learns from, at least ten.
    exchange_interval : int, optional
        Steps of the coarse rungs between two exchanges. Default: by their autocorrelation and the costs.
    local_move_interval : int
        Exchanges between two moves that the fine rung makes by itself.
    enhanced : bool
        Whether the covariance of what the correction leaves is added to the noise of the coarse target.
    alone : Sampler, optional
        What moves the coarse model. Default: chosen as `invsamp.sample` does.
    """

    rungs: Sequence[Rung] = field(default_factory=lambda: (Rung(kernel=CrankNicolson(LOCAL)), Rung(fidelity=1)))
    swap: Swap = field(default_factory=lambda: Swap(product_target(), every=1))
    correct: Kind | Literal["auto"] = "auto"
    pairs: int = PAIRS
    exchange_interval: int | None = None
    local_move_interval: int = LOCAL
    enhanced: bool = False
    alone: Sampler | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("correct", self.correct, ("auto", *KINDS))
        store(
            self,
            pairs=integer("pairs", self.pairs, least=LEAST_PAIRS),
            exchange_interval=optional(integer, "exchange_interval", self.exchange_interval, least=1),
            local_move_interval=integer("local_move_interval", self.local_move_interval, least=1),
            enhanced=boolean("enhanced", self.enhanced),
        )

    def __str__(self) -> str:
        often = "as often as is useful" if self.exchange_interval is None else f"every {self.exchange_interval} steps"
        moved = "what suits it" if self.alone is None else str(self.alone)
        return (
            f"a coarse model, corrected by {self.pairs} pairs, moved by {moved}; the fine model accepts or "
            f"rejects {often}"
        )


def exchange(coarse: Sampler, chain: Chain, local: int, fine: Rung) -> Sampler:
    """The fine rung above those that move on the first of some coarse fidelities, with those between that pass on.

    ``fine`` gives the fine rung's estimator and variance model. Where the coarse rungs move about a mode's Gaussian,
    the fine one's own moves do, too.
    """
    coarsest, *between = chain.levels
    rungs = [replace(rung, fidelity=coarsest) for rung in coarse.rungs]
    kernel = CrankNicolson(chain.steps * local, mode_of(rungs[0].kernel))
    above = [Rung(rungs[0].target, fidelity, kernel=kernel) for fidelity in reversed(between)]
    above.insert(0, replace(fine, target=rungs[0].target, fidelity=0, kernel=kernel))
    scheme = Upwards(chain.often, len(above)) if between else deo()
    return Sampler([*above, *rungs], Swap(product_target(), scheme, every=chain.every), coarse.preconditioner)
