r"""Candidate terms of an ODE that is linear in its parameters, :math:`x' = f_0(t, x) + F(t, x)\, p`.

A `Library` says which term stands in which equation, and which coefficient multiplies it. It is made by
`invsamp.solvers.gradient_matching.libraries`; libraries of the same states add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import instance, sequence, store

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
