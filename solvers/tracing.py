"""Variational equations of an ODE, generated from a plain Python right-hand side by symbolic tracing."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy

Rhs = Callable[[Any, Any, Any], Sequence[Any]]
#: (t, flat list of states and sensitivities, parameters) -> list of their time derivatives
AugmentedRhs = Callable[[float, list[float], tuple[float, ...]], list[float]]

#: What a right-hand side may call from `math` or `numpy`, and its symbolic counterpart.
SYMBOLIC: dict[str, Any] = {
    **{name: getattr(sympy, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(sympy, name) for name in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "erf")},
    **{f"arc{name[1:]}": getattr(sympy, name) for name in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")},
    **{"abs": sympy.Abs, "absolute": sympy.Abs, "fabs": sympy.Abs, "power": sympy.Pow, "pow": sympy.Pow},
    **{"log1p": lambda x: sympy.log(1 + x), "expm1": lambda x: sympy.exp(x) - 1, "square": lambda x: x**2},
    **{"pi": sympy.pi, "e": sympy.E},
}


@functools.lru_cache(maxsize=64)
def augmented_rhs(rhs: Rhs, n_states: int, n_parameters: int, initial_columns: tuple[int, ...]) -> AugmentedRhs:
    r"""Right-hand side of the states and of their forward sensitivities, as one scalar function.

    With :math:`x' = f(t, x, p)` and :math:`S = \partial x / \partial (p, x_0)`, the variational equations are
    :math:`S' = (\partial f/\partial x) S + (\partial f/\partial p, 0)`.

    Parameters
    ----------
    rhs : callable
        ``rhs(t, x, p)`` returning a sequence of ``n_states`` expressions, without branches on ``t, x, p``.
    n_states, n_parameters : int
        Lengths of ``x`` and ``p``.
    initial_columns : tuple of int
        Indices of the states whose initial value counts as a parameter, after the parameters proper.

    Returns
    -------
    callable
        ``(t, y, p) -> list``; ``y`` has the ``n_states`` states, then the sensitivity matrix
        (n_states, n_parameters + len(initial_columns)) in row-major order. Plain floats throughout: for a handful
        of equations that is several times faster than small arrays.

    Raises
    ------
    ValueError
        If ``rhs`` cannot be traced, for instance because it branches on its arguments.
    """
    # not x0, x1, ...: SymPy names common subexpressions so, and older versions do not see the clash
    t = sympy.Symbol("time", real=True)
    x = sympy.symbols(f"state0:{n_states}", real=True, seq=True)
    p = sympy.symbols(f"parameter0:{n_parameters}", real=True, seq=True)
    try:
        derivative = sympy.Matrix([sympy.sympify(entry) for entry in _symbolic_twin(rhs)(t, x, p)])
    except Exception as error:
        raise ValueError(
            f"rhs must be traceable for sensitivities (arithmetic and {', '.join(sorted(SYMBOLIC))}; no branches), "
            f"but tracing raised {type(error).__name__}: {error}. Without sensitivities, solve() still works; "
            "for gradients wrap it in finite differences."
        ) from error
    columns = n_parameters + len(initial_columns)
    sensitivity = sympy.Matrix(n_states, columns, lambda i, j: sympy.Symbol(f"sensitivity{i}_{j}", real=True))
    variation = derivative.jacobian(x) * sensitivity
    if n_parameters:
        variation[:, :n_parameters] += derivative.jacobian(p)
    compiled: AugmentedRhs = sympy.lambdify(
        [t, [*x, *sensitivity], list(p)], [*derivative, *variation], modules="math", cse=True
    )
    return compiled


def _symbolic_twin(rhs: Rhs) -> Rhs:
    """The same code with the names of `math` and `numpy` bound to symbolic functions."""
    if not isinstance(rhs, types.FunctionType):
        return rhs
    scope = {name: _symbolic(value) for name, value in rhs.__globals__.items()}
    cells = tuple(types.CellType(_symbolic(cell.cell_contents)) for cell in rhs.__closure__ or ())
    twin = types.FunctionType(rhs.__code__, scope, rhs.__name__, rhs.__defaults__, cells)
    twin.__kwdefaults__ = rhs.__kwdefaults__
    return twin


def _symbolic(value: Any) -> Any:
    if value is math or value is np:
        return _SYMBOLIC_MODULE
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and name in SYMBOLIC and value in (getattr(math, name, None), getattr(np, name, None)):
        return SYMBOLIC[name]
    return value


_SYMBOLIC_MODULE = types.SimpleNamespace(**SYMBOLIC)
