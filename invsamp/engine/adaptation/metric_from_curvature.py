"""Preconditioners: metrics made of curvatures, and whether their matrices find room."""

from __future__ import annotations

import os

import numpy as np

from invsamp.kernels.metric import DenseMetric, DiagonalMetric, Metric
from invsamp.ladder.preconditioner import Preconditioner
from invsamp.modes.curvature import FLAT
from invsamp.protocols import Array

#: Widest scale of a preconditioner, in units of the starting points' spread or of what it was before: a parameter that
#: nothing informs is uniform between bounds, and must not be stepped over them many times.
WIDEST = 10.0
#: Matrices of d x d that warm-up holds at once with a dense preconditioner: for each rung, for each chain, and others.
_OF_A_RUNG, _OF_A_CHAIN, _OTHERS = 4, 3, 6


def check_memory(preconditioner: Preconditioner, rungs: int, chains: int, dimension: int) -> None:
    """`ValueError` if the matrices of a dense preconditioner are larger than the machine's memory."""
    if preconditioner != "dense" or not hasattr(os, "sysconf"):
        return
    needed = 8 * dimension**2 * (_OF_A_RUNG * rungs + _OF_A_CHAIN * chains + _OTHERS)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise ValueError(
            f"preconditioner must be 'diagonal' or None for {dimension} parameters, got 'dense', whose matrices take "
            f"about {needed / 1e9:,.0f} GB in warm-up, with {chains} chains: this machine has {memory / 1e9:,.0f} GB"
        )


def metric_of(curvature: Array, scale: Array, *, at_minimum: bool = False) -> Metric | None:
    """Metric of a mean curvature, (d, d), or (d,) for a diagonal one; None where that is not finite.

    Eigenvalues are taken without their signs: a Hessian off the modes is indefinite. ``scale`` (d,) is the spread of
    the starting points. At a minimum without bounds the curvature is used, however wide it is, where it is not lost to
    rounding.
    """
    if not np.isfinite(curvature).all():
        return None
    if curvature.ndim == 1:
        with np.errstate(divide="ignore"):
            return floored(1.0 / np.sqrt(np.maximum(curvature, 0.0)), WIDEST * scale)
    # parameters may differ by more orders than a matrix can hold: to units of the conditional sds first
    with np.errstate(divide="ignore"):
        units = 1.0 / np.sqrt(np.abs(np.diag(curvature)))
    believed = np.isfinite(units) & at_minimum
    units = np.where(believed, units, np.minimum(units, WIDEST * scale))
    values, vectors = np.linalg.eigh(curvature * np.outer(units, units))
    if not np.abs(values).max() > 0.0:
        return floored(np.diag(WIDEST * scale), WIDEST * scale)
    widest = WIDEST * scale
    if at_minimum and values[0] > FLAT * values[-1]:
        widest = np.full_like(scale, np.inf)
    values = np.maximum(np.abs(values), 1e-12 * np.abs(values).max())
    return floored(units[:, None] * vectors / np.sqrt(values), widest)


def floored(factor: Array, widest: Array) -> Metric:
    """The metric of a factor, (d, d), or (d,) for a diagonal one, nowhere wider than ``widest`` (d,)."""
    if factor.ndim == 1:
        return DiagonalMetric(np.minimum(factor, widest))
    left, sizes, _ = np.linalg.svd(factor / widest[:, None])
    if sizes[0] > 1.0:  # axes that reach too far are shortened
        factor = widest[:, None] * left * np.minimum(sizes, 1.0)
    # the Cholesky factor by QR of a square root: forming the matrix would square what rounding does
    _, upper = np.linalg.qr(factor.T)
    return DenseMetric(upper.T * np.sign(np.diag(upper)))


def size(metric: Metric) -> float:
    """Mean squared length of a unit move in whitened coordinates."""
    matrix = np.asarray(metric.matrix)
    return float(matrix.mean() if matrix.ndim == 1 else np.trace(matrix) / len(matrix))
