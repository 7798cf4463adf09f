"""The experiments of a PEtab problem: one model, seen under one condition after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invsamp.petab.reading import Measurement, Tables
from invsamp.protocols import Facts
from invsamp.solvers.foreign import Expression
from invsamp.solvers.ode import Experiments, OdeObservation, SbmlModel, SteadyState, from_sbml
from invsamp.solvers.ode.sbml.parser import read_system
from invsamp.solvers.ode.symbolic.symbols import Unsupported, number, substituted, symbol, time_symbol
from invsamp.solvers.ode.symbolic.sympy_functions import as_formula

#: An experiment: the condition before it, its own, and whether what is seen is the state in which it comes to rest.
Key = tuple[str | None, str, bool]


@dataclass(frozen=True)
class Setting:
    """What a condition says: values of the model's parameters, and initial values of states."""

    given: Mapping[str, float | str]
    initial: Mapping[str, float | str]


def experiments(tables: Tables, settings: Mapping[str, object]) -> tuple[Experiments, SbmlModel]:
    """The forward model of all measurements, in their order, and the model that it solves."""
    model = _model(tables, settings)
    groups: dict[Key, list[int]] = {}
    for k, row in enumerate(tables.measurements):
        groups.setdefault((row.rest, row.condition, math.isinf(row.time)), []).append(k)
    observations, rows, before = {}, np.empty(len(tables.measurements), dtype=np.intp), 0
    for key, members in groups.items():
        observed, places = _experiment(tables, model, key, [tables.measurements[k] for k in members])
        rows[members] = before + places
        before += observed.n_observations
        observations[_called(key)] = observed
    return Experiments(observations, rows), model


def setting(tables: Tables, model: SbmlModel, condition: str) -> Setting:
    """What a condition says of the model."""
    cells = tables.conditions[condition]
    if unknown := sorted(name for name in cells if name not in {*model.parameters, *model.states}):
        raise Unsupported(f"conditions that set {unknown} are not supported: neither constants nor states of the model")
    given: dict[str, float | str] = {}
    for name in model.parameters:
        cell = cells.get(name)
        if cell is None and name in tables.parameters:
            cell = name
        if cell is None:
            cell = model.values.get(name)
        if cell is None:
            raise ValueError(f"{name!r} must have a value under the condition {condition!r}, got none")
        given[name] = value(tables, cell, condition)
    initial = {
        name: value(tables, cell, condition)
        for name, cell in cells.items()
        if name in model.states and cell is not None
    }
    return Setting(given, initial)


def value(tables: Tables, cell: float | str, where: str) -> float | str:
    """A number, or the name of a parameter that is estimated."""
    if not isinstance(cell, str):
        return cell
    if cell not in tables.parameters:
        raise ValueError(f"{where!r} must name parameters of the table, got {cell!r}")
    parameter = tables.parameters[cell]
    return cell if parameter.estimated else parameter.nominal


def formula(tables: Tables, name: str, kind: str, overrides: tuple[float | str, ...]) -> Expression:
    """The formula of an observable, or of its noise, with what stands for its placeholders."""
    row = tables.observables[name]
    found = as_formula(f"{kind}Formula of {name!r}", row.formula if kind == "observable" else row.noise)
    own = {symbol(f"{kind}Parameter{k + 1}_{name}"): cell for k, cell in enumerate(overrides)}
    placeholders = {each for each in found.free_symbols if each.name.startswith(f"{kind}Parameter")}
    if missing := sorted(each.name for each in placeholders - set(own)):
        raise ValueError(f"{kind}Parameters must have a value for each of the placeholders of {name!r}, not {missing}")
    return found.xreplace(
        {each: number(cell) if not isinstance(cell, str) else symbol(cell) for each, cell in own.items()}
    )


def _model(tables: Tables, settings: Facts) -> SbmlModel:
    """The model, whose parameters are what conditions and formulas need."""
    system = read_system(tables.model)
    columns = {name for cells in tables.conditions.values() for name in cells}
    own = [name for name in system.constants if name in columns or name in tables.parameters]
    if wrong := sorted(name for name in tables.parameters if name in system.rates):
        raise Unsupported(f"parameters that are states of the model are not supported, got {wrong}")
    named = {
        cell for cells in tables.conditions.values() for cell in cells.values() if isinstance(cell, str)
    }  # fmt: skip
    for row in tables.measurements:
        named |= {each.name for each in formula(tables, row.observable, "observable", row.of_observable).free_symbols}
    extra = [name for name in tables.parameters if name in named and name not in own]
    return from_sbml(tables.model, parameters=own, extra=extra, **settings)


def _experiment(
    tables: Tables, model: SbmlModel, key: Key, measured: Sequence[Measurement]
) -> tuple[OdeObservation, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """One experiment, and where its observations of each measurement are."""
    rest, condition, at_rest = key
    here = setting(tables, model, condition)
    seen = list(dict.fromkeys((row.observable, row.of_observable) for row in measured))
    times = [0.0] if at_rest else sorted({row.time for row in measured})
    places = [
        (0 if at_rest else times.index(row.time), seen.index((row.observable, row.of_observable))) for row in measured
    ]
    mask = np.zeros((len(times), len(seen)), dtype=bool)
    mask[tuple(np.transpose(places))] = True
    numbered = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    formulas = [formula(tables, name, "observable", overrides) for name, overrides in seen]
    if at_rest and any(time_symbol() in each.free_symbols for each in formulas):
        raise Unsupported(f"observables that depend on time are not supported at infinite times, got {seen}")
    observed = model.observe(
        times,
        _start(tables, model, rest, here, at_rest),
        given={name: cell for name, cell in here.given.items() if cell != name},
        of=model.function([_fixed(tables, each) for each in formulas]),
        mask=mask,
    )
    return observed, numbered[tuple(np.transpose(places))]


def _start(tables: Tables, model: SbmlModel, rest: str | None, here: Setting, at_rest: bool) -> Any:
    if rest is None:
        begin = model.initial_values(here.initial)
        return SteadyState(begin) if at_rest else begin
    if at_rest:
        raise Unsupported("measurements at infinite times after a pre-equilibration are not supported")
    before = setting(tables, model, rest)
    changed = {name: cell for name, cell in before.given.items() if cell != name}
    return SteadyState(model.initial_values(before.initial), changed, then=here.initial)


def _fixed(tables: Tables, expression: Expression) -> Expression:
    """A formula with the numbers of parameters that are not estimated."""
    known = {name: number(each.nominal) for name, each in tables.parameters.items() if not each.estimated}
    return substituted(expression, known)


def _called(key: Key) -> str:
    rest, condition, at_rest = key
    return f"{f'{rest}, then ' if rest else ''}{condition}{' at rest' if at_rest else ''}"
