"""Levels by formula: the difference of both sides of an inequality, with its derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from invsamp.domains.contract import Array
from invsamp.expression import Expression


@dataclass(frozen=True)
class FormulaLevel:
    """Level of the inequality ``less < more``: the difference of its sides, not positive where it holds.

    Parameters
    ----------
    less, more : str
        Formulas of names.

    Raises
    ------
    ValueError
        If one is no formula.
    """

    less: str
    more: str

    def __post_init__(self) -> None:
        _ = self._sides

    @cached_property
    def _sides(self) -> tuple[Expression, Expression]:
        return Expression("constraint", self.less), Expression("constraint", self.more)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in the order of the columns that the level takes."""
        return tuple(dict.fromkeys(name for side in self._sides for name in side.names))

    @property
    def __name__(self) -> str:  # what a level set prints
        return str(self)

    def __call__(self, x: Array) -> Array:
        """Levels (n,) at points (n, len(names))."""
        less, more = (side(self._values(x))[0] for side in self._sides)
        return np.array(np.broadcast_to(less - more, len(x)), dtype=float)

    def gradient(self, x: Array) -> Array:
        """Gradients (n, len(names))."""
        less, more = (side(self._values(x))[1] for side in self._sides)
        slopes = np.empty(x.shape)
        for column, name in enumerate(self.names):
            slopes[:, column] = np.subtract(less.get(name, 0.0), more.get(name, 0.0))
        return slopes

    def __str__(self) -> str:
        return f"{self.less} < {self.more}"

    def _values(self, x: Array) -> dict[str, Array]:
        return {name: x[:, column] for column, name in enumerate(self.names)}
