"""Formulas of what has a name in a prior, entry by entry: numbers, a name, or an expression of names."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from invsamp.expression import Expression, Value
from invsamp.protocols import Array

Indices = npt.NDArray[np.intp]


class Names(NamedTuple):
    """Names that a prior may use: columns of theta, free or tied, and numbers that are fixed."""

    shapes: Mapping[str, tuple[int, ...]]
    slices: Mapping[str, slice]
    fixed: Mapping[str, Array]

    def shape(self, label: str, name: str) -> tuple[int, ...]:
        """Shape of what has a name; `ValueError` if nothing has."""
        if name in self.fixed:
            return self.fixed[name].shape
        if name not in self.shapes:
            raise ValueError(f"{label} must use the prior's parameters {[*self.shapes, *self.fixed]}, got {[name]}")
        return self.shapes[name]


class Formula:
    """One value for each entry of a shape, (m,): known, or from columns of theta.

    Parameters
    ----------
    label : str
        For messages.
    value : array_like or str
        What broadcasts to the shape: numbers, a name, or a formula of names.
    shape : tuple of int
    names : Names
    given : iterable of str
        Names in a formula that are none of the prior's: their values are passed at each evaluation.
    whose : str
        What the shape is called in messages.

    Raises
    ------
    ValueError
        If a name is unknown, or a shape does not fit.
    """

    def __init__(
        self,
        label: str,
        value: object,
        shape: tuple[int, ...],
        names: Names,
        given: Iterable[str] = (),
        whose: str = "the shape",
    ) -> None:
        self._whose = whose
        self.known: Array | None = None
        self.expression: Expression | None = None
        self.columns: dict[str, Indices] = {}
        self.constants: dict[str, Array] = {}
        if not isinstance(value, str):
            values = np.asarray(value, dtype=float)
            self.known = values.reshape(-1)[self._spread(label, values.shape, shape)]
        elif is_name(value, names):
            self._read(label, value, shape, names)
            self.known = self.constants.get(value)
        else:
            self.expression = Expression(label, value)
            for name in self.expression.names:
                if name not in given:
                    self._read(label, name, shape, names)
        self.names = (*self.columns, *self.constants)

    def _read(self, label: str, name: str, shape: tuple[int, ...], names: Names) -> None:
        spread = self._spread(label, names.shape(label, name), shape)
        if name in names.fixed:
            self.constants[name] = names.fixed[name].reshape(-1)[spread]
        else:
            self.columns[name] = names.slices[name].start + spread

    def _spread(self, label: str, own: tuple[int, ...], shape: tuple[int, ...]) -> Indices:
        """Which entry of what has the shape ``own`` belongs to each entry, (m,)."""
        try:
            fits = np.broadcast_shapes(own, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{label} must broadcast to {self._whose} {shape}, got shape {own}")
        return np.broadcast_to(np.arange(math.prod(own)).reshape(own), shape).reshape(-1)

    def subset(self, kept: npt.NDArray[np.bool_]) -> Self:
        """That of some of the entries."""
        part = copy.copy(self)
        part.known = None if self.known is None else self.known[kept]
        part.columns = {name: columns[kept] for name, columns in self.columns.items()}
        part.constants = {name: value[kept] for name, value in self.constants.items()}
        return part

    def at(
        self, theta: Array, rows: Indices, index: Indices | tuple[None, slice], given: Mapping[str, Array]
    ) -> tuple[Array, list[tuple[Indices, Value]], Mapping[str, Value]]:
        """Value at entries ``index`` and ``rows`` of theta, which broadcast to (batch, k).

        Then columns of theta with the derivatives with respect to them, and derivatives by all names of a formula.
        """
        if self.known is not None:
            return np.atleast_2d(self.known[index]), [], {}
        columns = {name: columns[index] for name, columns in self.columns.items()}
        values = {name: np.atleast_2d(theta[rows, at]) for name, at in columns.items()}
        if self.expression is None:
            (name,) = columns
            return values[name], [(columns[name], 1.0)], {}
        constants = {name: np.atleast_2d(value[index]) for name, value in self.constants.items()}
        value, slopes = self.expression({**values, **constants, **given})
        return np.atleast_2d(value), [(columns[name], slopes.get(name, 0.0)) for name in columns], slopes

    def at_all(self, theta: Array) -> tuple[Array, list[tuple[Indices, Value]]]:
        """Values of all entries at theta (batch, width), and derivatives by its columns; no name may be ``given``."""
        value, by_column, _ = self.at(theta, np.arange(len(theta))[:, None], np.s_[None, :], {})
        return value, by_column


def is_name(value: str, names: Names) -> bool:
    """Whether a text is one name, which need not be one that a formula could use."""
    return value in names.shapes or value in names.fixed or value.isidentifier()


def names_in(label: str, value: object, names: Names) -> tuple[str, ...]:
    """Names that a formula uses; `ValueError` if it is none."""
    if not isinstance(value, str):
        return ()
    return (value,) if is_name(value, names) else Expression(label, value).names
