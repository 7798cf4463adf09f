"""Formulas of names, such as ``"sigma * y**gamma"``: their values and derivatives."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from invsamp.protocols import Array

#: A value and its derivatives by name; what is missing is zero.
#: Numbers, or arrays of them, that broadcast against each other.
Value = Any
Dual = tuple[Value, dict[str, Value]]


class Expression:
    """A formula: numbers, names, entries such as ``k[0]``, ``+ - * / **`` and the functions of `FUNCTIONS`.

    Parameters
    ----------
    argument : str
        What the caller's argument is called, for messages.
    text : str

    Attributes
    ----------
    names : tuple of str
        In the order in which they come.

    Raises
    ------
    ValueError
        If the text is no such formula.
    """

    def __init__(self, argument: str, text: str) -> None:
        self._argument, self.text = argument, text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._wrong("that is no formula") from None
        found: dict[str, None] = {}
        self._check(self._tree, found)
        self.names = tuple(found)

    def __call__(self, values: Mapping[str, Array]) -> tuple[Value, dict[str, Value]]:
        """Value and derivatives by name, of shapes to which the arrays of ``values`` broadcast."""
        with np.errstate(all="ignore"):
            return self._evaluate(self._tree, values)

    def renamed(self, names: Mapping[str, str]) -> str:
        """The text with other names for some."""
        tree = copy.deepcopy(self._tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = names.get(node.id, node.id)
        return ast.unparse(tree)

    def _check(self, node: ast.expr, found: dict[str, None]) -> None:
        match node:
            case ast.Constant(value=float() | int() as number) if not isinstance(number, bool):
                pass
            case ast.Name(id=name) if name not in FUNCTIONS:
                found[name] = None
            case ast.Subscript() if (label := entry_label(node)) is not None:
                found[label] = None
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
                self._check(inner, found)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), right=right):
                self._check(left, found)
                self._check(right, found)
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in FUNCTIONS:
                self._check(inner, found)
            case ast.BinOp(op=ast.BitXor()):
                raise self._wrong("powers are written **")
            case _:
                raise self._wrong(f"{ast.unparse(node)!r} is none of these")

    def _wrong(self, why: str) -> ValueError:
        return ValueError(
            f"{self._argument} must be made of names, numbers, + - * / ** and {', '.join(FUNCTIONS)}, "
            f"got {self.text!r}: {why}"
        )

    def _evaluate(self, node: ast.AST, values: Mapping[str, Array]) -> Dual:
        match node:
            case ast.Name(id=name):
                return values[name], {name: 1.0}
            case ast.Subscript():
                label = str(entry_label(node))
                return values[label], {label: 1.0}
            case ast.UnaryOp(op=op, operand=inner):
                value, slopes = self._evaluate(inner, values)
                return (-value, _scaled(slopes, -1.0)) if isinstance(op, ast.USub) else (value, slopes)
            case ast.BinOp(left=left, op=op, right=right):
                return _combine(op, self._evaluate(left, values), self._evaluate(right, values))
            case ast.Call(func=ast.Name(id=name), args=[inner]):
                value, slopes = self._evaluate(inner, values)
                result, slope = FUNCTIONS[name](value)
                return result, _scaled(slopes, slope)
            case ast.Constant(value=number):
                return float(number), {}  # type: ignore[arg-type]
        raise AssertionError(node)


def entry_label(node: ast.AST) -> str | None:
    """Label of an entry of a vector or array, such as ``k[0]`` or ``m[0, 1]``; None of anything else."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=entries)):
            pass
        case ast.Subscript(value=ast.Name(id=name), slice=entry):
            entries = [entry]
        case _:
            return None
    indices = [entry.value for entry in entries if isinstance(entry, ast.Constant) and type(entry.value) is int]
    return f"{name}[{', '.join(map(str, indices))}]" if len(indices) == len(entries) > 0 else None


def _combine(op: ast.operator, left: Dual, right: Dual) -> Dual:
    (a, by_a), (b, by_b) = left, right
    match op:
        case ast.Add():
            return a + b, _sum(by_a, by_b)
        case ast.Sub():
            return a - b, _sum(by_a, _scaled(by_b, -1.0))
        case ast.Mult():
            return a * b, _sum(_scaled(by_a, b), _scaled(by_b, a))
        case ast.Div():
            return np.divide(a, b), _sum(_scaled(by_a, np.divide(1.0, b)), _scaled(by_b, np.divide(-a, b * b)))
    power = np.power(a, b)
    by_base = _scaled(by_a, b * np.power(a, b - 1.0)) if by_a else {}
    # at a base of zero the logarithm is infinite, but the power's derivative by a positive exponent is zero
    return power, _sum(by_base, _scaled(by_b, np.where(power == 0.0, 0.0, power * np.log(a))) if by_b else {})


def _scaled(slopes: dict[str, Value], factor: Value) -> dict[str, Value]:
    return {name: slope * factor for name, slope in slopes.items()}


def _sum(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in dict.fromkeys([*one, *other])}


def _exp(x: Value) -> tuple[Value, Value]:
    value = np.exp(x)
    return value, value


def _sqrt(x: Value) -> tuple[Value, Value]:
    value = np.sqrt(x)
    return value, np.divide(0.5, value)


def _tanh(x: Value) -> tuple[Value, Value]:
    value = np.tanh(x)
    return value, 1.0 - value * value


#: Value and derivative of each function.
FUNCTIONS: dict[str, Callable[[Value], tuple[Value, Value]]] = {
    "exp": _exp,
    "log": lambda x: (np.log(x), np.divide(1.0, x)),
    "sqrt": _sqrt,
    "abs": lambda x: (np.abs(x), np.sign(x)),
    "sin": lambda x: (np.sin(x), np.cos(x)),
    "cos": lambda x: (np.cos(x), -np.sin(x)),
    "tanh": _tanh,
}
