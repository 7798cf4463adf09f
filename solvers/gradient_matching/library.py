r"""Candidate terms of an ODE that is linear in its parameters, :math:`x' = f_0(t, x) + F(t, x)\, p`.

A `Library` says which term stands in which equation, and which coefficient multiplies it. `linear_in_parameters` makes
it of a right-hand side; terms that do not trace are functions of one's own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import function, instance, sequence, store, text
from invsamp.solvers.foreign import Expression
from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs
from invsamp.solvers.ode.codegen.operation_graph import operands_of, reachable, trace_graph
from invsamp.solvers.ode.symbolic.symbols import number

Array = npt.NDArray[np.float64]
#: ``function(t, x)``: times (N,) and a sequence of one array (N,) per state -> values (N,).
TermFunction = Callable[[Array, Sequence[Array]], npt.ArrayLike]


class Term(NamedTuple):
    """A named function of time and states."""

    name: str
    function: TermFunction


class Entry(NamedTuple):
    """A term in the equation of one state, times a coefficient, or times one where the coefficient is None."""

    coefficient: int | None
    equation: int
    term: Term


@dataclass(frozen=True, eq=False)
class Library:
    r"""Right-hand side :math:`f_0(t, x) + F(t, x)\, p` as a list of terms; printing it shows the equations.

    Parameters
    ----------
    states, parameters : tuple of str
        Names, in the order of the equations and of the columns of F.
    entries : tuple of Entry
        A coefficient may stand in several equations, and several times in one.

    Raises
    ------
    ValueError
        If a name is repeated, there is no parameter, or a parameter stands in no equation.
    """

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        for name in ("states", "parameters"):
            store(self, **{name: arguments.names(name, getattr(self, name))})
        for k, entry in enumerate(sequence("entries", self.entries, "a sequence of Entry")):
            instance(f"entries[{k}]", entry, Entry, "an Entry")
        unused = set(range(len(self.parameters))) - {entry.coefficient for entry in self.entries}
        if unused:
            raise ValueError(f"parameters must each stand in an equation, got {self.parameters[min(unused)]!r} in none")

    def __str__(self) -> str:
        return "\n".join(f"{state}' = {self._side(i)}" for i, state in enumerate(self.states))

    def evaluate(self, times: npt.ArrayLike, states: npt.ArrayLike) -> tuple[Array, Array]:
        """Known part (N, n_states) and design (N, n_states, n_parameters) at times (N,) and states (N, n_states).

        Raises
        ------
        ValueError
            If a shape is wrong, or a term does not return finite numbers of the right shape.
        """
        t, x = np.asarray(times, dtype=float), np.asarray(states, dtype=float)
        if x.ndim != 2 or x.shape[1] != len(self.states) or t.shape != (len(x),):
            raise ValueError(
                f"times and states must have shapes (N,) and (N, {len(self.states)}), got {t.shape} and {x.shape}"
            )
        known, design = np.zeros(x.shape), np.zeros((*x.shape, len(self.parameters)))
        columns = list(x.T)
        values: dict[Term, Array] = {}
        for coefficient, equation, term in self.entries:
            if term not in values:
                values[term] = _values(term, t, columns)
            if coefficient is None:
                known[:, equation] += values[term]
            else:
                design[:, equation, coefficient] += values[term]
        return known, design

    def subset(self, parameters: Iterable[str]) -> Library:
        """The library with the terms of some parameters alone, beside those without a coefficient.

        Raises
        ------
        ValueError
            For names that are no parameters, or none at all.
        """
        kept = arguments.names("parameters", tuple(parameters))
        if unknown := [name for name in kept if name not in self.parameters]:
            raise ValueError(f"parameters must be out of {self.parameters}, got {unknown}")
        places = {self.parameters.index(name): k for k, name in enumerate(kept)}
        entries = [
            Entry(None if entry.coefficient is None else places[entry.coefficient], entry.equation, entry.term)
            for entry in self.entries
            if entry.coefficient is None or entry.coefficient in places
        ]
        return Library(self.states, kept, tuple(entries))

    def _side(self, equation: int) -> str:
        parts = [
            f"({e.term.name})" if e.coefficient is None else f"{self.parameters[e.coefficient]} ({e.term.name})"
            for e in self.entries
            if e.equation == equation
        ]
        return " + ".join(parts) or "0"


def linear_in_parameters(rhs: Rhs, states: Iterable[str], parameters: Iterable[str]) -> Library:
    """Library of a right-hand side that is linear in its parameters, found by symbolic tracing.

    Parameters
    ----------
    rhs : callable
        ``rhs(t, x, p)`` as for `invsamp.solvers.ode.OdeModel`, without branches on ``t``, ``x``, ``p``.
    states, parameters : names
        In the order of ``x`` and ``p``.

    Raises
    ------
    ValueError
        If a parameter enters nonlinearly (it is named, with the equation), or not at all, or ``rhs`` does not trace.

    Examples
    --------
    >>> from invsamp.solvers.gradient_matching import linear_in_parameters
    >>> library = linear_in_parameters(
    ...     lambda t, x, p: (p[0] * x[0] - p[1] * x[0] * x[1], -p[2] * x[1]), ["prey", "predator"], ["a", "b", "c"]
    ... )
    >>> library.states, library.parameters
    (('prey', 'predator'), ('a', 'b', 'c'))
    """
    import sympy  # a quarter of a second, for which other libraries need not wait

    names, unknown = _names("states", states), _names("parameters", parameters)
    function("rhs", rhs, "(t, x, p)")
    t, x, p, sides = _expressions(rhs, len(names), len(unknown))
    shown = dict(zip((t, *x, *p), (sympy.Symbol(name) for name in ("t", *names, *unknown)), strict=True))
    entries = []
    for equation, side in enumerate(sides):
        rest = side
        for column, symbol in enumerate(p):
            slope = sympy.diff(side, symbol)
            # an expression may hide that it is linear, as (a + b)**2 - a**2 - 2*a*b - b**2 does
            if slope.free_symbols & set(p):
                slope = sympy.simplify(slope)
            if slope.free_symbols & set(p):
                raise ValueError(
                    f"parameters must enter rhs linearly, got {unknown[column]} nonlinearly in "
                    f"{names[equation]}' = {side.subs(shown)}"
                )
            if slope != 0:
                entries.append(Entry(column, equation, _symbolic_term(slope, t, x, shown)))
            rest -= slope * symbol
        rest = sympy.expand(rest)
        if rest.free_symbols & set(p):
            rest = sympy.simplify(rest)
        if rest != 0:
            entries.append(Entry(None, equation, _symbolic_term(rest, t, x, shown)))
    return Library(names, unknown, tuple(entries))


def _expressions(rhs: Rhs, n: int, q: int) -> tuple[Expression, list[Expression], list[Expression], list[Expression]]:
    """Symbols of time, states and parameters, and the values of a right-hand side as SymPy's expressions in these."""
    import sympy

    traced = trace_graph(rhs, n, q)
    t = sympy.Symbol("time", real=True)
    inputs = {"y": [sympy.Symbol(f"state{i}", real=True) for i in range(n)]}
    inputs["p"] = [sympy.Symbol(f"parameter{j}", real=True) for j in range(q)]
    functions = {
        **{"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": sympy.Pow},
        **{"<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge},
        **{"and": sympy.And, "or": sympy.Or, "not": sympy.Not, "fabs": sympy.Abs},
        **{"log1p": lambda a: sympy.log(1 + a), "expm1": lambda a: sympy.exp(a) - 1},
        "select": lambda condition, a, b: sympy.Piecewise((a, condition), (b, True)),
    }
    found: dict[int, Expression] = {}
    for index in reachable(traced.graph, traced.outputs):
        row = traced.graph.rows[index]
        name = row[0]
        if name == "constant":
            found[index] = number(row[1])
        elif name == "t" or name in inputs:
            found[index] = t if name == "t" else inputs[name][row[1]]
        else:
            function = functions.get(name) or getattr(sympy, name)
            found[index] = function(*(found[k] for k in operands_of(row)))
    return t, inputs["y"], inputs["p"], [found[index] for index in traced.outputs]


def _values(term: Term, t: Array, columns: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        values = np.asarray(term.function(t, columns), dtype=float)
    if values.shape not in ((), t.shape):
        raise ValueError(f"the term {term.name!r} must return shape {t.shape}, got {values.shape}")
    values = np.broadcast_to(values, t.shape)
    if not np.isfinite(values).all():
        first = int(np.argmin(np.isfinite(values)))
        at = [float(column[first]) for column in columns]
        raise ValueError(f"the term {term.name!r} must be finite, got {values[first]} at time {t[first]}, states {at}")
    return values


def _symbolic_term(
    expression: Expression, t: Expression, x: Sequence[Expression], shown: dict[Expression, str]
) -> Term:
    import sympy

    return Term(str(expression.subs(shown)), sympy.lambdify([t, list(x)], expression, modules=["scipy", "numpy"]))


def _names(argument: str, names: Iterable[str]) -> tuple[str, ...]:
    return (text(argument, names),) if isinstance(names, str) else arguments.names(argument, names)
