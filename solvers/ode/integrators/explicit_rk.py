r"""Explicit Runge-Kutta pairs as tables, and the compiled code of one step that a table stands for.

A step of a table is written out as straight-line source without its zeros, so that a new method is a table and nothing
else. The right-hand side comes in as an address (`invsamp.solvers.ode.integrators.function_pointers`).

What numba stores of `invsamp.solvers.ode.integrators.adaptive_step` contains this code, and numba does not notice
changes here or in a table: delete the `__pycache__` after one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.foreign import Given, Jitted
from invsamp.solvers.ode.integrators.dense_output import writer
from invsamp.solvers.ode.integrators.function_pointers import BORROWING, INLINED, bound
from invsamp.solvers.ode.integrators.stage_programs import Call, Sum, program
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.trajectories import Control
from invsamp.solvers.ode.integrators.whole_step import ATTEMPT, UNPACK, WRITE, whole_step

Array = npt.NDArray[np.float64]
#: A row of a table without its zeros: stage -> coefficient.
Row = Mapping[int, float]


class Tableau(NamedTuple):
    """A pair with local extrapolation, whose last stage is the next step's first, and its interpolant."""

    order: int  # of the step; its inverse is the exponent of the step-size control
    nodes: Sequence[float]  # (stages,)
    stages: Sequence[Row]  # (stages,), of earlier ones; that of the last stage holds the weights
    extra_nodes: Sequence[float]  # of stages that the interpolant alone needs
    extra_stages: Sequence[Row]
    errors: Sequence[Row]  # one estimator, or two that are combined as in DOP853
    interpolant: Sequence[Row]  # (powers,): y + h sum_r x^(r+1) sum_s interpolant[r][s] k_s, x in [0, 1]
    most_stable: float  # h |lambda| at which a step that the control takes is at the edge of stability


def stepper(name: str, table: Tableau, whole: bool = False) -> Stepper:
    """The method of a table, compiled on first use; ``whole`` if steps are functions at `Control.steps`."""
    last, powers = len(table.stages) - 1, len(table.interpolant)
    count = last + 1 + len(table.extra_stages)
    stages: list[Sum | Call] = []
    for s in range(1, last + 1):
        stages += [Sum(("z", 0), ("y", 0), "h", table.stages[s]), Call(table.nodes[s], ("z", 0), s)]
    extra: list[Sum | Call] = []
    for s, (node, row) in enumerate(zip(table.extra_nodes, table.extra_stages, strict=True), start=last + 1):
        extra += [Sum(("q", 0), ("y", 0), "h", row), Call(node, ("q", 0), s)]
    scope = {
        "_stages": program(stages),
        "_errors": program([Sum(("q", e), None, "h", row) for e, row in enumerate(table.errors)]),
        "_ESTIMATORS": len(table.errors),
        "_before_last": program([Sum(("z", 0), ("y", 0), "h", table.stages[last - 1])]),
        "_LAST": last,
        "_WHOLE": whole,
        "_STABLE": table.most_stable,
        "_coefficients": program([*extra, *(Sum(("q", r), None, "h", row) for r, row in enumerate(table.interpolant))]),
        "_values": writer(powers),
    }
    scope["_interpolate"] = bound(_interpolation, scope)
    return Stepper(
        name=f"{name}_whole" if whole else name,
        order=table.order,
        exponent=-1.0 / table.order,
        stages=last,
        last=last,
        rows=count,
        powers=powers,
        workspace=partial(_workspace, last + 1 if whole else 0),
        begin=None,
        attempt=bound(_whole_attempt if whole else _attempt, scope, INLINED),
        interpolate=scope["_interpolate"],
        extra=len(extra) // 2,
        finish=None,
        write=bound(_whole_write if whole else _write, scope, INLINED),
        edge=bound(_edge, scope),
    )


def sparse(values: Given) -> Row:
    """A row without its zeros."""
    return {int(s): float(values[s]) for s in np.flatnonzero(values)}


@njit(**BORROWING)
def error_norm(estimators: int, n: int, h: float, count: int, weight: float, q: Array) -> float:
    """Root mean square of the error in units of the tolerance, the largest over blocks of n of ``count`` components.

    From the squares in q[0] and, of two estimators, q[1]: Hairer, Norsett and Wanner, II.5, eq. (5.16) with
    (q0 + q1 / 100) under the root. Blocks after the first, those of sensitivities, count ``weight`` times.
    """
    largest = 0.0
    for first in range(0, count, n):
        total = other = 0.0
        for i in range(first, first + n):
            total += q[0, i]
        if estimators == 2:
            for i in range(first, first + n):
                other += q[1, i]
            if not other < math.inf:
                return other
        if not total < math.inf:
            return total
        if estimators == 2 and total > 0.0:
            total *= total / (total + 0.01 * other)
        if first > 0:
            total *= weight * weight
        largest = max(largest, total)
    return math.sqrt(largest / n)


