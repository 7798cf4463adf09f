"""Formulas of what is observed in a PEtab problem, and of the scale of its noise."""

from __future__ import annotations

from collections.abc import Collection

from invsamp.petab.tables import Measurement, Tables
from invsamp.solvers.foreign import Expression
from invsamp.solvers.ode.symbolic.symbols import number, substituted, symbol
from invsamp.solvers.ode.symbolic.sympy_functions import as_formula


def observed(tables: Tables, row: Measurement) -> Expression:
    """The formula of what is measured, with what stands for its placeholders."""
    observable = tables.observables[row.observable]
    found = as_formula(f"observableFormula of {row.observable!r}", observable.formula)
    return _filled("observable", row.observable, found, observable.placeholders, row.of_observable)


def noise_scale(tables: Tables, row: Measurement) -> Expression:
    """The formula of the scale of a measurement's noise, in which observables stand for their formulas.

    The measurement's own prediction is the symbol `prediction`.
    """
    observable = tables.observables[row.observable]
    found = as_formula(f"noiseFormula of {row.observable!r}", observable.noise)
    found = _filled("noise", row.observable, found, observable.noise_placeholders, row.of_noise)
    found = found.xreplace({symbol(row.observable): prediction()}).subs(observed(tables, row), prediction())
    others = {
        symbol(name): as_formula(f"observableFormula of {name!r}", other.formula)
        for name, other in tables.observables.items()
    }
    return number(observable.unit) * found.xreplace(others)


def depends_on_model(tables: Tables, row: Measurement, constants: Collection[str]) -> bool:
    """Whether the scale of a measurement's noise depends on more of the model than constants and its own prediction."""
    used = {each.name for each in noise_scale(tables, row).free_symbols - {prediction()}}
    return not used <= {*tables.parameters, *constants}


def prediction() -> Expression:
    """The prediction of a measurement, as formulas of its noise call it."""
    return symbol("prediction of a measurement")


def fixed(tables: Tables, expression: Expression) -> Expression:
    """A formula with the numbers of parameters that are not estimated."""
    known = {name: number(each.nominal) for name, each in tables.parameters.items() if not each.estimated}
    return substituted(expression, known)


def _filled(
    kind: str, name: str, found: Expression, placeholders: tuple[str, ...], overrides: tuple[float | str, ...]
) -> Expression:
    if len(overrides) < len(placeholders):
        missing = list(placeholders[len(overrides) :])
        raise ValueError(f"{kind}Parameters must have a value for each of the placeholders of {name!r}, not {missing}")
    own = zip(placeholders, overrides, strict=False)
    return found.xreplace({symbol(each): symbol(c) if isinstance(c, str) else number(c) for each, c in own})
