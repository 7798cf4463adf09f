"""The noise of a PEtab problem: a scale for each measurement."""

from __future__ import annotations

from invsamp.expression import FUNCTIONS
from invsamp.petab.conditions import formula, setting
from invsamp.petab.priors import LOGARITHMS
from invsamp.petab.reading import Measurement, Tables
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise
from invsamp.posing.noise.per_output import Outputs
from invsamp.solvers.foreign import Expression, Given
from invsamp.solvers.ode import SbmlModel
from invsamp.solvers.ode.symbolic.symbols import Unsupported, number, substituted, symbol


def noise_of(tables: Tables, model: SbmlModel) -> Noise | Outputs:
    """Gaussian noise, or log-normal noise where an observable is transformed by a logarithm."""
    scales = [_scale(tables, model, row) for row in tables.measurements]
    labels = ["linear" if _transformation(tables, row) == "lin" else "logarithmic" for row in tables.measurements]
    kinds = {"linear": GaussianNoise, "logarithmic": LogNormalNoise}
    noises = {
        label: kinds[label]([scale for scale, of in zip(scales, labels, strict=True) if of == label])
        for label in dict.fromkeys(labels)
    }
    return Outputs.labeled(labels, noises) if len(noises) > 1 else noises[labels[0]]


def _transformation(tables: Tables, row: Measurement) -> str:
    return tables.observables[row.observable].transformation


def _scale(tables: Tables, model: SbmlModel, row: Measurement) -> float | str:
    """A measurement's scale: a number, the name of a parameter, or a formula of parameters and ``y``."""
    found = formula(tables, row.observable, "noise", row.of_noise)
    factor = LOGARITHMS[_transformation(tables, row)]
    observed = formula(tables, row.observable, "observable", row.of_observable)
    found = found.xreplace({symbol(row.observable): _y()}).subs(observed, _y())
    given = setting(tables, model, row.condition).given
    cells = {name: cell for name, cell in given.items() if name not in tables.parameters or not isinstance(cell, str)}
    cells |= {name: each.nominal for name, each in tables.parameters.items() if not each.estimated}
    found = substituted(found, {n: symbol(c) if isinstance(c, str) else number(c) for n, c in cells.items()})
    if found.is_number:
        return float(found) * factor
    if found.is_Symbol and factor == 1.0 and found.name in tables.parameters:
        return str(found.name)
    known = {name for name, each in tables.parameters.items() if each.estimated}
    used = {each.name for each in found.free_symbols - {_y()}}
    if unknown := sorted(used - known):
        raise Unsupported(
            f"noiseFormula of {row.observable!r} that uses {unknown} is not supported, only its own observable"
        )
    if "y" in used:
        raise Unsupported(f"a parameter called 'y' is not supported in noiseFormula, got that of {row.observable!r}")
    return _text(number(factor) * found, row.observable)


def _y() -> Expression:
    """The prediction, as the noise's formulas call it."""
    return symbol("prediction of a measurement")


def _text(expression: Expression, observable: str) -> str:
    import sympy
    from sympy.printing.pycode import PythonCodePrinter

    allowed = sympy.Symbol("y", real=True)
    names = {"Abs": "abs"}
    if extra := {each.func.__name__ for each in expression.atoms(sympy.Function)} - set(FUNCTIONS) - set(names):
        raise Unsupported(f"noiseFormula of {observable!r} with {sorted(extra)} is not supported")
    printer: Given = PythonCodePrinter({"fully_qualified_modules": False})
    return str(printer.doprint(expression.xreplace({_y(): allowed})))
