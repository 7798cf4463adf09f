"""Weighted draws: equal weights change nothing, and errors are those of autocorrelated draws."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.signal import lfilter
from scipy.stats import norm

from invsamp.diagnostics import ess, mcse, rhat, statistics, weights

#: Sd of the sampled distribution; the weighted one is N(0, 1).
WIDE = 1.6
CHAINS, DRAWS, RHO = 4, 1500, 0.8


def wide_chains(seed, runs, draws=DRAWS, rho=RHO):
    """AR(1) draws of N(0, WIDE^2), shape (chains, draws, runs), and the log weights that make them N(0, 1)."""
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1.0 - rho**2) * rng.standard_normal((draws, runs, CHAINS))
    noise[0] = rng.standard_normal((runs, CHAINS))
    values = WIDE * np.moveaxis(lfilter([1.0], [1.0, -rho], noise, axis=0), (0, 1, 2), (1, 2, 0))
    return values, 0.5 * values**2 / WIDE**2 - 0.5 * values**2


def test_equal_weights_change_nothing():
    draws, _ = wide_chains(1, 5, 301)
    draws[..., 1] = np.round(draws[..., 1])
    draws[..., 2] = 3.0
    plain, weighted = statistics(draws), statistics(draws, np.full(draws.shape[:2], -7.3))
    assert plain.keys() == weighted.keys()
    for name, values in plain.items():
        np.testing.assert_allclose(weighted[name], values, rtol=1e-9, atol=1e-12, err_msg=name)
    for at in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(mcse(draws, "quantile", at, np.zeros(draws.shape[:2])), mcse(draws, "quantile", at))


@pytest.mark.parametrize("draws", [4, 7, 301])
def test_errors_of_quantiles_are_those_of_arviz_stats(draws):
    values = wide_chains(1, 3, draws)[0]
    for at in (0.05, 0.5, 0.9):
        wanted = [array_stats.mcse(v, method="quantile", prob=at) for v in np.moveaxis(values, -1, 0)]
        np.testing.assert_allclose(mcse(values, "quantile", at), wanted, rtol=1e-9)
    np.testing.assert_array_equal(mcse(values, "median"), mcse(values, "quantile", 0.5))


def test_whole_weights_are_repetitions():
    rng = np.random.default_rng(1)
    values, counts = rng.standard_normal((3, 200)), rng.integers(0, 5, 200)
    weight = counts / counts.mean()
    again = np.repeat(values, counts, axis=1)
    np.testing.assert_allclose(weights.mean(values, weight), again.mean(axis=1))
    np.testing.assert_allclose(weights.sd(values, weight) ** 2 * 199 / 200, again.var(axis=1))
    found, wanted = weights.quantiles(values, weight, (0.1, 0.5)), np.quantile(again, (0.1, 0.5), axis=1)
    # between the draws next to it, as the interpolation differs
    rank = [[(row < q).mean() for row, q in zip(again, part, strict=True)] for part in (*found, *wanted)]
    np.testing.assert_allclose(np.array(rank[:2]), np.array(rank[2:]), atol=0.02)


def test_draws_of_no_weight_count_for_nothing():
    draws, log_weight = wide_chains(1, 2, 400)
    log_weight = log_weight[..., 0]
    log_weight[:, ::3] = -np.inf
    moved = draws.copy()
    moved[:, ::3] = 1e6
    found, wanted = statistics(moved, log_weight), statistics(draws, log_weight)
    for name in ("mean", "sd", "5%", "50%", "95%", "mcse_mean", "ess_tail"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6, err_msg=name)


def test_chains_that_agree_by_weight_alone_are_seen():
    """One chain has all the weight: of the others, which are elsewhere, nothing shows in weighted draws."""
    draws, log_weight = np.random.default_rng(1).standard_normal((4, 500)), np.zeros((4, 500))
    draws[1:] += 8.0
    log_weight[1:] = -40.0
    assert rhat(draws, log_weight) > 1.5
    draws[1:] -= 8.0
    assert rhat(draws, log_weight) < 1.01


def test_chains_that_disagree_in_their_weights_are_seen():
    rng = np.random.default_rng(1)
    draws, sign = rng.standard_normal((4, 2000)), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    assert rhat(draws) < 1.01 < rhat(draws, sign * draws)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_weight_is_refused(bad):
    log_weight = np.zeros((2, 10))
    log_weight[1, 3] = bad
    with pytest.raises(ValueError, match="log_weight must"):
        ess(np.zeros((2, 10)), log_weight=log_weight)
    with pytest.raises(ValueError, match=r"log_weight must be finite, or -inf.*got -inf for every draw"):
        ess(np.zeros((2, 10)), log_weight=np.full((2, 10), -np.inf))
    with pytest.raises(ValueError, match=r"log_weight must .*\(2, 10\)"):
        ess(np.zeros((2, 10)), log_weight=np.zeros((2, 9)))


RUNS = 300
#: How often an interval of two standard errors has the truth in it, and how far off 300 of them may be: five sds.
NOMINAL = norm.cdf(2.0) - norm.cdf(-2.0)
BOUND = 5.0 * np.sqrt(NOMINAL * (1.0 - NOMINAL) / RUNS)


def covered(errors, standard):
    return float((np.abs(errors) < 2.0 * standard).mean()) - NOMINAL


def test_errors_of_weighted_draws_are_as_large_as_they_are_said_to_be(within):
    """Of 300 runs two standard errors hold the truth as often as they should; of the sd more often, as for all draws.

    ArviZ's error of an sd takes the smaller of two sizes.
    """
    values, log_weight = wide_chains(5, RUNS)
    found = [statistics(values[..., [k]], log_weight[..., k]) for k in range(RUNS)]
    estimates = {name: np.array([f[name][0] for f in found]) for name in found[0]}
    of_median, of_tail = (
        np.array([mcse(values[..., k], "quantile", at, log_weight[..., k]) for k in range(RUNS)]) for at in (0.5, 0.95)
    )
    right = (
        covered(estimates["mean"], estimates["mcse_mean"]),
        covered(estimates["50%"], of_median),
        covered(estimates["95%"] - norm.ppf(0.95), of_tail),
        min(covered(estimates["sd"] - 1.0, estimates["mcse_sd"]), 0.0),
    )
    assert within(right, BOUND)
    # control: one over the sum of squared weights for the size, as if the draws were independent
    size = np.array([weights.effective(np.exp(log_weight[..., k])) for k in range(RUNS)])
    assert not within(covered(estimates["mean"], estimates["sd"] / np.sqrt(size)), BOUND)
    # control: no weights
    plain = statistics(values)
    assert not within(covered(plain["sd"] - 1.0, plain["mcse_sd"]), BOUND)
    assert not within(covered(plain["95%"] - norm.ppf(0.95), mcse(values, "quantile", 0.95)), BOUND)
