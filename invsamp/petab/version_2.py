"""The tables of a PEtab problem of version 2, and what is refused of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from invsamp.petab.tables import Experiment, Measurement, Observable, Parameter, Tables, Value
from invsamp.protocols import Facts
from invsamp.solvers.ode.symbolic.symbols import Unsupported, normal

#: What measurements without an experiment belong to.
_PLAIN = "the model as it is"


def tables_of_version_2(content: Facts, problem: Callable[[], Any], path: Path) -> Tables:
    """The tables of the file ``path`` with this content, which ``problem`` reads."""
    models = content.get("model_files") or {}
    if len(models) != 1:
        raise Unsupported(f"PEtab problems of several models are not supported, got model_files {sorted(models)}")
    (model,) = models.values()
    if model.get("language") != "sbml":
        raise Unsupported(f"models in other languages than SBML are not supported, got {model.get('language')!r}")
    for key in ("mapping_files", "extensions"):
        if content.get(key):
            raise Unsupported(f"{key} of PEtab are not supported, got {content[key]}")
    read = problem()
    conditions = {each.id: each.changes for each in read.conditions}
    experiments = {each.id: _experiment(each, conditions) for each in read.experiments}
    if any(row.experiment_id is None for row in read.measurements):
        experiments[_PLAIN] = Experiment()
    measurements = tuple(_measurement(k, row, experiments) for k, row in enumerate(read.measurements))
    return Tables(
        path.parent / str(model["location"]),
        {each.id: _parameter(each) for each in read.parameters},
        experiments,
        {each.id: _observable(each) for each in read.observables},
        measurements,
    )


def _parameter(row: Any) -> Parameter:
    lower = -math.inf if row.lb is None else float(row.lb)
    upper = math.inf if row.ub is None else float(row.ub)
    nominal = math.nan if row.nominal_value is None else float(row.nominal_value)
    family = (
        None
        if row.prior_distribution is None
        else str(getattr(row.prior_distribution, "value", row.prior_distribution))
    )
    if family is None and row.estimate and not (lower < upper and math.isfinite(lower) and math.isfinite(upper)):
        raise ValueError(f"bounds of {row.id!r} must increase where it has no prior, got {lower}, {upper}")
    if family is None:
        return Parameter(row.id, lower, upper, nominal, bool(row.estimate), "uniform", (lower, upper))
    numbers = tuple(float(each) for each in row.prior_parameters)
    return Parameter(row.id, lower, upper, nominal, bool(row.estimate), family, numbers)


def _observable(row: Any) -> Observable:
    return Observable(
        row.id,
        row.formula,
        row.noise_formula,
        str(row.noise_distribution.value),
        1.0,
        tuple(each.name for each in row.observable_placeholders),
        tuple(each.name for each in row.noise_placeholders),
    )


def _experiment(row: Any, conditions: Facts) -> Experiment:
    periods = sorted(row.periods, key=lambda each: each.time)
    changes = [_changes(change for name in each.condition_ids for change in conditions[name]) for each in periods]
    rest = changes.pop(0) if periods and math.isinf(periods[0].time) else None
    times = [float(each.time) for each in periods if not math.isinf(each.time)]
    if not times:
        return Experiment({}, rest)
    return Experiment(changes[0], rest, times[0], tuple(zip(times[1:], changes[1:], strict=True)))


def _changes(changes: Iterable[Any]) -> dict[str, Value]:
    return {change.target_id: _value(change.target_value) for change in changes}


def _value(found: Any) -> Value:
    if found.is_number:
        return float(found)
    return str(found.name) if found.is_Symbol and found.name != "time" else normal(found, {})


def _measurement(k: int, row: Any, experiments: Facts) -> Measurement:
    name = _PLAIN if row.experiment_id is None else row.experiment_id
    if name not in experiments:
        raise ValueError(f"measurements must be of the experiments {sorted(experiments)}, got {name!r} in row {k}")
    if row.time < experiments[name].start:
        raise ValueError(f"measurements must not be before their experiment's start, got {row.time} in row {k}")
    of_observable, of_noise = (
        tuple(float(each) if each.is_number else str(each) for each in given)
        for given in (row.observable_parameters, row.noise_parameters)
    )
    return Measurement(row.observable_id, name, float(row.time), float(row.measurement), of_observable, of_noise)
