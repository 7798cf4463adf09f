"""Uses of the interpolant of a step: values at output times, times of events, where a trajectory stops.

A step's interpolant is y + sum_r q_r x^(r + 1) with x in [0, 1] and coefficients q (powers, m).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm
from invsamp.solvers.ode.integrators.component_loops import DOUBLE, POINTER, SIZE, Lanes, over_components
from invsamp.solvers.ode.integrators.event_handling import (
    Events,
    crosses,
    crossing,
    inset,
    look_ahead,
    look_around,
    turning,
)
from invsamp.solvers.ode.integrators.function_pointers import INNER, call

Array = npt.NDArray[np.float64]

#: How far on either side of an event, in parts of a step, the right-hand side is asked: it may switch there.
_ASIDE = 1e-12
#: How often an interval is halved in which an event's function may pass zero and turn back.
_HALVINGS = 40
# rows of the work array
_Y, _NEXT = 0, 1


def writer(powers: int) -> Jitted:
    """Compiled ``write(first, last, t, h, times, y, q, out)``: the interpolant at output times from first to last."""

    def _write(
        typingctx: object, first: Llvm, last: Llvm, t: Llvm, h: Llvm, times: Llvm, y: Llvm, q: Llvm, out: Llvm
    ) -> Llvm:  # pragma: no cover
        def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[4:], values[4:], strict=True)
            ]
            m = builder.extract_value(arrays[1].shape, 0)
            function = _function(builder.module, powers)
            builder.call(function, [*values[:4], *(array.data for array in arrays), m])
            return context.get_dummy_value()

        double, size = types.float64, types.intp
        return types.void(size, size, double, double, times, y, q, out), codegen

    return intrinsic(_write)


@njit(**INNER)
def is_finite(values: Array) -> bool:
    """Whether all are."""
    finite = True
    for i in range(len(values)):
        finite = finite and math.isfinite(values[i])
    return finite


@njit(**INNER)
def value(stop: int, t: float, y: Array, p: Array, scratch: Array) -> float:
    """That of a stopping function, 0 where there is none; ``scratch`` (1, 1) is written to."""
    if stop == 0:
        return 0.0
    call(stop, t, y, p, scratch, 0)
    return scratch[0, 0]


@njit(**INNER)
def locate(
    powers: int, stop: int, n: int, t: float, h: float, before: float, p: Array, work: Array, q: Array, scratch: Array
) -> float:
    """Time within the step at which the stopping function changes its sign on the interpolant, by bisection."""
    y, z = work[_Y], work[_NEXT]
    low, high = 0.0, 1.0
    for _ in range(54):
        x = (low + high) / 2
        inside(powers, n, x, y, q, z)
        if crosses(before, value(stop, t + x * h, z, p, scratch)):
            high = x
        else:
            low = x
    return t + high * h


@njit(**INNER)
def first_event(
    powers: int,
    n: int,
    events: Events,
    t: float,
    h: float,
    p: Array,
    sides: Array,
    speeds: Array,
    work: Array,
    q: Array,
) -> tuple[int, float, float]:
    """The first event within the step, and the parts of the step just before and just after it; -1 if there is none.

    By bisection of the first part of the step at whose end a function has another sign than before: parts end where
    one turns back that has passed zero, and with the step.
    """
    y, z, kept, here = work[_Y], work[_NEXT], work[_NEXT].copy(), np.empty(len(events.roots))
    turns = _turns(powers, n, events, t, h, p, sides, speeds, work, q)
    low, high, fired = 0.0, 1.0, -1
    while fired < 0:
        first = 0
        for e in range(1, len(turns)):
            if turns[e] < turns[first]:
                first = e
        high = min(turns[first], 1.0)
        turns[first] = math.inf
        if high < 1.0:
            inside(powers, n, high, y, q, z)
            look_around(events, t + high * h, z, p, here)
        else:
            for e in range(len(here)):
                here[e] = sides[1, e]
        fired = crossing(events, sides[0], here)
        if fired < 0:
            for e in range(len(here)):
                sides[0, e] = here[e]
            low = high
            if high >= 1.0:
                break
    for _ in range(54 if fired >= 0 else 0):
        x = (low + high) / 2
        inside(powers, n, x, y, q, z)
        look_around(events, t + x * h, z, p, here)
        crossed = crossing(events, sides[0], here)
        if crossed >= 0:
            high, fired = x, crossed
        else:
            low = x
    # steps may have become so short before a jump that such a part of one is no other state
    aside, before = max(_ASIDE, inset(t) / abs(h)), 0.0
    while fired >= 0 and aside < 1 and (before == 0 or here[fired] == 0):
        inside(powers, n, max(low - aside, 0.0), y, q, z)
        look_around(events, t + low * h, z, p, here)
        before = here[fired]
        inside(powers, n, min(high + aside, 1.0), y, q, z)
        look_around(events, t + high * h, z, p, here)
        low, high, aside = max(low - aside, 0.0), min(high + aside, 1.0), 8 * aside
    for i in range(len(z)):
        z[i] = kept[i]
    return fired, low, high


@njit(**INNER)
def _turns(
    powers: int,
    n: int,
    events: Events,
    t: float,
    h: float,
    p: Array,
    sides: Array,
    speeds: Array,
    work: Array,
    q: Array,
) -> Array:
    """The part of the step at which each function turns back after it has passed zero, infinite where none does.

    The extremum of the interpolant is where its speed changes sign, between those of a cubic with the step's ends.
    """
    turns, here, y, z = np.full(len(events.roots), math.inf), np.empty((2, len(events.roots))), work[_Y], work[_NEXT]
    slope = np.empty(n)
    for e in range(len(turns)):
        low, high = turning(h, sides[0, e], sides[1, e], speeds[0, e], speeds[1, e])
        for _ in range(_HALVINGS if low < high else 0):
            x = (low + high) / 2
            inside(powers, n, x, y, q, z)
            _slope_inside(powers, n, x, h, q, slope)
            look_around(events, t + x * h, z, p, here[0])
            if crosses(sides[0, e], here[0, e]):
                turns[e] = x
                break
            look_ahead(events, n, t + x * h, z, slope, p, here[1])
            if here[1, e] * sides[0, e] > 0:
                high = x
            else:
                low = x
    return turns


@njit(**INNER)
def inside(powers: int, count: int, x: float, y: Array, q: Array, z: Array) -> None:
    """The first components at a part x of the step, on the interpolant, to z."""
    for i in range(count):
        value = q[powers - 1, i]
        for r in range(powers - 2, -1, -1):
            value = q[r, i] + x * value
        z[i] = y[i] + x * value


@njit(**INNER)
def _slope_inside(powers: int, count: int, x: float, h: float, q: Array, slope: Array) -> None:
    """Derivatives by time of the first components at a part x of the step, on the interpolant."""
    for i in range(count):
        value = powers * q[powers - 1, i]
        for r in range(powers - 2, -1, -1):
            value = (r + 1) * q[r, i] + x * value
        slope[i] = value / h


def _function(module: Llvm, powers: int) -> Llvm:
    """LLVM's function ``f(first, last, t, h, times, y, q, out, m)``."""
    kinds = [SIZE, SIZE, DOUBLE, DOUBLE, *[POINTER] * 4, SIZE]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), module.get_unique_name("write"))
    function.linkage = "internal"
    first, last, t, h, times, y, q, out, m = function.args
    out.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    per_length = builder.fdiv(DOUBLE(1.0), h)

    def body(lanes: Lanes) -> None:
        """One output time after the other, with the coefficients in registers."""
        coefficients = [lanes.load(builder.gep(q, [builder.mul(m, SIZE(r))])) for r in range(powers)]
        constant = lanes.load(y)
        before, head = builder.block, function.append_basic_block("times")
        each, done = function.append_basic_block("time"), function.append_basic_block("written")
        builder.branch(head)
        builder.position_at_end(head)
        j = builder.phi(SIZE)
        j.add_incoming(first, before)
        builder.cbranch(builder.icmp_signed("<", j, last), each, done)
        builder.position_at_end(each)
        x = builder.fmul(builder.fsub(builder.load(builder.gep(times, [j])), t), per_length)
        by, value = lanes.spread(x), coefficients[-1]
        for coefficient in coefficients[-2::-1]:
            value = builder.fadd(coefficient, builder.fmul(by, value))
        lanes.store(builder.fadd(constant, builder.fmul(by, value)), builder.gep(out, [builder.mul(j, m)]))
        j.add_incoming(builder.add(j, SIZE(1)), each)
        builder.branch(head)
        builder.position_at_end(done)

    over_components(builder, m, body)
    builder.ret_void()
    return function
