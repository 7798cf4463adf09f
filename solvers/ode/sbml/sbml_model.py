"""Models of SBML files as ordinary differential equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from invsamp.arguments import mapping, names, optional, real, sequence
from invsamp.solvers.foreign import Expression, Given, OfState, Term
from invsamp.solvers.ode.events.doses_and_events import Event
from invsamp.solvers.ode.events.parameter_functions import Quantity, is_formula
from invsamp.solvers.ode.model.initial_values import Initial
from invsamp.solvers.ode.model.observation import OdeObservation
from invsamp.solvers.ode.model.ode_model import OdeModel
from invsamp.solvers.ode.model.steady_state import SteadyState
from invsamp.solvers.ode.sbml.parser import SbmlEvent, SbmlSystem, read_system
from invsamp.solvers.ode.symbolic.symbols import Unsupported, expanded, number, substituted, symbol, time_symbol
from invsamp.solvers.ode.symbolic.sympy_functions import (
    as_formula,
    as_function,
    as_initial,
    as_quantity,
    crossed,
    switches,
)


@dataclass(frozen=True, repr=False, kw_only=True, eq=False)
class SbmlModel(OdeModel):
    """An `OdeModel` of an SBML file, which knows what the file says; made by `from_sbml`.

    Attributes
    ----------
    system : SbmlSystem
        The file's equations.
    """

    system: SbmlSystem

    @property
    def values(self) -> dict[str, float]:
        """Values of the parameters, of those for which the file states one."""
        known = self.system.constants
        return {name: known[name] for name in self.parameters if not math.isnan(known.get(name, math.nan))}

    def observe(
        self,
        times: npt.ArrayLike,
        initial: Initial | SteadyState | None = None,
        *,
        t0: float | None = None,
        given: Mapping[str, float | str] | None = None,
        states: Sequence[str] | None = None,
        of: Given = None,
        jacobian: Callable[[Term, Term, Term], npt.ArrayLike] | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> OdeObservation:
        """As `OdeModel.observe`, with what the file says as a default.

        Parameters
        ----------
        initial : optional
            As of `OdeModel.observe`; the file's by default. A mapping changes those of some states.
        t0 : float, optional
            Time of the initial values, 0 by default.
        of : callable, or sequence of str, optional
            The latter are formulas of the file's names: ``["scale * (A + B)"]`` with a parameter ``scale``.
        times, given, states, jacobian, mask
            As of `OdeModel.observe`.

        Raises
        ------
        ValueError
            As `OdeModel.observe`. If ``t0`` is not 0 where the file has constants that depend on the time at the start,
            or events that may happen there.
        """
        start = 0.0 if t0 is None else real("t0", t0)
        if start != 0.0:
            self._check_start(start)
        begin = self.initial_values(initial, start) if initial is None or isinstance(initial, Mapping) else initial
        if isinstance(of, list | tuple):
            of = self.function([as_formula(f"of[{k}]", text) for k, text in enumerate(of)])
        return super().observe(times, begin, t0=start, given=given, states=states, of=of, jacobian=jacobian, mask=mask)

    def _check_start(self, t0: float) -> None:
        """`ValueError` if equations that were made for a start at 0 do not hold for another one."""
        own = {name: start for name, start in self.system.starts.items() if start is not None}
        moving = [
            name
            for name, start in expanded(own).items()
            if name in self.system.constants and name not in self.parameters and start.has(time_symbol())
        ]
        if moving:
            raise ValueError(f"t0 must be 0 where the file computes {moving} from the time at the start, got {t0}")
        if not all(event.before for event in self.system.events):
            raise ValueError(f"t0 must be 0 where events of the file may happen at the start, got {t0}")

    def initial_values(self, changed: Mapping[str, Quantity | Expression] | None = None, t0: float = 0.0) -> Initial:
        """Initial values as ``initial`` of `OdeModel.observe` has them: numbers and names, or a function of p.

        Parameters
        ----------
        changed : mapping from state to number, parameter or formula, optional
            In place of what the file says. What the file computes from these values follows. States in a SymPy formula
            are their initial values as the file has them.
        t0 : float
            The time at which they hold.

        Raises
        ------
        ValueError
            For names that are no states, functions, or a state that has no initial value.
        """
        changes = optional(mapping, "initial", changed, "a mapping from states to numbers or names") or {}
        if unknown := sorted(set(changes) - set(self.states)):
            raise ValueError(f"initial must be of states out of {self.states}, got {unknown}")
        new = {name: _formula(f"initial[{name!r}]", value) for name, value in changes.items()}
        if any(symbol(name) in each.free_symbols for each in new.values() for name in self.states):
            before = resolved(self.system, self.system.starts, self.parameters, t0)
            own = {symbol(name): before[name] for name in self.states if not _unknown(before.get(name))}
            new = {name: each.xreplace(own) for name, each in new.items()}
        starts = resolved(self.system, {**self.system.starts, **new}, self.parameters, real("t0", t0))
        for name in self.states:
            if _unknown(starts.get(name)):
                raise ValueError(f"initial must have a value for {name!r}, for which the file gives none")
        return as_initial([starts[name] for name in self.states], self.parameters)

    def changed_at(self, changes: Sequence[tuple[float, Mapping[str, Expression]]]) -> SbmlModel:
        """The same model with states set to formulas at given times, all at a time at once.

        Parameters
        ----------
        changes : sequence of pairs of a time and a mapping from state to formula
        """
        final = definitions(self.system, self.parameters)
        events = [
            _event(
                SbmlEvent(f"change at {time:g}", time_symbol() > number(time), each),
                final,
                self.states,
                self.parameters,
                {},
            )
            for time, each in changes
        ]
        return replace(self, events=(*self.events, *(each for each in events if each is not None)))

    def function(self, formulas: Sequence[Expression]) -> OfState:
        """A function of (t, x, p) whose values are those of some SymPy formulas of the file's names."""
        final = definitions(self.system, self.parameters)
        return as_function([final(each) for each in formulas], self.states, self.parameters)


