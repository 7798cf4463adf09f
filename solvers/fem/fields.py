"""Scalar fields with unknowns: what an initial value, a source or a conductivity may depend on.

A field names its unknowns, and is prepared once for the points where it will be evaluated: `Field.at` gives a
`FieldValues`, which maps theta to values there and cotangents of these values back to theta. A str is an unknown, a
number is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.field_contract import (
    Field,
    FieldValues,
    InRegion,
    Linear,
    Unknown,
    check_unknown,
    describe,
    evaluated,
    names_of,
    union,
)
from invsamp.solvers.fem.piecewise import PerBlock, PerRegion

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
class Constant:
    """One value everywhere: an unknown, or a number."""

    value: Unknown

    def __post_init__(self) -> None:
        check_unknown("value", self.value)

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return names_of(self.value)

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return (1,) * len(self.parameters)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        ones = np.ones((len(points), 1))
        return Linear(ones) if self.parameters else Linear(ones[:, :0], float(self.value) * ones[:, 0])


@dataclass(frozen=True, eq=False, repr=False)
class Fixed:
    """A known field: values (n,) for the points that it will be evaluated at, or a function of points (n, 2)."""

    given: Array | Callable[[Array], Any]

    def __post_init__(self) -> None:
        if not callable(self.given):
            given = np.array(self.given, dtype=float)
            if given.ndim != 1 or not np.isfinite(given).all():
                raise ValueError(f"a fixed field must be finite, of shape (n,), got shape {given.shape}")
            object.__setattr__(self, "given", given)

    def __repr__(self) -> str:
        return f"Fixed({describe(self.given)})"

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return ()

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return Linear(np.empty((len(points), 0)), evaluated(self.given, points, ()))


@dataclass(frozen=True)
class GaussianBump:
    """Height * exp(-|x - c|^2 / (2 width^2)) around a centre c.

    Parameters
    ----------
    width, height : float or str
        A width is positive; NaN values come of an unknown one that is not.
    center : pair of float or str

    Raises
    ------
    ValueError
        If a number is not finite, a fixed width is not positive, a fixed height is zero, or a name occurs twice.
    """

    width: Unknown = 0.1
    height: Unknown = 1.0
    center: tuple[Unknown, Unknown] = ("x", "y")

    def __post_init__(self) -> None:
        if isinstance(self.center, str) or len(self.center) != 2:
            raise ValueError(f"center must be a pair of numbers or names, got {self.center!r}")
        object.__setattr__(self, "center", tuple(self.center))
        for name, value in zip(("center[0]", "center[1]", "width", "height"), self._slots, strict=True):
            check_unknown(name, value)
        if not isinstance(self.width, str) and self.width <= 0:
            raise ValueError(f"width must be positive, got {self.width}")
        if self.height == 0:
            raise ValueError("height must not be zero")
        if len(set(self.parameters)) < len(self.parameters):
            raise ValueError(f"unknowns of a bump must have different names, got {self.parameters}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`; those of the centre, the width and the height, in this order."""
        return names_of(*self._slots)

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return (1,) * len(self.parameters)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return _BumpValues(np.asarray(points, dtype=float), self._slots)

    def columns(self, theta: Array) -> tuple[Array, Array, Array, Array]:
        """Centre (two), width and height for the field's own columns theta (batch, p), each of shape (batch,)."""
        return _filled(self._slots, theta)

    @property
    def _slots(self) -> tuple[Unknown, Unknown, Unknown, Unknown]:
        return (*self.center, self.width, self.height)


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
    modes: Array | Callable[[Array], Any]
    mean: float | Array | Callable[[Array], Any] = 0.0
    count: int | None = None

    def __post_init__(self) -> None:
        if callable(self.modes):
            count = getattr(self.modes, "count", self.count)
        else:
            object.__setattr__(self, "modes", np.array(self.modes, dtype=float))
            if self.modes.ndim != 2 or not np.isfinite(self.modes).all():
                raise ValueError(f"modes must be finite, of shape (n, count), got shape {self.modes.shape}")
            count = self.modes.shape[1]
        if not isinstance(count, (int, np.integer)) or count < 1 or self.count not in (None, count):
            raise ValueError(
                f"count must be the positive number of modes, got {self.count!r} for {describe(self.modes)}"
            )
        object.__setattr__(self, "count", int(count))

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
        mean = float(self.mean) if isinstance(self.mean, Real) else evaluated(self.mean, points, ())
        return Linear(evaluated(self.modes, points, self.sizes), mean)


