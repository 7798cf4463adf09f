"""Scalar fields with unknowns: what an initial value, a source or a conductivity may depend on.

A field names its unknowns, and is prepared once for the points where it will be evaluated: `Field.at` gives a
`FieldValues`, which maps theta to values there and cotangents of these values back to theta. A str is an unknown, a
number is fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from invsamp.arguments import array, integer, shown, store, text
from invsamp.solvers.fem.bumps import GaussianBump
from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.field_contract import (
    Field,
    FieldValues,
    InRegion,
    Linear,
    ScalarUnknowns,
    Unknown,
    checked_unknown,
    combination,
    describe,
    evaluated,
    grids_of,
    is_number,
    pushforward,
    union,
)
from invsamp.solvers.fem.piecewise import PerBlock, PerRegion
from invsamp.solvers.foreign import Given

__all__ = [
    "Constant",
    "Field",
    "FieldValues",
    "Fixed",
    "GaussianBump",
    "Linear",
    "LogField",
    "Modes",
    "PerBlock",
    "PerRegion",
    "Sum",
    "Unknown",
    "as_field",
    "union",
]


@dataclass(frozen=True)
class Constant(ScalarUnknowns):
    """One value everywhere: an unknown, or a number."""

    value: Unknown

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", checked_unknown("value", self.value))

    @property
    def _slots(self) -> tuple[Unknown]:
        return (self.value,)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return combination([(np.ones(len(points)), self.value)], self.parameters)


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(ScalarUnknowns):
    """A known field: values (n,) for the points that it will be evaluated at, or a function of points (n, 2)."""

    given: Array | Callable[[Array], Given]

    def __post_init__(self) -> None:
        if not callable(self.given):
            store(self, given=np.array(array("given", self.given, ("n",), also=", or a function of points")))

    def __repr__(self) -> str:
        return f"Fixed({describe(self.given)})"

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return Linear(np.empty((len(points), 0)), evaluated(self.given, points, ()))


@dataclass(frozen=True, eq=False, repr=False)
class Modes:
    """Mean + sum over k of z_k phi_k, with unknown coefficients z and given modes phi.

    Parameters
    ----------
    parameter : str
        The vector z.
    modes : callable or array
        Points (n, 2) -> values (n, count), such as a `invsamp.solvers.fem.random_fields.KarhunenLoeve`; or these values
        for the points that the field will be evaluated at.
    mean : float, array (n,) or callable
        As `Fixed`, or a number.
    count : int, optional
        Number of modes; needed for a callable that has no attribute ``count``.

    Raises
    ------
    ValueError
        If the number of modes is unknown or not positive; and by `at`, if an array does not fit the points.
    """

    parameter: str
    modes: Array | Callable[[Array], Given]
    mean: float | Array | Callable[[Array], Given] = 0.0
    count: int | None = None

    def __post_init__(self) -> None:
        text("parameter", self.parameter)
        if not callable(self.mean):
            mean = array("mean", self.mean, also=", or a function of points")
            if mean.ndim > 1:
                raise ValueError(f"mean must be a number or have shape (n,), got shape {mean.shape}")
            store(self, mean=float(mean) if mean.ndim == 0 else mean)
        if callable(self.modes):
            count = getattr(self.modes, "count", self.count)
        else:
            store(self, modes=np.array(array("modes", self.modes, ("n", "count"), also=", or a function of points")))
            count = self.modes.shape[1]
        count = integer("count", count, least=1)
        if self.count is not None and integer("count", self.count) != count:
            raise ValueError(f"count must be the number of modes, got {self.count!r} for {describe(self.modes)}")
        store(self, count=count)

    def __repr__(self) -> str:
        return f"Modes({self.parameter!r}, {describe(self.modes)}, mean={describe(self.mean)}, count={self.count})"

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return (self.parameter,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        assert self.count is not None
        return (self.count,)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        mean: Any = self.mean if is_number(self.mean) else evaluated(self.mean, points, ())
        return Linear(evaluated(self.modes, points, self.sizes), mean)


@dataclass(frozen=True)
class LogField:
    """The exponential of another field: what is positive, such as a conductivity, by its logarithm.

    Parameters
    ----------
    logarithm : Field, or what `as_field` makes one of, such as the name of an unknown

    Examples
    --------
    >>> from invsamp.solvers.fields import LogField
    >>> from invsamp.solvers.poisson import PoissonEquation
    >>> model = PoissonEquation(cells=8, conductivity=LogField("log_k"), source=1.0).observe([[0.5, 0.5]])
    >>> model.parameters, (model([[0.0]]) / model([[0.7]])).round(3)  # twice the conductivity, half the temperature
    (('log_k',), array([[2.014]]))
    """

    logarithm: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "logarithm", as_field("logarithm", self.logarithm))

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        found: tuple[str, ...] = self.logarithm.parameters
        return found

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        found: tuple[int, ...] = self.logarithm.sizes
        return found

    @property
    def grids(self) -> dict[str, str]:
        """See `invsamp.solvers.fem.field_contract.grids_of`."""
        return grids_of(self.logarithm)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return _Exponential(self.logarithm.at(points, in_region))


class Sum:
    """The sum of fields, or of what `as_field` makes one of; those that name the same unknown share it."""

    def __init__(self, *fields: object) -> None:
        if not fields:
            raise ValueError("fields must hold at least one, got none")
        self.fields = tuple(as_field(f"fields[{i}]", field) for i, field in enumerate(fields))
        self.parameters, self.sizes, self._columns = union(self.fields)
        self.grids = grids_of(*self.fields)

    def __repr__(self) -> str:
        return f"Sum({', '.join(map(repr, self.fields))})"

    def __eq__(self, other: object) -> bool:
        return self.fields == other.fields if isinstance(other, Sum) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fields)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return _SumValues([field.at(points, in_region) for field in self.fields], self._columns)


def as_field(name: str, value: Any) -> Field:
    """A field from a field, a number, the name of an unknown, values (n,), or a function of points (n, 2).

    Raises
    ------
    ValueError
        If ``value`` is none of these; ``name`` is what the message calls it.
    """
    if isinstance(value, Field) and not isinstance(value, type):
        return value
    try:
        return Constant(value) if isinstance(value, str) or is_number(value) else Fixed(value)
    except ValueError as error:
        raise ValueError(
            f"{name} must be a field such as GaussianBump(), PerRegion(...) or Modes(...), a number, a name, values of "
            f"shape (n,) or a function of points, got {shown(value)}: {error}"
        ) from error


@dataclass(frozen=True)
class _Exponential:
    logarithm: FieldValues

    def values(self, theta: Array) -> Array:
        # an overflow becomes infinite: a failed solve
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(self.logarithm.values(theta))

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return self.logarithm.pullback(theta, cotangents * self.values(theta))

    def pushforward(self, theta: Array, directions: Array) -> Array:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return self.values(theta) * pushforward(self.logarithm, theta, directions)


@dataclass(frozen=True)
class _SumValues:
    parts: list[FieldValues]
    columns: list[Numbers]

    def values(self, theta: Array) -> Array:
        return np.sum([part.values(theta[:, own]) for part, own in zip(self.parts, self.columns, strict=True)], axis=0)

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        pulled = np.zeros_like(theta, dtype=float)
        for part, own in zip(self.parts, self.columns, strict=True):
            pulled[:, own] += part.pullback(theta[:, own], cotangents)
        return pulled

    def pushforward(self, theta: Array, directions: Array) -> Array:
        parts = zip(self.parts, self.columns, strict=True)
        return np.sum([pushforward(part, theta[:, own], directions[:, own]) for part, own in parts], axis=0)
