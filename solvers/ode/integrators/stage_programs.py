"""Sequences of weighted sums of stages and calls of the right-hand side, which LLVM gets as they are.

Numba would take longer over these loops than over all that is around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm

_DOUBLE, _SIZE = ir.DoubleType(), ir.IntType(64)
_POINTER = _DOUBLE.as_pointer()
#: An array and its row; of an array with one axis row 0.
Place = tuple[Literal["y", "z", "k", "q"], int]


class Sum(NamedTuple):
    """``target[i] = base[i] + factor * sum_j weights[j] * k[j, i]`` for all i, in the order of the weights.

    The base is left out where there is none; the factor is h, 1 / h or 1.
    """

    target: Place
    base: Place | None
    factor: Literal["h", "1 / h", "1"]
    weights: Mapping[int, float]


class Call(NamedTuple):
    """The right-hand side at t + node h, within its bounds, and at ``states``, to row ``stage`` of k."""

    node: float
    states: Place
    stage: int


def program(operations: Sequence[Sum | Call]) -> Jitted:
    """Compiled ``run(rhs, t, h, lower, upper, y, p, k, z, q)``; all arrays C-contiguous, with rows as long as y."""

    def _run(
        typingctx: object, rhs: Llvm, t: Llvm, h: Llvm, lower: Llvm, upper: Llvm, y: Llvm, p: Llvm, k: Llvm,
        z: Llvm, q: Llvm,
    ) -> Llvm:  # pragma: no cover  # fmt: skip
        def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[5:], values[5:], strict=True)
            ]
            length = builder.extract_value(arrays[0].shape, 0)
            function = _function(builder.module, operations)
            builder.call(function, [*values[:5], *(array.data for array in arrays), length])
            return context.get_dummy_value()

        double = types.float64
        return types.void(types.int64, double, double, double, double, y, p, k, z, q), codegen

    return intrinsic(_run)


def _function(module: Llvm, operations: Sequence[Sum | Call]) -> Llvm:
    """LLVM's function ``f(rhs, t, h, lower, upper, y, p, k, z, q, length)``."""
    kinds = [_SIZE, *[_DOUBLE] * 4, *[_POINTER] * 5, _SIZE]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), module.get_unique_name("stages"))
    function.linkage = "internal"
    rhs, t, h, lower, upper, y, p, k, z, q, length = function.args
    for array in (y, p, k, z, q):
        array.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    arrays = {"y": y, "z": z, "k": k, "q": q}

    def at(place: Place) -> Llvm:
        return builder.gep(arrays[place[0]], [builder.mul(length, _SIZE(place[1]))])

    for operation in operations:
        if isinstance(operation, Call):
            time = builder.fadd(t, builder.fmul(_DOUBLE(operation.node), h))
            time = builder.select(builder.fcmp_ordered("<", time, lower), lower, time)
            time = builder.select(builder.fcmp_ordered(">", time, upper), upper, time)
            kind = ir.FunctionType(ir.VoidType(), [_DOUBLE, _POINTER, _POINTER, _POINTER]).as_pointer()
            arguments = [time, at(operation.states), p, at(("k", operation.stage))]
            builder.call(builder.inttoptr(rhs, kind), arguments)
            continue
        factor = (
            {"h": h, "1": None}.get(operation.factor) if operation.factor != "1 / h" else builder.fdiv(_DOUBLE(1.0), h)
        )
        base = None if operation.base is None else at(operation.base)
        rows = {row: at(("k", row)) for row in operation.weights}
        _loop(builder, function, length, at(operation.target), base, factor, rows, operation.weights)
    builder.ret_void()
    return function


def _loop(
    builder: Llvm,
    function: Llvm,
    length: Llvm,
    target: Llvm,
    base: Llvm | None,
    factor: Llvm | None,
    rows: Mapping[int, Llvm],
    weights: Mapping[int, float],
) -> None:
    before, body, end = builder.block, function.append_basic_block("sum"), function.append_basic_block("after")
    builder.cbranch(builder.icmp_signed(">", length, _SIZE(0)), body, end)
    builder.position_at_end(body)
    i = builder.phi(_SIZE)
    i.add_incoming(_SIZE(0), before)
    value = None
    for row, weight in weights.items():
        term = builder.fmul(_DOUBLE(weight), builder.load(builder.gep(rows[row], [i])))
        value = term if value is None else builder.fadd(value, term)
    value = _DOUBLE(0.0) if value is None else value
    value = value if factor is None else builder.fmul(factor, value)
    value = value if base is None else builder.fadd(builder.load(builder.gep(base, [i])), value)
    builder.store(value, builder.gep(target, [i]))
    following = builder.add(i, _SIZE(1))
    i.add_incoming(following, body)
    builder.cbranch(builder.icmp_signed("<", following, length), body, end)
    builder.position_at_end(end)
