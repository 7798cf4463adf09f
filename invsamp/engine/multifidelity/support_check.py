"""Does a coarse model fail where the fine one does not? Some moves between its draws are tried."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.evaluate.requests import EvaluationRequests, Request
from invsamp.protocols import Array
from invsamp.stored import stored

#: Moves that the coarse model is tried on, and fine solves where it fails, at most.
MOVES, SOLVES = 400, 25
#: A share of the posterior that may lie where the coarse model fails.
LOST = 0.01


@stored
class Probe(NamedTuple):
    """The result of the moves."""

    failed: int  # of `MOVES` the moves to where the coarse model fails
    lost: float  # share of the accepted moves that lead there

    @property
    def passed(self) -> bool:
        """Whether hardly anything lies there."""
        return self.lost <= LOST

    def described(self, coarse: str, fine: str) -> str:
        """In words."""
        return (
            f"{coarse!r} fails where {fine!r} does not: {self.lost:.0%} of the moves between its draws that "
            f"{fine!r} would accept lead into that region"
        )


def check_support(
    states: Array, coarse: str, fine: str, domain: Domain, rng: np.random.Generator
) -> EvaluationRequests[Probe]:
    r"""Random walk from states (n, d) along differences of other two, as if its target distribution were the fine one.

    The share of accepted moves into the region where the coarse model fails is most of the posterior's mass there, as
    far as a move reaches. For a normal distribution cut off at .5 to 1.5 sds it is about two thirds. At most `SOLVES`
    of these moves are solved by the fine model; the others are assumed to be accepted as often. Elsewhere coarse
    energies stand for fine ones.

    References
    ----------
    ter Braak (2006), Statistics and Computing 16, eq. (2): factor :math:`2.38/\sqrt{2d}`.
    """
    n, d = states.shape
    begin, one, other = rng.integers(n, size=(3, MOVES))
    ends = states[begin] + 2.38 / math.sqrt(2 * d) * (states[one] - states[other])
    inside = domain.contains(ends)
    begin, ends = begin[inside], ends[inside]
    here, there = yield (
        Request(coarse, states[begin], gradient=False),
        Request(coarse, np.ascontiguousarray(ends), gradient=False),
    )
    failed = np.flatnonzero(~np.isfinite(there.energy))
    if not len(failed):
        return Probe(0, 0.0)
    some = failed[:SOLVES]
    known, new = yield (
        Request(fine, states[begin[some]], gradient=False),
        Request(fine, np.ascontiguousarray(ends[some]), gradient=False),
    )
    lost = float(_chances(known.energy, new.energy).mean()) * len(failed)
    kept = float(np.delete(_chances(here.energy, there.energy), failed).sum())
    return Probe(len(failed), lost / (lost + kept) if lost > 0.0 else 0.0)


def _chances(before: Array, after: Array) -> Array:
    """Probability that a move is accepted; 0 where it ends at an infinite energy."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(after), np.exp(np.minimum(before - after, 0.0)), 0.0)
