"""The experiments of a PEtab problem: one model, seen in one experiment after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invsamp.petab.formulas import depends_on_model, fixed, noise_scale, observed, prediction
from invsamp.petab.tables import Experiment, Measurement, Tables, Value
from invsamp.protocols import Facts
from invsamp.solvers.foreign import Expression
from invsamp.solvers.ode import Experiments, OdeObservation, SbmlModel, SteadyState, from_sbml
from invsamp.solvers.ode.sbml.parser import SbmlSystem, read_system
from invsamp.solvers.ode.symbolic.symbols import Unsupported, number, symbol, time_symbol
from invsamp.solvers.ode.symbolic.sympy_functions import as_quantity


@dataclass(frozen=True)
class Setting:
    """Values of the model's parameters from a time on, and initial values of states."""

    given: Mapping[str, float | str]
    initial: Mapping[str, Expression]


def experiments(tables: Tables, settings: Mapping[str, object]) -> tuple[Experiments, SbmlModel, list[int]]:
    """The forward model of all measurements, in their order, the model that it solves, and which scales it predicts.

    After the measurements it has the scale of the noise of each of those that are listed last.
    """
    system = read_system(tables.model)
    predicted = [k for k, row in enumerate(tables.measurements) if depends_on_model(tables, row, system.constants)]
    model = _model(tables, system, predicted, settings)
    wanted = [(row, False) for row in tables.measurements] + [(tables.measurements[k], True) for k in predicted]
    groups: dict[tuple[str, bool], list[int]] = {}
    for k, (row, _) in enumerate(wanted):
        groups.setdefault((row.experiment, math.isinf(row.time)), []).append(k)
    observations, rows, before = {}, np.empty(len(wanted), dtype=np.intp), 0
    for (name, at_rest), members in groups.items():
        found, places = _experiment(tables, model, name, at_rest, [wanted[k] for k in members])
        rows[members] = before + places
        before += found.n_observations
        observations[f"{name} at rest" if at_rest else name] = found
    return Experiments(observations, rows), model, predicted


def setting(tables: Tables, model: SbmlModel, cells: Mapping[str, Value], where: str) -> Setting:
    """The settings of the model in an experiment."""
    if unknown := sorted(name for name in cells if name not in {*model.parameters, *model.states}):
        raise Unsupported(f"conditions that set {unknown} are not supported: neither constants nor states of the model")
    given: dict[str, float | str] = {}
    for name in model.parameters:
        cell = cells.get(name, name if name in tables.parameters else model.values.get(name))
        if cell is None:
            raise ValueError(f"{name!r} must have a value in the experiment {where!r}, got none")
        given[name] = value(tables, cell, where)
    return Setting(given, {name: _expression(tables, cell) for name, cell in cells.items() if name in model.states})


def value(tables: Tables, cell: Value, where: str) -> float | str:
    """A number, or the name of a parameter that is estimated."""
    if not isinstance(cell, str):
        return float(cell)
    if cell not in tables.parameters:
        raise ValueError(f"{where!r} must name parameters of the table, got {cell!r}")
    parameter = tables.parameters[cell]
    return cell if parameter.estimated else parameter.nominal


def _expression(tables: Tables, cell: Value) -> Expression:
    """Expression that sets a state, with the numbers of parameters that are not estimated."""
    if isinstance(cell, str):
        return fixed(tables, symbol(cell))
    return fixed(tables, cell) if hasattr(cell, "free_symbols") else number(float(cell))


def _changes(tables: Tables) -> Iterable[Mapping[str, Value]]:
    """All changes of all experiments."""
    for each in tables.experiments.values():
        yield each.rest or {}
        yield each.changes
        yield from (later for _, later in each.later)


