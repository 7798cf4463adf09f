"""Parts of compiled integrators: calls by an address, sums with constant weights, and lines that call these.

A right-hand side comes in as the address of a compiled ``void f(double t, double *y, double *p, double *out)``, made by
`invsamp.solvers.ode.codegen.compile_cache`: a new model compiles its own few lines and nothing else.
"""

from __future__ import annotations

import types as python_types
from collections.abc import Mapping, Sequence

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from invsamp.solvers.foreign import Called, Jitted, Llvm

#: Options of compiled functions that are called by compiled ones alone: what would let Python call them costs time too.
INNER: dict[str, bool | str] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": True,  # not left to who calls them
}
#: The same for those that make no arrays: nothing counts references to the arrays that they are given, which takes
#: longer than a step of a small system.
BORROWING: dict[str, bool | str] = {**INNER, "_nrt": False}


#: Of functions made here, which numba cannot store by their names; and of those that stand where they are called: many
#: arrays as arguments take longer than a stage.
_GENERATED: dict[str, bool | str] = {**BORROWING, "cache": False}
INLINED: dict[str, bool | str] = {**_GENERATED, "inline": "always"}


def _call(
    typingctx: object, address: Llvm, t: Llvm, y: Llvm, p: Llvm, out: Llvm, row: Llvm
) -> Llvm:  # pragma: no cover
    """Call the function at ``address``: ``f(t, &y[0], &p[0], &out[row, 0])``; all arrays C-contiguous."""

    def codegen(context: Llvm, builder: Llvm, signature: Llvm, values: Llvm) -> Llvm:
        address, t, y, p, out, row = values
        double = ir.DoubleType()
        pointer = double.as_pointer()
        function = ir.FunctionType(ir.VoidType(), [double, pointer, pointer, pointer])
        y, p, out = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[2:5], (y, p, out), strict=True)
        )
        target = builder.gep(out.data, [builder.mul(row, builder.extract_value(out.shape, 1))])
        builder.call(builder.inttoptr(address, function.as_pointer()), [t, y.data, p.data, target])
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, y, p, out, types.intp), codegen


call: Jitted = intrinsic(_call)


def bound(
    template: Called,
    scope: Mapping[str, object],
    options: Mapping[str, bool | str] | None = None,
    name: str | None = None,
) -> Jitted:
    """A function, compiled with other values of some of its globals, which are constants to it.

    With the option ``cache`` the ``name`` has to identify them: numba finds stored code by it.
    """
    function = python_types.FunctionType(
        template.__code__, {**template.__globals__, **scope}, name or template.__name__
    )
    function.__qualname__, function.__module__ = function.__name__, template.__module__
    return njit(**(_GENERATED if options is None else options))(function)


def function_of(arguments: str, lines: Sequence[str], scope: Mapping[str, Jitted]) -> Jitted:
    """Function with these lines of source, which find in ``scope`` what they call; compiled on first use."""
    names, body = dict(scope), "\n    ".join(lines)
    exec(f"def generated({arguments}):\n    {body}\n", names)
    return njit(**_GENERATED)(names["generated"])
