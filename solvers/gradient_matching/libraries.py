"""Ways to a `Library`: polynomials of the states (`polynomials`), terms of one's own (`candidates`, `coefficients`), or
a right-hand side (`linear_in_parameters`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from invsamp import arguments
from invsamp.arguments import boolean, function, integer, mapping, optional, text, wrong
from invsamp.solvers.foreign import Expression
from invsamp.solvers.gradient_matching.expressions import parse
from invsamp.solvers.gradient_matching.library import Array, Entry, Library, Term, TermFunction
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
    degree, include_constant = integer("degree", degree, least=1), boolean("include_constant", include_constant)
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
    named = terms if isinstance(terms, Mapping) else {name: name for name in arguments.names("terms", terms)}
    if not named:
        raise ValueError("terms must hold at least one term, got none")
    return _everywhere(names, [_term("terms", names, name, value) for name, value in named.items()], equations)


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
    if not mapping("terms", terms):
        raise ValueError("terms must hold at least one coefficient, got none")
    entries = []
    for number, (name, by_state) in enumerate(mapping("terms", terms).items()):
        text("terms", name)
        for state, value in mapping(f"terms[{name!r}]", by_state).items():
            shown = f"{name} in {state}'" if callable(value) else value
            entries.append(Entry(number, _index(f"terms[{name!r}]", names, state), _term("terms", names, shown, value)))
    for state, value in (optional(mapping, "known", known) or {}).items():
        shown = f"known part of {state}'" if callable(value) else value
        entries.append(Entry(None, _index("known", names, state), _term("known", names, shown, value)))
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

    names, unknown = _names(states), _names(parameters, "parameters")
    function("rhs", rhs, "(t, x, p)")
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
    chosen_terms = optional(mapping, "equations", equations)
    allowed = {state: list(by_name) for state in names} if chosen_terms is None else chosen_terms
    for state, chosen in allowed.items():
        _index("equations", names, state)
        allowed[state] = list(arguments.names(f"equations[{state!r}]", chosen))
        for name in allowed[state]:
            if name not in by_name:
                raise ValueError(f"equations[{state!r}] must be out of the terms {list(by_name)}, got {name!r}")
    if not any(allowed.values()):
        raise ValueError(f"equations must hold at least one term, got {equations!r}")
    placed = [(state, name) for state in names for name in allowed.get(state, [])]
    entries = tuple(Entry(k, names.index(state), by_name[name]) for k, (state, name) in enumerate(placed))
    return Library(names, tuple(f"{state}'[{name}]" for state, name in placed), entries)


def _monomial(names: tuple[str, ...], power: tuple[int, ...]) -> Term:
    factors = [name if k == 1 else f"{name}**{k}" for name, k in zip(names, power, strict=True) if k]

    def function(t: Array, x: Sequence[Array]) -> Array:
        return math.prod((column**k for column, k in zip(x, power, strict=True) if k), start=np.ones(len(t)))

    return Term("*".join(factors) or "1", function)


def _term(argument: str, names: tuple[str, ...], name: str, value: str | TermFunction) -> Term:
    if callable(value) and not isinstance(value, type):
        return Term(name, value)
    if not isinstance(value, str) or not value:
        raise wrong(f"{argument}, at {name!r},", "a string or a function (t, x)", value)
    try:
        expression = parse(value, ("t", *names))
    except ValueError as error:
        raise ValueError(f"{argument} must be arithmetic on {('t', *names)}: {error}") from None
    return Term(name, lambda t, x: expression({"t": t, **dict(zip(names, x, strict=True))}))


def _symbolic_term(
    expression: Expression, t: Expression, x: Sequence[Expression], shown: dict[Expression, str]
) -> Term:
    import sympy

    return Term(str(expression.subs(shown)), sympy.lambdify([t, list(x)], expression, modules=["scipy", "numpy"]))


def _names(names: Iterable[str], argument: str = "states") -> tuple[str, ...]:
    return (text(argument, names),) if isinstance(names, str) else arguments.names(argument, names)


def _index(argument: str, names: tuple[str, ...], state: str) -> int:
    if state not in names:
        raise ValueError(f"{argument} must name equations by the states {list(names)}, got {state!r}")
    return names.index(state)
