"""Bounds of functions of time over an interval, by interval arithmetic on a table of operations.

Whatever a function does within an interval, however short, lies within its bounds. Over a single time they are its
value. Moore, Kearfott and Cloud (2009), "Introduction to Interval Analysis", chapters 2 and 5; bounds are not rounded
outwards, as they decide where to look and not what is true.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.ode.codegen.operation_graph import Row
from invsamp.solvers.ode.integrators.function_pointers import INNER, function_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_INF, _PI = math.inf, math.pi
_INPUTS = ("constant", "t", "p")
_CONDITIONS = ("<", "<=", ">", ">=", "and", "or", "not", "select")
_OF_TWO = ("add", "sub", "mul", "div", "pow", "atan2")
#: Those that grow with their argument; first the ones whose domain begins or ends somewhere.
_GROWING = (
    *("log", "log1p", "sqrt", "asin", "acosh", "atanh"),
    *("exp", "expm1", "sinh", "tanh", "atan", "asinh", "erf", "floor"),
)
_OTHERS = ("sin", "cos", "tan", "cosh", "acos", "fabs")
CODES = {name: k for k, name in enumerate((*_INPUTS, *_CONDITIONS, *_OF_TWO, *_GROWING, *_OTHERS))}
_CONSTANT, _T, _P = range(3)
_LESS, _LESS_EQUAL, _MORE, _MORE_EQUAL, _AND, _OR, _NOT, _SELECT = range(3, 11)
_ADD, _SUB, _MUL, _DIV, _POW, _ATAN2 = range(11, 17)
_LOG, _LOG1P, _SQRT, _ASIN, _ACOSH, _ATANH = range(17, 23)
_FLOOR = 30
_SIN, _COS, _TAN, _COSH, _ACOS, _FABS = range(31, 37)


class Operations(NamedTuple):
    """Operations on time and parameters, each on earlier ones."""

    codes: Integers  # (count,), of `CODES`
    operands: Integers  # (count, 3): places of the operands; of a parameter its number
    constants: Array  # (count,)


def table(rows: list[Row]) -> Operations:
    """The operations as arrays; ``rows`` are those of a graph, with the places of their operands among themselves."""
    operands, constants = np.zeros((len(rows), 3), dtype=np.int64), np.zeros(len(rows))
    for k, row in enumerate(rows):
        if row[0] == "constant":
            constants[k] = row[1]
        else:
            operands[k, : len(row) - 1] = row[1:]
    return Operations(np.array([CODES[row[0]] for row in rows], dtype=np.int64), operands, constants)


class Scan(NamedTuple):
    """Operations at some parameters, and room for their bounds."""

    operations: Operations
    p: Array  # (q,)
    bounds: Array  # (count, 3), of `enclose`


@njit(**INNER)
def enclose(scan: Scan, first: float, last: float) -> None:
    """Bounds of all operations over the times from ``first`` to ``last``, and whether they are smooth there.

    ``bounds`` (count, 3) gets the lower and upper bound; those of a condition are 0 and 1. The third entry is 1 where
    the operation certainly neither jumps nor changes its formula within the interval, or else 0.
    """
    operations, p, bounds = scan
    for k in range(len(operations.codes)):
        code = operations.codes[k]
        a, b, c = operations.operands[k, 0], operations.operands[k, 1], operations.operands[k, 2]
        smooth = 1.0
        if code == _CONSTANT:
            low = high = operations.constants[k]
        elif code == _T:
            low, high = first, last
        elif code == _P:
            low = high = p[a]
        elif code == _SELECT:
            if bounds[a, 0] == bounds[a, 1]:
                chosen = b if bounds[a, 0] == 1.0 else c
                low, high, smooth = bounds[chosen, 0], bounds[chosen, 1], bounds[chosen, 2]
            else:
                low, high = min(bounds[b, 0], bounds[c, 0]), max(bounds[b, 1], bounds[c, 1])
                smooth = 0.0
        elif code < _SELECT:
            low, high = _condition(code, bounds[a, 0], bounds[a, 1], bounds[b, 0], bounds[b, 1])
        elif code <= _ATAN2:
            low, high = _of_two(code, bounds[a, 0], bounds[a, 1], bounds[b, 0], bounds[b, 1], a == b)
            smooth = min(bounds[a, 2], bounds[b, 2])
        else:
            low, high = _of_one(code, bounds[a, 0], bounds[a, 1])
            smooth = bounds[a, 2] if code != _FLOOR or low == high else 0.0
        if math.isnan(low) or math.isnan(high):
            low, high = -_INF, _INF
        bounds[k, 0], bounds[k, 1], bounds[k, 2] = low, high, smooth


@njit(**INNER)
def _condition(code: int, low: float, high: float, other_low: float, other_high: float) -> tuple[float, float]:
    if code == _AND:
        return min(low, other_low), min(high, other_high)
    if code == _OR:
        return max(low, other_low), max(high, other_high)
    if code == _NOT:
        return 1.0 - high, 1.0 - low
    if code in (_MORE, _MORE_EQUAL):
        low, high, other_low, other_high = other_low, other_high, low, high
    if code in (_LESS, _MORE):
        return (1.0 if high < other_low else 0.0), (1.0 if low < other_high else 0.0)
    return (1.0 if high <= other_low else 0.0), (1.0 if low <= other_high else 0.0)


@njit(**INNER)
def _times(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b


@njit(**INNER)
def _of_two(code: int, low: float, high: float, other_low: float, other_high: float, same: bool) -> tuple[float, float]:
    if code == _ADD:
        return low + other_low, high + other_high
    if code == _SUB:
        return low - other_high, high - other_low
    if code == _MUL:
        if same:
            return _even(low * low, high * high, low, high, 0.0)
        w, x = _times(low, other_low), _times(low, other_high)
        y, z = _times(high, other_low), _times(high, other_high)
        return min(w, x, y, z), max(w, x, y, z)
    if code == _DIV:
        if other_low <= 0.0 <= other_high and other_low < other_high:
            return -_INF, _INF
        w, x, y, z = low / other_low, low / other_high, high / other_low, high / other_high
        return min(w, x, y, z), max(w, x, y, z)
    if code == _POW:
        if low >= 0.0:
            w, x, y, z = low**other_low, low**other_high, high**other_low, high**other_high
            return min(w, x, y, z), max(w, x, y, z)
        if other_low == other_high and other_low == math.floor(other_low) and other_low > 0.0:
            w, x = low**other_low, high**other_low
            return _even(w, x, low, high, 0.0) if other_low % 2.0 == 0.0 else (w, x)
        return (low**other_low, low**other_low) if low == high and other_low == other_high else (-_INF, _INF)
    if (low == high and other_low == other_high) or other_low > 0.0:
        w, x = math.atan2(low, other_low), math.atan2(low, other_high)
        y, z = math.atan2(high, other_low), math.atan2(high, other_high)
        return min(w, x, y, z), max(w, x, y, z)
    return -_PI, _PI


@njit(**INNER)
def _even(first: float, last: float, low: float, high: float, least: float) -> tuple[float, float]:
    """Bounds of a function that falls to ``least`` at 0 and grows from there, from its values at both ends."""
    return (least if low <= 0.0 <= high else min(first, last)), max(first, last)


@njit(**INNER)
def _of_one(code: int, low: float, high: float) -> tuple[float, float]:
    if code <= _FLOOR:
        if low < high and code <= _ATANH:  # what is left of the interval in the domain
            least = 0.0 if code in (_LOG, _SQRT) else 1.0 if code == _ACOSH else -1.0
            low = max(low, least)
            if code in (_ASIN, _ATANH):
                high = min(high, 1.0)
        return _growing(code, low), _growing(code, high)
    if code == _SIN:
        return _sine(low, high)
    if code == _COS:
        if low == high:
            return math.cos(low), math.cos(low)
        return _sine(low + 0.5 * _PI, high + 0.5 * _PI)
    if code == _TAN:
        if math.floor(low / _PI + 0.5) != math.floor(high / _PI + 0.5):
            return -_INF, _INF
        return math.tan(low), math.tan(high)
    if code == _ACOS:
        return math.acos(high), math.acos(low)
    if code == _COSH:
        return _even(math.cosh(low), math.cosh(high), low, high, 1.0)
    return _even(abs(low), abs(high), low, high, 0.0)


_UNDEFINED_BELOW = {"log": 0.0, "log1p": -1.0}
_growing = function_of(
    "code, x",
    [
        *(f"if code == {CODES[name]} and not x > {least}: return -INF" for name, least in _UNDEFINED_BELOW.items()),
        *(f"if code == {CODES[name]}: return math.{name}(x)" for name in _GROWING if name != "floor"),
        "return math.floor(x) + 0.0",
    ],
    {"math": math, "INF": _INF},
)


@njit(**INNER)
def _sine(low: float, high: float) -> tuple[float, float]:
    first, last = math.sin(low), math.sin(high)
    # it is largest at pi / 2, smallest at -pi / 2, and so on after each turn
    peaks = math.floor(high / (2 * _PI) - 0.25) - math.floor(low / (2 * _PI) - 0.25)
    troughs = math.floor(high / (2 * _PI) + 0.25) - math.floor(low / (2 * _PI) + 0.25)
    return (-1.0 if troughs > 0 else min(first, last)), (1.0 if peaks > 0 else max(first, last))
