r"""How heavy the tails of draws are: the shape of a generalized Pareto distribution fitted to the largest distances.

Distances from the median beyond a high threshold follow a generalized Pareto distribution of shape :math:`\xi` where
the density falls as :math:`|x|^{-1 - 1/\xi}`. The tail index :math:`1 / \xi` is the order up to which moments exist:
the variance exists above 2, and the Monte Carlo error of an estimated variance above 4. Gaussian and exponential tails
have shapes of 0 and below.

Draws with weights w of mean 1 count by :math:`\sqrt{w} |x - m|`, whose fourth moment is that of the weighted variance.

References
----------
Zhang and Stephens (2009), Technometrics 51(3), equations (4) and (8), with the opposite sign of the shape, :math:`\xi =
-k`. The number of tail draws is that of Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance
sampling", JMLR 25(72), section 2.2.
"""

from __future__ import annotations

import numpy as np

from invsamp.diagnostics import weights
from invsamp.protocols import Array

#: Of `tail_shapes`, in their order: the shape, and its standard error.
TAIL_SHAPES = ("tail_shape", "tail_shape_error")
#: Share of the draws that are a tail at most, and its effective draws at least.
LARGEST, FEWEST = 0.2, 15


def tail_shapes(draws: Array, weight: Array | None, ess_tail: Array) -> Array:
    """Shapes and their standard errors, shape (2, parameters); NaN where there are too few draws or no spread.

    Parameters
    ----------
    draws : ndarray, shape (parameters, chains, draws)
    weight : ndarray, shape (chains, draws), optional
    ess_tail : ndarray, shape (parameters,)
        Effective sample sizes of the tails, for the standard errors and for the length of the tail.
    """
    flat = draws.reshape(len(draws), draws.shape[1] * draws.shape[2])
    distance = np.abs(flat - weights.quantiles(flat, weight, 0.5)[0][:, None])
    if weight is not None:
        distance *= np.sqrt(weight.ravel())
    n = flat.shape[1]
    share = np.clip(ess_tail / n, 1.0 / n, 1.0)  # effective draws per draw
    # to powers of sqrt(2), so that parameters go together
    wanted = 2.0 ** (np.round(2.0 * np.log2(3.0 * np.sqrt(n / share))) / 2.0)
    count = np.minimum(LARGEST * n, wanted)
    count[~(count * share >= FEWEST)] = 0.0  # NaN too
    found = np.full((2, len(flat)), np.nan)
    for some in np.unique(count[count > 0.0]):
        rows, k = np.flatnonzero(count == some), int(some)
        largest = np.sort(np.partition(distance[rows], n - k - 1, axis=1)[:, n - k - 1 :], axis=1)
        shape = pareto_shape(largest[:, 1:] - largest[:, :1])
        found[:, rows] = shape, (1.0 + np.maximum(shape, 0.0)) / np.sqrt(k * share[rows])
    return found


def pareto_shape(excess: Array) -> Array:
    """Shapes of the generalized Pareto distributions of excesses over thresholds (parameters, n), in rising order.

    The profile likelihood's mean over a prior that the data set, which is as precise as maximum likelihood. NaN where
    the lower quartile is zero.
    """
    n = excess.shape[1]
    quartile = excess[:, max(int(n / 4 + 0.5) - 1, 0), None]
    grid = 30 + int(np.sqrt(n))
    with np.errstate(all="ignore"):  # of no spread, and of draws that are not finite
        scale = 1.0 / excess[:, -1:] + (1.0 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3.0 * quartile)
        # shapes with the sign of xi: what the reference calls k is minus these
        shape = np.log1p(-scale[:, :, None] * excess[:, None]).mean(axis=2)
        likelihood = n * (np.log(-scale / shape) - shape - 1.0)
        weight = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
        mean = (weight * scale).sum(axis=1) / weight.sum(axis=1)
        found = np.log1p(-mean[:, None] * excess).mean(axis=1)
    return np.asarray(np.where(quartile[:, 0] > 0.0, found, np.nan))
