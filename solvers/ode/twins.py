"""The same Python code with other meanings of the names that it reads."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from invsamp.solvers.ode.fingerprint import names_read


def twin(
    function: Callable[..., Any],
    convert: Callable[[Any], Any],
    *,
    wrap: Callable[[Callable[..., Any]], Any] = lambda inner: inner,
    builtins: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
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
    copies: dict[int, Any] = {}

    def copy(original: types.FunctionType) -> types.FunctionType:
        names, _ = names_read(original.__code__)
        scope = {"__name__": original.__module__, "__builtins__": original.__globals__.get("__builtins__", {})}
        cells = tuple(types.CellType() for _ in original.__closure__ or ())
        made = types.FunctionType(original.__code__, scope, original.__name__, original.__defaults__, cells)
        made.__kwdefaults__ = original.__kwdefaults__
        for name in names:
            if name in original.__globals__:
                scope[name] = replaced(original.__globals__[name])
            elif builtins and name in builtins:
                scope[name] = builtins[name]
        for cell, source in zip(cells, original.__closure__ or (), strict=True):
            cell.cell_contents = replaced(source.cell_contents)
        return made

    def replaced(value: Any) -> Any:
        value = getattr(value, "py_func", value)
        if not isinstance(value, types.FunctionType) or (value.__module__ or "").partition(".")[0] == "numpy":
            return convert(value)
        if id(value) not in copies:
            copies[id(value)] = value  # a function that calls itself finds the original
            copies[id(value)] = wrap(copy(value))
        return copies[id(value)]

    function = getattr(function, "py_func", function)
    return copy(function) if isinstance(function, types.FunctionType) else function
