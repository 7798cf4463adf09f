r"""Taylor's method: steps along the Taylor polynomial of the solution, of an order that the tolerance chooses.

Order and step are those of Jorba and Zou (2005), "A software package for the numerical integration of ODEs by means of
high-order Taylor methods", Experimental Mathematics 14: with the relative tolerance r and coefficients
:math:`x_{[k]}` of the powers of time, the order is :math:`p = \lceil 1 - \ln(r) / 2 \rceil` and the step

.. math:: h = e^{-2 - 0.7 / (p - 1)} \min_{k = p - 1, p} (r\, \|x_{[k]}\|)^{-1 / k}, \qquad
          \|x_{[k]}\| = \max_i |x_{i[k]}| / (a_i + r |x_i|)

Their norm has one scale for all components, and a relative or an absolute tolerance; here each component has its own.
Two checks are added. A step is accepted if the polynomial solves the equation at its end: the defect there times
h / (p + 1) is the next term of the series. And a trajectory is stiff where :math:`h p |x_{[p]}| / |x_{[p-1]}|`, which
then tends to h times the largest eigenvalue, is at the edge of stability of the polynomial.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm
from invsamp.solvers.ode.integrators.function_pointers import INNER, call
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.trajectories import Control

Array = npt.NDArray[np.float64]

#: Highest order: that of the least relative tolerance, 1e-13.
MOST_ORDER = 16
_DOUBLE, _SIZE = ir.DoubleType(), ir.IntType(64)
_LANES = 4


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
    """LLVM's function: some components at once, then the rest one by one, with the same bits."""
    pointer, vector = _DOUBLE.as_pointer(), ir.VectorType(_DOUBLE, _LANES)
    kinds = [_SIZE, _DOUBLE, *[pointer] * 3, _SIZE, _SIZE]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), module.get_unique_name("polynomial"))
    function.linkage = "internal"
    order, x, y, q, out, count, width = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    first = _SIZE(0)
    for kind, lanes in ((vector, _LANES), (_DOUBLE, 1)):
        before, head = builder.block, function.append_basic_block("head")
        body, after = function.append_basic_block("body"), function.append_basic_block("after")
        builder.branch(head)
        builder.position_at_end(head)
        i = builder.phi(_SIZE)
        i.add_incoming(first, before)
        builder.cbranch(builder.icmp_signed("<=", builder.add(i, _SIZE(lanes)), count), body, after)
        builder.position_at_end(body)

        def load(base: Llvm, place: Llvm, kind: Llvm = kind) -> Llvm:
            at = builder.bitcast(builder.gep(base, [place]), kind.as_pointer())
            found = builder.load(at)
            found.align = 8
            return found

        def spread(value: Llvm, kind: Llvm = kind, lanes: int = lanes) -> Llvm:
            if lanes == 1:
                return value
            undefined = ir.Constant(kind, ir.Undefined)
            one = builder.insert_element(undefined, value, ir.IntType(32)(0))
            return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))

        name = "llvm.fmuladd.f64" if lanes == 1 else f"llvm.fmuladd.v{lanes}f64"
        fused = module.globals.get(name) or ir.Function(module, ir.FunctionType(kind, [kind] * 3), name)
        by = spread(x)

        def weighed(value: Llvm, row: Llvm, spread: Llvm = spread) -> Llvm:
            if not slopes:
                return value
            return builder.fmul(spread(builder.sitofp(builder.add(row, _SIZE(1)), _DOUBLE)), value)

        highest = builder.sub(order, _SIZE(1))
        start = weighed(load(q, builder.add(builder.mul(highest, width), i)), highest)
        next_row = builder.sub(highest, _SIZE(1))
        entry, loop, done = builder.block, function.append_basic_block("loop"), function.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        row, total = builder.phi(_SIZE), builder.phi(kind)
        row.add_incoming(next_row, entry)
        total.add_incoming(start, entry)
        coefficient = weighed(load(q, builder.add(builder.mul(row, width), i)), row)
        following = builder.call(fused, [by, total, coefficient])
        lower = builder.sub(row, _SIZE(1))
        row.add_incoming(lower, loop)
        total.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed(">=", lower, _SIZE(0)), loop, done)
        builder.position_at_end(done)
        value = following if slopes else builder.call(fused, [by, following, load(y, i)])
        stored = builder.store(value, builder.bitcast(builder.gep(out, [i]), kind.as_pointer()))
        stored.align = 8
        i.add_incoming(builder.add(i, _SIZE(lanes)), done)
        builder.branch(head)
        builder.position_at_end(after)
        first = i
    builder.ret_void()
    return function


