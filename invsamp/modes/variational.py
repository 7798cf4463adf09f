r"""A Gaussian of low rank that is fitted to a posterior around its mode, for kernels that rotate about a reference.

Where data inform a direction a thousand times more than the prior does, a small turn of that direction makes the mode's
Gaussian much too wide. Away from the mode the energy bends more than there, in directions that this Gaussian takes for
soft, and the steps of a path have to be short for these. Among Gaussians the one
nearest to the posterior, by the Kullback-Leibler divergence from it, has

.. math:: E[\nabla v] = 0, \qquad \text{precision } E[\nabla^2 v],

both expectations being its own. This is one step of the iteration to it, from the mode's Gaussian N(m, C). With K of
its draws, in pairs on opposite sides of m, and Gauss-Newton matrices :math:`R_k^T R_k` in the prior's coordinates,

.. math:: P = I + \frac{1}{K} \sum_k R_k^T R_k, \qquad m \leftarrow m - P^{-1} \frac{1}{K} \sum_k \nabla v_k.

Where the R_k differ, this Gaussian is narrower than the posterior: an average of precisions is dominated by the large
ones. By how much shows the average of the covariances :math:`(I + R_k^T R_k)^{-1}` beside :math:`P^{-1}`. The square
root of their largest ratio is the width of the widest direction, in sds of the reference. Where it is
large, velocities are kept from path to path (`invsamp.engine.automatic.field_selection`).

References
----------
Opper and Archambeau (2009), "The variational Gaussian approximation revisited", Neural Computation 21, eq. (2.4). The
average of Gauss-Newton matrices over draws: Cui, Martin, Marzouk, Solonen and Spantini (2014), "Likelihood-informed
dimension reduction for nonlinear inverse problems", Inverse Problems 30, section 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.metric import LowRankMetric
from invsamp.modes.low_rank import LEFT_OUT, LowRankGaussian, by_rows, low_rank
from invsamp.modes.products import Source, times
from invsamp.protocols import Array

#: Pairs of draws. On a log-conductivity from data of 1% noise the largest curvature relative to the reference is 19
#: about the mode's Gaussian (median over the posterior). It is 8.8 about an average over 8 draws, 8.2 over 24 and 7.0
#: over 64.
PAIRS = 8


class Fitted(NamedTuple):
    """A Gaussian, and the width of the widest direction of the posterior in sds of the Gaussian, at least 1."""

    gaussian: LowRankGaussian
    width: float


def fitted(source: Source, mode: LowRankGaussian, most: int, rng: np.random.Generator) -> EvaluationRequests[Fitted]:
    """The Gaussian after that step, from the pairs that can be solved; the mode's where none can.

    The width is that within the directions of the mode's Gaussian.

    The mean moves no farther than the square root of the number of informed directions, in sds: from there on no more
    of the mode's Gaussian lies.

    Parameters
    ----------
    source : Source
        With tangents.
    mode : LowRankGaussian
        Its mean is the mode.
    most : int
        Directions at most.
    rng : Generator
    """
    d, reference = len(mode.mean), source.reference
    rows, slope, count = np.empty((0, d)), np.zeros(d), 0
    basis = mode.metric.vectors
    covariance = np.zeros(2 * basis.shape[1:])
    for move in mode.metric.color(rng.standard_normal((PAIRS, d))):
        places, found = [], []
        for at in (mode.mean + move, mode.mean - move):
            place = yield from source.at(at)
            if math.isfinite(place.energy):
                gaussian = yield from low_rank(place.products, at, reference, most, rng)
                places.append(place)
                found += [] if gaussian is None else [gaussian]
        if len(found) == 2:
            rows = _rows(by_rows(np.vstack([rows, *map(_rows, found)]), mode.mean, reference, most))
            covariance += sum(_within(gaussian.metric, basis) for gaussian in found)
            slope += places[0].gradient + places[1].gradient
            count += 2
    if not count:
        return Fitted(mode, 1.0)
    metric = by_rows(rows / math.sqrt(count), mode.mean, reference, most, LEFT_OUT).metric
    step = -metric.covariance_times(slope / count)
    length = math.sqrt(float(-step @ slope) / count)
    share = min(1.0, math.sqrt(mode.informed) / length) if length > 0.0 else 0.0
    width = 1.0
    if basis.size:
        width = math.sqrt(max(1.0, eigh(covariance / count, _within(metric, basis), eigvals_only=True)[-1]))
    return Fitted(LowRankGaussian(mode.mean + share * times(reference.factor, step), metric, 0.0), width)


def _within(metric: LowRankMetric, basis: Array) -> Array:
    """The covariance (r, r) along orthonormal directions (d, r), in the prior's coordinates."""
    return basis.T @ metric.covariance_times(basis.T).T


def _rows(gaussian: LowRankGaussian) -> Array:
    """R (r, d) of its precision I + R^T R."""
    metric = gaussian.metric
    return np.asarray((metric.vectors * np.sqrt(np.maximum(metric.values, 0.0))).T)
