"""Transport maps learned from the draws of warm-up, and how normal the target is in any coordinates."""

from __future__ import annotations

import math

import numpy as np

from invsamp.engine.adaptation.metric_from_curvature import floored
from invsamp.engine.rungs.coordinate_quality import CoordinateQuality
from invsamp.engine.rungs.rung_chains import Mapped, RungChains
from invsamp.kernels.metric import Metric
from invsamp.protocols import Array
from invsamp.transport import TransportMap, fisher_divergence, fit
from invsamp.transport.fisher_divergence import contributions
from invsamp.transport.fitting import GAUSSIAN, FarPoints, extended, pulled_back
from invsamp.transport.linear import matched_factor

#: Unknowns that are named as those which contribute most to J, and the share of it below which one is not.
NAMED, LEAST_SHARE = 5, 0.05


def quality(rung: RungChains, positions: Array, gradients: Array) -> CoordinateQuality | None:
    """J of draws (steps, chains, d) in the rung's present coordinates, with gradients of v; None of too few draws."""
    transport, metric, d = rung.mapped and rung.mapped[0], rung.own_metric, positions.shape[2]
    if positions[..., 0].size < 4:
        return None
    draws, slopes = positions.reshape(-1, d), gradients.reshape(-1, d)
    if transport is not None:
        draws, slopes = pulled_back(transport, draws, slopes)
    away = draws - draws.mean(axis=0)
    length = math.sqrt(rung.step_scale)
    found = fisher_divergence(metric.uncolor(away) / length, metric.whiten(slopes) * length)
    # the metric mixes unknowns: they are named by coordinates that are divided by their sds alone
    sd = np.maximum(away.std(axis=0), 1e-300)
    residual = slopes - _precise(metric, away) / rung.step_scale
    shares = contributions(away / sd, residual * sd + away / sd)
    largest = np.argsort(-shares, kind="stable")[:NAMED]
    family = "linear" if transport is None else transport.family
    return CoordinateQuality(family, found, tuple(int(k) for k in largest if shares[k] >= LEAST_SHARE))


def learned(
    positions: Array, gradients: Array, step_scale: float, before: Mapped | None, divergence: float
) -> Mapped | None:
    """A map fitted to draws (steps, chains, d), and the metric in its coordinates; None where linear ones are as good.

    The map of ``before`` stays if its J in the window that came after it, ``divergence``, is less than that of a new
    one on chains that were left out. Where that J is as low as of a Gaussian, nothing is fitted and the map stays.
    The metric is that of v times the step scale.
    """
    positions, gradients = _with_chains(positions), _with_chains(gradients)
    transport = None if before is None else before[0]
    if divergence > GAUSSIAN:
        found = fit(positions, gradients)
        if transport is None or divergence > min(found.divergences.values()):
            transport = found.map
    return None if transport is None else _with_metric(transport, positions, gradients, step_scale)


def relearned(positions: Array, gradients: Array, step_scale: float, transport: TransportMap, far: FarPoints) -> Mapped:
    """A map fitted again to draws (steps, chains, d) and to points far out."""
    positions, gradients = _with_chains(positions), _with_chains(gradients)
    return _with_metric(extended(transport, positions, gradients, far), positions, gradients, step_scale)


def _with_metric(transport: TransportMap, positions: Array, gradients: Array, step_scale: float) -> Mapped:
    z, slopes = pulled_back(transport, positions, gradients)
    factor = matched_factor(z - z.mean(axis=(0, 1)), slopes) / math.sqrt(step_scale)
    return transport, floored(factor, np.full(transport.dimension, np.inf))


def _with_chains(values: Array) -> Array:
    """Of one chain, its halves as two."""
    half = len(values) // 2
    return values if values.shape[1] > 1 else np.concatenate([values[:half], values[half : 2 * half]], axis=1)


def _precise(metric: Metric, away: Array) -> Array:
    """The inverse of the metric's matrix times moves (n, d)."""
    matrix = metric.matrix
    if matrix is None:
        return away
    if matrix.ndim == 1:
        return away / matrix
    # by its root: the matrix itself may be singular to rounding
    return np.asarray(metric.uncolor(away) @ metric.uncolor(np.eye(away.shape[1])).T)
