r"""R-hat, effective sample sizes and Monte Carlo errors of many parameters at once.

The definitions are those of arviz-stats, with which the figures agree to rounding; it takes the parameters one by one.
Arrays are (parameters, chains, draws) and finite, with at least 4 draws. Chains are halved first, so that a drift
shows; the middle one of an odd number of draws is left out.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2): R-hat by eq. (4), ranks by eq. (14),
effective sizes by section 3.2 and 4.3, with the initial monotone sequence of Geyer (1992) in section 3.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import ndtri

from invsamp.contract import Array

#: Of `errors`, in their order.
ERRORS = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")
#: Probabilities of the quantiles in whose indicators the effective size of the tails is taken.
TAILS = (0.05, 0.95)
#: A spread below this counts as none.
_NO_SPREAD = float(np.finfo(float).resolution)


class Ordered(NamedTuple):
    """All draws of each parameter in rising order, (parameters, n), and where each of them was before."""

    values: Array
    order: npt.NDArray[np.intp]


def errors(draws: Array) -> Array:
    """The statistics `ERRORS`, shape (5, parameters)."""
    halves = _halves(draws)
    ordered = _ordered(halves)
    scores = _normal_scores(ordered).reshape(halves.shape)
    # quantiles of all draws, which are those of the halves unless the number of draws is odd
    every = ordered.values if halves.size == draws.size else _flat(draws)
    tails = _ess_of_tails(draws, *np.quantile(every, TAILS, axis=1))
    return np.stack([mcse_mean(draws), mcse_sd(draws), _ess(scores), tails, _larger_rhat(scores, ordered)])


def rhat_rank(draws: Array) -> Array:
    """The larger R-hat of the rank-normalised draws and of their distances from the median; NaN for one chain."""
    halves = _halves(draws)
    ordered = _ordered(halves)
    return _larger_rhat(_normal_scores(ordered).reshape(halves.shape), ordered)


def ess_bulk(draws: Array) -> Array:
    """Effective sample size of the rank-normalised draws."""
    halves = _halves(draws)
    return _ess(_normal_scores(_ordered(halves)).reshape(halves.shape))


def ess_mean(draws: Array) -> Array:
    """Effective sample size of the draws as they are, that of their mean's standard error."""
    return _ess(_halves(draws))


def ess_tail(draws: Array) -> Array:
    """The smaller effective sample size of the indicators of the 5% and 95% quantiles."""
    return _ess_of_tails(draws, *np.quantile(_flat(draws), TAILS, axis=1))


def mcse_mean(draws: Array) -> Array:
    """Monte Carlo standard error of the mean."""
    return _sd(draws) / np.sqrt(_ess(_halves(draws)))


def mcse_sd(draws: Array) -> Array:
    """Monte Carlo standard error of the standard deviation, by the formula for independent normal draws."""
    halves = _halves(draws)
    size = np.minimum(_ess(halves), _ess(halves * halves))
    return _sd(draws) * np.sqrt(np.exp(1.0) * (1.0 - 1.0 / size) ** (size - 1.0) - 1.0)


def _flat(draws: Array) -> Array:
    return draws.reshape(len(draws), draws.shape[1] * draws.shape[2])


def _sd(draws: Array) -> Array:
    return np.asarray(_flat(draws).std(axis=1, ddof=1))


def _halves(draws: Array) -> Array:
    half = draws.shape[2] // 2
    return np.concatenate([draws[:, :, :half], draws[:, :, -half:]], axis=1)


def _ordered(draws: Array) -> Ordered:
    flat = _flat(draws)
    order = np.argsort(flat, axis=1)
    return Ordered(np.take_along_axis(flat, order, axis=1), order)


