"""SBML files as SymPy expressions: what changes and how fast, where it starts, and what happens to it.

Every species is what its symbol means in the file's formulas: a concentration, or an amount where it has only substance
units. What is not understood is refused by name, here and at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from invsamp.arguments import instance
from invsamp.solvers.foreign import Expression, Sbml
from invsamp.solvers.ode.symbolic.symbols import (
    Unsupported,
    check_functions,
    expanded,
    needed,
    normal,
    number,
    substituted,
    symbol,
    time_symbol,
)

#: The state of a model in which nothing changes.
_RESTING = "resting"
#: Packages of SBML that change nothing in the equations.
_HARMLESS = {"fbc", "groups", "l3v2extendedmath", "layout", "render"}


@dataclass(frozen=True)
class SbmlEvent:
    """An event: the condition whose becoming true sets it off, what it sets to what, and what was true before."""

    name: str
    trigger: Expression
    assignments: Mapping[str, Expression]
    before: bool = True  # whether the trigger counts as true before the start (initialValue)


@dataclass(frozen=True)
class SbmlSystem:
    """The equations of a file, in real symbols; those of time is `TIME`.

    Attributes
    ----------
    rates : mapping
        Of each state its derivative.
    starts : mapping
        Of each state its initial value; also of constants that are set by an initial assignment. None: there is none.
    constants : mapping from str to float
        Parameters, compartments and constant species; NaN where the file gives no value.
    rules : mapping
        What assignment rules define.
    events : tuple of SbmlEvent
    compartments : frozenset of str
        Which of the constants are those.
    """

    rates: Mapping[str, Expression]
    starts: Mapping[str, Expression]
    constants: Mapping[str, float]
    rules: Mapping[str, Expression]
    events: tuple[SbmlEvent, ...]
    compartments: frozenset[str]


def read_system(path: str | Path, changing: Collection[str] = ()) -> SbmlSystem:
    """The equations of an SBML file, in which the constants ``changing`` are states that rest.

    Raises
    ------
    Unsupported
        A ValueError, for features that are not supported.
    ValueError
        For a file that is not there, or no SBML.
    """
    libsbml = needed("libsbml")
    instance("path", path, (str, Path), "the path of an SBML file")
    if not Path(path).is_file():
        raise ValueError(f"path must be an SBML file, got {str(path)!r}, which does not exist")
    document = libsbml.readSBMLFromFile(str(path))
    if document.getNumErrors(libsbml.LIBSBML_SEV_ERROR) or document.getNumErrors(libsbml.LIBSBML_SEV_FATAL):
        raise ValueError(f"path must be an SBML file, got {str(path)!r}: {_first_error(document, libsbml)}")
    flatten = ("flatten comp",) if document.getPlugin("comp") is not None else ()
    for conversion in (*flatten, "expandFunctionDefinitions", "promoteLocalParameters"):
        properties = libsbml.ConversionProperties()
        properties.addOption(conversion, True)
        if document.convert(properties) != libsbml.LIBSBML_OPERATION_SUCCESS:
            raise Unsupported(f"{path}: {conversion} of libsbml fails on it")
    model = document.getModel()
    if model is None:
        raise ValueError(f"path must be an SBML file with a model, got {str(path)!r}")
    _refuse(model, document)
    return _Reader(model, changing).system()


def _first_error(document: Sbml, libsbml: Sbml) -> str:
    severe = (libsbml.LIBSBML_SEV_ERROR, libsbml.LIBSBML_SEV_FATAL)
    errors = (document.getError(k) for k in range(document.getNumErrors()))
    return next((error.getMessage().strip() for error in errors if error.getSeverity() in severe), "no reason given")


def _refuse(model: Sbml, document: Sbml) -> None:
    """Unsupported for what a file has beside what `_Reader` reads."""
    packages = {document.getPlugin(k).getPackageName() for k in range(document.getNumPlugins())}
    if required := sorted(packages - _HARMLESS):
        raise Unsupported(f"SBML packages are not supported, got {required}")
    found = {
        "algebraic rules": [rule for rule in model.getListOfRules() if rule.isAlgebraic()],
        "constraints": model.getListOfConstraints(),
        "fast reactions": [each for each in model.getListOfReactions() if each.isSetFast() and each.getFast()],
        "conversion factors": [each for each in model.getListOfSpecies() if each.isSetConversionFactor()],
        "delays of events": [each for each in model.getListOfEvents() if each.isSetDelay()],
        "priorities of events": [each for each in model.getListOfEvents() if each.isSetPriority()],
        "stoichiometries that are formulas": [
            each for each in _references(model) if each.isSetStoichiometryMath()
        ],
        "stoichiometries that change": [
            each for each in _references(model) if each.isSetId() and model.getRule(each.getId()) is not None
        ],
    }  # fmt: skip
    if model.isSetConversionFactor():
        found["conversion factors"] = [model]
    for what, where in found.items():
        if len(where):
            names = [each.getId() or each.getElementName() for each in where]
            raise Unsupported(f"{what} of SBML are not supported, got {names[:5]}")


def _references(model: Sbml) -> Iterable[Sbml]:
    for reaction in model.getListOfReactions():
        yield from reaction.getListOfReactants()
        yield from reaction.getListOfProducts()


class _Reader:
    """A model of libsbml on its way to an `SbmlSystem`."""

    def __init__(self, model: Sbml, changing: Collection[str]) -> None:
        self.model = model
        self.parse = _parser()
        self.assigned = {r.getVariable(): self.parse(r) for r in model.getListOfRules() if r.isAssignment()}
        self.rated = {r.getVariable(): self.parse(r) for r in model.getListOfRules() if r.isRate()}
        self.initial = {each.getSymbol(): self.parse(each) for each in model.getListOfInitialAssignments()}
        self.fluxes = {each.getId(): self._flux(each) for each in model.getListOfReactions()}
        self.events = tuple(
            SbmlEvent(
                each.getId() or f"event {k}",
                self.parse(each.getTrigger()),
                {one.getVariable(): self.parse(one) for one in each.getListOfEventAssignments()},
                each.getTrigger().getInitialValue(),
            )
            for k, each in enumerate(model.getListOfEvents())
        )
        self.set_outside = frozenset(changing)
        self.changed = {*changing, *(name for event in self.events for name in event.assignments)}

    def system(self) -> SbmlSystem:
        model, constants, starts = self.model, {}, {}
        rates: dict[str, Expression] = {}
        species = {each.getId(): each for each in model.getListOfSpecies()}
        compartments = {each.getId(): each for each in model.getListOfCompartments()}
        for name, each in species.items():
            if name in self.assigned:
                continue
            moves = name in self.rated or not each.getBoundaryCondition()
            start = self.initial.get(name, self._first(each))
            if (moves and not each.getConstant()) or name in self.changed:
                rates[name], starts[name] = self._rate(name, each), start
            else:
                constants[name], starts[name] = float("nan"), start
        sizes = ((name, each.getSize(), each.isSetSize()) for name, each in compartments.items())
        values = ((each.getId(), each.getValue(), each.isSetValue()) for each in model.getListOfParameters())
        for name, value, known in (*sizes, *values):
            if name in self.assigned:
                continue
            given = float(value) if known else float("nan")
            if name in self.rated or name in self.changed:
                if name in compartments and name not in self.set_outside:
                    raise Unsupported(f"compartments whose size changes are not supported, got {name!r}")
                rates[name] = self.rated.get(name, 0 * time_symbol())
                starts[name] = self.initial.get(name, number(given))
            else:
                constants[name] = given
                if name in self.initial:
                    starts[name] = self.initial[name]
        if not rates:  # what is observed depends on time alone: a state that rests stands for the system
            rates[_RESTING], starts[_RESTING] = 0 * time_symbol(), number(0.0)
        if moving := sorted(set(compartments) & set(self.assigned)):
            raise Unsupported(f"compartments whose size changes are not supported, got {moving}")
        rules = expanded({**self.assigned, **self.fluxes})
        self._check_names([*rates.values(), *rules.values(), *starts.values()], {*rates, *constants, *rules})
        return SbmlSystem(
            {name: substituted(rate, rules) for name, rate in rates.items()},
            {n: None if start is None else substituted(start, rules) for n, start in starts.items()},
            constants,
            rules,
            tuple(
                SbmlEvent(
                    each.name,
                    substituted(each.trigger, rules),
                    {name: substituted(value, rules) for name, value in each.assignments.items()},
                    each.before,
                )
                for each in self.events
            ),
            frozenset(compartments),
        )

    def _flux(self, reaction: Sbml) -> Expression:
        if reaction.getKineticLaw() is None or reaction.getKineticLaw().getMath() is None:
            raise Unsupported(f"reactions without a kinetic law are not supported, got {reaction.getId()!r}")
        return self.parse(reaction.getKineticLaw())

    def _rate(self, name: str, species: Sbml) -> Expression:
        """Derivative of a species: of its amount, or of its concentration where formulas mean that."""
        if name in self.rated:
            return self.rated[name]
        total = 0 * time_symbol()
        for reaction in self.model.getListOfReactions() if not species.getBoundaryCondition() else ():
            for sign, sides in ((-1, reaction.getListOfReactants()), (1, reaction.getListOfProducts())):
                for each in sides:
                    if each.getSpecies() == name:
                        total += sign * number(_stoichiometry(each, self.initial)) * symbol(reaction.getId())
        return total / self._volume(species)

    def _first(self, species: Sbml) -> Expression:
        """Initial value of a species; None if the file gives none."""
        in_amounts = species.getHasOnlySubstanceUnits()
        size = symbol(species.getCompartment())
        if species.isSetInitialAmount():
            amount = number(species.getInitialAmount())
            return amount if in_amounts else amount / self._volume(species)
        if species.isSetInitialConcentration():
            concentration = number(species.getInitialConcentration())
            return concentration * size if in_amounts else concentration
        return None

    def _volume(self, species: Sbml) -> Expression:
        """By what amounts are divided: the compartment, unless it has no size."""
        compartment = self.model.getCompartment(species.getCompartment())
        flat = compartment.isSetSpatialDimensions() and compartment.getSpatialDimensions() == 0
        return number(1.0) if species.getHasOnlySubstanceUnits() or flat else symbol(species.getCompartment())

    def _check_names(self, expressions: Iterable[Expression], known: set[str]) -> None:
        for expression in expressions:
            used = (
                {each.name for each in expression.free_symbols} - {time_symbol().name}
                if expression is not None
                else set()
            )
            if unknown := sorted(used - known):
                raise Unsupported(f"formulas of SBML that use {unknown} are not supported")


def _stoichiometry(reference: Sbml, initial: Mapping[str, Expression]) -> float:
    if reference.isSetId() and reference.getId() in initial:
        raise Unsupported(f"stoichiometries that are formulas of SBML are not supported, got {[reference.getId()]}")
    return float(reference.getStoichiometry()) if reference.isSetStoichiometry() else 1.0


def _parser() -> Callable[[Sbml], Expression]:
    """From an element of libsbml with a formula to that formula."""
    import sympy

    sbmlmath = needed("sbmlmath")

    def parse(element: Sbml) -> Expression:
        try:
            found = sbmlmath.sbml_math_to_sympy(
                element, evaluate=True, ignore_units=True, floats_as_rationals=False, symbol_kwargs={"real": True}
            )
        except Exception as error:  # of all kinds, for what sbmlmath does not know
            where = element.getId() or element.getElementName()
            raise Unsupported(f"a formula of SBML is not supported, in {where!r}: {error}") from error
        found = sympy.sympify(found)
        check_functions(found)
        return normal(found, {each: time_symbol() for each in found.atoms(sbmlmath.TimeSymbol)})

    return parse