def _formula(name: str, value: Quantity | Expression) -> Expression:
    if hasattr(value, "free_symbols"):
        return value
    if isinstance(value, str):
        return as_formula(name, value) if is_formula(value) else symbol(value)
    return number(real(name, value, also=", the name of a parameter or a formula"))


def from_sbml(
    path: str | Path,
    *,
    parameters: Sequence[str] | None = None,
    extra: Sequence[str] = (),
    changing: Sequence[str] = (),
    **settings: Any,
) -> SbmlModel:
    """Model of an SBML file.

    Parameters
    ----------
    path : str or Path
    parameters : sequence of str, optional
        Which of the file's constants are parameters of the model: parameters, compartments, or constant species. By
        default all that are called parameters there and have no formula. All others keep the file's values.
    extra : sequence of str
        More parameters, which the file does not have: for formulas of what is observed.
    changing : sequence of str
        Constants of the file that are states of the model, of rate 0: experiments set them to formulas, or change them
        as they go on.
    **settings
        Of `OdeModel`.

    Raises
    ------
    ModuleNotFoundError
        Without the extra ``petab``.
    ValueError
        For what is not supported, by name, and parameters that the file does not have.

    Notes
    -----
    Supported: levels 2 and 3 with reactions, rate and assignment rules, initial assignments, function definitions,
    piecewise formulas, models of models (the package ``comp``), and events without delays and priorities. A species is
    a concentration unless it has only substance units. Where a formula switches at a time, the model has a breakpoint
    there; where it does at a value of a state, an event.
    """
    system = read_system(path, sequence("changing", changing, "a sequence of names", least=0))
    more = sequence("extra", extra, "a sequence of names", least=0)
    chosen = (*_chosen(system, parameters), *(names("extra", more) if more else ()))
    final = definitions(system, chosen)
    states, rates = tuple(system.rates), [final(rate) for rate in system.rates.values()]
    times, crossings = switches(rates, states)
    # what changes states comes first: of several that happen at once, one that only switches a formula may end there
    first = _at_start(system) if system.events else {}
    events = [made for each in system.events if (made := _event(each, final, states, chosen, first)) is not None]
    events += [Event(when=as_function([each], states, chosen, scalar=True)) for each in crossings]
    return SbmlModel(
        rhs=as_function(rates, states, chosen),
        states=states,
        parameters=chosen,
        breakpoints=tuple(as_quantity(each, chosen) for each in times),
        events=tuple(events),
        system=system,
        **settings,
    )


