"""A sampler that chooses itself, from the results of optimizations and pilot runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from invsamp.kernels import Hamiltonian, Microcanonical
from invsamp.kernels.contract import Kernel
from invsamp.ladder.preconditioner import MOST_MAPPED, Given, LearnedMap
from invsamp.ladder.rung import Rung
from invsamp.ladder.sampler import Sampler
from invsamp.ladder.spacing import AutoLadder
from invsamp.modes import Modes
from invsamp.stored import stored_dataclass
from invsamp.tempering.linear_targets import TemperedLikelihood

#: Mean lengths of paths, by the square root of d, one after the other where a trial says that they are too short.
LENGTHS = (1.0, 3.0, 9.0)


@stored_dataclass
class Automatic(Sampler):
    """The default of `invsamp.sample` where no sampler is given: see there.

    What it is at a time is one of its `stages`: one kernel with longer and longer paths, and a ladder from prior to
    posterior that warm-up finds.
    """

    rungs: Sequence[Rung] = field(default_factory=lambda: (Rung(kernel=Microcanonical()),))
    preconditioner: str | Modes | Given | LearnedMap | None = "auto"

    def __str__(self) -> str:
        return "chosen by optimizations and pilot runs"

    def stages(self, dimension: int, fidelities: int, bounded: bool = False) -> tuple[Sampler, ...]:
        """For so many unknowns and fidelities, in the order in which they are tried; ``bounded``: bounds reflect."""
        mapped = dimension <= MOST_MAPPED and not bounded
        metric = LearnedMap() if mapped else "auto"
        single = [Sampler((Rung(kernel=_kernel(dimension, n)),), preconditioner=metric) for n in LENGTHS]
        count = max(2, fidelities)
        rungs = [Rung(TemperedLikelihood(0.5**k), k, kernel=_kernel(dimension, LENGTHS[0])) for k in range(count)]
        return (*single, Sampler(rungs, preconditioner="auto", ladder=AutoLadder()))


def _kernel(dimension: int, length: float) -> Kernel:
    # a direction cannot turn in one dimension
    return Microcanonical(length) if dimension > 1 else Hamiltonian(0.8 * length)
