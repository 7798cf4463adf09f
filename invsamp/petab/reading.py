"""The tables of a PEtab problem, version 1, and what is refused of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invsamp.arguments import instance
from invsamp.protocols import Facts
from invsamp.solvers.ode.symbolic.symbols import Unsupported, needed

#: What a cell says: a number, the name of a parameter, or nothing.
Cell = float | str | None


@dataclass(frozen=True)
class Parameter:
    """A row of the table of parameters."""

    name: str
    scale: str  # lin, log or log10
    lower: float
    upper: float
    nominal: float
    estimated: bool
    prior: str
    prior_parameters: tuple[float, ...]


@dataclass(frozen=True)
class Observable:
    """A row of the table of observables."""

    name: str
    formula: str
    noise: str
    transformation: str  # lin, log or log10


@dataclass(frozen=True)
class Measurement:
    """A row of the table of measurements."""

    observable: str
    rest: str | None  # the condition in which the system comes to rest before
    condition: str
    time: float
    value: float
    of_observable: tuple[float | str, ...]  # what stands for the placeholders
    of_noise: tuple[float | str, ...]


@dataclass(frozen=True)
class Tables:
    """A problem as its tables, checked."""

    model: Path
    parameters: Mapping[str, Parameter]
    conditions: Mapping[str, Mapping[str, Cell]]
    observables: Mapping[str, Observable]
    measurements: Sequence[Measurement]


def read_tables(path: str | Path) -> Tables:
    """The tables of the problem whose YAML file this is.

    Raises
    ------
    ModuleNotFoundError
        Without the extra ``petab``.
    Unsupported
        A ValueError, for features that are not supported.
    ValueError
        For a file that is not there or is no problem, and tables that do not fit together.
    """
    yaml, lint = needed("yaml"), needed("petab.v1")
    instance("path", path, (str, Path), "the path of a PEtab problem")
    if not Path(path).is_file():
        raise ValueError(f"path must be the YAML file of a PEtab problem, got {str(path)!r}, which is not there")
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "problems" not in content:
        known = isinstance(content, dict) and str(content.get("format_version", "")).startswith("2")
        raise (Unsupported if known else ValueError)(
            f"path must be the YAML file of a PEtab problem of version 1, got {str(path)!r}"
        )
    model = _single(content, Path(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of how it calls pandas
            problem = lint.Problem.from_yaml(str(path))
    except Exception as error:  # of all kinds, from what reads tables
        raise ValueError(f"path must be the YAML file of a PEtab problem, got {str(path)!r}: {error}") from error
    observables = {name: _observable(name, row) for name, row in problem.observable_df.to_dict("index").items()}
    tables = Tables(
        model,
        {name: _parameter(name, row) for name, row in problem.parameter_df.to_dict("index").items()},
        {
            name: {key: _cell(value) for key, value in row.items() if key != "conditionName"}
            for name, row in problem.condition_df.to_dict("index").items()
        },
        observables,
        tuple(_measurement(k, row, observables) for k, row in enumerate(problem.measurement_df.to_dict("records"))),
    )
    _check(tables)
    return tables


def _single(content: Facts, path: Path) -> Path:
    """The file of the one model of the one problem."""
    problems = content["problems"]
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
    if scale not in ("lin", "log", "log10"):
        raise Unsupported(f"parameterScale of {name!r} must be 'lin', 'log' or 'log10', got {scale!r}")
    kind = row.get("objectivePriorType")
    listed = row.get("objectivePriorParameters")
    known = () if _empty(listed) else tuple(float(each) for each in str(listed).split(";"))
    return Parameter(
        name,
        scale,
        float(row.get("lowerBound", -math.inf)),
        float(row.get("upperBound", math.inf)),
        float(row.get("nominalValue", math.nan)),
        bool(int(row["estimate"])),
        "parameterScaleUniform" if _empty(kind) else str(kind),
        known,
    )


def _observable(name: str, row: Mapping[str, object]) -> Observable:
    transformation = row.get("observableTransformation")
    transformation = "lin" if _empty(transformation) else str(transformation)
    if transformation not in ("lin", "log", "log10"):
        raise Unsupported(f"observableTransformation of {name!r} must be lin, log or log10, got {transformation!r}")
    noise = row.get("noiseDistribution")
    if not _empty(noise) and noise != "normal":
        raise Unsupported(f"noiseDistribution {noise!r} of {name!r} is not supported, only 'normal' is")
    return Observable(name, str(row["observableFormula"]), str(row["noiseFormula"]), transformation)


def _measurement(k: int, row: Facts, observables: Mapping[str, Observable]) -> Measurement:
    name, rest, time = str(row["observableId"]), row.get("preequilibrationConditionId"), float(row["time"])
    if name not in observables:
        raise ValueError(f"measurements must be of the observables {sorted(observables)}, got {name!r} in row {k}")
    if not time >= 0.0:
        raise Unsupported(f"measurements before time 0 are not supported, got {time} in row {k}")
    overrides = (_overrides(row.get(column)) for column in ("observableParameters", "noiseParameters"))
    rest = None if _empty(rest) else str(rest)
    return Measurement(name, rest, str(row["simulationConditionId"]), time, float(row["measurement"]), *overrides)


def _overrides(cell: object) -> tuple[float | str, ...]:
    """What a cell of values between semicolons has."""
    if _empty(cell):
        return ()
    return tuple(_known(part.strip()) for part in str(cell).split(";"))


def _known(part: str) -> float | str:
    try:
        return float(part)
    except ValueError:
        return part


def _cell(value: Any) -> Cell:
    if _empty(value):
        return None
    return _known(value.strip()) if isinstance(value, str) else float(value)


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value != value


def _check(tables: Tables) -> None:
    conditions = {row.condition for row in tables.measurements} | {row.rest for row in tables.measurements} - {None}
    if unknown := sorted(str(each) for each in conditions - set(tables.conditions)):
        raise ValueError(f"measurements must be under the conditions {sorted(tables.conditions)}, got {unknown}")
    estimated = [each for each in tables.parameters.values() if each.estimated]
    if not estimated:
        raise ValueError("parameters must have at least one that is estimated, got none")
    for each in estimated:
        least = -math.inf if each.scale == "lin" else 0.0
        if each.prior == "parameterScaleUniform" and not (each.lower < each.upper and each.lower > least):
            raise ValueError(
                f"bounds of {each.name!r} must increase and be above {least}, got {each.lower}, {each.upper}"
            )
    for each in tables.parameters.values():
        if not each.estimated and math.isnan(each.nominal):
            raise ValueError(f"nominalValue of {each.name!r} must be a number where it is not estimated, got NaN")