@dataclass(frozen=True)
class LogField:
    """The exponential of another field: what is positive, such as a conductivity, by its logarithm."""

    logarithm: Field

    def __post_init__(self) -> None:
        _check_field("logarithm", self.logarithm)

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return self.logarithm.parameters

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return self.logarithm.sizes

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return _Exponential(self.logarithm.at(points, in_region))


class Sum:
    """The sum of fields; those that name the same unknown share it."""

    def __init__(self, *fields: Field) -> None:
        if not fields:
            raise ValueError("fields must hold at least one, got none")
        for i, field in enumerate(fields):
            _check_field(f"fields[{i}]", field)
        self.fields = fields
        self.parameters, self.sizes, self._columns = union(fields)

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
    if isinstance(value, Field):
        return value
    try:
        return (
            Constant(value if isinstance(value, str) else float(value))
            if isinstance(value, (str, Real))
            else Fixed(value)
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a field, a number, a name, values of shape (n,) or a function, got {value!r}"
        ) from error


@dataclass(frozen=True)
class _Exponential:
    logarithm: FieldValues

    def values(self, theta: Array) -> Array:
        # an overflow is a failed solve, which the infinity tells
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(self.logarithm.values(theta))

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return self.logarithm.pullback(theta, cotangents * self.values(theta))


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


@dataclass(frozen=True)
class _BumpValues:
    points: Array
    slots: tuple[Unknown, Unknown, Unknown, Unknown]

    def values(self, theta: Array) -> Array:
        height = _filled(self.slots, theta)[3]
        return height[:, None] * self._shape(theta)[0]

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        x, y, width, height = _filled(self.slots, theta)
        shape, square = self._shape(theta)
        weighted = cotangents * shape
        strength = height * width**-2.0
        slopes = [
            lambda: strength * (weighted @ self.points[:, 0] - x * weighted.sum(axis=1)),
            lambda: strength * (weighted @ self.points[:, 1] - y * weighted.sum(axis=1)),
            lambda: strength / width * (weighted * square).sum(axis=1),
            lambda: weighted.sum(axis=1),
        ]
        wanted = [slope() for slot, slope in zip(self.slots, slopes, strict=True) if isinstance(slot, str)]
        return np.stack(wanted, axis=1) if wanted else np.empty((len(theta), 0))

    def _shape(self, theta: Array) -> tuple[Array, Array]:
        """Bumps of height one (batch, n), and squared distances from their centres (batch, n)."""
        x, y, width, _ = _filled(self.slots, theta)
        square = (self.points[:, 0] - x[:, None]) ** 2 + (self.points[:, 1] - y[:, None]) ** 2
        return np.exp(square * (-0.5 * width**-2.0)[:, None]), square


def _filled(slots: Sequence[Unknown], theta: Array) -> tuple[Array, Array, Array, Array]:
    """Slots of a bump, with the columns of theta for the names; NaN for a width that is not positive."""
    columns = iter(np.asarray(theta, dtype=float).T)
    x, y, width, height = (
        next(columns) if isinstance(slot, str) else np.full(len(theta), float(slot)) for slot in slots
    )
    return x, y, np.where(width > 0, width, np.nan), height


def _check_field(name: str, field: Any) -> None:
    if not isinstance(field, Field):
        raise ValueError(f"{name} must be a field such as Modes(...), got {field!r}")
