"""Compiled loops over the columns of theta: log densities and changes of variables.

They are the inner loop of every sampler, called with a handful of columns at a time, where a dozen array
operations would cost more than the arithmetic. All formulas of the scalar families and of the transforms
are here and nowhere else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.protocols import Array, Plain

# What a column's coefficients p, q and r mean.
FLAT = 0  #: constant
NORMAL = 1  #: mean p, standard deviation 1/q
LOG_NORMAL = 2  #: log x has mean p and standard deviation 1/q
GAMMA = 3  #: x^p exp(-q x)
BETA = 4  #: x^p (1 - x)^q
CAUCHY = 5  #: median p, half-width 1/q
STUDENT_T = 6  #: median p, scale 1/q, r degrees of freedom
INVERSE_GAMMA = 7  #: x^-p exp(-q / x)
WEIBULL = 8  #: (q x)^(p - 1) exp(-(q x)^p)
TRIANGULAR = 9  #: rising from p to q, falling to r
LAPLACE = 10  #: median p, scale 1/q
LOG_LAPLACE = 11  #: log x has median p and scale 1/q

IDENTITY, LOG, LOGIT = 0, 1, 2

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.intp]]

#: Options of functions that compiled ones alone call: what would let Python call them takes the compiler time, too.
CALLED: Plain = {"cache": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@njit(**CALLED)
def _rare(family: int, x: float, p: float, q: float, r: float) -> tuple[float, float]:
    """Log density and derivative of the families that are too rare to be inlined in the loop."""
    if family == STUDENT_T:
        z = (x - p) * q
        return -0.5 * (r + 1.0) * math.log1p(z * z / r), -(r + 1.0) * z * q / (r + z * z)
    if family == INVERSE_GAMMA:
        if x <= 0.0:
            return -np.inf, 0.0
        return -p * math.log(x) - q / x, (q / x - p) / x
    if family == WEIBULL:
        power = (x * q) ** p
        # 0 log 0 = 0 at the edge of the exponential distribution
        log_part = (p - 1.0) * (math.log(x * q) if x > 0.0 else -np.inf) if p != 1.0 else 0.0
        return log_part - power, (p - 1.0 - p * power) / x if p != 1.0 else -q
    if family == LAPLACE:
        return -abs(x - p) * q, -q * np.sign(x - p)
    if family == LOG_LAPLACE:
        if x <= 0.0:
            return -np.inf, 0.0
        z = (math.log(x) - p) * q
        return -abs(z) - math.log(x), -(q * np.sign(z) + 1.0) / x
    if x < q or q == r:
        return math.log((x - p) / (q - p)) if x > p else -np.inf, 1.0 / (x - p)
    return math.log((r - x) / (r - q)) if x < r else -np.inf, -1.0 / (r - x)


def log_density(
    theta: Array, columns: IntArray, families: IntArray, first: Array, second: Array, third: Array
) -> tuple[Array, Array]:
    """Log density without its constant, (batch,), and its gradient (batch, dimension), zero in other columns.

    Entry k of ``families``, ``first`` (p), ``second`` (q) and ``third`` (r) describes column ``columns[k]`` of theta.
    """
    value, gradient = np.empty(theta.shape[0]), np.empty(theta.shape)
    if not theta.flags.writeable:  # a type of its own to the compiler
        theta = theta.copy()
    _log_density(theta, columns, families, first, second, third, value, gradient)
    return value, gradient


@njit(cache=True, error_model="numpy")
def _log_density(
    theta: Array,
    columns: IntArray,
    families: IntArray,
    first: Array,
    second: Array,
    third: Array,
    value: Array,
    gradient: Array,
) -> None:
    """The same, into arrays that are given: to make them here costs as much as to fill them."""
    for row in range(theta.shape[0]):
        total = 0.0
        for column in range(theta.shape[1]):
            gradient[row, column] = 0.0
        for k in range(columns.shape[0]):
            column = columns[k]
            family, p, q = families[k], first[k], second[k]
            x = theta[row, column]
            if family == NORMAL:
                z = (x - p) * q
                total -= 0.5 * z * z
                gradient[row, column] = -z * q
            elif family == LOG_NORMAL:
                log_x = math.log(x) if x > 0.0 else -np.inf
                z = (log_x - p) * q
                total -= 0.5 * z * z + log_x
                gradient[row, column] = -(z * q + 1.0) / x
            elif family == GAMMA:
                # 0 log 0 = 0 at the edge of the exponential distribution
                if p != 0.0:
                    total += p * (math.log(x) if x > 0.0 else -np.inf)
                    gradient[row, column] = p / x
                total -= q * x
                gradient[row, column] -= q
            elif family == BETA:
                if p != 0.0:
                    total += p * (math.log(x) if x > 0.0 else -np.inf)
                    gradient[row, column] = p / x
                if q != 0.0:
                    total += q * (math.log1p(-x) if x < 1.0 else -np.inf)
                    gradient[row, column] -= q / (1.0 - x)
            elif family == CAUCHY:
                z = (x - p) * q
                total -= math.log1p(z * z)
                gradient[row, column] = -2.0 * q * z / (1.0 + z * z)
            elif family != FLAT:
                part, gradient[row, column] = _rare(family, x, p, q, third[k])
                total += part
        value[row] = total


def change_variables(position: Array, kinds: IntArray, lower: Array, upper: Array) -> tuple[Array, Array, Array, Array]:
    """Theta, d theta / d position, log Jacobian (batch,) and its gradient at positions (batch, dimension).

    Theta stays strictly inside its interval, and all is finite for positions of absolute value up to 700.
    """
    theta, derivative, gradient = np.empty(position.shape), np.empty(position.shape), np.empty(position.shape)
    log_jacobian = np.empty(position.shape[0])
    _change_variables(position, kinds, lower, upper, theta, derivative, log_jacobian, gradient)
    return theta, derivative, log_jacobian, gradient


@njit(cache=True, error_model="numpy")
def _change_variables(
    position: Array,
    kinds: IntArray,
    lower: Array,
    upper: Array,
    theta: Array,
    derivative: Array,
    log_jacobian: Array,
    gradient: Array,
) -> None:
    """The same, into arrays that are given."""
    for row in range(position.shape[0]):
        total = 0.0
        for column in range(position.shape[1]):
            kind, low, x = kinds[column], lower[column], position[row, column]
            if kind == IDENTITY:
                theta[row, column] = x
                derivative[row, column] = 1.0
                gradient[row, column] = 0.0
            elif kind == LOG:
                size = math.exp(x)
                # rounding must not put theta onto the end, where a density may be zero or infinite
                theta[row, column] = max(low + size, np.nextafter(low, np.inf))
                derivative[row, column] = size
                gradient[row, column] = 1.0
                total += x
            else:
                high = upper[column]
                width = high - low
                small = math.exp(-abs(x))
                near = width * small / (1.0 + small)  # distance to the nearer end
                if x < 0.0:
                    theta[row, column] = max(low + near, np.nextafter(low, high))
                else:
                    theta[row, column] = min(high - near, np.nextafter(high, low))
                derivative[row, column] = near / (1.0 + small)
                gradient[row, column] = -math.tanh(0.5 * x)
                total += math.log(width) - abs(x) - 2.0 * math.log1p(small)
        log_jacobian[row] = total


def inside_box(position: Array, lower: Array, upper: Array, value: Array) -> npt.NDArray[np.bool_]:
    """Whether each position (batch, dimension) lies in the closed box and its value (batch,) is finite."""
    inside = np.empty(value.shape, dtype=bool)
    _inside_box(position, lower, upper, value, inside)
    return inside


@njit(cache=True, error_model="numpy")
def _inside_box(position: Array, lower: Array, upper: Array, value: Array, inside: npt.NDArray[np.bool_]) -> bool:
    """The same, into an array that is given; whether all are."""
    everywhere = True
    for row in range(position.shape[0]):
        within = np.isfinite(value[row])
        for column in range(position.shape[1]):
            # written so that NaN is outside
            within = within and lower[column] <= position[row, column] <= upper[column]
        inside[row] = within
        everywhere = everywhere and within
    return everywhere


class Posed(NamedTuple):
    """All that a posterior needs before the model, of positions (batch, dimension)."""

    theta: Array
    derivative: Array  # of theta with respect to the position
    value: Array  # (batch,) log prior density, with the log Jacobian
    slope: Array  # derivative of the log prior density with respect to theta
    jacobian_slope: Array  # and of the log Jacobian with respect to the position
    inside: npt.NDArray[np.bool_]  # (batch,)
    everywhere: bool  # whether all are inside

    def take(self, rows: npt.NDArray[np.bool_]) -> Posed:
        """Some of them."""
        return Posed(*[part[rows] for part in self[:-1]], False)  # type: ignore[arg-type, call-arg]


def pose(
    position: Array,
    coordinates: tuple[IntArray, Array, Array],
    density: tuple[IntArray, IntArray, Array, Array, Array],
    box: tuple[Array, Array],
    constant: float,
) -> Posed:
    """`change_variables`, `log_density` and `inside_box` in one call."""
    shape = position.shape
    theta, derivative, slope, jacobian_slope = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    value, inside = np.empty(shape[0]), np.empty(shape[0], dtype=bool)
    everywhere = _pose(
        position, coordinates, density, box, constant, theta, derivative, value, slope, jacobian_slope, inside
    )
    return tuple.__new__(Posed, (theta, derivative, value, slope, jacobian_slope, inside, everywhere))


@njit(cache=True, error_model="numpy")
def _pose(
    position: Array,
    coordinates: tuple[IntArray, Array, Array],
    density: tuple[IntArray, IntArray, Array, Array, Array],
    box: tuple[Array, Array],
    constant: float,
    theta: Array,
    derivative: Array,
    value: Array,
    slope: Array,
    jacobian_slope: Array,
    inside: npt.NDArray[np.bool_],
) -> bool:
    log_jacobian = np.empty(value.shape)
    _change_variables(position, *coordinates, theta, derivative, log_jacobian, jacobian_slope)
    _log_density(theta, *density, value, slope)
    for row in range(value.shape[0]):
        value[row] += log_jacobian[row] + constant
    return _inside_box(position, box[0], box[1], value, inside)


@njit(cache=True, error_model="numpy")
def finish(value: Array, slope: Array, derivative: Array, jacobian_slope: Array) -> None:
    """Turn log densities and slopes in theta into energies and their gradients in the position, in place.

    Rows with anything that is not finite become energy +inf and gradient 0.
    """
    for row in range(slope.shape[0]):
        value[row] = -value[row]
        finite = np.isfinite(value[row])
        for column in range(slope.shape[1]):
            entry = -(slope[row, column] * derivative[row, column] + jacobian_slope[row, column])
            slope[row, column] = entry
            finite = finite and np.isfinite(entry)
        if not finite:
            value[row] = np.inf
            slope[row] = 0.0
