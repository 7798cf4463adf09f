r"""Taylor's method: steps along the Taylor polynomial of the solution, of an order that follows from the tolerance.

Order and step are those of Jorba and Zou (2005), "A software package for the numerical integration of ODEs by means of
high-order Taylor methods", Experimental Mathematics 14. With the relative tolerance r and coefficients :math:`x_{[k]}`
of the powers of time, the order is :math:`p = \lceil 1 - \ln(r) / 2 \rceil` and the step

.. math:: h = e^{-2 - 0.7 / (p - 1)} \min_{k = p - 1, p} (r\, \|x_{[k]}\|)^{-1 / k}, \qquad
          \|x_{[k]}\| = \max_i |x_{i[k]}| / (a_i + r |x_i|)

Their norm has one scale for all components, and a relative or an absolute tolerance; here each component has its own.
Two checks are added. A step is accepted if the polynomial solves the equation at its end: the defect there times
h / (p + 1) is the next term of the series. And a trajectory is stiff where :math:`h p |x_{[p]}| / |x_{[p-1]}|`, which
then tends to h times the largest eigenvalue, is at the edge of stability of the polynomial.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm
from invsamp.solvers.ode.integrators.component_loops import DOUBLE, POINTER, SIZE, Lanes, over_components
from invsamp.solvers.ode.integrators.function_pointers import BORROWING, call
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.trajectories import Control

Array = npt.NDArray[np.float64]

#: Highest order: that of the least relative tolerance, 1e-13.
MOST_ORDER = 16
#: In tolerances, the error of sensitivities at which a step of the states is divided for them; and into how many.
_MOST_ERROR, _MOST_INNER = 0.5, 1000


def order_of(rtol: float) -> int:
    """Order for a relative tolerance: Jorba and Zou (2005), section on order and step size."""
    return min(max(math.ceil(1.0 - 0.5 * math.log(rtol)), 3), MOST_ORDER)


def _evaluation(slopes: bool) -> Jitted:
    """Compiled ``evaluate(order, x, y, q, out, count)``: y + sum_r q_r x^(r + 1) of some components, or its slopes."""

    def typed(
        typingctx: object, order: Llvm, x: Llvm, y: Llvm, q: Llvm, out: Llvm, count: Llvm
    ) -> Llvm:  # pragma: no cover
        def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
            order, x, *given, count = values
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[2:5], given, strict=True)
            ]
            width = builder.extract_value(arrays[1].shape, 1)
            function = _evaluate(builder.module, slopes)
            builder.call(function, [order, x, *(array.data for array in arrays), count, width])
            return context.get_dummy_value()

        return types.void(types.intp, types.float64, y, q, out, types.intp), codegen

    return intrinsic(typed)


def _evaluate(module: Llvm, slopes: bool) -> Llvm:
    """LLVM's function ``f(order, x, y, q, out, count, width)``."""
    kinds = [SIZE, DOUBLE, *[POINTER] * 3, SIZE, SIZE]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), module.get_unique_name("polynomial"))
    function.linkage = "internal"
    order, x, y, q, out, count, width = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    highest = builder.sub(order, SIZE(1))

    def body(lanes: Lanes) -> None:
        name = "llvm.fma.f64" if lanes.width == 1 else f"llvm.fma.v{lanes.width}f64"
        fused = module.globals.get(name) or ir.Function(module, ir.FunctionType(lanes.kind, [lanes.kind] * 3), name)
        by = lanes.spread(x)

        def coefficient(row: Llvm) -> Llvm:
            value = lanes.load(builder.gep(q, [builder.mul(row, width)]))
            if not slopes:
                return value
            return builder.fmul(lanes.spread(builder.sitofp(builder.add(row, SIZE(1)), DOUBLE)), value)

        start, next_row = coefficient(highest), builder.sub(highest, SIZE(1))
        entry, loop, done = builder.block, function.append_basic_block("loop"), function.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        row, total = builder.phi(SIZE), builder.phi(lanes.kind)
        row.add_incoming(next_row, entry)
        total.add_incoming(start, entry)
        following = builder.call(fused, [by, total, coefficient(row)])
        lower = builder.sub(row, SIZE(1))
        row.add_incoming(lower, loop)
        total.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed(">=", lower, SIZE(0)), loop, done)
        builder.position_at_end(done)
        lanes.store(following if slopes else builder.call(fused, [by, following, lanes.load(y)]), out)

    over_components(builder, count, body)
    builder.ret_void()
    return function


