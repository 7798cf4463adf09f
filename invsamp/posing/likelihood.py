"""Compiled loops over the data: log-likelihoods of the ready noises and their derivatives.

Compiled for the reason that `invsamp.posing.column_families` gives; the noises' formulas are here and nowhere else.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from invsamp.contract import Array
from invsamp.posing.column_families import IntArray

GAUSSIAN, LOG_NORMAL, STUDENT_T = 0, 1, 2

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, error_model="numpy")
def _datum(
    family: int, shape: float, constant: float, y: float, datum: float, log_datum: float, scale: float
) -> tuple[float, float, float]:
    """Log-likelihood of one datum without log(scale), and the full derivatives with respect to y and scale."""
    if family == GAUSSIAN:
        z = (datum - y) / scale
        return constant - 0.5 * z * z, z / scale, (z * z - 1.0) / scale
    if family == LOG_NORMAL:
        if y <= 0.0:  # NaN goes on, as NaN: a failed solve is not a point of zero density
            return -np.inf, 0.0, 0.0
        z = (log_datum - math.log(y)) / scale
        return constant - 0.5 * z * z - log_datum, z / (scale * y), (z * z - 1.0) / scale
    z = (datum - y) / scale
    slope = (shape + 1.0) * z / ((shape + z * z) * scale)
    return constant - 0.5 * (shape + 1.0) * math.log1p(z * z / shape), slope, slope * z - 1.0 / scale


@njit(cache=True, error_model="numpy")
def evaluate(
    family: int, shape: float, constant: float, y: Array, data: Array, log_data: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """Log-likelihood per datum and its derivatives with respect to y and scale; all arguments (batch, m)."""
    value, y_slope, scale_slope = np.empty(y.shape), np.empty(y.shape), np.empty(y.shape)
    for row in range(y.shape[0]):
        for i in range(y.shape[1]):
            s = scale[row, i]
            value[row, i], y_slope[row, i], scale_slope[row, i] = _datum(
                family, shape, constant, y[row, i], data[row, i], log_data[row, i], s
            )
            value[row, i] -= math.log(s)
    return value, y_slope, scale_slope


@njit(cache=True, error_model="numpy")
def accumulate(what: IntArray, numbers: Array, theta: Array, y: Array, value: Array, slope: Array) -> Array:
    """Add the log-likelihood to ``value`` (batch,) and its scale part to ``slope`` (batch, dimension).

    ``what``, (m, 3), has of every datum its family, the place of its observation in y, and the column of theta that is
    its scale, or -1; ``numbers``, (m, 5), the shape, the constant, the datum, its logarithm, and the scale if known.
    Returns the derivative with respect to y, (batch, outputs), with 0 where it is not finite.
    """
    y_slope = np.zeros(y.shape)
    for row in range(y.shape[0]):
        total, last, log_scale = 0.0, -1.0, 0.0
        for i in range(what.shape[0]):
            place, column = what[i, 1], what[i, 2]
            s = theta[row, column] if column >= 0 else numbers[i, 4]
            if s != last:  # neighbours mostly share their scale, and a logarithm costs more than all the rest
                last, log_scale = s, math.log(s) if s > 0.0 else -np.inf
            part, by_y, by_scale = _datum(
                what[i, 0], numbers[i, 0], numbers[i, 1], y[row, place], numbers[i, 2], numbers[i, 3], s
            )
            total += part - log_scale
            y_slope[row, place] = by_y if np.isfinite(by_y) else 0.0
            if column >= 0:
                slope[row, column] += by_scale
        value[row] += total
    return y_slope
