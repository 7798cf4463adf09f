"""The exact test of ranks."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from invsamp.calibration.uniformity import bands, p_values


def tails(ranks, draws):
    """The least two-sided tail of the counts, written out."""
    found = []
    for i in range(draws):
        count, share = sum(rank <= i for rank in ranks), (i + 1) / (draws + 1)
        found.append(2.0 * min(binom.cdf(count, len(ranks), share), binom.sf(count - 1, len(ranks), share)))
    return min(1.0, *found)


@pytest.mark.parametrize(("n", "draws"), [(1, 3), (4, 2), (4, 3), (3, 5)])
def test_p_values_are_those_of_all_samples(n, draws):
    every = np.array(list(product(range(draws + 1), repeat=n)))
    statistic = np.array([tails(ranks, draws) for ranks in every])
    exact = np.array([(statistic <= value * (1.0 + 1e-9)).mean() for value in statistic])
    np.testing.assert_allclose(p_values(every.T, draws), exact, rtol=1e-9)


def test_one_draw_is_a_binomial_test():
    ranks = np.array([1] * 13 + [0] * 7)
    assert p_values(ranks[:, None], 1)[0] == pytest.approx(binomtest(13, 20, 0.5).pvalue, rel=1e-9)


@pytest.mark.parametrize("false_alarm", [0.3, 0.01, 1e-6])
def test_bands_hold_exactly_those_that_pass(false_alarm):
    low, high = bands(40, 7, false_alarm)
    rng = np.random.default_rng(1)
    # more and more of the first rank
    for share in np.linspace(0.0, 1.0, 60):
        ranks = np.where(rng.random(40) < share, 0, rng.integers(8, size=40))
        counts = np.cumsum(np.bincount(ranks, minlength=8))[:-1]
        inside = bool(((counts >= low) & (counts <= high)).all())
        assert inside == (p_values(ranks[:, None], 7)[0] > false_alarm)


def test_false_alarms_are_as_rare_as_they_are_said_to_be(within):
    rng, n = np.random.default_rng(1), 800
    p = p_values(rng.integers(16, size=(60, n)), 15)
    for alpha in (0.5, 0.1, 0.02):
        # a little rarer, as counts are whole numbers: by less than the error of 800
        share, error = (p <= alpha).mean(), np.sqrt(alpha * (1.0 - alpha) / n)
        assert within((share - alpha) / error, 4.5)
    high = rng.integers(16, size=(60, 50)) // 2
    assert not within(-np.log10(p_values(high, 15)), 4.0)


def test_extremes_have_no_rounding_below_zero():
    zeros = np.zeros((500, 1), dtype=int)
    assert 0.0 < p_values(zeros, 63)[0] < 1e-10
