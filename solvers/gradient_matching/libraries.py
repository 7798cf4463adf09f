r"""Candidate terms of an ODE that is linear in its parameters, :math:`x' = f_0(t, x) + F(t, x)\, p`.

A `Library` says which term stands in which equation, and which coefficient multiplies it. It comes from polynomials of
the states (`polynomials`), from terms of one's own (`candidates`, `coefficients`), or from a right-hand side
(`linear_in_parameters`); libraries of the same states add up.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers.gradient_matching.expressions import parse
from invsamp.solvers.ode.tracing import Rhs, trace

Array = npt.NDArray[np.float64]
#: ``function(t, x)``: times (N,) and a sequence of one array (N,) per state -> values (N,).
TermFunction = Callable[[Any, Sequence[Any]], Any]


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
        for what, names in (("states", self.states), ("parameters", self.parameters)):
            repeated = [name for name, count in Counter(names).items() if count > 1]
            if repeated or not names:
                raise ValueError(f"{what} must be distinct names, at least one, got {list(names)}")
        unused = set(range(len(self.parameters))) - {entry.coefficient for entry in self.entries}
        if unused:
            raise ValueError(f"parameters must each stand in an equation, got {self.parameters[min(unused)]!r} in none")

    def __str__(self) -> str:
        return "\n".join(f"{state}' = {self._side(i)}" for i, state in enumerate(self.states))

    def __add__(self, other: Library) -> Library:
        """All terms of both; the states must be the same and the parameters different."""
        if other.states != self.states:
            raise ValueError(f"libraries must have the same states to add up, got {self.states} and {other.states}")
        first = len(self.parameters)
        moved = (e if e.coefficient is None else e._replace(coefficient=e.coefficient + first) for e in other.entries)
        return Library(self.states, self.parameters + other.parameters, (*self.entries, *moved))

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

    def _side(self, equation: int) -> str:
        parts = [
            f"({e.term.name})" if e.coefficient is None else f"{self.parameters[e.coefficient]} ({e.term.name})"
            for e in self.entries
            if e.equation == equation
        ]
        return " + ".join(parts) or "0"


def polynomials(
    states: Iterable[str],
    degree: int,
    *,
    include_constant: bool = True,
    equations: Mapping[str, Iterable[str]] | None = None,
) -> Library:
    """Monomials of the states, each with a coefficient of its own in each equation, as in SINDy.

    Parameters
    ----------
    states : names
    degree : int, >= 1
        Largest total degree.
    include_constant : bool
        Whether the constant is a term.
    equations : mapping from state to names of terms, optional
        The terms allowed in the equation of each state, such as ``{"x": ["x", "y"], "z": ["z", "x*y"]}``; states
        that are missing have x' = 0. By default every term stands in every equation.

    Returns
    -------
    Library
        Terms are named ``1``, ``x``, ``x*y``, ``x**2*y``, with the states in their order; the coefficient of ``x*y``
        in the equation of ``z`` is the parameter ``z'[x*y]``.

    Raises
    ------
    ValueError
        If the degree is below 1, or ``equations`` names a state or a term that does not exist.

    References
    ----------
    Brunton, Proctor and Kutz (2016), PNAS 113(15), eq. (5).
    """
    names = _names(states)
    if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or degree < 1:
        raise ValueError(f"degree must be an integer >= 1, got {degree!r}")
    powers = [
        tuple(chosen.count(i) for i in range(len(names)))
        for total in range(0 if include_constant else 1, degree + 1)
        for chosen in itertools.combinations_with_replacement(range(len(names)), total)
    ]
    return _everywhere(names, [_monomial(names, power) for power in powers], equations)


def candidates(
    states: Iterable[str],
    terms: Iterable[str] | Mapping[str, str | TermFunction],
    *,
    equations: Mapping[str, Iterable[str]] | None = None,
) -> Library:
    """Terms of one's own, each with a coefficient of its own in each equation.

    Parameters
    ----------
    states : names
    terms : strings, or mapping from name to string or callable
        A string is arithmetic on the states, ``t``, numbers, ``pi`` and the functions of
        `invsamp.solvers.gradient_matching.expressions`, such as ``"x*y / (1 + x)"``; it is parsed and never run as
        code. A callable is ``function(t, x)`` of times (N,) and a sequence of one array (N,) per state, and returns
        (N,).
    equations : mapping from state to names of terms, optional
        As in `polynomials`.

    Returns
    -------
    Library
        With the parameters ``z'[name]``, as in `polynomials`.

    Raises
    ------
    ValueError
        If a string is not such an expression, or a name is unknown.
    """
    names = _names(states)
    if isinstance(terms, str):
        raise ValueError(f"terms must be a sequence of strings or a mapping, got the string {terms!r}")
    named = terms if isinstance(terms, Mapping) else {text: text for text in terms}
    return _everywhere(names, [_term(names, name, value) for name, value in named.items()], equations)


def coefficients(
    states: Iterable[str],
    terms: Mapping[str, Mapping[str, str | TermFunction]],
    known: Mapping[str, str | TermFunction] | None = None,
) -> Library:
    """Named coefficients, each with the term that it multiplies in every equation where it stands.

    Parameters
    ----------
    states : names
    terms : mapping from coefficient to mapping from state to term
        Such as ``{"sigma": {"x": "y - x"}, "rho": {"y": "x"}, "beta": {"z": "-z"}}``. Terms as in `candidates`.
    known : mapping from state to term, optional
        What stands in an equation without a coefficient, such as ``{"y": "-x*z - y", "z": "x*y"}``.

    Raises
    ------
    ValueError
        As in `candidates`.
    """
    names = _names(states)
    entries = [
        Entry(number, _index(names, state), _term(names, f"{name} in {state}'" if callable(value) else value, value))
        for number, (name, by_state) in enumerate(terms.items())
        for state, value in by_state.items()
    ]
    for state, value in (known or {}).items():
        name = f"known part of {state}'" if callable(value) else value
        entries.append(Entry(None, _index(names, state), _term(names, name, value)))
    return Library(names, tuple(terms), tuple(entries))


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
    """
    import sympy  # a quarter of a second, for which other libraries need not wait

    names, unknown = _names(states), _names(parameters)
    t, x, p, sides = trace(rhs, len(names), len(unknown))
    shown = dict(zip((t, *x, *p), (sympy.Symbol(name) for name in ("t", *names, *unknown)), strict=True))
    entries = []
    for equation, side in enumerate(sides):
        rest = side
        for number, symbol in enumerate(p):
            slope = sympy.diff(side, symbol)
            # an expression may hide that it is linear, as (a + b)**2 - a**2 - 2*a*b - b**2 does
            if slope.free_symbols & set(p):
                slope = sympy.simplify(slope)
            if slope.free_symbols & set(p):
                raise ValueError(
                    f"parameters must enter rhs linearly, got {unknown[number]} nonlinearly in "
                    f"{names[equation]}' = {side.subs(shown)}"
                )
            if slope != 0:
                entries.append(Entry(number, equation, _symbolic_term(slope, t, x, shown)))
            rest -= slope * symbol
        rest = sympy.expand(rest)
        if rest.free_symbols & set(p):
            rest = sympy.simplify(rest)
        if rest != 0:
            entries.append(Entry(None, equation, _symbolic_term(rest, t, x, shown)))
    return Library(names, unknown, tuple(entries))


