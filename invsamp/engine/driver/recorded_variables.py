"""The variables that a run records at each draw beside statistics: parameters, and functions of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import mapping
from invsamp.posing.expressions.variable_names import check_quantities
from invsamp.protocols import AnyArray, Array, Plain, Problem

#: What is kept of each draw: arrays (chains, *shape) by name.
Values = dict[str, AnyArray]


@dataclass(frozen=True)
class SomeValues:
    """Some columns of theta."""

    columns: npt.NDArray[np.intp]

    def __call__(self, theta: Array) -> Array:
        """Those (batch, k) of theta (batch, d)."""
        return theta[:, self.columns]


@dataclass(frozen=True)
class Record:
    """Which parameters of the draws are kept, and which functions of them. Made by `as_record`.

    ``parameters``: those that are kept of the cold rung alone; None: all of them, of all rungs. ``moments``: those of
    which running moments are kept, and every so many draws (``every``) in single precision.
    """

    functions: Mapping[str, Callable[[Array], object]] = field(default_factory=dict)
    parameters: tuple[str, ...] | None = None
    moments: tuple[str, ...] = ()
    every: int = 1

    @property
    def whole(self) -> bool:
        """Whether all parameters are kept."""
        return self.parameters is None

    def of(self, problem: Problem, position: Array, seen: Callable[[str, Array], None] | None = None) -> Values:
        """The record of positions (chains, d), beside them where all parameters are kept.

        ``seen`` is given the values (chains, size) of each block of which moments are kept, by its name.

        Raises
        ------
        ValueError
            If a function does not return numbers, with a row for each chain.
        """
        if not self.functions and self.whole:
            return {}
        theta = np.asarray(problem.to_theta(position), dtype=float)
        found: Values = {}
        first = 0
        for name, shape in problem.shapes.items():
            size = math.prod(shape)
            if self.parameters is not None and name in self.parameters:
                found[name] = theta[:, first : first + size].reshape(len(theta), *shape).copy()
            if seen is not None and name in self.moments:
                seen(name, theta[:, first : first + size])
            first += size
        for name, function in self.functions.items():
            try:
                value = function(theta.copy())
            except Exception as error:
                error.add_note(f"in record[{name!r}], of theta as an array {theta.shape}")
                raise
            found[name] = arguments.by_row(f"the result of record[{name!r}]", value, len(theta))
        return found

    def kept(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters that are kept, by name."""
        shapes = dict(problem.shapes)
        return shapes if self.parameters is None else {name: shapes[name] for name in self.parameters}

    def settings(self) -> Plain:
        """Its entry in the description of a run, in plain types: names of the user's functions, and of parameters.

        And the k of the every k-th draw that is kept of large blocks; None where there are none.
        """
        return {
            "record": [name for name, function in self.functions.items() if not isinstance(function, SomeValues)],
            "keep": None if self.parameters is None else list(self.parameters),
            "every": self.every if self.moments else None,
        }


def as_record(
    problem: Problem, record: Mapping[str, Callable[[Array], object]] | None, keep: bool | Sequence[str]
) -> Record:
    """The record that the arguments of `invsamp.sample` define; `ValueError` if they are wrong."""
    functions = {} if record is None else mapping("record", record, "a mapping of names to functions of theta, or None")
    for name, function in functions.items():
        arguments.function(f"record[{name!r}]", function, "theta (batch, d) -> (batch, ...)")
    check_quantities("record", problem.shapes, dict.fromkeys(functions, ()))
    parameters = _kept(problem, keep)
    if parameters == () and not functions:
        raise ValueError("keep must hold a parameter, or record a function, got neither")
    return Record(functions, parameters)


def _kept(problem: Problem, keep: bool | Sequence[str]) -> tuple[str, ...] | None:
    """Names of the parameters that are kept; None: all."""
    if isinstance(keep, bool | np.bool_):
        return None if keep else ()
    chosen = (keep,) if isinstance(keep, str) else arguments.names("keep", keep)
    for name in chosen:
        arguments.one_of("keep", name, problem.shapes)
    return None if set(chosen) == set(problem.shapes) else tuple(name for name in problem.shapes if name in chosen)
