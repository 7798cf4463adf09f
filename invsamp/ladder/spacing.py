r"""How many rungs a ladder has, and where: from what neighbors reject.

A ladder is a path of targets from the posterior (beta = 1) to something flat (beta = 0, or small). The chance r that
two neighbors' swap is rejected is, for neighbors that are close, the distance of their targets along the path,

.. math:: r(\beta, \beta') \approx \int_\beta^{\beta'} \lambda(b)\, db, \qquad
          \lambda(b) = \tfrac12 E|\Phi - \Phi'|,

:math:`\Phi, \Phi'` what the path takes a part of (the misfit, or the whole energy) at independent states of the target
at b. Farther apart, where the log ratio of a swap is normal of variance s^2 and mean -s^2/2, :math:`r =
\mathrm{erf}(s / \sqrt 8)` and the distance is :math:`s / \sqrt{2 \pi}`: it is taken from r by that. The sum of the
distances over the ladder, its *barrier*, does not depend on where the rungs are, and round trips are most frequent
where all r are equal. With noisy energies, :math:`\Phi` and its noise, the penalty is of
second order in the distance: the barrier is larger, and all else holds.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), "Non-reversible parallel tempering: a scalable highly parallel
MCMC scheme", JRSS B 84, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import erfinv

from invsamp.arguments import integer, real, store
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass

#: Rejections are taken to lie within these: rungs whose targets are equal would have no distance to divide, and where
#: all swaps are rejected it is not known.
LEAST_REJECTION, MOST_REJECTION = 0.01, 0.999


@stored_dataclass
class AutoLadder:
    """Made by `auto_ladder`."""

    first: int = 8
    min_rungs: int = 2
    max_rungs: int = 32
    min_beta: float = 1e-3

    def __post_init__(self) -> None:
        min_rungs = integer("min_rungs", self.min_rungs, least=2)
        max_rungs = integer("max_rungs", self.max_rungs, least=min_rungs)
        store(
            self,
            first=integer("first", self.first, least=2),
            min_rungs=min_rungs,
            max_rungs=max_rungs,
            min_beta=real("min_beta", self.min_beta, above=0.0, most=0.5),
        )

    def __str__(self) -> str:
        return f"{self.min_rungs} to {self.max_rungs} rungs whose number and spacing warm-up finds"

    def start(self) -> tuple[float, ...]:
        """Betas of the first round, from 1 down to 0."""
        if self.first == 2:
            return 1.0, 0.0
        return (*np.geomspace(1.0, self.min_beta, self.first - 1).tolist(), 0.0)

    def rungs(self, barrier: float) -> int:
        """How many a ladder of that barrier gets: rejections are then a half, or less."""
        return int(np.clip(math.ceil(barrier / float(distances(0.5))) + 1, self.min_rungs, self.max_rungs))


def auto_ladder(*, first: int = 8, min_rungs: int = 2, max_rungs: int = 32, min_beta: float = 1e-3) -> AutoLadder:
    """A ladder whose number of rungs and spacing warm-up finds: ``ladder="auto"`` with limits of your own.

    It goes from the posterior to the prior, which is drawn from directly, by tempered likelihoods. A problem that does
    not separate prior and misfit, or whose prior cannot be drawn from, has no such end. Its ladder is one of
    temperatures, or of tempered likelihoods, up to a temperature at which energies are as high as at the starting
    points. ``run.report["ladder"]`` says which it was.

    Warm-up is made of rounds, each twice as long as the one before. After each round the rejections of its second half
    determine the number of rungs (about twice the sum of the rejections, and one). They also determine the
    temperatures, such that all pairs reject equally often, half of the swaps. The new rungs continue from the
    positions, step sizes and preconditioners of the old ones. The last round is half of warm-up; at its end everything
    is frozen.

    Parameters
    ----------
    first : int, >= 2
        Rungs of the first round.
    min_rungs, max_rungs : int, >= 2
        Limits on their number.
    min_beta : float in (0, 0.5]
        The least beta of the first round beside 0.

    Raises
    ------
    ValueError
        If a number is out of range, or ``min_rungs`` exceeds ``max_rungs``.

    References
    ----------
    Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), JRSS B 84, Algorithm 4. Here beta is interpolated as a
    function of the barrier, on a logarithmic scale that ends at 0.

    Examples
    --------
    >>> import invsamp as iv
    >>> sampler = iv.samplers.parallel_tempering(ladder=iv.ladder.auto_ladder(max_rungs=16))
    >>> sampler.ladder.max_rungs
    16
    """
    return AutoLadder(first, min_rungs, max_rungs, min_beta)


def distances(rejections: npt.ArrayLike) -> Array:
    """How far neighbors are apart that reject so many swaps: as many, where they are few."""
    known = np.clip(np.asarray(rejections, dtype=float), LEAST_REJECTION, MOST_REJECTION)
    return np.asarray(2.0 / math.sqrt(math.pi) * erfinv(known))


def respaced(betas: Sequence[float], steps: npt.ArrayLike, rungs: int) -> tuple[float, ...]:
    """So many betas between the same ends, such that neighbors reject equally often.

    Parameters
    ----------
    betas : sequence of float
        Decreasing, the last one 0 or more.
    steps : array_like
        Distance of each pair of neighbors (`distances`), > 0.
    rungs : int, >= 2
    """
    barrier = np.concatenate([[0.0], np.cumsum(steps)])
    # nearly logarithmic, with an end for 0: neighbors' ratios are what counts, but for the last
    shift = 0.1 * float(betas[-2])
    scale = np.log(np.asarray(betas) + shift)
    wanted = np.linspace(0.0, barrier[-1], rungs)
    found: Array = np.exp(scipy.interpolate.PchipInterpolator(barrier, scale)(wanted)) - shift
    found[0], found[-1] = betas[0], betas[-1]
    return tuple(found.tolist())


def rounds(steps: int, shortest: int) -> tuple[int, ...]:
    """Lengths that double from ``shortest`` on and make up ``steps``; the last one takes what is left.

    Raises
    ------
    ValueError
        If there is no room for two.
    """
    if steps < 3 * shortest:
        raise ValueError(f"warmup must be at least {3 * shortest} steps to find a ladder, in two rounds, got {steps}")
    count = int(math.log2(steps / shortest + 1.0))
    lengths = [shortest * 2**k for k in range(count - 1)]
    return (*lengths, steps - sum(lengths))


def flattened(betas: Sequence[float], steps: Sequence[float], flattest: float) -> tuple[list[float], list[float]]:
    """A ladder with another hottest beta: cut there, or drawn out as the barrier grows at its end; all are positive."""
    betas, steps = list(betas), list(steps)
    while len(betas) > 2 and betas[-2] <= flattest:
        betas.pop(), steps.pop()
    steps[-1] *= math.log(betas[-2] / flattest) / math.log(betas[-2] / betas[-1])
    betas[-1] = flattest
    return betas, steps
