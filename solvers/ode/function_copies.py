"""The same Python code with other meanings of the names that it reads."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Mapping

from invsamp.solvers.foreign import Called, Term
from invsamp.solvers.ode.fingerprint import names_read

#: Stored code is loaded together with the module that its functions name. That of a function made by `exec`, in a
#: notebook or in a script need not exist in the next process; this one does.
_MODULE = "invsamp.solvers.ode.function_copies"


def copied(
    function: Callable[..., object],
    convert: Callable[[Term], object],
    *,
    wrap: Callable[[Called], object] = lambda inner: inner,
    builtins: Mapping[str, object] | None = None,
) -> Called:
    """Copy a function, with every global and captured value that it reads replaced.

    Parameters
    ----------
    function : callable
        What is no Python function, nor one that numba compiled, is returned as it is.
    convert : callable
        From a value to what stands in for it. Functions of the caller's own are not converted, but copied likewise.
    wrap : callable
        What to make of the copies of functions that ``function`` calls.
    builtins : mapping, optional
        Values for names of builtins.
    """
    copies: dict[int, object] = {}

    def copy(original: types.FunctionType) -> types.FunctionType:
        names, _ = names_read(original.__code__)
        scope = {"__name__": _MODULE, "__builtins__": original.__globals__.get("__builtins__", {})}
        cells = tuple(types.CellType() for _ in original.__closure__ or ())
        code = with_long_tuples(original.__code__)
        defaults = original.__defaults__ and tuple(map(replaced, original.__defaults__))
        made = types.FunctionType(code, scope, original.__name__, defaults, cells)
        made.__kwdefaults__ = original.__kwdefaults__
        for name in names:
            if name in original.__globals__:
                scope[name] = replaced(original.__globals__[name])
            elif builtins and name in builtins:
                scope[name] = builtins[name]
        for cell, source in zip(cells, original.__closure__ or (), strict=True):
            cell.cell_contents = replaced(source.cell_contents)
        return made

    def replaced(value: object) -> object:
        value = getattr(value, "py_func", value)
        if not isinstance(value, types.FunctionType) or (value.__module__ or "").partition(".")[0] == "numpy":
            return convert(value)
        if id(value) not in copies:
            copies[id(value)] = value
            made = copy(value)
            copies[id(value)] = wrap(made)
            for name in [name for name, read in made.__globals__.items() if read is value]:
                made.__globals__[name] = copies[id(value)]  # it calls itself
            for cell in made.__closure__ or ():
                if cell.cell_contents is value:
                    cell.cell_contents = copies[id(value)]
        return copies[id(value)]

    function = getattr(function, "py_func", function)
    return copy(function) if isinstance(function, types.FunctionType) else function


def with_long_tuples(code: types.CodeType) -> types.CodeType:
    """The same instructions, with tuples made at once.

    Python makes a tuple of more than 30 entries from a list that it fills one by one, which numba does not take. Code
    in which lists and tuples are nested so that they cannot be told apart stays as it is.
    """
    instructions, changed = bytearray(code.co_code), False
    begun: list[
        list[int]
    ] = []  # for every list that is being filled: where it was begun, then where entries were added
    for each in dis.get_instructions(code):
        if each.opname == "BUILD_LIST" and each.arg == 0:
            begun.append([each.offset])
        elif each.opname == "LIST_APPEND" and each.arg == 1 and begun:
            begun[-1].append(each.offset)
        elif begun and (each.opname == "LIST_TO_TUPLE" or each.argrepr == "INTRINSIC_LIST_TO_TUPLE"):
            filled = begun.pop()
            count = len(filled) - 1
            if count <= 30 or filled[-1] != each.offset - 2:
                continue
            for offset in filled:
                instructions[offset : offset + 2] = dis.opmap["NOP"], 0
            # the place of the last entry's instruction is free for the count's higher byte
            instructions[filled[-1] : filled[-1] + 2] = dis.opmap["EXTENDED_ARG"], count >> 8
            instructions[each.offset : each.offset + 2] = dis.opmap["BUILD_TUPLE"], count & 255
            changed = True
    if not changed:
        return code
    return code.replace(co_code=bytes(instructions), co_stacksize=code.co_stacksize + len(instructions) // 2)