def _everywhere(names: tuple[str, ...], terms: list[Term], equations: Mapping[str, Iterable[str]] | None) -> Library:
    """Every term in the equations where it is allowed, with a coefficient of its own."""
    by_name = {term.name: term for term in terms}
    allowed = {state: list(by_name) for state in names} if equations is None else dict(equations)
    for state, chosen in allowed.items():
        _index(names, state)
        if isinstance(chosen, str):
            raise ValueError(f"equations[{state!r}] must be a sequence of terms, got the string {chosen!r}")
        allowed[state] = list(chosen)
        for name in allowed[state]:
            if name not in by_name:
                raise ValueError(f"equations[{state!r}] must be out of the terms {list(by_name)}, got {name!r}")
    placed = [(state, name) for state in names for name in allowed.get(state, [])]
    entries = tuple(Entry(k, names.index(state), by_name[name]) for k, (state, name) in enumerate(placed))
    return Library(names, tuple(f"{state}'[{name}]" for state, name in placed), entries)


def _monomial(names: tuple[str, ...], power: tuple[int, ...]) -> Term:
    factors = [name if k == 1 else f"{name}**{k}" for name, k in zip(names, power, strict=True) if k]

    def function(t: Any, x: Sequence[Any]) -> Any:
        return math.prod((column**k for column, k in zip(x, power, strict=True) if k), start=np.ones(len(t)))

    return Term("*".join(factors) or "1", function)


def _term(names: tuple[str, ...], name: str, value: str | TermFunction) -> Term:
    if callable(value):
        return Term(name, value)
    if not isinstance(value, str):
        raise ValueError(f"a term must be a string or a callable function(t, x), got {value!r} for {name!r}")
    expression = parse(value, ("t", *names))
    return Term(name, lambda t, x: expression({"t": t, **dict(zip(names, x, strict=True))}))


def _symbolic_term(expression: Any, t: Any, x: Sequence[Any], shown: dict[Any, Any]) -> Term:
    import sympy

    return Term(str(expression.subs(shown)), sympy.lambdify([t, list(x)], expression, modules=["scipy", "numpy"]))


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


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _index(names: tuple[str, ...], state: str) -> int:
    if state not in names:
        raise ValueError(f"equations are those of the states {list(names)}, got {state!r}")
    return names.index(state)
