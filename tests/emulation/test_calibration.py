"""Calibration: parameters from the prior, data from these, and the rank of each among the draws of an emulation."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import invsamp as iv

REPLICATES, RANKS = 100, 9
TIMES = np.linspace(0.3, 2.0, 6)


def decay(theta: np.ndarray) -> np.ndarray:
    return theta[:, :1] * np.exp(-theta[:, 1:] * TIMES)


def ranks(seed: int, shift: float = 0.0) -> np.ndarray:
    """Ranks (replicates, 2) of the true parameters among nearly independent draws."""
    rng = np.random.default_rng(seed)
    prior = iv.Prior(height=iv.LogNormal(0.0, 0.4), rate=iv.LogNormal(0.0, 0.4))
    found = []
    for _ in range(REPLICATES):
        theta = prior.sample(rng, 1)
        data = decay(theta)[0] + 0.1 * rng.standard_normal(6) + shift
        posterior = iv.Posterior(prior, decay, data, iv.GaussianNoise(0.1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = iv.emulate(
                posterior, 60, descents=4, draws=25 * RANKS, chains=1, seed=int(rng.integers(2**31)), progress=False
            )
        found.append((run.theta[0, ::25][:RANKS] < theta[0]).sum(axis=0))
    return np.array(found)


@pytest.mark.slow
def test_ranks_are_uniform_and_those_of_biased_data_are_not(within: Callable[..., object]) -> None:
    # chi-squared over ten ranks, one false alarm in 100,000 for two parameters
    bound = stats.chi2.isf(0.5e-5, RANKS)

    def score(found: np.ndarray) -> list[float]:
        counts = [np.bincount(column, minlength=RANKS + 1) for column in found.T]
        expected = REPLICATES / (RANKS + 1)
        return [float(np.square(count - expected).sum() / expected) for count in counts]

    assert within(score(ranks(0)), bound)
    assert not within(score(ranks(1, shift=0.15)), bound)
