"""Copies of functions that read other values."""

from __future__ import annotations

import dis
import functools
import math
import types

import pytest
from numba import njit

from invsamp.solvers.ode.codegen.rebind_globals import copied, with_long_tuples

RATE = 2.0


def inner(x):
    return RATE * math.sqrt(x)


def outer(x, *, offset=1.0):
    return inner(x) + offset


def test_globals_captured_values_and_functions_within_are_replaced():
    captured = 5.0

    def function(x, scale=3.0):
        return outer(x) + captured * scale

    def convert(value):
        return {RATE: 10.0, captured: 7.0}.get(value, value) if isinstance(value, float) else value

    copy = copied(function, convert)
    assert copy(4.0) == 10 * 2 + 1 + 7 * 3
    assert function(4.0) == 2 * 2 + 1 + 5 * 3  # the original is as it was


def test_builtins_can_be_replaced_and_functions_wrapped():
    wrapped = []

    def wrap(function):
        wrapped.append(function.__name__)
        return function

    copy = copied(lambda x: abs(outer(x)), lambda value: value, wrap=wrap, builtins={"abs": lambda x: -x})
    assert copy(4.0) == -5.0
    assert sorted(wrapped) == ["inner", "outer"]


def test_what_is_no_function_stays():
    partial = functools.partial(outer, offset=2.0)
    assert copied(partial, lambda value: None) is partial


@pytest.mark.parametrize("count", [3, 30, 31, 255, 256, 700])
def test_long_tuples_are_made_at_once(count):
    entries = ", ".join(f"x[{i}] if x[0] > {i % 3} else -x[{i}]" for i in range(count))
    scope = {}
    exec(f"def function(x):\n    return ({entries})", scope)
    function = scope["function"]
    made = with_long_tuples(function.__code__)
    assert made.co_code != function.__code__.co_code if count > 30 else made is function.__code__
    assert not any(each.opname == "LIST_TO_TUPLE" for each in dis.get_instructions(made))
    copy = types.FunctionType(made, scope)
    for first in (0.0, 1.5, 9.0):
        x = [first, *range(1, count)]
        assert copy(x) == function(x) and type(copy(x)) is tuple and len(copy(x)) == count


ENTRIES = ", ".join(f"x + {i}" for i in range(40))


@pytest.mark.parametrize(
    "what",
    [
        f"([{ENTRIES}], ({ENTRIES}), [x + y for y in range(3)], (x, x, *range(50)))",
        f"({ENTRIES}, [{ENTRIES}], {ENTRIES})",  # a list within a tuple
        f"({ENTRIES}, ({ENTRIES}), {ENTRIES} if x > 1 else ({ENTRIES}))",
        f"({ENTRIES}, len([{ENTRIES}]), *[{ENTRIES}])",
        f"({ENTRIES}, x if x > 1 else -x if x > 0 else x * x)",  # ends three times, as Python 3.12 has it
        f"[{ENTRIES}] if x > 1 else ({ENTRIES})",
    ],
)
def test_lists_and_tuples_of_either_length_stay_what_they_are(what):
    scope = {}
    exec(
        f"def function(x):\n    try:\n        return {what}\n    except ValueError:\n        return [{ENTRIES}]", scope
    )
    function = scope["function"]
    for x in (-1, 1, 2):
        assert types.FunctionType(with_long_tuples(function.__code__), scope)(x) == function(x)


def countdown(n, step):
    return 0.0 if n < 0.5 else step + countdown(n - 1.0, step)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_function_that_calls_itself_calls_its_copy(compiled):
    """The original knows nothing of the other meanings; compiled code takes none that it has not compiled."""

    def local(n):
        return 0.0 if n < 0.5 else RATE + local(n - 1.0)

    def function(n):
        return countdown(n, RATE) + local(n)

    wrap = (lambda inner: njit(inner)) if compiled else (lambda inner: inner)
    convert = {RATE: 10.0}.get
    copy = wrap(copied(function, lambda value: convert(value, value) if isinstance(value, float) else value, wrap=wrap))
    assert copy(3.0) == 60.0
    assert function(3.0) == 12.0