_values, _slopes = _evaluation(False), _evaluation(True)


class Workspace(NamedTuple):
    """Arrays that a trajectory of n states and m components needs."""

    slopes: Array  # (n,), at a step's end by its polynomial
    edge: Array  # (2,): how close a step is to the edge of stability, per length, and whether sensitivities divided it
    inner: Array  # (powers + 1, m), series within a step
    here: Array  # (m,), where it begins
    there: Array  # (m,), where it ends


def _workspace(control: Control, m: int) -> Workspace:
    width = m if control.states_lead else 0
    inner, ends = np.zeros((MOST_ORDER + 1, width)), np.zeros((2, width))
    return Workspace(np.zeros(control.n_states), np.zeros(2), inner, ends[0], ends[1])


@njit(**BORROWING, inline="always")
def _begin(
    rhs: int, control: Control, absolute: Array, t: float, lower: float, upper: float, y: Array, p: Array, k: Array,
    q: Array, space: Workspace,
) -> float:  # fmt: skip
    """Take the series from y at t; the longest step."""
    order, n, rtol = control.order, control.n_states, control.rtol
    q[0, 0] = q[-1, 0] = order
    call(control.series, min(max(t, lower), upper), y, p, q, 0)
    before = last = 0.0
    for first in range(0, n if control.states_lead else len(y), n):
        one = two = 0.0
        for i in range(first, first + n):
            inverse = 1.0 / (absolute[i] + rtol * abs(y[i]))
            part, other = q[order - 2, i] * inverse, q[order - 1, i] * inverse
            one += part * part
            two += other * other
        weight = control.weight * control.weight if first > 0 else 1.0
        before, last = max(before, one * weight), max(last, two * weight)
    before, last = math.sqrt(before / n), math.sqrt(last / n)
    if not before + last < math.inf:
        return 0.0
    # the interval of stability of the exponential's Taylor polynomial is about 1.3 + .37 p
    space.edge[0] = order * last / (before * 0.7 * (1.3 + 0.37 * order)) if before > 0.0 else 0.0
    rate = max(math.log(rtol * before) / (order - 1), math.log(rtol * last) / order)
    return math.exp(-2.0 - 0.7 / (order - 1) - rate)


@njit(**BORROWING, inline="always")
def _attempt(
    rhs: int, control: Control, absolute: Array, t: float, h: float, lower: float, upper: float, y: Array, p: Array,
    k: Array, z: Array, q: Array, space: Workspace,
) -> float:  # fmt: skip
    order, n, rtol, slopes = control.order, control.n_states, control.rtol, space.slopes
    _values(order, h, y, q, z, len(y))
    call(rhs, min(max(t + h, lower), upper), z, p, k, 1)
    _slopes(order, h, y, q, slopes, n)
    total = 0.0
    for i in range(n):
        part = (slopes[i] - k[1, i]) / (absolute[i] + rtol * max(abs(y[i]), abs(z[i])))
        total += part * part
    error = math.sqrt(total / n) * h / (order + 1)
    if not error < 1:
        return error
    space.edge[1] = 0.0
    if control.states_lead and len(y) > n and not _error_of_slopes(control, absolute, y, z, q, h) < _MOST_ERROR:
        space.edge[1] = 1.0
        _walk(control, absolute, t, h, 1.0, lower, upper, y, p, q, space, 0, 0, y, space.inner)
        for i in range(n, len(y)):
            z[i] = space.there[i]
    return 0.0  # the next step's length is that of its own series