# what a table gives to the templates below
_WHOLE = False
_ESTIMATORS = _LAST = 0
_STABLE = 0.0
_stages: Jitted = None
_errors: Jitted = None
_before_last: Jitted = None
_coefficients: Jitted = None
_values: Jitted = None
_interpolate: Jitted = None


def _workspace(rows: int, control: Control, m: int) -> Array:
    """Where `STEP` keeps its stages."""
    return np.empty(rows * m)


def _attempt(
    rhs: int, control: Control, absolute: Array, t: float, h: float, lower: float, upper: float, y: Array, p: Array,
    k: Array, z: Array, q: Array, space: Array,
) -> float:  # fmt: skip
    _stages(rhs, t, h, lower, upper, y, p, k, z, q)
    _errors(rhs, t, h, lower, upper, y, p, k, z, q)
    rtol = control.rtol
    for i in range(len(absolute)):
        scale = absolute[i] + rtol * max(abs(y[i]), abs(z[i]))
        for e in range(_ESTIMATORS):
            part = q[e, i] / scale
            q[e, i] = part * part
    return error_norm(_ESTIMATORS, control.n_states, h, len(absolute), control.weight, q)


def _whole_attempt(
    rhs: int, control: Control, absolute: Array, t: float, h: float, lower: float, upper: float, y: Array, p: Array,
    k: Array, z: Array, q: Array, space: Array,
) -> float:  # fmt: skip
    return whole_step(
        control.steps, ATTEMPT, 0, 0, t, h, lower, upper, control.rtol, control.weight, y, p, absolute, k, z, space,
        absolute, k,
    )  # fmt: skip


def _edge(control: Control, h: float, y: Array, z: Array, k: Array, q: Array, space: Array) -> float:
    """From the last two stages of a step: of the states, or where they rest of the sensitivities.

    The latter have the same Jacobian. Hairer and Wanner, Solving Ordinary Differential Equations II, eq. (IV.2.26).
    """
    if _WHOLE:
        _unpack(control, h, y, k, space)
    _before_last(0, 0.0, h, 0.0, 0.0, y, y, k, q[0], q)
    above = below = 0.0
    for i in range(len(y)):
        if i == control.n_states and below > 0.0:
            break
        change, distance = k[_LAST, i] - k[_LAST - 1, i], z[i] - q[0, i]
        above += change * change
        below += distance * distance
    return h * math.sqrt(above / below) / _STABLE if below > 0.0 else 0.0


def _interpolation(
    rhs: int, control: Control, t: float, h: float, lower: float, upper: float, y: Array, p: Array, k: Array, z: Array,
    q: Array, space: Array,
) -> None:  # fmt: skip
    if _WHOLE:
        _unpack(control, h, y, k, space)
    _coefficients(rhs, t, h, lower, upper, y, p, k, z, q)


def _write(
    rhs: int, control: Control, absolute: Array, first: int, last: int, t: float, h: float, lower: float, upper: float,
    times: Array, y: Array, p: Array, k: Array, z: Array, q: Array, space: Array, out: Array, known: bool,
) -> None:  # fmt: skip
    if not known:
        _interpolate(rhs, control, t, h, lower, upper, y, p, k, z, q, space)
    _values(first, last, t, h, times, y, q, out)


def _whole_write(
    rhs: int, control: Control, absolute: Array, first: int, last: int, t: float, h: float, lower: float, upper: float,
    times: Array, y: Array, p: Array, k: Array, z: Array, q: Array, space: Array, out: Array, known: bool,
) -> None:  # fmt: skip
    if known:
        _values(first, last, t, h, times, y, q, out)
    else:
        whole_step(
            control.steps, WRITE, first, last, t, h, lower, upper, 0.0, 0.0, y, p, absolute, k, z, space, times, out
        )  # fmt: skip


@njit(**BORROWING)
def _unpack(control: Control, h: float, y: Array, k: Array, space: Array) -> None:
    """Stages to k, which `STEP` keeps for itself."""
    whole_step(control.steps, UNPACK, 0, 0, 0.0, h, 0.0, 0.0, 0.0, 0.0, y, y, y, k, y, space, y, k)
