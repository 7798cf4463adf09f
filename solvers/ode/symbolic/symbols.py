"""Symbols and numbers of formulas that are read as SymPy's, and substitution by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from invsamp import arguments
from invsamp.solvers.foreign import Expression


class Unsupported(ValueError):
    """A feature of a file that would be needed, and is not there."""


#: A module of the extra ``petab``, by name; see `invsamp.arguments.needed`.
needed = partial(arguments.needed, "SBML and PEtab need", "petab")


@lru_cache(maxsize=1)
def time_symbol() -> Expression:
    """The symbol of time."""
    import sympy

    return sympy.Symbol("time of the simulation", real=True)


def symbol(name: str) -> Expression:
    """The symbol of a name in a file."""
    import sympy

    return sympy.Symbol(name, real=True)


def number(value: float) -> Expression:
    """A float, or an integer where it is one: powers and products stay simple."""
    import sympy

    return sympy.Integer(int(value)) if float(value).is_integer() and abs(value) < 2**31 else sympy.Float(value)


def check_functions(expression: Expression) -> None:
    """`Unsupported` for functions that right-hand sides cannot call."""
    import sympy

    called = {type(each).__name__ for each in expression.atoms(sympy.Function)}
    called |= {str(each.func) for each in expression.atoms(sympy.core.function.AppliedUndef)}
    if unknown := sorted(called - _FUNCTIONS):
        raise Unsupported(f"functions {unknown} in formulas are not supported, got {expression}")


#: As SymPy calls them.
_FUNCTIONS = {
    *("Abs", "Max", "Min", "Piecewise", "exp", "log"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh"),
}


def normal(expression: Expression, replaced: Mapping[object, object] | None = None) -> Expression:
    """The same in real symbols, with whole numbers as such."""
    import sympy

    numbers = {each: number(float(each)) for each in expression.atoms(sympy.Float) if float(each).is_integer()}
    names = {each: symbol(each.name) for each in expression.free_symbols}
    return expression.xreplace({**numbers, **names, **(replaced or {})})


def substituted(expression: Expression, rules: Mapping[str, Expression]) -> Expression:
    """A formula with definitions put in for their names."""
    return expression.xreplace({symbol(name): value for name, value in rules.items()})


def expanded(rules: Mapping[str, Expression]) -> dict[str, Expression]:
    """Definitions in terms of what is not defined by others.

    Raises
    ------
    ValueError
        For a cycle.
    """
    done: dict[str, Expression] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"assignment rules must not depend on each other in a cycle, got {(*above, name)}")
        if name not in done:
            used = sorted(each.name for each in rules[name].free_symbols if each.name in rules)
            for each in used:
                visit(each, (*above, name))
            done[name] = substituted(rules[name], {each: done[each] for each in used})

    for name in rules:
        visit(name, ())
    return done
