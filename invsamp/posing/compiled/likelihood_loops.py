"""Compiled loops over the data: log-likelihoods of the ready noises and their derivatives.

Compiled for the reason that `invsamp.posing.compiled.density_loops` gives; the noises' formulas are here and nowhere
else.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from invsamp.posing.compiled.density_loops import CALLED, IntArray
from invsamp.protocols import Array

GAUSSIAN, LOG_NORMAL, STUDENT_T = 0, 1, 2
#: From here on without a scale.
POISSON, NEGATIVE_BINOMIAL, BINOMIAL = 3, 4, 5
#: Of a model that gives the log-likelihood itself.
GIVEN = 6

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, error_model="numpy")
def _digamma(x: float) -> float:
    """Logarithmic derivative of the Gamma function for x > 0, by recurrence and its asymptotic series."""
    total = 0.0
    while x < 10.0:
        total -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    series = r * (1.0 / 12.0 - r * (1.0 / 120.0 - r * (1.0 / 252.0 - r * (1.0 / 240.0 - r / 132.0))))
    return total + math.log(x) - 0.5 / x - series


@njit(**CALLED)
def _gap(t: float) -> float:
    """t - log(1 + t) without the loss of digits near 0."""
    if abs(t) > 0.01:
        return t - math.log1p(t)
    return t * t * (0.5 - t * (1.0 / 3.0 - t * (0.25 - t * (0.2 - t * (1.0 / 6.0 - t * (1.0 / 7.0 - 0.125 * t))))))


@njit(**CALLED)
def _rising(k: float, a: float) -> tuple[float, float]:
    """Sum of log(1 + a j) over j = 0 ... k - 1, and its derivative with respect to a."""
    value, slope = 0.0, 0.0
    if k <= 32.0:
        for j in range(int(k)):
            value += math.log1p(a * j)
            slope += j / (1.0 + a * j)
        return value, slope
    n = 1.0 / a
    if n < 30.0:
        value = math.lgamma(n + k) - math.lgamma(n) + k * math.log(a)
        return value, n * (k - n * (_digamma(n + k) - _digamma(n)))
    # Stirling's series: the difference of the logarithms would lose its digits
    t, x = a * k, n + k
    value = (x - 0.5) * math.log1p(t) - k
    value += (1.0 / x - 1.0 / n) / 12.0 - (x**-3 - n**-3) / 360.0 + (x**-5 - n**-5) / 1260.0
    series = (n**-2 - x**-2) / 12.0 - (n**-4 - x**-4) / 120.0 + (n**-6 - x**-6) / 252.0
    return value, n * n * (_gap(t) - series) - 0.5 * k / (1.0 + t)


@njit(**CALLED)
def _count(family: int, y: float, k: float, auxiliary: float, parameter: float) -> tuple[float, float, float]:
    """Log-likelihood of a count k, and its derivatives with respect to y and the parameter of the family.

    The parameter is the dispersion of negative binomial counts, the trials of binomial ones; ``auxiliary`` is log(k!),
    or the logarithm of the binomial coefficient.
    """
    if family == GIVEN:
        return y, 1.0, 0.0
    if y < 0.0 or (y == 0.0 and k > 0.0):
        return -np.inf, 0.0, 0.0
    log_y = math.log(y) if y != 0.0 else 0.0
    if family == POISSON:
        return k * log_y - y - auxiliary, (k / y if k > 0.0 else 0.0) - 1.0, 0.0
    if family == BINOMIAL:
        rest = parameter - k
        if y > 1.0 or (y == 1.0 and rest > 0.0):
            return -np.inf, 0.0, 0.0
        value, slope = auxiliary + k * log_y, k / y if k > 0.0 else 0.0
        if rest > 0.0:
            value, slope = value + rest * math.log1p(-y), slope - rest / (1.0 - y)
        return value, slope, 0.0
    if parameter <= 0.0:
        return -np.inf, 0.0, 0.0
    a, t = parameter, parameter * y
    value, by_a = _rising(k, a)
    value += k * log_y - (k + 1.0 / a) * math.log1p(t) - auxiliary
    # log1p(t) - t / (1 + t), whose leading terms cancel
    by_a += (t * t / (1.0 + t) - _gap(t)) / (a * a) - k * y / (1.0 + t)
    return value, (k / y if k > 0.0 else 0.0) - (1.0 + a * k) / (1.0 + t), by_a


@njit(**CALLED)
def _datum(
    family: int, shape: float, constant: float, y: float, datum: float, auxiliary: float, scale: float
) -> tuple[float, float, float]:
    """Log-likelihood of one datum without log(scale), and the full derivatives with respect to y and scale.

    ``auxiliary`` is log(datum) for log-normal noise.
    """
    if family == GAUSSIAN:
        z = (datum - y) / scale
        return constant - 0.5 * z * z, z / scale, (z * z - 1.0) / scale
    if family == LOG_NORMAL:
        if y <= 0.0:  # NaN goes on, as NaN: a failed solve is not a point of zero density
            return -np.inf, 0.0, 0.0
        z = (auxiliary - math.log(y)) / scale
        return constant - 0.5 * z * z - auxiliary, z / (scale * y), (z * z - 1.0) / scale
    z = (datum - y) / scale
    slope = (shape + 1.0) * z / ((shape + z * z) * scale)
    return constant - 0.5 * (shape + 1.0) * math.log1p(z * z / shape), slope, slope * z - 1.0 / scale


@njit(cache=True, error_model="numpy")
def evaluate(
    family: int, shape: float, constant: float, y: Array, data: Array, auxiliary: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """Log-likelihood per datum and its derivatives with respect to y and scale; all arguments (batch, m)."""
    value, y_slope, scale_slope = np.empty(y.shape), np.empty(y.shape), np.empty(y.shape)
    for row in range(y.shape[0]):
        for i in range(y.shape[1]):
            s = scale[row, i]
            if family < POISSON:
                part, by_y, by_scale = _datum(family, shape, constant, y[row, i], data[row, i], auxiliary[row, i], s)
                part -= math.log(s)
            else:
                part, by_y, by_scale = _count(family, y[row, i], data[row, i], auxiliary[row, i], s)
            value[row, i], y_slope[row, i], scale_slope[row, i] = part, by_y, by_scale
    return value, y_slope, scale_slope


@njit(cache=True, error_model="numpy")
def accumulate(
    what: IntArray, numbers: Array, theta: Array, y: Array, value: Array, slope: Array, y_slope: Array
) -> None:
    """Add the log-likelihood to ``value`` (batch,) and its scale part to ``slope`` (batch, dimension).

    ``what``, (m, 3), has for every datum its family, the place of its observation in y, and the column of theta that is
    its scale, or -1. ``numbers``, (m, 5), has the shape, the constant, the datum, the number that comes with it (of
    trials), and a known scale. Into ``y_slope`` goes the derivative with respect to y, (batch, outputs), with 0 where
    it is not finite.
    """
    for row in range(y.shape[0]):
        total, last, log_scale = 0.0, -1.0, 0.0
        y_slope[row] = 0.0
        for i in range(what.shape[0]):
            place, column = what[i, 1], what[i, 2]
            s = theta[row, column] if column >= 0 else numbers[i, 4]
            if what[i, 0] >= POISSON:
                part, by_y, by_scale = _count(what[i, 0], y[row, place], numbers[i, 2], numbers[i, 3], s)
                total += part
            else:
                if s != last:  # neighbors mostly share their scale, and a logarithm costs more than all the rest
                    last, log_scale = s, math.log(s) if s > 0.0 else -np.inf
                part, by_y, by_scale = _datum(
                    what[i, 0], numbers[i, 0], numbers[i, 1], y[row, place], numbers[i, 2], numbers[i, 3], s
                )
                total += part - log_scale
            y_slope[row, place] = by_y if np.isfinite(by_y) else 0.0
            if column >= 0:
                slope[row, column] += by_scale
        value[row] += total