def _normal_scores(ordered: Ordered) -> Array:
    """Normal quantiles of the ranks of all draws, (parameters, n); equal draws share the mean of their ranks."""
    values, order = ordered
    n, place = values.shape[1], np.arange(values.shape[1])
    begins = np.ones(values.shape, dtype=bool)
    begins[:, 1:] = values[:, 1:] != values[:, :-1]
    # ranks are multiples of a half, so that their quantiles are looked up
    quantiles = ndtri((0.5 * np.arange(2 * n - 1) + 1.0 - 0.375) / (n + 0.25))
    if begins.all():
        scores = np.broadcast_to(quantiles[::2], values.shape)
    else:
        ends = np.ones_like(begins)
        ends[:, :-1] = begins[:, 1:]
        first = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
        last = np.minimum.accumulate(np.where(ends, place, n)[:, ::-1], axis=1)[:, ::-1]
        scores = quantiles[first + last]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, scores, axis=1)
    return found


def _larger_rhat(scores: Array, ordered: Ordered) -> Array:
    values, order = ordered
    if scores.shape[1] < 4:  # halves
        return np.full(len(scores), np.nan)
    distance = np.abs(values - np.median(values, axis=1, keepdims=True))
    again = np.argsort(distance, axis=1, kind="stable")  # of two runs in order, which this merges
    away = Ordered(np.take_along_axis(distance, again, axis=1), np.take_along_axis(order, again, axis=1))
    return np.maximum(_rhat(scores), _rhat(_normal_scores(away).reshape(scores.shape)))


def _ess_of_tails(draws: Array, low: Array, high: Array) -> Array:
    return np.minimum(*(_ess(_halves((draws <= end[:, None, None]).astype(float))) for end in (low, high)))


def _rhat(draws: Array) -> Array:
    n = draws.shape[2]
    between = n * draws.mean(axis=2).var(axis=1, ddof=1)
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    return np.asarray(np.sqrt((between / within + n - 1.0) / n))


def _ess(draws: Array) -> Array:
    chains, n = draws.shape[1:]
    covariance = _autocovariance(draws)
    within = covariance[:, 0] * n / (n - 1.0)
    total = covariance[:, 0].copy()
    if chains > 1:
        total += draws.mean(axis=2).var(axis=1, ddof=1)
    correlation = 1.0 - (within[:, None] - covariance) / total[:, None]
    correlation[:, 0] = 1.0
    size = chains * n
    effective = size / np.maximum(_autocorrelation_time(correlation), 1.0 / np.log10(size))
    constant = draws.max(axis=(1, 2)) - draws.min(axis=(1, 2)) < _NO_SPREAD
    return np.where(constant, size, np.where(np.isfinite(correlation[:, 1]), effective, np.nan))


def _autocovariance(draws: Array) -> Array:
    """Mean over the chains of the autocovariance at every lag, shape (parameters, draws)."""
    n = draws.shape[2]
    length = fft.next_fast_len(2 * n, real=True)
    spectrum = fft.rfft(draws - draws.mean(axis=2, keepdims=True), n=length, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    return np.asarray(fft.irfft(power, n=length, axis=1)[:, :n] / n)


def _autocorrelation_time(correlation: Array) -> Array:
    """Sum over all lags, shape (parameters,), by pairs of lags as long as these are positive, and never rising."""
    most = max(0, (correlation.shape[1] - 1) // 2 - 1)  # pairs after the first that are looked at
    even, odd = correlation[:, 0 : 2 * most + 2 : 2], correlation[:, 1 : 2 * most + 2 : 2]
    pair = even + odd
    stops = ~(pair > 0.0)
    count = np.minimum(np.where(stops.any(axis=1), stops.argmax(axis=1), most), most)
    counted = np.arange(most + 1) < count[:, None]
    summed = np.where(counted, np.minimum.accumulate(pair, axis=1), 0.0).sum(axis=1)
    row = np.arange(len(count))
    after = even[row, count]  # the first lag of the pair that ended the sequence counts if it is positive
    after = np.where((after > 0.0) | (pair[row, count] >= 0.0), after, 0.0)
    return np.asarray(2.0 * summed + after - 1.0)
