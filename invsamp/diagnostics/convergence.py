r"""R-hat, effective sample sizes and Monte Carlo errors of many parameters at once.

The definitions are those of arviz-stats, with which the figures agree to rounding; it takes the parameters one by one.
Arrays are (parameters, chains, draws) and finite, with at least 4 draws. Chains are halved first, so that a drift
shows; the middle one of an odd number of draws is left out.

Draws may have weights (chains, draws), of mean 1; those that are all equal change nothing. An effective size is then
that of the weighted mean, a ratio: the variance of the quantity under the weighted draws over that of the mean, which
comes from the autocorrelated series `invsamp.diagnostics.weights.influence`. R-hat is the larger of that series' and of
the draws' without their weights: a chain that stays where the weights are small must not go unseen.

Chains may come in ensembles of ``size`` consecutive chains, which depend on each other (`Kernel.ensemble_size`). An
ensemble counts as one chain: its draws are averages over its chains, of ranks where these are used. R-hat compares
these averages, of two ensembles at least. It is also that of all chains where this is larger: chains that agree prove
nothing, as they depend on each other, but chains that differ do not mix. The effective size is that of the averages
times the ratio of the variances of draws and averages, since the mean of all draws is that of the averages. This ratio
is ``size`` for a stationary ensemble, whose chains are independent at each time, and is capped there.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2): R-hat by eq. (4), ranks by eq. (14),
effective sizes by section 3.2 and 4.3, with the initial monotone sequence of Geyer (1992) in section 3.2.

Goodman and Weare (2010), "Ensemble samplers with affine invariance", CAMCoS 5(1), section 3: the autocorrelation time
of an ensemble is that of the averages over its chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

from invsamp.arguments import integer
from invsamp.diagnostics import weights
from invsamp.diagnostics.tails import TAIL_SHAPES, tail_shapes
from invsamp.protocols import Array

#: Of `errors`, in their order.
ERRORS = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat", *TAIL_SHAPES)
#: Probabilities of the quantiles in whose indicators the effective size of the tails is taken.
TAILS = (0.05, 0.95)
#: Central 68%, one standard deviation to either side of a normal distribution's mean.
_ONE_SD = (0.1586553, 0.8413447)
#: A spread below this counts as none.
_NO_SPREAD = float(np.finfo(float).resolution)


class Ordered(NamedTuple):
    """All draws of each parameter in rising order, (parameters, n), and where each of them was before."""

    values: Array
    order: npt.NDArray[np.intp]


def errors(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """The statistics `ERRORS`, shape (7, parameters)."""
    halves, halved = _halves(draws), _halved(weight)
    ordered = _ordered(halves)
    scores = _normal_scores(ordered, halved).reshape(halves.shape)
    # quantiles of all draws, which are those of the halves unless the number of draws is odd
    every = ordered.values if halves.size == draws.size and weight is None else _flat(draws)
    tails = _ess_of_tails(draws, weight, weights.quantiles(every, weight, TAILS), size)
    return np.stack(
        [
            mcse_mean(draws, weight, size),
            mcse_sd(draws, weight, size),
            _ess(scores, halved, size),
            tails,
            _larger_rhat(scores, ordered, halved, size),
            *tail_shapes(draws, weight, tails),
        ]
    )


def rhat_rank(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """The larger R-hat of the rank-normalized draws and of their distances from the median; NaN for one chain."""
    halves, halved = _halves(draws), _halved(weight)
    ordered = _ordered(halves)
    return _larger_rhat(_normal_scores(ordered, halved).reshape(halves.shape), ordered, halved, size)


def ess_bulk(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """Effective sample size of the rank-normalized draws."""
    halves, halved = _halves(draws), _halved(weight)
    return _ess(_normal_scores(_ordered(halves), halved).reshape(halves.shape), halved, size)


def ess_mean(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """Effective sample size of the draws as they are, that of their mean's standard error."""
    return _ess(_halves(draws), _halved(weight), size)


