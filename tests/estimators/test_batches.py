"""Minibatches: no repetition, and every subset as likely as any other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from invsamp.estimators.batches import random_subsets


# the ways to draw them: rejected rows, random ranks, row by row
@pytest.mark.parametrize(("size", "total"), [(2, 6), (3, 9), (3, 6), (5, 6), (33, 1001)])
def test_batches_have_no_repetition(size, total):
    drawn = random_subsets(np.random.default_rng(0), 200, size, total)
    assert drawn.shape == (200, size)
    assert drawn.min() >= 0
    assert drawn.max() < total
    assert all(len(set(row)) == size for row in drawn.tolist())


@pytest.mark.parametrize(("size", "total"), [(2, 6), (3, 9), (3, 6)])
def test_every_batch_is_equally_likely(within, size, total):
    drawn = random_subsets(np.random.default_rng(1), 20_000, size, total)
    assert within(deviation(drawn, total), 1.0)
    # repetitions mended one entry at a time by the next free index favor neighbors
    mended = np.random.default_rng(1).integers(total, size=(20_000, size))
    for row in mended:
        for k in range(1, size):
            while row[k] in row[:k]:
                row[k] = (row[k] + 1) % total
    assert not within(deviation(mended, total), 1.0)


def deviation(drawn, total):
    """Chi-square of the counts of all subsets, over its quantile of false-alarm rate 1e-6."""
    subsets = {subset: k for k, subset in enumerate(combinations(range(total), drawn.shape[1]))}
    counts = np.bincount([subsets[tuple(sorted(row))] for row in drawn.tolist()], minlength=len(subsets))
    expected = len(drawn) / len(subsets)
    return ((counts - expected) ** 2 / expected).sum() / chi2.isf(1e-6, len(subsets) - 1)
