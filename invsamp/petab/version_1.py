"""The tables of a PEtab problem of version 1, and what is refused of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from invsamp.petab.tables import Experiment, Measurement, Observable, Parameter, Tables
from invsamp.protocols import Facts
from invsamp.solvers.ode.symbolic.symbols import Unsupported

#: Natural logarithm of the base of a scale.
LOGARITHMS = {"lin": 1.0, "log": 1.0, "log10": math.log(10.0)}
#: Families of priors, for the parameter itself.
_PRIORS = {
    "uniform": "uniform",
    "normal": "normal",
    "laplace": "laplace",
    "logNormal": "log-normal",
    "logLaplace": "log-laplace",
}


def tables_of_version_1(content: Facts, problem: Callable[[], Any], path: Path) -> Tables:
    """The tables of the file ``path`` with this content, which ``problem`` reads."""
    model = _single(content, path)
    read = problem()
    observables = {name: _observable(name, row) for name, row in read.observable_df.to_dict("index").items()}
    conditions = {
        name: {key: cell for key, value in row.items() if key != "conditionName" and (cell := _cell(value)) is not None}
        for name, row in read.condition_df.to_dict("index").items()
    }
    experiments: dict[str, Experiment] = {}
    rows = read.measurement_df.to_dict("records")
    measurements = tuple(_measurement(k, row, conditions, experiments) for k, row in enumerate(rows))
    parameters = {name: _parameter(name, row) for name, row in read.parameter_df.to_dict("index").items()}
    return Tables(model, parameters, experiments, observables, measurements)


def _single(content: Facts, path: Path) -> Path:
    """The file of the one model of the one problem."""
    problems = content.get("problems")
    if not isinstance(problems, list):
        raise ValueError(f"path must be the YAML file of a PEtab problem with 'problems', got {str(path)!r}")
    if len(problems) != 1:
        raise Unsupported(f"PEtab files of several problems are not supported, got {len(problems)}")
    one = problems[0]
    if one.get("mapping_files"):
        raise Unsupported(f"mapping files of PEtab are not supported, got {one['mapping_files']}")
    if "model_files" in one:
        raise Unsupported(f"models in other languages than SBML are not supported, got {one['model_files']}")
    files = one.get("sbml_files", [])
    if len(files) != 1:
        raise Unsupported(f"PEtab problems of several models are not supported, got sbml_files {files}")
    return path.parent / str(files[0])


def _parameter(name: str, row: Facts) -> Parameter:
    scale = row.get("parameterScale", "lin") or "lin"
    if scale not in LOGARITHMS:
        raise Unsupported(f"parameterScale of {name!r} must be 'lin', 'log' or 'log10', got {scale!r}")
    lower, upper = float(row.get("lowerBound", -math.inf)), float(row.get("upperBound", math.inf))
    estimated, kind = bool(int(row["estimate"])), row.get("objectivePriorType")
    if _empty(kind):
        least = -math.inf if scale == "lin" else 0.0
        if estimated and not (lower < upper and lower > least):
            raise ValueError(f"bounds of {name!r} must increase and be above {least}, got {lower}, {upper}")
    family, numbers = _prior(name, scale, "parameterScaleUniform" if _empty(kind) else str(kind), row, lower, upper)
    return Parameter(name, lower, upper, float(row.get("nominalValue", math.nan)), estimated, family, numbers)


def _prior(name: str, scale: str, kind: str, row: Facts, lower: float, upper: float) -> tuple[str, tuple[float, ...]]:
    """The prior's family and parameters, of the parameter or of its natural logarithm."""
    listed = row.get("objectivePriorParameters")
    given = () if _empty(listed) else tuple(float(each) for each in str(listed).split(";"))
    unit = 1.0
    if kind.startswith("parameterScale"):
        kind = kind.removeprefix("parameterScale")
        kind = kind.lower() if scale == "lin" else f"log{kind}"
        unit = LOGARITHMS[scale]
    if kind == "logUniform":
        return "log-uniform", tuple(math.exp(unit * each) for each in given) or (lower, upper)
    if kind not in _PRIORS:
        raise Unsupported(f"objectivePriorType {row.get('objectivePriorType')!r} of {name!r} is not supported")
    family = _PRIORS[kind]
    if family == "uniform":
        return family, given or (lower, upper)
    if len(given) != 2:
        raise ValueError(f"objectivePriorParameters of {name!r} must be two numbers, got {given}")
    return family, tuple(unit * each for each in given)


def _observable(name: str, row: Mapping[str, object]) -> Observable:
    transformation, noise = (row.get(key) for key in ("observableTransformation", "noiseDistribution"))
    transformation = "lin" if _empty(transformation) else str(transformation)
    if transformation not in LOGARITHMS:
        raise Unsupported(f"observableTransformation of {name!r} must be lin, log or log10, got {transformation!r}")
    noise = "normal" if _empty(noise) else str(noise)
    if noise not in ("normal", "laplace"):
        raise Unsupported(f"noiseDistribution {noise!r} of {name!r} is not supported, 'normal' and 'laplace' are")
    formulas = str(row["observableFormula"]), str(row["noiseFormula"])
    return Observable(
        name,
        *formulas,
        noise if transformation == "lin" else f"log-{noise}",
        LOGARITHMS[transformation],
        *(_placeholders(kind, name, text) for kind, text in zip(("observable", "noise"), formulas, strict=True)),
    )


def _placeholders(kind: str, name: str, formula: str) -> tuple[str, ...]:
    """The placeholders of a formula, from the first to the last."""
    found = re.findall(rf"\b{kind}Parameter(\d+)_{re.escape(name)}\b", formula)
    return tuple(f"{kind}Parameter{k + 1}_{name}" for k in range(max(map(int, found), default=0)))


def _measurement(
    k: int, row: Facts, conditions: Mapping[str, Mapping[str, float | str]], experiments: dict[str, Experiment]
) -> Measurement:
    """A row of the table; its experiment is added to the others."""
    rest, condition, time = (
        row.get("preequilibrationConditionId"),
        str(row["simulationConditionId"]),
        float(row["time"]),
    )
    if not time >= 0.0:
        raise Unsupported(f"measurements before time 0 are not supported, got {time} in row {k}")
    before = [] if _empty(rest) else [str(rest)]
    if unknown := sorted({*before, condition} - set(conditions)):
        raise ValueError(f"measurements must be under the conditions {sorted(conditions)}, got {unknown} in row {k}")
    name = ", then ".join([*before, condition])
    experiments[name] = Experiment(conditions[condition], conditions[before[0]] if before else None)
    overrides = (_overrides(row.get(column)) for column in ("observableParameters", "noiseParameters"))
    return Measurement(str(row["observableId"]), name, time, float(row["measurement"]), *overrides)


def _overrides(cell: object) -> tuple[float | str, ...]:
    """The values of a cell, between semicolons."""
    if _empty(cell):
        return ()
    return tuple(_known(part.strip()) for part in str(cell).split(";"))


def _known(part: str) -> float | str:
    try:
        return float(part)
    except ValueError:
        return part


def _cell(value: Any) -> float | str | None:
    if _empty(value):
        return None
    return _known(value.strip()) if isinstance(value, str) else float(value)


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value != value