def ess_tail(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """The smaller effective sample size of the indicators of the 5% and 95% quantiles."""
    return _ess_of_tails(draws, weight, weights.quantiles(_flat(draws), weight, TAILS), size)


def mcse_mean(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """Monte Carlo standard error of the mean."""
    return weights.sd(_flat(draws), weight) / np.sqrt(ess_mean(draws, weight, size))


def mcse_sd(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """Monte Carlo standard error of the standard deviation: that of the variance, by the delta method.

    That for normal draws would be too small where tails are heavier, as a few draws far out make up the variance.
    """
    flat = _flat(draws)
    sd = weights.sd(flat, weight)
    squares = np.square(draws - weights.mean(flat, weight)[:, None, None])
    return np.divide(mcse_mean(squares, weight, size), 2.0 * sd, out=np.where(sd == 0.0, 0.0, np.nan), where=sd > 0.0)


def mcse_quantile(draws: Array, weight: Array | None, probability: float, size: int = 1) -> Array:
    """Monte Carlo standard error of a quantile: half of the central 68% of what it may be."""
    flat = _flat(draws)
    effective = _ess_below(draws, weight, weights.quantiles(flat, weight, probability)[0], size)
    order = np.argsort(flat, axis=1)
    rising = np.take_along_axis(flat, order, axis=1)
    n = flat.shape[1]
    # draws that lie below, by weight; the tolerance keeps what is whole from falling to either side by rounding
    each = np.ones(flat.shape) if weight is None else weight.ravel()[order]
    below = np.cumsum(each, axis=1)
    row, ends = np.arange(len(flat)), []
    for part, round_up in zip(_ONE_SD, (False, True), strict=True):
        wanted = betaincinv(effective * probability + 1.0, effective * (1.0 - probability) + 1.0, part) * n
        count = (below <= (wanted + 1e-9 * n * (not round_up))[:, None]).sum(axis=1)
        ends.append(rising[row, np.clip(count - 1 + round_up, 0, n - 1)])
    return np.asarray((ends[1] - ends[0]) / 2.0)


def ensemble_of(name: str, size: int, chains: int) -> int:
    """The number of chains in an ensemble, checked against the number of chains."""
    if chains % integer(name, size, least=1):
        raise ValueError(f"{name} must divide the number of chains, {chains}, got {size}")
    return int(size)


def _flat(draws: Array) -> Array:
    return draws.reshape(len(draws), draws.shape[1] * draws.shape[2])


def _halves(draws: Array) -> Array:
    half = draws.shape[2] // 2
    return np.concatenate([draws[:, :, :half], draws[:, :, -half:]], axis=1)


def _halved(weight: Array | None) -> Array | None:
    if weight is None:
        return None
    halves = _halves(weight[None])[0]
    return np.asarray(halves / halves.mean())


def _ordered(draws: Array) -> Ordered:
    flat = _flat(draws)
    order = np.argsort(flat, axis=1)
    return Ordered(np.take_along_axis(flat, order, axis=1), order)


def _normal_scores(ordered: Ordered, weight: Array | None) -> Array:
    """Normal quantiles of the ranks of all draws, (parameters, n); equal draws share the mean of their ranks.

    The rank of a weighted draw is the weight below it and half of its own, and a half.
    """
    values, order = ordered
    n, place = values.shape[1], np.arange(values.shape[1])
    begins = np.ones(values.shape, dtype=bool)
    begins[:, 1:] = values[:, 1:] != values[:, :-1]
    if weight is None and begins.all():
        scores = np.broadcast_to(ndtri((place + 1.0 - 0.375) / (n + 0.25)), values.shape)
    else:
        ends = np.ones_like(begins)
        ends[:, :-1] = begins[:, 1:]
        first = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
        last = np.minimum.accumulate(np.where(ends, place, n)[:, ::-1], axis=1)[:, ::-1]
        if weight is None:  # ranks are multiples of a half, so that their quantiles are looked up
            scores = ndtri((0.5 * np.arange(2 * n - 1) + 1.0 - 0.375) / (n + 0.25))[first + last]
        else:
            share = weight.ravel()[order]
            upto = np.cumsum(share, axis=1)
            below, with_own = (np.take_along_axis(a, at, axis=1) for a, at in ((upto - share, first), (upto, last)))
            scores = ndtri((0.5 * (below + with_own) + 0.5 - 0.375) / (n + 0.25))
    found = np.empty(values.shape)
    np.put_along_axis(found, order, scores, axis=1)
    return found


def _larger_rhat(scores: Array, ordered: Ordered, weight: Array | None, size: int) -> Array:
    if scores.shape[1] < 4 * size:  # halves
        return np.full(len(scores), np.nan)
    both = scores, _folded(ordered, weight, scores)
    larger = np.maximum(*(_rhat(_averages(weights.influence(s, weight), size)) for s in both))
    if weight is not None:
        plain = _normal_scores(ordered, None).reshape(scores.shape)
        larger = np.maximum(larger, _larger_rhat(plain, ordered, None, size))
    if size > 1:
        larger = np.maximum(larger, _larger_rhat(scores, ordered, weight, 1))
    return larger


def _folded(ordered: Ordered, weight: Array | None, scores: Array) -> Array:
    """Scores of the distances from the median, in the shape of those of the draws."""
    values, order = ordered
    if weight is None:
        median = np.median(values, axis=1)
    else:
        unordered = np.empty(values.shape)
        np.put_along_axis(unordered, order, values, axis=1)
        median = weights.quantiles(unordered, weight, 0.5)[0]
    distance = np.abs(values - median[:, None])
    again = np.argsort(distance, axis=1, kind="stable")  # of two runs in order, which this merges
    away = Ordered(np.take_along_axis(distance, again, axis=1), np.take_along_axis(order, again, axis=1))
    return _normal_scores(away, weight).reshape(scores.shape)


def _ess_of_tails(draws: Array, weight: Array | None, ends: Array, size: int) -> Array:
    return np.minimum(*(_ess_below(draws, weight, end, size) for end in ends))


def _ess_below(draws: Array, weight: Array | None, end: Array, size: int) -> Array:
    """Effective sample size of the indicator of draws up to ``end`` (parameters,)."""
    return _ess(_halves((draws <= end[:, None, None]).astype(float)), _halved(weight), size)


def _rhat(draws: Array) -> Array:
    n = draws.shape[2]
    between = n * draws.mean(axis=2).var(axis=1, ddof=1)
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    return np.asarray(np.sqrt((between / within + n - 1.0) / n))


def _averages(draws: Array, size: int) -> Array:
    """Averages over the chains of each ensemble (parameters, ensembles, draws)."""
    if size == 1:
        return draws
    return np.asarray(draws.reshape(len(draws), -1, size, draws.shape[2]).mean(axis=2))


def _ess(draws: Array, weight: Array | None = None, size: int = 1) -> Array:
    """Effective sample size of the mean of the draws, or of their weighted mean."""
    if weight is not None:
        series = weights.influence(draws, weight)
        plain, wanted = weights.sd(_flat(series), None), weights.sd(_flat(draws), weight)
        return _ess(series, None, size) * np.divide(wanted, plain, out=np.ones_like(plain), where=plain > 0.0) ** 2
    if size > 1:
        averages = _averages(draws, size)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = weights.sd(_flat(draws), None) / weights.sd(_flat(averages), None)
        effective = _ess(averages) * np.fmin(size, ratio**2)
        # chains that differ and whose average stands still do not mix
        return np.where(ratio * _NO_SPREAD > 1.0, np.nan, effective)
    chains, n = draws.shape[1:]
    covariance = _autocovariance(draws)
    within = covariance[:, 0] * n / (n - 1.0)
    total = covariance[:, 0].copy()
    if chains > 1:
        total += draws.mean(axis=2).var(axis=1, ddof=1)
    correlation = 1.0 - (within[:, None] - covariance) / total[:, None]
    correlation[:, 0] = 1.0
    number = chains * n
    effective = number / np.maximum(_autocorrelation_time(correlation), 1.0 / np.log10(number))
    constant = draws.max(axis=(1, 2)) - draws.min(axis=(1, 2)) < _NO_SPREAD
    return np.where(constant, number, np.where(np.isfinite(correlation[:, 1]), effective, np.nan))


def _autocovariance(draws: Array) -> Array:
    """Mean over the chains of the autocovariance at every lag, shape (parameters, draws)."""
    from scipy import fft  # slow to import

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
