"""Copies of functions that read other values."""

from __future__ import annotations

import functools
import math

from invsamp.solvers.ode.twins import twin

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

    copy = twin(function, convert)
    assert copy(4.0) == 10 * 2 + 1 + 7 * 3
    assert function(4.0) == 2 * 2 + 1 + 5 * 3  # the original is as it was


def test_builtins_can_be_replaced_and_functions_wrapped():
    wrapped = []

    def wrap(function):
        wrapped.append(function.__name__)
        return function

    copy = twin(lambda x: abs(outer(x)), lambda value: value, wrap=wrap, builtins={"abs": lambda x: -x})
    assert copy(4.0) == -5.0
    assert sorted(wrapped) == ["inner", "outer"]


def test_what_is_no_function_stays():
    partial = functools.partial(outer, offset=2.0)
    assert twin(partial, lambda value: None) is partial
