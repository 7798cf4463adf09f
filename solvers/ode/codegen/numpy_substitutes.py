"""Substitutes for `math` and `numpy` while a plain Python right-hand side is traced."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence

import numpy as np

from invsamp.solvers.foreign import Term

Rhs = Callable[[Term, Term, Term], Sequence[Term]]


class Untraceable(ValueError):
    """A right-hand side that does not run on nodes of a graph."""


@functools.cache
def _numpy_functions(elementary: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Functions of `numpy` for a right-hand side: elementary functions entry by entry, and arrays of symbols."""

    def by_entry(function: Term) -> Term:
        def called(*arguments: Term) -> Term:
            if any(isinstance(argument, np.ndarray | list | tuple) for argument in arguments):
                return np.frompyfunc(function, len(arguments), 1)(*arguments)
            return function(*arguments)

        return called

    def made(function: Term) -> Term:
        return lambda shape, dtype=None: function(shape, dtype=object)

    return {
        **{name: by_entry(value) if callable(value) else value for name, value in elementary().items()},
        **{name: lambda values, dtype=None: np.array(values, dtype=object) for name in ("array", "asarray")},
        **{
            name: made(getattr(np, name))
            for name in ("zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like")
        },
        **{name: getattr(np, name) for name in _OF_ARRAYS},
    }


#: Functions of numpy that work on arrays of symbols as they are.
_OF_ARRAYS = (
    *("concatenate", "cross", "cumsum", "diag", "diff", "dot", "eye", "hstack", "inner", "matmul", "mean", "outer"),
    *("prod", "ravel", "reshape", "roll", "stack", "sum", "trace", "transpose", "vdot", "vstack"),
)


def vector(entries: Sequence[object]) -> Term:
    """Symbols as what a right-hand side gets: an array of one axis."""
    found = np.empty(len(entries), dtype=object)
    found[:] = entries
    return found


def vector_entries(values: object) -> Term:
    """The entries of what a function returned; those of an array of one axis."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise TypeError(f"an array must have one axis, got shape {values.shape}")
    return values


@functools.cache
def converter(elementary: Callable[[], dict[str, object]]) -> Callable[[Term], Term]:
    """A function that replaces `math` and `numpy`, and functions of theirs, by those of a table."""

    def convert(value: object) -> object:
        if value is math or value is np:
            return types.SimpleNamespace(**(elementary() if value is math else _numpy_functions(elementary)))
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and callable(value):
            for module, functions in ((math, elementary()), (np, _numpy_functions(elementary))):
                if value is getattr(module, name, None):
                    return functions.get(name, value)
        return value

    return convert
