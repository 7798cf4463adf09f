"""A hash of the computation of a Python function: equal strings mean equal results, across processes."""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from invsamp.solvers.ode.codegen.interpolation_tables import Table

#: Modules whose functions are known by name.
_KNOWN = ("builtins", "cmath", "math", "numpy")


class _Unknown(Exception):
    """A value whose content cannot be determined."""


def fingerprint(function: Callable[..., object]) -> str | None:
    """Digest of a function's instructions and of everything they refer to.

    Parameters
    ----------
    function : callable
        A Python function; the globals that it reads, the values that it captured, and the functions that it calls
        count too.

    Returns
    -------
    str or None
        Hexadecimal digest, or None if something that the function refers to has no content that could be compared,
        such as an object of a class of the caller's own.
    """
    try:
        parts = [sys.implementation.cache_tag or "", *_describe(function, [])]
    except (_Unknown, ValueError):  # ValueError: a captured name without a value yet
        return None
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _describe(value: Any, above: list[object]) -> Iterator[str]:
    """Content of a value, piece by piece; ``above`` holds the functions that are being described."""
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        yield f"{type(value).__name__}:{value!r}"
    elif isinstance(value, (tuple, list)):
        yield f"{type(value).__qualname__}{getattr(value, '_fields', '')}:{len(value)}"
        for entry in value:
            yield from _describe(entry, above)
    elif isinstance(value, (frozenset, set)):
        yield f"set:{sorted(map(repr, value))}"
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"array:{value.dtype.str}{value.shape}:{hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, Table):
        yield "table"
        yield from _describe([value.times, value.values, value.coefficients], above)
    elif isinstance(value, types.ModuleType):
        yield f"module:{value.__name__}"
    elif isinstance(value, types.CodeType):
        yield from _describe_code(value, above)
    elif isinstance(value, functools.partial):
        yield "partial"
        yield from _describe([value.func, value.args, sorted(value.keywords.items())], above)
    elif isinstance(value, types.FunctionType) and not _is_known(value):
        yield from _describe_function(value, above)
    elif hasattr(value, "py_func"):  # compiled by numba
        yield "njit"
        yield from _describe(value.py_func, above)
    elif callable(value) and _is_known(value):
        yield f"{value.__module__}.{value.__name__}" if value.__module__ else value.__name__
    else:
        raise _Unknown(value)


def _is_known(value: object) -> bool:
    module = getattr(value, "__module__", None) or ("numpy" if isinstance(value, np.ufunc) else "")
    return hasattr(value, "__name__") and module.partition(".")[0] in _KNOWN


def _describe_code(code: types.CodeType, above: list[object]) -> Iterator[str]:
    yield code.co_code.hex()
    yield code.co_exceptiontable.hex()
    # flags without those of `from __future__`
    yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags & 0xFF}"
    yield f"{code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    yield from _describe(code.co_consts, above)


def _describe_function(function: types.FunctionType, above: list[object]) -> Iterator[str]:
    if any(function is other for other in above):
        yield f"recursive:{function.__name__}"
        return
    above = [*above, function]
    yield from _describe_code(function.__code__, above)
    yield from _describe([function.__defaults__, sorted((function.__kwdefaults__ or {}).items())], above)
    yield from _describe([cell.cell_contents for cell in function.__closure__ or ()], above)
    names, attributes = names_read(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        yield name
        yield from _describe(value, above)
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in _KNOWN:
            # a module of the caller's own: what is read from it, as its name says nothing about its content
            for attribute in sorted(attributes):
                if hasattr(value, attribute):
                    yield attribute
                    yield from _describe(getattr(value, attribute), above)


def names_read(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Names of the globals and of the attributes that the code reads, nested functions included."""
    names, attributes = set(), set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_read(constant)
            names |= inner[0]
            attributes |= inner[1]
    return names, attributes
