"""The coarse fidelities of an exchange, and the intervals of their exchanges, at least cost of an effective draw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from invsamp.protocols import Array
from invsamp.surrogates.costs import Costs

#: Candidates: numbers of coarse steps between two exchanges, and of exchanges of two levels between two of the levels
#: above.
OFTEN, MEETINGS = (1, 2, 5, 10, 20, 50, 100), (1, 2, 5, 10)
#: Cost of an energy with its gradient, relative to an energy alone.
GRADIENT = 2.0
#: Probabilities of acceptance below which they count as 0.
LEAST = 1e-6
#: A level between others is kept where it saves so much of the cost.
SAVES = 0.1
#: Additional cost, as a share of the least cost, that is accepted for fewer fine solves.
SPARING = 0.25


class CoarseSide(NamedTuple):
    """The moves of the coarse rung: ``steps`` for one effective draw, and coarse ``gradients`` for each step."""

    steps: float
    gradients: float


class Chain(NamedTuple):
    """Coarse fidelities of an exchange, from the coarsest on, and the intervals of their exchanges."""

    levels: tuple[str, ...]
    every: int  # coarse steps from one exchange to the next
    often: int  # exchanges of two levels between two of the levels above
    least: float  # acceptance between two neighbors
    fine_solves: float  # that an effective draw should take
    cost: float  # of all solves of an effective draw, in fine energies

    @property
    def steps(self) -> int:
        """Coarse steps from draw to draw."""
        return self.every * (self.often + 1) ** (len(self.levels) - 1)


def acceptance(sd: float) -> float:
    r"""Of an exchange between targets whose energies differ by a normal number of that sd: :math:`2\Phi(-s/\sqrt2)`."""
    return float(2.0 * ndtr(-sd / math.sqrt(2.0)))


def chosen(
    levels: Sequence[str], finest: str, errors: Mapping[str, Array], costs: Costs, side: CoarseSide
) -> tuple[Chain, Chain]:
    r"""The chain of least cost from the coarsest of ``levels``, which moves, to the finest; and that without others.

    A coarse rung forgets :math:`q = 1 - \rho^k` in k steps, with :math:`\rho = (\tau - 1) / (\tau + 1)` as of an
    autoregression. After m exchanges with it, each accepted with probability a, a rung has been renewed with
    probability :math:`1 - (1 - a q)^m`, and so on upwards. An exchange of the fine rung, accepted with a, gives it an
    independent draw with p = a times that. Its effective sample size is :math:`p / (2 - p)`.

    Parameters
    ----------
    levels : sequence of str
        From the coarsest on, without the finest.
    finest : str
    errors : mapping to ndarray, shape (n,)
        Fine energies less those of each level, corrected, at states that taught nothing; NaN where one failed.
    costs : Costs
    side : CoarseSide
        Of the coarsest one.
    """
    coarsest, *others = levels
    found = []
    for count in range(len(others) + 1):
        for between in itertools.combinations(others, count):
            ways = [*itertools.pairwise((coarsest, *between)), ((coarsest, *between)[-1], finest)]
            accepted = [acceptance(_spread(errors, *way)) for way in ways]
            prices = [1.0 / costs.ratio(name, finest) for name in (coarsest, *between)]
            found.append(_best((coarsest, *between), accepted, side, prices))
    alone = found[0]
    best = min(found, key=lambda chain: chain.cost)
    return (best if best.cost < (1.0 - SAVES) * alone.cost else alone), alone


def _best(levels: tuple[str, ...], accepted: Sequence[float], side: CoarseSide, prices: Sequence[float]) -> Chain:
    """The best numbers of steps and exchanges, for these probabilities of acceptance, from the coarsest on."""
    kept = max(0.0, 1.0 - 2.0 / (side.steps + 1.0)) if math.isfinite(side.steps) else 1.0
    least = min(accepted)
    found = [Chain(levels, OFTEN[-1], 1, least, math.inf, math.inf)]
    for every, often in itertools.product(OFTEN, MEETINGS if len(levels) > 1 else (1,)):
        chain = Chain(levels, every, often, least, math.inf, math.inf)
        renewed = 1.0 - kept**every
        for passed in accepted[:-1]:
            renewed = 1.0 - (1.0 - passed * renewed) ** often
        if (arrives := accepted[-1] * renewed) < LEAST:
            continue
        draws = (2.0 - arrives) / arrives
        solved = 1.0 + chain.steps * side.gradients * GRADIENT * prices[0]
        for k, price in enumerate(reversed(prices[1:]), 1):
            solved += 2.0 * (often + 1.0) ** k * price
        found.append(chain._replace(fine_solves=draws, cost=draws * solved))
    most = (1.0 + SPARING) * min(chain.cost for chain in found)
    return min((chain for chain in found if chain.cost <= most), key=lambda chain: chain.fine_solves)


def _spread(errors: Mapping[str, Array], lower: str, upper: str) -> float:
    """Sd of the difference of two corrected energies, over the states at which both are known."""
    difference = errors[lower] - errors[upper] if upper in errors else errors[lower]
    known = difference[~np.isnan(difference)]
    if len(known) < 2 or not np.isfinite(known).all():
        return math.inf
    return float(known.std(ddof=1))
