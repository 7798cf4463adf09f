r"""Explicit Runge-Kutta pairs as tables, and the compiled code of one step that a table stands for.

A step of a table is written out as straight-line source without its zeros, so that a new method is a table and nothing
else. The right-hand side comes in as an address (`invsamp.solvers.ode.integrators.function_pointers`).

What numba stores of `invsamp.solvers.ode.integrators.adaptive_step` contains this code, and numba does not notice
changes here or in a table: delete the `__pycache__` after one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.foreign import Given, Jitted
from invsamp.solvers.ode.integrators.function_pointers import call, function_of, weighted_sum

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


class Step(NamedTuple):
    """The compiled functions of a table."""

    attempt: Jitted  # z (m,) from y (m,), with the stages k, of which the first is there; t within its bounds
    weighted_errors: Jitted  # squares of each component's error in units of its tolerance, to q[0], q[1]
    interpolate: Jitted  # coefficients q (powers, m) of x = (t - t_old) / h from the stages k, after extra ones
    write: Jitted  # the interpolant at output times
    before_last: Jitted  # argument of the stage before the last, to z


def step(table: Tableau) -> Step:
    """Compile a table (on first use)."""
    last, powers = len(table.stages) - 1, len(table.interpolant)
    rows = {f"stage{s}": row for s, row in enumerate((*table.stages, *table.extra_stages))}
    rows |= {f"error{e}": row for e, row in enumerate(table.errors)}
    rows |= {f"power{r}": row for r, row in enumerate(table.interpolant)}
    scope = {"call": call} | {name: weighted_sum(row) for name, row in rows.items()}
    attempt, interpolate = ["m = len(y)"], ["m = len(y)"]
    for s in range(1, last + 1):
        attempt += [*_argument("z", s), _evaluation(s, table.nodes[s], "z")]
    for s, node in enumerate(table.extra_nodes, start=last + 1):
        interpolate += [*_argument("q[0]", s), _evaluation(s, node, "q[0]")]
    interpolate += ["for i in range(m):", *(f"    q[{r}, i] = h * power{r}(k, i)" for r in range(powers))]
    errors = [f"    q[{e}, i] = (h * error{e}(k, i) / scale) ** 2" for e in range(len(table.errors))]
    stages = "rhs, t, h, lower, upper, y, p, k"
    return Step(
        function_of(f"{stages}, z", attempt, scope),
        function_of(
            "h, y, z, k, rtol, absolute, q",
            ["for i in range(len(absolute)):", "    scale = absolute[i] + rtol * max(abs(y[i]), abs(z[i]))", *errors],
            scope,
        ),
        function_of(f"{stages}, q", interpolate, scope),
        function_of("first, last, t, h, times, y, q, out", _write(powers), {}),
        function_of("h, y, k, z", ["m = len(y)", *_argument("z", last - 1)], scope),
    )


def sparse(values: Given) -> Row:
    """A row without its zeros."""
    return {int(s): float(values[s]) for s in np.flatnonzero(values)}


@njit(cache=True, nogil=True, error_model="numpy")
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


def _argument(target: str, stage: int) -> list[str]:
    place = f"{target}[i]" if "[" not in target else f"{target[:-1]}, i]"
    return ["for i in range(m):", f"    {place} = y[i] + h * stage{stage}(k, i)"]


def _evaluation(stage: int, node: float, argument: str) -> str:
    return f"call(rhs, min(max(t + {node!r} * h, lower), upper), {argument}, p, k, {stage})"


def _write(powers: int) -> list[str]:
    def polynomial(constant: str, *coefficients: str) -> str:
        nested = coefficients[-1]
        for each in coefficients[-2::-1]:
            nested = f"({each} + x * {nested})"
        return f"{constant} + x * {nested}"

    c, e = ([f"{letter}{r}" for r in range(powers + 1)] for letter in "ce")
    return [
        "m = len(y)",
        "per_length = 1 / h",
        "if m < 4:",
        # few components: two at a time, with their coefficients in registers
        "    for i in range(0, m, 2):",
        "        other = min(i + 1, m - 1)",
        f"        {', '.join(c)} = y[i], {', '.join(f'q[{r}, i]' for r in range(powers))}",
        f"        {', '.join(e)} = y[other], {', '.join(f'q[{r}, other]' for r in range(powers))}",
        "        for j in range(first, last):",
        "            x = (times[j] - t) * per_length",
        f"            out[j, i] = {polynomial(*c)}",
        f"            out[j, other] = {polynomial(*e)}",
        "else:",
        "    for j in range(first, last):",
        "        x = (times[j] - t) * per_length",
        "        for i in range(m):",
        f"            out[j, i] = {polynomial('y[i]', *(f'q[{r}, i]' for r in range(powers)))}",
    ]
