"""SymPy formulas as the plain Python functions that an ODE is made of, and the times at which they switch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from invsamp.solvers.foreign import Expression, Given, OfState, Term
from invsamp.solvers.ode.codegen.importable_source import of_source
from invsamp.solvers.ode.events.parameter_functions import Quantity
from invsamp.solvers.ode.model.initial_values import Initial
from invsamp.solvers.ode.symbolic.symbols import (
    Unsupported,
    check_functions,
    needed,
    normal,
    number,
    symbol,
    time_symbol,
)


def as_formula(argument: str, text: object) -> Expression:
    """A formula in PEtab's syntax, which has ``^`` for powers, in real symbols.

    Raises
    ------
    ValueError
        If it is none.
    """
    parse = needed("petab.v1.math").sympify_petab
    try:
        found = parse(text)
    except Exception as error:  # of the parser's many kinds
        raise ValueError(f"{argument} must be a formula, got {text!r}: {error}") from error
    check_functions(found)
    return normal(found, {symbol("time"): time_symbol()})


def as_function(
    formulas: Sequence[Expression], states: Sequence[str], parameters: Sequence[str], *, scalar: bool = False
) -> OfState:
    """A function of (t, x, p) with the values of some formulas; with that of the only one, if ``scalar``."""
    places = {symbol(name): f"x[{k}]" for k, name in enumerate(states)}
    places |= {symbol(name): f"p[{k}]" for k, name in enumerate(parameters)}
    return _made("t, x, p", formulas, {**places, time_symbol(): "t"}, scalar)


def as_quantity(formula: Expression, parameters: Sequence[str]) -> Quantity:
    """A formula of parameters as a number, a name, or a function of p."""
    if formula.is_Symbol and formula.name in parameters:
        return str(formula.name)
    if formula.is_number:
        return float(formula)
    return _made("p", [formula], {symbol(name): f"p[{k}]" for k, name in enumerate(parameters)}, True)


def as_initial(formulas: Sequence[Expression], parameters: Sequence[str]) -> Initial:
    """Formulas of parameters as numbers and names, or else as one function of p, the same for the same formulas."""
    if all(each.is_number or (each.is_Symbol and each.name in parameters) for each in formulas):
        return tuple(as_quantity(each, parameters) for each in formulas)
    key = tuple(formulas), tuple(parameters)
    if key not in _INITIALS:
        _INITIALS[key] = _made("p", formulas, {symbol(name): f"p[{k}]" for k, name in enumerate(parameters)}, False)
    return _INITIALS[key]


#: Functions by what they were made from: what is compiled for one serves all experiments that start alike.
_INITIALS: dict[tuple[object, ...], Callable[[Term], object]] = {}


def _made(
    arguments: str, formulas: Sequence[Expression], places: Mapping[object, str], scalar: bool
) -> Callable[..., object]:
    used = set().union(*(each.free_symbols for each in formulas))
    if unknown := sorted(each.name for each in used - set(places)):
        raise ValueError(f"formulas must use names that have values, got {unknown}, which have none")
    show = _printer().doprint
    names = {each: _placeholder(k) for k, each in enumerate(places)}
    shown = [show(each.xreplace(names)) for each in formulas]
    lines = [f"{names[each]} = {places[each]}" for each in places if each in used]
    values = shown[0] if scalar else f"({''.join(f'{each}, ' for each in shown)})"
    source = f"def formula({arguments}):\n    {''.join(f'{line}{chr(10)}    ' for line in lines)}return {values}\n"
    return of_source(source)


def _placeholder(k: int) -> Expression:
    import sympy

    return sympy.Symbol(f"s{k}", real=True)


@lru_cache(maxsize=1)
def _printer() -> Given:
    from sympy.printing.numpy import NumPyPrinter

    class Printer(NumPyPrinter):
        """Functions of numpy that right-hand sides are traced through."""

        def _print_Piecewise(self, expr: Expression) -> str:
            text = "numpy.nan"
            for value, condition in reversed(expr.args):
                shown = self._print(value)
                text = shown if condition == True else f"numpy.where({self._print(condition)}, {shown}, {text})"  # noqa: E712 (SymPy's)
            return text

        def _print_Relational(self, expr: Expression) -> str:
            if expr.rel_op not in ("<", "<=", ">", ">="):
                raise Unsupported(f"comparisons for equality are not supported, got {expr}")
            return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

        def _print_And(self, expr: Expression) -> str:
            return self._joined("numpy.logical_and", expr.args)

        def _print_Or(self, expr: Expression) -> str:
            return self._joined("numpy.logical_or", expr.args)

        def _print_Not(self, expr: Expression) -> str:
            return f"numpy.logical_not({self._print(expr.args[0])})"

        def _print_Max(self, expr: Expression) -> str:
            return self._joined("numpy.maximum", expr.args)

        def _print_Min(self, expr: Expression) -> str:
            return self._joined("numpy.minimum", expr.args)

        def _joined(self, name: str, parts: Sequence[object]) -> str:
            text = self._print(parts[0])
            for part in parts[1:]:
                text = f"{name}({text}, {self._print(part)})"
            return text

    return Printer({"fully_qualified_modules": True, "human": True, "allow_unknown_functions": False})


def switches(formulas: Iterable[Expression], states: Sequence[str]) -> tuple[list[Expression], list[Expression]]:
    """Times at which formulas switch, in terms of parameters, and functions whose zeros are where they do otherwise.

    Raises
    ------
    Unsupported
        For comparisons of what is not linear in time, and for equality.
    """
    import sympy

    comparisons = {
        each
        for formula in formulas
        for piecewise in formula.atoms(sympy.Piecewise)
        for _, condition in piecewise.args
        for each in condition.atoms(sympy.core.relational.Relational)
    }
    times, crossings = [], []
    for each in sorted(comparisons, key=str):
        time, crossing, _ = crossed(each, states)
        times += [time] if time is not None else []
        crossings += [crossing] if crossing is not None else []
    return list(dict.fromkeys(times)), list(dict.fromkeys(crossings))


def crossed(comparison: Expression, states: Sequence[str]) -> tuple[Expression | None, Expression | None, bool]:
    """The time at which a comparison changes, or else a function that passes zero then; whether it becomes true.

    For the function: whether it is true where that is positive. Neither: it never changes.
    """
    names = {each.name for each in comparison.free_symbols}
    timed, of_states = time_symbol() in comparison.free_symbols, bool(names & set(states))
    if not timed and not of_states:
        return None, None, False
    if comparison.rel_op not in ("<", "<=", ">", ">="):
        raise Unsupported(f"comparisons for equality of quantities that change are not supported, got {comparison}")
    difference, rising = comparison.lhs - comparison.rhs, comparison.rel_op in (">", ">=")
    if of_states:
        return None, difference, rising
    slope = difference.diff(time_symbol())
    if not slope.is_number or not slope.is_nonzero:
        raise Unsupported(
            f"comparisons that are not linear in time at a known rate are not supported, got {comparison}"
        )
    return -difference.xreplace({time_symbol(): number(0.0)}) / slope, None, rising == bool(slope > 0)
