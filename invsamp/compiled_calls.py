"""Compiled functions with their first arguments fixed, called from compiled code by an address and a context.

A function that numba has compiled and stored takes arrays, numbers and named tuples of these. Its fixed arguments are
written to memory once, as numba passes them. A few instructions, which are not stored, read them there and call the
function. So one compiled function serves any number of posteriors, models and integrations.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic

_WORD = ir.IntType(64)
_NUMBER: Any = itertools.count()


class CompiledCall(NamedTuple):
    """A compiled function with fixed arguments.

    Attributes
    ----------
    address : int
        Of ``int64 f(int64 context, ...)``. A result other than 0 is one of the function, or says that it has raised.
    context : int
        Where its fixed arguments are.
    owner : object
        What keeps code and arguments in memory.
    """

    address: int
    context: int
    owner: object


class CompiledRows(NamedTuple):
    """A forward model as compiled functions of one row.

    Attributes
    ----------
    solve : CompiledCall
        ``f(context, double *theta, double *y)``: observations at theta; not 0 where Python is to solve. It keeps their
        Jacobian.
    product : CompiledCall
        ``f(context, double *cotangent, double *out)``: the product of a cotangent with the Jacobian of the last solve.
    """

    solve: CompiledCall
    product: CompiledCall


@cache
def stored(function: Any, *others: ModuleType) -> Any:
    """A function for `fixed`, jitted, whose machine code is stored until its file or one of these modules changes.

    numba looks at the file of the function alone, and would go on with old code of what it calls.
    """
    sources = [Path(str(module.__file__)).read_bytes() for module in others]
    name = f"{function.__name__}_{hashlib.sha256(b''.join(sources)).hexdigest()[:12]}"
    named = FunctionType(function.__code__, function.__globals__, name)
    named.__qualname__, named.__module__ = name, function.__module__
    return njit(cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(named)


def fixed(function: Any, arguments: Sequence[object], *more: Any) -> CompiledCall:
    """A jitted function with these first arguments, and others of the types ``more``: pointers or integers.

    The function returns an integer or nothing. Its arrays have their entries in order, and can be written to.
    """
    kinds = tuple(numba.typeof(value) for value in arguments)
    signature = (*kinds, *more)
    if signature not in function.overloads:
        function.compile(signature)
    compiled = function.overloads[signature]
    code = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    words = [word for kind, value in zip(kinds, arguments, strict=True) for word in _words(kind, value)]
    library, address = _entry(code, compiled.signature.return_type, signature, len(words), len(more))
    context = np.array(words, dtype=np.uint64).view(np.int64)
    return CompiledCall(address, context.ctypes.data, (arguments, context, library, compiled))


def _words(kind: Any, value: Any) -> Iterator[int]:
    """A value as numba passes it: 64 bits each. Arrays are borrowed: nothing counts references to them."""
    if isinstance(kind, types.Array):
        if not value.flags.carray:
            raise ValueError("arrays must have their entries in order, and be writable")
        yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
    elif isinstance(kind, types.BaseTuple):
        for each, part in zip(kind, value, strict=True):
            yield from _words(each, part)
    elif isinstance(kind, types.Float):
        yield struct.unpack("Q", struct.pack("d", value))[0]
    elif isinstance(kind, types.NoneType):
        yield 0
    else:
        yield int(value) % 2**64


@lru_cache(maxsize=256)
@global_compiler_lock
def _entry(code: int, result: Any, signature: tuple[Any, ...], words: int, more: int) -> tuple[object, int]:
    """Function that reads the words and calls the one at the address ``code``, as a library and an address."""
    context = cpu_target.target_context
    called = context.call_conv.get_function_type(result, signature)
    _, _, *given = called.args
    if len(given) != words + more:
        raise TypeError(f"arguments must be {len(given) - more} words, got {words}")
    name = f"invsamp_entry_{next(_NUMBER)}"
    library = context.codegen().create_library(name)
    module = library.create_ir_module(name)
    entry = ir.Function(module, ir.FunctionType(_WORD, [_WORD, *given[words:]]), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    memory, *others = entry.args
    start, loaded = builder.inttoptr(memory, _WORD.as_pointer()), []
    for k, kind in enumerate(given[:words]):
        word = builder.load(builder.gep(start, [_WORD(k)]))
        if isinstance(kind, ir.PointerType):
            loaded.append(builder.inttoptr(word, kind))
        elif isinstance(kind, ir.DoubleType):
            loaded.append(builder.bitcast(word, kind))
        else:
            loaded.append(word if kind == _WORD else builder.trunc(word, kind))
    returned = builder.alloca(called.args[0].pointee)
    error = builder.alloca(called.args[1].pointee)
    target = builder.inttoptr(_WORD(code), called.as_pointer())
    status = builder.call(target, [returned, error, *loaded, *others])
    ended = builder.icmp_signed("==", status, status.type(0))
    value = _WORD(0) if isinstance(result, types.NoneType) else builder.load(returned)
    builder.ret(builder.select(ended, value, _WORD(1)))
    library.add_ir_module(module)
    library.finalize()
    return library, library.get_pointer_to_function(name)


def _call(typingctx: Any, address: Any, context: Any, first: Any, second: Any) -> Any:  # pragma: no cover
    """Result of the function at an address, for a context and pointers to the entries of two arrays."""

    def codegen(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = ir.DoubleType().as_pointer()
        function = ir.FunctionType(_WORD, [_WORD, pointer, pointer])
        data = [
            target.make_array(kind)(target, builder, value).data
            for kind, value in zip(signature.args[2:], values[2:], strict=True)
        ]
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), [values[1], *data])

    return types.int64(types.int64, types.int64, first, second), codegen


call_fixed: Any = intrinsic(_call)
