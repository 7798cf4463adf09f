"""The noise of a PEtab problem: a scale for each measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from invsamp.expression import FUNCTIONS
from invsamp.petab.conditions import setting
from invsamp.petab.formulas import noise_scale, prediction
from invsamp.petab.tables import Measurement, Tables
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise, ScaleFamily
from invsamp.posing.noise.laplace import LaplaceNoise, LogLaplaceNoise
from invsamp.posing.noise.per_output import Outputs
from invsamp.posing.noise.predicted_scale import PredictedScale
from invsamp.solvers.foreign import Expression, Given
from invsamp.solvers.ode import SbmlModel
from invsamp.solvers.ode.symbolic.symbols import Unsupported, number, substituted, symbol

#: Noises by PEtab's names of distributions.
DISTRIBUTIONS: dict[str, Callable[..., ScaleFamily]] = {
    "normal": GaussianNoise,
    "log-normal": LogNormalNoise,
    "laplace": LaplaceNoise,
    "log-laplace": LogLaplaceNoise,
}


def noise_of(tables: Tables, model: SbmlModel, predicted: Sequence[int]) -> Noise | Outputs:
    """The noise of all measurements, in their order, and of the scales that the model predicts after them.

    ``predicted`` are the measurements that have such a scale.
    """
    count, labels, scales = len(tables.measurements), [], []
    for k, row in enumerate(tables.measurements):
        kind = tables.observables[row.observable].distribution.replace("-", "_")
        labels.append(f"predicted_{kind}" if k in predicted else kind)
        scales.append(count + predicted.index(k) if k in predicted else _scale(tables, model, row))
    noises: dict[str, Noise] = {}
    for label in dict.fromkeys(labels):
        own = [scale for scale, of in zip(scales, labels, strict=True) if of == label]
        family = DISTRIBUTIONS[label.removeprefix("predicted_").replace("_", "-")]
        noises[label] = PredictedScale(family(1.0), own) if label.startswith("predicted") else family(own)
    if predicted:
        labels += ["scale"] * len(predicted)
        noises["scale"] = GaussianNoise(1.0)  # of which nothing is observed
    return Outputs.labeled(labels, noises) if len(noises) > 1 else noises[labels[0]]


def _scale(tables: Tables, model: SbmlModel, row: Measurement) -> float | str:
    """A measurement's scale: a number, the name of a parameter, or a formula of parameters and ``y``."""
    found = noise_scale(tables, row)
    given = setting(tables, model, tables.experiments[row.experiment].changes, row.experiment).given
    cells = {name: cell for name, cell in given.items() if name not in tables.parameters or not isinstance(cell, str)}
    cells |= {name: each.nominal for name, each in tables.parameters.items() if not each.estimated}
    known = {name: value for name, value in model.system.constants.items() if name not in tables.parameters}
    cells = {**known, **cells}
    found = substituted(found, {n: symbol(c) if isinstance(c, str) else number(c) for n, c in cells.items()})
    if found.is_number:
        return float(found)
    if found.is_Symbol and found.name in tables.parameters:
        return str(found.name)
    if "y" in {each.name for each in found.free_symbols}:
        raise Unsupported(f"a parameter called 'y' is not supported in noiseFormula, got that of {row.observable!r}")
    return _text(found, row.observable)


def _text(expression: Expression, observable: str) -> str:
    import sympy
    from sympy.printing.pycode import PythonCodePrinter

    allowed = sympy.Symbol("y", real=True)
    names = {"Abs": "abs"}
    if extra := {each.func.__name__ for each in expression.atoms(sympy.Function)} - set(FUNCTIONS) - set(names):
        raise Unsupported(f"noiseFormula of {observable!r} with {sorted(extra)} is not supported")
    printer: Given = PythonCodePrinter({"fully_qualified_modules": False})
    return str(printer.doprint(expression.xreplace({prediction(): allowed})))