def definitions(system: SbmlSystem, parameters: Collection[str]) -> Callable[[Expression], Expression]:
    """From a formula of a file's names to one of states, parameters and time."""
    starts = resolved(system, system.starts, parameters)
    derived = {name: start for name, start in starts.items() if name in system.constants and not _unknown(start)}
    fixed = {name: number(value) for name, value in system.constants.items() if name not in parameters}
    known = {name: value for name, value in {**fixed, **derived}.items() if name not in parameters}

    def final(formula: Expression) -> Expression:
        found = substituted(substituted(formula, system.rules), known)
        if found.has(number(math.nan)):
            lost = sorted(
                each for each, value in known.items() if _unknown(value) and symbol(each) in formula.free_symbols
            )
            raise ValueError(f"SBML must give values of all names in formulas, got none of {lost} in {formula}")
        return found

    return final


def resolved(
    system: SbmlSystem, starts: Mapping[str, Expression | None], parameters: Collection[str], t0: float = 0.0
) -> dict[str, Expression]:
    """Initial values at a time in terms of parameters alone."""
    own = {name: start for name, start in starts.items() if start is not None and name not in parameters}
    fixed = {n: number(v) for n, v in system.constants.items() if n not in parameters and n not in own}
    return {
        name: substituted(start, fixed).xreplace({time_symbol(): number(t0)}) for name, start in expanded(own).items()
    }


def _unknown(start: Expression | None) -> bool:
    return start is None or bool(start.has(number(math.nan)))


def _chosen(system: SbmlSystem, parameters: Sequence[str] | None) -> tuple[str, ...]:
    if parameters is None:
        kept = system.constants.keys() - system.compartments - system.starts.keys()
        return tuple(name for name in system.constants if name in kept)
    listed = sequence("parameters", parameters, "a sequence of names", least=0)
    chosen = names("parameters", listed) if listed else ()
    if unknown := [name for name in chosen if name not in system.constants]:
        raise ValueError(f"parameters must be constants of the file, {sorted(system.constants)}, got {unknown}")
    return chosen


def _event(
    event: SbmlEvent,
    final: Callable[[Expression], Expression],
    states: tuple[str, ...],
    parameters: tuple[str, ...],
    first: Mapping[Expression, Expression],
) -> Event | None:
    """The event of a model; None if it never happens. ``first`` has all values at the start, as the file states them.

    An event happens when its trigger becomes true: at the start, too, if it is true there, and counts as false before.
    """
    trigger = final(event.trigger)
    if not trigger.is_Relational:
        raise Unsupported(f"triggers of events that are no single comparison are not supported, got {event.trigger}")
    if unknown := sorted(set(event.assignments) - set(states)):
        raise Unsupported(f"events that set {unknown} are not supported")
    time, crossing, rising = crossed(trigger, states)
    new = [final(event.assignments[name]) if name in event.assignments else symbol(name) for name in states]
    change = as_function(new, states, parameters)
    if time is not None and rising:
        if event.before and trigger.rel_op in ("<=", ">=") and time.is_number and time <= 0:
            return None  # true from the start on
        return Event(at=as_quantity(time if event.before else _latest(time), parameters), change=change)
    at_start = event.trigger.xreplace(first)
    if not event.before and at_start != False:  # noqa: E712 (SymPy's)
        raise Unsupported(f"events at the start, by initialValue of their trigger, are not supported, got {trigger}")
    if crossing is None:
        return None
    if trigger.rel_op in ("<", ">") and event.trigger.lhs.xreplace(first) == event.trigger.rhs.xreplace(first):
        raise Unsupported(f"events whose trigger begins at its threshold are not supported, got {trigger}")
    when = as_function([crossing], states, parameters, scalar=True)
    return Event(when=when, change=change, direction="up" if rising else "down")


def _latest(time: Expression) -> Expression:
    import sympy

    return sympy.Max(time, number(0.0))


def _at_start(system: SbmlSystem) -> dict[Expression, Expression]:
    """Values of all names of a file at the start, as it states them."""
    numbers = {name: number(value) for name, value in system.constants.items()}
    found = {symbol(name): value for name, value in {**numbers, **resolved(system, system.starts, ())}.items()}
    return {**{name: value for name, value in found.items() if not _unknown(value)}, time_symbol(): number(0.0)}
