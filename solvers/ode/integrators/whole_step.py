"""The interface of a step that is compiled with its right-hand side: `invsamp.solvers.ode.codegen.inlined_stages`."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Jitted, Llvm

#: What is asked for: a step to z with its error in tolerances, and the slope at its end to the last row of k; the
#: interpolant at the output times from ``first`` to ``last`` to rows of out; the other stages to k.
ATTEMPT, WRITE, UNPACK = range(3)
_INTEGERS = ("kind", "first", "last")
_NUMBERS = ("t", "h", "lower", "upper", "rtol", "weight")
_ARRAYS = ("y", "p", "absolute", "k", "z", "kept", "times", "out")
#: Arguments of the function, which returns the error. It leaves its stages in ``kept`` (stages, m).
ARGUMENTS = (*_INTEGERS, *_NUMBERS, *_ARRAYS)
STEP = types.float64(
    *[types.int64] * len(_INTEGERS), *[types.float64] * len(_NUMBERS), *[types.CPointer(types.float64)] * len(_ARRAYS)
)


def _whole_step(
    typingctx: object, address: Llvm, kind: Llvm, first: Llvm, last: Llvm, t: Llvm, h: Llvm, lower: Llvm, upper: Llvm,
    rtol: Llvm, weight: Llvm, y: Llvm, p: Llvm, absolute: Llvm, k: Llvm, z: Llvm, kept: Llvm, times: Llvm, out: Llvm,
) -> Llvm:  # pragma: no cover  # fmt: skip
    def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
        address, *others = values
        scalars = len(_INTEGERS) + len(_NUMBERS)
        arrays = [
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args[1 + scalars :], others[scalars:], strict=True)
        ]
        arguments = [*others[:scalars], *arrays]
        function = ir.FunctionType(ir.DoubleType(), [each.type for each in arguments]).as_pointer()
        return builder.call(builder.inttoptr(address, function), arguments)

    scalars = STEP.args[: -len(_ARRAYS)]
    return types.float64(types.int64, *scalars, y, p, absolute, k, z, kept, times, out), codegen


#: Compiled ``whole_step(address, kind, ...)``: the function at an address, with arrays in place of pointers.
whole_step: Jitted = intrinsic(_whole_step)
