"""The same Python code with other meanings of the names that it reads."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from invsamp.solvers.foreign import Called, Term
from invsamp.solvers.ode.codegen.function_hash import names_read

#: Stored code is loaded together with the module that its functions name. That of a function made by `exec`, in a
#: notebook or in a script need not exist in the next process; this one does.
_MODULE = "invsamp.solvers.ode.codegen.rebind_globals"
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
#: Instructions that are not followed by the next one.
_LAST = {
    *("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"),
    *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"),
}


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

    Python makes a tuple of more than 30 entries from a list that it fills one by one, which numba does not take. What
    else is done with a list, or is not distinguished, stays as it is.
    """
    instructions, changed = bytearray(code.co_code), False
    for each in _filled_lists(code):
        count, *others = {count for _, count in each.ends} or {0}
        if others or count <= 30 or not all(end - 2 in each.added for end, _ in each.ends):
            continue
        for offset in (each.begun, *each.added):
            instructions[offset : offset + 2] = dis.opmap["NOP"], 0
        for end, _ in each.ends:
            # the place of the last entry's instruction is free for the count's higher byte
            instructions[end - 2 : end] = dis.opmap["EXTENDED_ARG"], count >> 8
            instructions[end : end + 2] = dis.opmap["BUILD_TUPLE"], count & 255
        changed = True
    if not changed:
        return code
    return code.replace(co_code=bytes(instructions), co_stacksize=code.co_stacksize + len(instructions) // 2)


@dataclass
class _FilledList:
    """Offsets of the instructions that begin an empty list, add entries one by one, and make a tuple of so many.

    A tuple may be made at several places: where the last entry has branches, Python 3.12 ends each of them by itself.
    What else takes the list counts as an end with -1 entries.
    """

    begun: int
    added: set[int] = field(default_factory=set)
    ends: list[tuple[int, int]] = field(default_factory=list)


def _filled_lists(code: types.CodeType) -> list[_FilledList]:
    """The lists of a function; none where ways that meet have not done the same to them."""
    found: list[_FilledList] = []
    #: By offset, on the way to it: the height of the stack; and by their places the lists there, with their entries.
    states: dict[int, tuple[int, dict[int, tuple[int, int]]]] = {0: (0, {})}
    instructions = list(dis.get_instructions(code))
    for each, following in zip(
        instructions, [*(one.offset for one in instructions[1:]), len(code.co_code)], strict=True
    ):
        if each.offset not in states:
            continue  # no way leads here but an exception's
        height, held = states[each.offset]
        adds = each.opname in ("LIST_APPEND", "LIST_EXTEND")
        place = height - 1 - (each.arg or 0) if adds else height - 1
        number, count = held.get(place, (-1, 0))
        if each.opname == "BUILD_LIST" and each.arg == 0:
            held = held | {height: (len(found), 0)}
            found.append(_FilledList(each.offset))
        elif number >= 0 and each.opname == "LIST_APPEND":
            found[number].added.add(each.offset)
            held = held | {place: (number, count + 1)}
        elif number >= 0 and each.opname == "LIST_EXTEND":
            found[number].ends.append((each.offset, -1))
        elif number >= 0 and "LIST_TO_TUPLE" in (each.opname, each.argrepr.removeprefix("INTRINSIC_")):
            found[number].ends.append((each.offset, count))
            held = {at: one for at, one in held.items() if at != place}
        ways = [(following, False)] if each.opname not in _LAST else []
        ways += [(each.argval, True)] if each.opcode in _JUMPS else []
        for target, jump in ways:
            level = height + dis.stack_effect(each.opcode, each.arg, jump=jump)
            for number, _ in (one for at, one in held.items() if at >= level):
                found[number].ends.append((each.offset, -1))
            state = level, {at: one for at, one in held.items() if at < level}
            if states.setdefault(target, state) != state:
                return []
    return found
