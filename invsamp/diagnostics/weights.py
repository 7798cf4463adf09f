r"""Draws of one distribution as weighted draws of another: moments, quantiles, influence, effective sizes.

A run whose draws follow another distribution than the posterior gives a log weight for each draw, unnormalized. Weights
here are of mean 1 over all draws, so that equal ones are all 1 and every formula is then that of plain draws.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array
from invsamp.protocols import Array


def checked(name: str, log_weight: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    """Log weights of ``shape``; `ValueError` where one is NaN or +inf, or all are -inf. One of -inf is weight 0."""
    found = array(name, log_weight, shape, finite=False)
    if (found == np.inf).any() or not (found > -np.inf).any():
        wrong = "+inf" if (found == np.inf).any() else "-inf for every draw"
        raise ValueError(f"{name} must be finite, or -inf for a draw of no weight, got {wrong}")
    return found


def normalized(log_weight: Array) -> Array:
    """Weights of mean 1, in the shape of their logs; NaN if no draw has any."""
    with np.errstate(invalid="ignore"):
        weight = np.exp(log_weight - log_weight.max())
        return np.asarray(weight / weight.mean())


def mean(values: Array, weight: Array | None) -> Array:
    """Weighted mean (k,) of values (k, n)."""
    return np.asarray(values.mean(axis=1) if weight is None else values @ weight.ravel() / values.shape[1])


def sd(values: Array, weight: Array | None) -> Array:
    r"""Standard deviation (k,) of values (k, n): :math:`s^2 = \sum_i w_i (f_i - \bar f)^2 / (n - 1)`."""
    if weight is None:
        return np.asarray(values.std(axis=1, ddof=1))
    apart = values - mean(values, weight)[:, None]
    return np.sqrt((apart * apart) @ weight.ravel() / (values.shape[1] - 1))


def influence(values: Array, weight: Array | None) -> Array:
    r"""Series whose plain mean is as uncertain as the weighted mean of values (k, chains, draws); in their shape.

    .. math:: h_i = \bar f + w_i (f_i - \bar f), \qquad \bar f = \sum_i w_i f_i / n

    To first order the error of a ratio of means is the mean of this (the delta method), so that autocorrelation is
    accounted for as it is for plain draws.

    References
    ----------
    Geyer (1994), "On the convergence of Monte Carlo maximum likelihood calculations", JRSS B 56(1), 261-274, for
    weighted draws of a Markov chain; Owen (2013), "Monte Carlo theory, methods and examples", eq. (9.8).
    """
    if weight is None:
        return values
    center = mean(values.reshape(len(values), -1), weight)[:, None, None]
    return np.asarray(center + weight * (values - center))


def quantiles(values: Array, weight: Array | None, probabilities: npt.ArrayLike) -> Array:
    """Quantiles (probabilities, k) of values (k, n), straight between draws; of equal weights those of `np.quantile`.

    The draws in rising order stand at the middle of their share of the weight, the first at 0 and the last at 1.
    """
    wanted = np.atleast_1d(np.asarray(probabilities, dtype=float))
    if weight is None:
        return np.asarray(np.quantile(values, wanted, axis=1))
    some = weight.ravel() > 0.0
    if not some.any() or not np.isfinite(weight).all():
        return np.full((len(wanted), len(values)), np.nan)
    order = np.argsort(values[:, some], axis=1)
    rising = np.take_along_axis(values[:, some], order, axis=1)
    shares = weight.ravel()[some][order]
    middle = np.cumsum(shares, axis=1) - 0.5 * shares
    begin, end = middle[:, :1], middle[:, -1:]
    place = (middle - begin) / np.where(end > begin, end - begin, 1.0)
    found = np.stack([np.interp(wanted, at, row) for at, row in zip(place, rising, strict=True)], axis=1)
    return np.where(np.isnan(rising[:, -1]), np.nan, found)  # NaN is sorted to the end


def effective(weight: Array) -> float:
    """Effective sample size: the number of equally weighted draws of the same error, at most: (sum w)^2 / sum w^2."""
    total, squares = float(weight.sum()), float((weight**2).sum())
    return total**2 / squares if squares > 0.0 else 0.0


def resampled(weight: Array, count: int) -> npt.NDArray[np.intp]:
    """Indices of at most ``count`` draws that, equally weighted, stand for all with their weights (n,).

    At equal steps of the cumulative weight, so that each draw appears as often as its weight says, to within one.
    """
    if len(weight) <= count and np.ptp(weight) == 0.0:
        return np.arange(len(weight))
    cumulative = np.cumsum(weight)
    steps = (np.arange(count) + 0.5) * cumulative[-1] / count
    return np.minimum(np.searchsorted(cumulative, steps, side="right"), len(weight) - 1)
