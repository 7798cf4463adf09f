"""Swap schemes: which rungs attempt a swap. Whether they swap is up to the rule."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from invsamp.arguments import integer, store
from invsamp.stored import stored_dataclass

#: Rungs that attempt a swap, the colder first.
RungPair = tuple[int, int]


@runtime_checkable
class SwapScheme(Protocol):
    """Pairs of rungs that attempt a swap: a frozen dataclass of settings that subclasses this.

    The choice of pairs must not depend on the state of the chains; then any scheme is exact.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class NextButOne(SwapScheme):
    ...     reach = 2
    ...
    ...     def pairs(self, attempt, rungs, rng):
    ...         distance = 1 + attempt % 2
    ...         return [(k, k + distance) for k in range(rungs - distance)]
    >>> NextButOne().pairs(1, 4, np.random.default_rng(0))
    [(0, 2), (1, 3)]
    """

    @property
    def reach(self) -> int | None:
        """Largest distance j - i of two rungs i < j that may swap: 1 for neighbors only, None for any two rungs."""
        return 1

    @property
    def window(self) -> int:
        """Attempts in which a pair swaps once at most. Above 1 the draws are biased (`deo`)."""
        return 1

    @abstractmethod
    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> Sequence[RungPair]:
        """Pairs (i, j), i < j, of attempt number ``attempt``, in turn where they share a rung."""


@stored_dataclass
class Adjacent(SwapScheme):
    """One pair of neighbors, drawn uniformly."""

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> Sequence[RungPair]:
        """One random pair."""
        k = int(rng.integers(rungs - 1))
        return [(k, k + 1)]


@stored_dataclass
class StochasticEvenOdd(SwapScheme):
    """All even or all odd pairs, by a coin (reversible)."""

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> Sequence[RungPair]:
        """Even or odd pairs at random."""
        return _parity(int(rng.integers(2)), rungs)


@stored_dataclass
class Sweep(SwapScheme):
    """All pairs one after the other, from the cold end to the hot one."""

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> Sequence[RungPair]:
        """All, in turn."""
        return list(itertools.pairwise(range(rungs)))


@stored_dataclass
class AllPairs(SwapScheme):
    """Any two rungs, drawn uniformly."""

    reach = None

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> Sequence[RungPair]:
        """Two different rungs."""
        i, j = sorted(rng.choice(rungs, 2, replace=False).tolist())
        return [(i, j)]


@stored_dataclass
class DeterministicEvenOdd(SwapScheme):
    """Even and odd pairs in turn (non-reversible): round trips in O(rungs) instead of O(rungs^2).

    With a window, a parity has so many attempts in a row, and a pair that has swapped rests until they are over.
    """

    window: int = 1

    def __post_init__(self) -> None:
        store(self, window=integer("window", self.window, least=1))

    def __str__(self) -> str:
        return "DEO" if self.window == 1 else f"DEO with window {self.window} (approximate)"

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> Sequence[RungPair]:
        """Even and odd pairs in turn."""
        return _parity(attempt // self.window % 2, rungs)


@stored_dataclass
class Upwards(SwapScheme):
    """The first ``count`` pairs, one at a time: a pair has one attempt for ``often`` + 1 of those below it.

    Of rungs on more and more expensive models, so that the cheap ones have come to something new by then.
    """

    often: int
    count: int

    def __post_init__(self) -> None:
        store(self, often=integer("often", self.often, least=1), count=integer("count", self.count, least=1))

    @property
    def period(self) -> int:
        """Attempts from one of the first pair to its next."""
        return (self.often + 1) ** (self.count - 1)

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> Sequence[RungPair]:
        """One of those pairs, the first at the end of a period; even and odd ones of all beyond, in turn."""
        number, pair = attempt + 1, self.count - 1
        while pair and number % (self.often + 1) == 0:
            number, pair = number // (self.often + 1), pair - 1
        return [(pair, pair + 1), *((k, k + 1) for k in range(self.count + attempt % 2, rungs - 1, 2))]


def adjacent() -> SwapScheme:
    """One random pair of neighbors at each attempt.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.swaps.adjacent())
    Adjacent()
    """
    return Adjacent()


def seo() -> SwapScheme:
    """Stochastic even-odd scheme.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.swaps.seo())
    StochasticEvenOdd()
    """
    return StochasticEvenOdd()


def sweep() -> SwapScheme:
    """ADJ as a sweep: all pairs of neighbors in turn, from the cold end, at each attempt.

    A walker that goes up with the sweep goes on for as long as it is accepted. At equal rejections it makes twice the
    round trips of `deo` per attempt. The attempts of `deo` may be solved at the same time, these may not.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.swaps.sweep())
    Sweep()
    """
    return Sweep()


def all_pairs() -> SwapScheme:
    """All pairs exchange (APE): any two rungs at each attempt, drawn uniformly.

    Exact, as whom it draws does not look at the state. Rungs far apart seldom swap: at rejections of a half it makes
    fewer round trips than pairs of neighbors by a coin (`seo`), and a baseline is what it is. A run's counts of swaps
    are those of neighbors; ``run.report["swaps_apart"]`` has those of other pairs.

    References
    ----------
    Brenner, Sweet, VonHandorf and Izaguirre (2007), J. Chem. Phys. 126, 074103, who choose among all pairs by what
    each would be accepted with; here one is drawn, and accepted by itself.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.swaps.all_pairs())
    AllPairs()
    """
    return AllPairs()


def deo(window: int = 1) -> SwapScheme:
    r"""Deterministic even-odd scheme, the default.

    Parameters
    ----------
    window : int, >= 1
        W: a parity has W attempts in a row, and in these a pair swaps once at most. **Above 1 the draws are
        biased** where moves are slow: whether a pair has swapped depends on the state, and so does who is still free
        to. (A mode's weight of .600 becomes .582, .560, .535, .518 at W 2, 4, 8, 12, and .507 where windows of 8 end.)
        Several attempts after each step make as many round trips and are exact. For the published comparison;
        `invsamp.diagnostics.index_process.best_window` has the best W.

    Raises
    ------
    ValueError
        If ``window`` is below 1.

    References
    ----------
    Okabe et al. (2001); Syed et al. (2022), JRSS B 84(2), section 3. Windows: Deng (2021), thesis, Purdue, section 4.3.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.swaps.deo())
    DEO
    """
    return DeterministicEvenOdd(window)


def pairs_within(reach: int | None, rungs: int) -> list[RungPair]:
    """All pairs of rungs that may swap: neighbors from cold to hot, then pairs farther apart."""
    most = rungs - 1 if reach is None else min(reach, rungs - 1)
    apart = [(i, j) for i, j in itertools.combinations(range(rungs), 2) if 1 < j - i <= most]
    return [*itertools.pairwise(range(rungs)), *apart]


def _parity(parity: int, rungs: int) -> Sequence[RungPair]:
    # with one pair only there is no odd set: an attempt must not be wasted on it
    return [(k, k + 1) for k in (range(0, 1) if rungs == 2 else range(parity, rungs - 1, 2))]
