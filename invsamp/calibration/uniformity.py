r"""An exact test of the uniformity of ranks, by their empirical distribution function, with simultaneous bands.

With N independent ranks, uniform on 0..L, each count :math:`S_i` of ranks at most i is binomial. The statistic is the
smallest of their two-sided tail probabilities. The probability of a smaller value for uniform ranks is summed exactly:
the numbers of single ranks are independent Poisson numbers, conditional on their sum.

Säilynoja, Bürkner and Vehtari (2022), "Graphical test for discrete uniformity and its applications in goodness-of-fit
evaluation and multiple sample comparison", Statistics and Computing 32, section 2: bands of equal pointwise tail
probability. They find that by simulation or by a recursion in binomial steps; the statistic has the same distribution.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy  # its stats take most of a second to import: not before they are wanted

from invsamp.protocols import Array

Ranks = npt.NDArray[np.int64]
#: Below this, sums of probabilities near 1 are rounding.
LEAST_P = 1e-12


def p_values(ranks: Ranks, draws: int) -> Array:
    """Probabilities (q,) that uniform ranks would depart as much or more.

    Parameters
    ----------
    ranks : ndarray of int, shape (n, q)
        From 0 to ``draws``, independent in each column.
    draws : int
    """
    return np.array([_p_value(_smallest_tail(column, draws), len(ranks), draws) for column in ranks.T])


def bands(n: int, draws: int, false_alarm: float) -> tuple[Ranks, Ranks]:
    """Least and largest counts, each (draws,), of ranks at most 0, 1, ..., draws - 1 among n uniform ones.

    All counts are within for a share of at least ``1 - false_alarm`` of samples.
    """

    def excess(log_tail: float) -> float:
        return _p_value(np.exp(log_tail), n, draws) - false_alarm

    log_tail = scipy.optimize.brentq(excess, np.log(1e-14), 0.0, xtol=1e-6)
    while _p_value(np.exp(log_tail), n, draws) > false_alarm:  # it is a step function
        log_tail -= 1e-5
    return _within(float(np.exp(log_tail)), n, draws)


def _smallest_tail(ranks: Ranks, draws: int) -> float:
    counts = np.cumsum(np.bincount(ranks, minlength=draws + 1))[:-1]
    share = np.arange(1, draws + 1) / (draws + 1)
    n = len(ranks)
    return float(min(1.0, _two_sided(counts, n, share).min()))


def _two_sided(counts: Ranks, n: int, share: Array) -> Array:
    """Tail probabilities of these counts among n, each of them with the probability ``share``."""
    distribution = scipy.stats.binom(n, share)
    return np.asarray(2.0 * np.minimum(distribution.cdf(counts), distribution.sf(counts - 1)))


def _within(tail: float, n: int, draws: int) -> tuple[Ranks, Ranks]:
    """Least and largest counts whose tails are larger."""
    share = np.arange(1, draws + 1) / (draws + 1)
    counts = np.arange(n + 1)[:, None]
    inside = _two_sided(counts, n, share) > tail * (1.0 + 1e-9)
    return inside.argmax(axis=0), n - inside[::-1].argmax(axis=0)


def _p_value(tail: float, n: int, draws: int) -> float:
    """Probability that some count's tail is at most this, for uniform ranks."""
    low, high = _within(tail, n, draws)
    if (low > high).any() or tail >= 1.0:
        return 1.0
    mean = n / (draws + 1)
    step = scipy.stats.poisson.pmf(np.arange(n + 1), mean)
    held, begin = np.ones(1), 0  # probabilities of the counts from `begin` on
    for first, last in zip(low, high, strict=True):
        reached = np.convolve(held, step[: last - begin + 1])
        held, begin = reached[first - begin : last - begin + 1], int(first)
    missing = n - begin - np.arange(len(held))
    inside = float(held @ np.where(missing >= 0, step[missing], 0.0)) / float(scipy.stats.poisson.pmf(n, n))
    return max(1.0 - inside, LEAST_P)