@njit(**BORROWING, inline="always")
def _error_of_slopes(control: Control, absolute: Array, y: Array, z: Array, q: Array, x: float) -> float:
    """Error of sensitivities at x, by the next term of their series, in tolerances: the largest of the columns."""
    order, n, rtol, worst = control.order, control.n_states, control.rtol, 0.0
    for first in range(n, len(y), n):
        before = last = 0.0
        for i in range(first, first + n):
            inverse = 1.0 / (absolute[i] + rtol * max(abs(y[i]), abs(z[i])))
            part, other = q[order - 2, i] * inverse, q[order - 1, i] * inverse
            before += part * part
            last += other * other
        # the next term is to the last as that to the one before it, but not more
        worst = max(worst, last * min(1.0, x * x * last / before) if before > 0.0 else last)
        if not last < math.inf:
            return last
    return control.weight * math.sqrt(worst / n) * x**order


@njit(**BORROWING)
def _walk(
    control: Control, absolute: Array, t: float, h: float, unit: float, lower: float, upper: float, y: Array, p: Array,
    q: Array, space: Workspace, first: int, last: int, times: Array, out: Array,
) -> None:  # fmt: skip
    """Sensitivities along a step of the states by shorter ones: to ``space.there`` at its end, to out on the way.

    The series q of the whole step has powers of (time / unit). Where too many steps are needed the end is no number.
    """
    order, n, m, inner, here, z = control.order, control.n_states, len(y), space.inner, space.here, space.there
    begin, done = 0.0, first
    for i in range(m):
        here[i] = y[i]
    for r in range(order):
        scale = unit ** -(r + 1)
        for i in range(m):
            inner[r, i] = q[r, i] * scale
    for _ in range(_MOST_INNER):
        length = h - begin
        while True:
            _values(order, length, here, inner, z, m)
            error = _error_of_slopes(control, absolute, here, z, inner, length)
            if error < _MOST_ERROR:
                break
            if not error < math.inf or length < 1e-6 * h:
                z[n] = math.nan
                return
            length *= max(0.2, 0.9 * (_MOST_ERROR / error) ** (1.0 / (order + 1)))
        end = h if length == h - begin else begin + length
        while done < last and (times[done] - t <= end or end == h):
            _values(order, times[done] - t - begin, here, inner, out[done], m)
            _values(order, (times[done] - t) / unit, y, q, out[done], n)
            done += 1
        if end == h:
            return
        for i in range(n, m):
            here[i] = z[i]
        _values(order, end / unit, y, q, here, n)
        begin = end
        inner[0, 0] = order
        call(control.series, min(max(t + begin, lower), upper), here, p, inner, 0)
    z[n] = math.nan


@njit(**BORROWING, inline="always")
def _interpolate(
    rhs: int, control: Control, t: float, h: float, lower: float, upper: float, y: Array, p: Array, k: Array, z: Array,
    q: Array, space: Workspace,
) -> None:  # fmt: skip
    """From powers of time to those of a part of the step."""
    factor = h
    for r in range(int(q[-1, 0])):
        for i in range(len(y)):
            q[r, i] *= factor
        factor *= h


@njit(**BORROWING, inline="always")
def _edge(control: Control, h: float, y: Array, z: Array, k: Array, q: Array, space: Workspace) -> float:
    return h * space.edge[0]


@njit(**BORROWING, inline="always")
def _write(
    rhs: int, control: Control, absolute: Array, first: int, last: int, t: float, h: float, lower: float, upper: float,
    times: Array, y: Array, p: Array, k: Array, z: Array, q: Array, space: Workspace, out: Array, known: bool,
) -> None:  # fmt: skip
    if not known:
        _interpolate(rhs, control, t, h, lower, upper, y, p, k, z, q, space)
    if space.edge[1] > 0.0:
        _walk(control, absolute, t, h, h, lower, upper, y, p, q, space, first, last, times, out)
        return
    for j in range(first, last):
        _values(control.order, (times[j] - t) / h, y, q, out[j], len(y))


#: Taylor's method.
TAYLOR = Stepper(
    name="Taylor",
    order=5,  # of the first step alone, which is short
    exponent=-1 / 5,
    stages=2,
    last=1,
    rows=2,
    powers=MOST_ORDER,
    edge=_edge,
    workspace=_workspace,
    begin=_begin,
    attempt=_attempt,
    interpolate=_interpolate,
    extra=0,
    finish=None,
    write=_write,
)
