"""Links: fields that are positive, or lie between bounds, as functions of fields that are any number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from invsamp.arguments import real, store
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.field_contract import Field, FieldValues, InRegion, grids_of


@dataclass(frozen=True)
class Link(ABC):
    """A function of another field, point by point."""

    inner: Any

    def __post_init__(self) -> None:
        from invsamp.solvers.fem.fields import as_field

        object.__setattr__(self, "inner", as_field("inner", self.inner))

    @property
    def _field(self) -> Field:
        found: Field = self.inner
        return found

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return self._field.parameters

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return self._field.sizes

    @property
    def grids(self) -> dict[str, str]:
        """See `invsamp.solvers.fem.field_contract.grids_of`."""
        return grids_of(self._field)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return _Linked(self._field.at(points, in_region), self)

    @abstractmethod
    def value(self, x: Array) -> Array:
        """The function."""

    @abstractmethod
    def slope(self, x: Array) -> Array:
        """Its derivative."""


@dataclass(frozen=True)
class LogitField(Link):
    """A field between two bounds: ``lower + (upper - lower) / (1 + exp(-inner))``.

    Parameters
    ----------
    inner : Field, or what `invsamp.solvers.fem.fields.as_field` makes one of
    lower, upper : float

    Raises
    ------
    ValueError
        If ``upper`` is not above ``lower``.

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers import fields
    >>> fields.LogitField("x", 1.0, 3.0).at(np.zeros((1, 2))).values(np.array([[0.0]]))
    array([[2.]])
    """

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        lower = real("lower", self.lower)
        store(self, lower=lower, upper=real("upper", self.upper, above=lower))

    def value(self, x: Array) -> Array:
        """The function."""
        return self.lower + (self.upper - self.lower) * expit(x)

    def slope(self, x: Array) -> Array:
        """Its derivative."""
        return (self.upper - self.lower) * expit(x) * expit(-x)


@dataclass(frozen=True)
class SoftplusField(Link):
    """A positive field, ``log(1 + exp(inner))``: near the exponential where it is small, linear where it is large.

    Parameters
    ----------
    inner : Field, or what `invsamp.solvers.fem.fields.as_field` makes one of

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers import fields
    >>> fields.SoftplusField("x").at(np.zeros((1, 2))).values(np.array([[50.0]]))
    array([[50.]])
    """

    def value(self, x: Array) -> Array:
        """The function."""
        return np.logaddexp(0.0, x)

    def slope(self, x: Array) -> Array:
        """Its derivative."""
        return np.asarray(expit(x))


@dataclass(frozen=True)
class _Linked:
    inner: FieldValues
    link: Link

    def values(self, theta: Array) -> Array:
        return self.link.value(self.inner.values(theta))

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        return self.inner.pullback(theta, cotangents * self.link.slope(self.inner.values(theta)))
