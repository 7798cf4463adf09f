"""Ways to a `Library`: polynomials of the states (`polynomials`), terms of one's own (`candidates`, `coefficients`), or
a right-hand side (`linear_in_parameters`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from invsamp.solvers.gradient_matching.expressions import parse
from invsamp.solvers.gradient_matching.library import Entry, Library, Term, TermFunction
from invsamp.solvers.ode.tracing import Rhs, trace


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


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _index(names: tuple[str, ...], state: str) -> int:
    if state not in names:
        raise ValueError(f"equations are those of the states {list(names)}, got {state!r}")
    return names.index(state)