_values, _slopes = _evaluation(False), _evaluation(True)


@njit(**INNER, inline="always")
def _workspace(control: Control, m: int) -> Array:
    """Slopes at a step's end (n,), and how close the step is to the edge of stability."""
    return np.zeros(control.n_states + 1)


@njit(**INNER, inline="always")
def _begin(
    rhs: int, control: Control, absolute: Array, t: float, lower: float, upper: float, y: Array, p: Array, k: Array,
    q: Array, space: Array,
) -> float:  # fmt: skip
    """Take the series from y at t; the longest step."""
    order, n, rtol = control.order, control.n_states, control.rtol
    q[0, 0] = q[-1, 0] = order
    call(control.series, min(max(t, lower), upper), y, p, q, 0)
    before = last = 0.0
    for i in range(n if control.states_lead else len(y)):
        inverse = (1.0 if i < n else control.weight) / (absolute[i] + rtol * abs(y[i]))
        before = max(before, abs(q[order - 2, i]) * inverse)
        last = max(last, abs(q[order - 1, i]) * inverse)
    if not before + last < math.inf:
        return 0.0
    space[n] = order * last / before if before > 0.0 else 0.0
    rate = max(math.log(rtol * before) / (order - 1), math.log(rtol * last) / order)
    return math.exp(-2.0 - 0.7 / (order - 1) - rate)


@njit(**INNER, inline="always")
def _attempt(
    rhs: int, control: Control, absolute: Array, t: float, h: float, lower: float, upper: float, y: Array, p: Array,
    k: Array, z: Array, q: Array, space: Array,
) -> float:  # fmt: skip
    order, n, rtol, m = control.order, control.n_states, control.rtol, len(y)
    _values(order, h, y, q, z, m)
    call(rhs, min(max(t + h, lower), upper), z, p, k, 1)
    _slopes(order, h, y, q, space, n)
    error = 0.0
    for i in range(n):
        part = abs(space[i] - k[1, i]) / (absolute[i] + rtol * max(abs(y[i]), abs(z[i])))
        if not part <= error:  # one that is no number counts
            error = part
    error *= h / (order + 1)
    if control.states_lead and m > n and error < 1:
        power = control.weight * h**order
        for i in range(n, m):
            if not abs(q[order - 1, i]) * power <= absolute[i] + rtol * max(abs(y[i]), abs(z[i])):
                z[n] = math.nan  # sensitivities need steps of their own
    return 0.0 if error < 1 else error  # the next step's length is that of its own series


@njit(**INNER, inline="always")
def _interpolate(
    rhs: int, t: float, h: float, lower: float, upper: float, y: Array, p: Array, k: Array, z: Array, q: Array
) -> None:
    factor = h
    for r in range(int(q[-1, 0])):
        for i in range(len(y)):
            q[r, i] *= factor
        factor *= h


@njit(**INNER, inline="always")
def _finish(n: int, h: float, k: Array, q: Array) -> None:
    return


@njit(**INNER, inline="always")
def _edge(control: Control, h: float, y: Array, z: Array, k: Array, q: Array, space: Array) -> float:
    # the interval of stability of the exponential's Taylor polynomial is about 1.3 + .37 p
    return h * space[control.n_states] / (0.7 * (1.3 + 0.37 * control.order))


@njit(**INNER, inline="always")
def _write(
    order: int, first: int, last: int, t: float, h: float, times: Array, y: Array, q: Array, out: Array
) -> None:
    for j in range(first, last):
        _values(order, (times[j] - t) / h, y, q, out[j], len(y))


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
    finish=_finish,
    write=_write,
)