def _model(tables: Tables, system: SbmlSystem, predicted: Sequence[int], settings: Facts) -> SbmlModel:
    """The model, whose parameters are what experiments and formulas need."""
    if wrong := sorted(name for name in tables.parameters if name in system.rates):
        raise Unsupported(f"parameters that are states of the model are not supported, got {wrong}")
    changing = _changing(tables, system)
    targets = {name for cells in _changes(tables) for name in cells}
    own = [
        name
        for name in system.constants
        if name not in changing and (name in targets or name in tables.parameters)
    ]  # fmt: skip
    cells = [each for cells in _changes(tables) for each in cells.values()]
    named = {each.name for cell in cells for each in getattr(cell, "free_symbols", ())}
    named |= {cell for cell in cells if isinstance(cell, str)}
    formulas = [observed(tables, row) for row in tables.measurements]
    formulas += [noise_scale(tables, tables.measurements[k]) for k in predicted]
    named |= {each.name for formula in formulas for each in formula.free_symbols}
    extra = [name for name in tables.parameters if name in named and name not in own]
    return from_sbml(tables.model, parameters=own, extra=extra, changing=changing, **settings)


def _changing(tables: Tables, system: SbmlSystem) -> list[str]:
    """Constants that are set to formulas, or while an experiment goes on."""
    found = {name for cells in _changes(tables) for name, cell in cells.items() if hasattr(cell, "free_symbols")}
    found |= {name for each in tables.experiments.values() for _, later in each.later for name in later}
    found &= set(system.constants)
    if both := sorted(found & set(tables.parameters)):
        raise Unsupported(f"conditions must not set parameters of the table to formulas, got {both}")
    return sorted(found)


def _experiment(
    tables: Tables, model: SbmlModel, name: str, at_rest: bool, wanted: Sequence[tuple[Measurement, bool]]
) -> tuple[OdeObservation, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """One experiment, and where its observations are: of each measurement, or of the scale of its noise."""
    experiment = tables.experiments[name]
    here = setting(tables, model, experiment.changes, name)
    later = [(time, setting(tables, model, cells, name).initial) for time, cells in experiment.later]
    if experiment.rest is not None and any(_uses(each, model.states) for each in here.initial.values()):
        # what depends on the state in which the system came to rest is an event
        later, here = [(experiment.start, here.initial), *later], Setting(here.given, {})
    if at_rest and later:
        raise Unsupported(f"measurements at infinite times after changes are not supported, got {name!r}")
    after = dict(later)
    kinds = [_kind(tables, row, scale, after) for row, scale in wanted]
    formulas = list(dict.fromkeys(kinds))
    times = [0.0] if at_rest else sorted({row.time for row, _ in wanted})
    places = [
        (0 if at_rest else times.index(row.time), formulas.index(kind))
        for (row, _), kind in zip(wanted, kinds, strict=True)
    ]
    mask = np.zeros((len(times), len(formulas)), dtype=bool)
    mask[tuple(np.transpose(places))] = True
    numbered = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    if at_rest and any(time_symbol() in each.free_symbols for each in formulas):
        raise Unsupported(f"observables that depend on time are not supported at infinite times, got {formulas}")
    found = model.changed_at(later).observe(
        times,
        _start(tables, model, experiment, name, here, at_rest),
        t0=0.0 if at_rest else experiment.start,
        given={parameter: cell for parameter, cell in here.given.items() if cell != parameter},
        of=model.function(formulas),
        mask=mask,
    )
    return found, numbered[tuple(np.transpose(places))]


def _kind(tables: Tables, row: Measurement, scale: bool, after: Mapping[float, Mapping[str, Expression]]) -> Expression:
    """The formula of what is measured, or of the scale of its noise.

    Outputs at the time of a change are those before it. A measurement sees what is after it.
    """
    found = observed(tables, row)
    if scale:
        found = noise_scale(tables, row).xreplace({prediction(): found})
    changes = after.get(row.time, {})
    return fixed(tables, found).xreplace({symbol(state): new for state, new in changes.items()})


def _start(tables: Tables, model: SbmlModel, experiment: Experiment, name: str, here: Setting, at_rest: bool) -> Any:
    events = bool(model.system.events)
    if experiment.rest is None:
        begin = model.initial_values(here.initial)
        return SteadyState(begin, events=events) if at_rest else begin
    before = setting(tables, model, experiment.rest, name)
    changed = {parameter: cell for parameter, cell in before.given.items() if cell != parameter}
    then = {state: as_quantity(each, model.parameters) for state, each in here.initial.items()}
    rested = SteadyState(model.initial_values(before.initial), changed, then=then, events=events)
    return SteadyState(rested, events=events) if at_rest else rested


def _uses(expression: Expression, states: Iterable[str]) -> bool:
    return bool({each.name for each in expression.free_symbols} & set(states))
