"""Terms written as strings: arithmetic on named arrays, parsed and never run as code."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

import numpy as np

from invsamp.solvers.foreign import Called, Term

#: Values by name -> value of the expression.
Expression = Callable[[Mapping[str, Term]], Term]

#: What an expression may call.
FUNCTIONS: dict[str, Called] = {
    name: getattr(np, name)
    for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "abs")
}
_OPERATORS: dict[type[ast.AST], Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: np.power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


_CONSTANTS = {"pi": math.pi}


def parse(text: str, names: tuple[str, ...]) -> Expression:
    """Function of an expression in ``names``, ``pi``, numbers, ``+ - * / **`` and `FUNCTIONS` of one argument.

    Raises
    ------
    ValueError
        If the string is anything else; the message shows what.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"a term must be an expression such as 'x*y', got {text!r}: {error.msg}") from None
    return _build(tree, {*names, *_CONSTANTS}, text)


def _build(node: ast.expr, names: set[str], text: str) -> Expression:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            number = float(value)  # a float: powers of large integers would not end
            return lambda scope: number
        case ast.Name(id=name) if name in names:
            return lambda scope: scope[name] if name in scope else _CONSTANTS[name]
        case ast.Name(id=name):
            raise ValueError(f"a term may name {sorted(names)} and {sorted(FUNCTIONS)}, got {name!r} in {text!r}")
        case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _OPERATORS:
            act, value_of = _OPERATORS[type(sign)], _build(inner, names, text)
            return lambda scope: act(value_of(scope))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            act, first, second = _OPERATORS[type(sign)], _build(left, names, text), _build(right, names, text)
            return lambda scope: act(first(scope), second(scope))
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in FUNCTIONS:
            act, value_of = FUNCTIONS[name], _build(inner, names, text)
            return lambda scope: act(value_of(scope))
    raise ValueError(f"a term may use + - * / **, numbers and {sorted(FUNCTIONS)}, got {text!r}")
