"""Symbolic tracing of a plain Python right-hand side, and the straight-line source of it and its sensitivities."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from invsamp.solvers.foreign import Expression, Term
from invsamp.solvers.ode.codegen.rebind_globals import copied

Rhs = Callable[[Term, Term, Term], Sequence[Term]]


class Untraceable(ValueError):
    """A right-hand side that does not run on symbols."""


class Trace(NamedTuple):
    """A right-hand side as SymPy expressions in real symbols."""

    time: Term
    states: tuple[Term, ...]
    parameters: tuple[Term, ...]
    derivatives: tuple[Term, ...]


def trace(
    rhs: Rhs, n_states: int, n_parameters: int, *, name: str = "rhs", outputs: int | None = None, scalar: bool = False
) -> Trace:
    """Run a right-hand side, or another function of (t, x, p), on symbols.

    Parameters
    ----------
    rhs : callable
        ``rhs(t, x, p)`` returning a sequence of ``n_states`` expressions: arithmetic, of the arrays ``x`` and ``p``
        too, and the elementary functions of `math` and `numpy`, `numpy.where` among them, no branches on ``t, x, p``.
    n_states, n_parameters : int
        Lengths of ``x`` and ``p``.
    name : str
        What an error calls the function.
    outputs : int, optional
        How many values it returns; one per state by default.
    scalar : bool
        Whether it returns a number in place of a sequence.

    Raises
    ------
    Untraceable
        A ValueError, if ``rhs`` cannot be traced, for instance because it branches on its arguments.
    """
    import sympy  # a quarter of a second, and not needed where the source is at hand

    # not x0, x1, ...: SymPy names common subexpressions so, and older versions do not see the clash
    t = sympy.Symbol("time", real=True)
    x = sympy.symbols(f"state0:{n_states}", real=True, seq=True)
    p = sympy.symbols(f"parameter0:{n_parameters}", real=True, seq=True)
    try:
        values = copied(rhs, symbolic)(t, vector(x), vector(p))
        derivatives = tuple(sympy.sympify(entry) for entry in vector_entries([values] if scalar else values))
        if not all(isinstance(entry, sympy.Expr) for entry in derivatives):
            raise TypeError(f"expressions are needed, got {derivatives}")
    except Exception as error:
        raise Untraceable(
            f"{name} must be traceable (arithmetic, arrays, and {', '.join(sorted(_elementary()))}; no branches), "
            f"but tracing raised {type(error).__name__}: {error}"
        ) from error
    if len(derivatives) != (wanted := n_states if outputs is None else outputs):
        each = ", one per state" if wanted == n_states else ""
        raise ValueError(f"{name} must return {wanted} values{each}, got {derivatives}")
    return Trace(t, tuple(x), tuple(p), derivatives)


def states_source(traced: Trace) -> str:
    """Source of ``evaluate(t, y, p, out)``, the right-hand side with y = x."""
    return _source(traced, (), traced.derivatives)


def sensitivities_source(traced: Trace, n_initial: int, *, own: Sequence[int] | None = None) -> str:
    r"""Source of ``evaluate(t, y, p, out)``, the right-hand side of states and forward sensitivities.

    With :math:`x' = f(t, x, p)` and :math:`S = \partial x / \partial (p, x_0)`, the variational equations are
    :math:`S' = (\partial f/\partial x) S + (\partial f/\partial p, 0)`.

    Parameters
    ----------
    traced : Trace
    n_initial : int
        Columns of S for initial values, after those for the parameters.
    own : sequence of int, optional
        The parameters that have a column; all by default. Without any and with the identity as S, S' is the Jacobian.

    Returns
    -------
    str
        ``y`` has the states, then the columns of S one after the other.
    """
    import sympy

    derivative = sympy.Matrix(traced.derivatives)
    chosen = traced.parameters if own is None else [traced.parameters[k] for k in own]
    n, q = len(traced.states), len(chosen)
    S = sympy.Matrix(n, q + n_initial, lambda i, j: sympy.Symbol(f"sensitivity{i}_{j}", real=True))
    variation = derivative.jacobian(traced.states) * S
    if q:
        variation[:, :q] += derivative.jacobian(chosen)
    return _source(traced, tuple(S.T), (*traced.derivatives, *variation.T))


def slopes_source(traced: Trace, slopes: bool) -> str:
    """Source of ``evaluate(t, y, p, out)``: the values of a function of (t, x, p), and its derivatives if asked for.

    Those by t follow, by the states (row by row), and by the parameters.
    """
    import sympy

    values = sympy.Matrix(traced.derivatives)
    parts = [values.jacobian([traced.time]), values.jacobian(traced.states)] if slopes else []
    parts += [values.jacobian(traced.parameters)] if slopes and traced.parameters else []
    return _source(traced, (), (*traced.derivatives, *(entry for part in parts for entry in part)))


def _source(traced: Trace, carried: tuple[object, ...], outputs: tuple[object, ...]) -> str:
    import sympy

    common, outputs = sympy.cse(outputs, symbols=sympy.numbered_symbols("v"), list=False)
    used = {traced.time}.union(*(entry.free_symbols for entry in (*outputs, *(value for _, value in common))))
    show = _printer().doprint
    lines = [
        *(f"{name} = y[{i}]" for i, name in enumerate((*traced.states, *carried)) if name in used),
        *(f"{name} = p[{i}]" for i, name in enumerate(traced.parameters) if name in used),
        *(f"{name} = {show(value)}" for name, value in common),
        # read all, then write: the compiler cannot know that the arrays lie apart
        *(f"d{i} = {show(value)}" for i, value in enumerate(outputs)),
        *(f"out[{i}] = d{i}" for i in range(len(outputs))),
    ]
    body = "\n    ".join(lines)
    if "Not supported" in body:
        raise Untraceable(f"the derivatives of rhs must be elementary functions, got {outputs}")
    return f"import math\n\n\ndef evaluate(time, y, p, out):\n    {body}\n"


@functools.cache
def _printer() -> Term:
    from sympy.printing.pycode import PythonCodePrinter

    class Printer(PythonCodePrinter):
        def _print_Integer(self, expr: Expression) -> str:
            return str(expr) if abs(expr) < 2**31 else repr(float(expr))

    return Printer({"fully_qualified_modules": True, "human": True})


@functools.cache
def _elementary() -> dict[str, object]:
    """What a right-hand side may call from `math` or `numpy`, and its symbolic counterpart."""
    import sympy

    inverse = ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")
    same = ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", *inverse)
    return {
        **{name: getattr(sympy, name) for name in same},
        **{f"arc{name[1:]}": getattr(sympy, name) for name in inverse},
        **{"abs": sympy.Abs, "absolute": sympy.Abs, "fabs": sympy.Abs, "power": sympy.Pow, "pow": sympy.Pow},
        **{"log1p": lambda x: sympy.log(1 + x), "expm1": lambda x: sympy.exp(x) - 1, "square": lambda x: x**2},
        **{"pi": sympy.pi, "e": sympy.E},
        **{"where": lambda condition, a, b: sympy.Piecewise((a, condition), (b, True))},
        **{"logical_and": sympy.And, "logical_or": sympy.Or, "logical_not": sympy.Not},
        **{"maximum": _larger, "minimum": lambda a, b: -_larger(-a, -b)},
        "clip": lambda a, low, high: -_larger(-_larger(a, low), -high),
        "hypot": lambda a, b: sympy.sqrt(a * a + b * b),
        "sign": lambda a: sympy.Piecewise((1, a > 0), (-1, a < 0), (0, True)),
    }


def _larger(a: Term, b: Term) -> Term:
    """The larger of two, in a form that has derivatives of which nothing is left to evaluate."""
    import sympy

    return sympy.Piecewise((a, a >= b), (b, True))


@functools.cache
def _numpy_functions(elementary: Callable[[], dict[str, object]]) -> dict[str, object]:
    """What a right-hand side may call from `numpy`: elementary functions entry by entry, and arrays of symbols."""

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


def symbolic(value: object) -> Term:
    """What a value that a function reads is to SymPy."""
    return converter(_elementary)(value)


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
