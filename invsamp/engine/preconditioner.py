"""Preconditioners: metrics made of curvatures, and whether their matrices find room."""

from __future__ import annotations

import os

import numpy as np

from invsamp.contract import Array
from invsamp.metric import DenseMetric, DiagonalMetric, Metric

#: Widest scale of a preconditioner, in units of the starting points' spread: a parameter that nothing informs is
#: uniform between walls, and must not be stepped over them many times.
WIDEST = 10.0
#: Matrices of d x d that warm-up holds at once with a dense preconditioner: for each rung, for each chain, and others.
_OF_A_RUNG, _OF_A_CHAIN, _OTHERS = 4, 3, 6


def check_memory(preconditioner: str | None, rungs: int, chains: int, dimension: int) -> None:
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


def metric_of(curvature: Array, scale: Array) -> Metric | None:
    """Metric of a mean curvature, (d, d), or (d,) for a diagonal one; None where that is not finite.

    ``scale`` (d,) is the spread of the starting points.
    """
    if curvature.ndim == 2:
        scaled = curvature * np.outer(scale, scale)
        return _dense(scaled, scale) if np.isfinite(scaled).all() else None
    scaled = curvature * scale**2
    return DiagonalMetric(scale / np.sqrt(np.maximum(scaled, WIDEST**-2))) if np.isfinite(scaled).all() else None


def size(metric: Metric) -> float:
    """Mean squared length of a unit move in whitened coordinates."""
    matrix = np.asarray(metric.matrix)
    return float(matrix.mean() if matrix.ndim == 1 else np.trace(matrix) / len(matrix))


def _dense(precision: Array, scale: Array) -> DenseMetric:
    """Metric of a precision in units of ``scale``: parameters may differ by more orders than a matrix can hold.

    The eigenvalues are taken without their signs (a Hessian off the modes is indefinite) and raised to at least
    those of the widest scale, and to what can be inverted.
    """
    values, vectors = np.linalg.eigh(precision)
    values = np.abs(values)
    values = np.maximum(values, max(1.0 / WIDEST**2, 1e-12 * values.max()))
    # the Cholesky factor of the inverse by QR of a square root: forming the inverse would square what rounding does
    _, upper = np.linalg.qr((vectors / np.sqrt(values)).T)
    lower = upper.T
    return DenseMetric(scale[:, None] * lower * np.sign(np.diag(lower)))
