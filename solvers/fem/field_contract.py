"""The interface of fields with unknowns, and the base class of all families of fields."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, runtime_checkable

import numpy as np

from invsamp.arguments import real, sequence
from invsamp.solvers.fem.contract import Array, Mask, Numbers, Part
from invsamp.solvers.foreign import Sparse

#: A fixed number, or the name of an unknown.
Unknown = float | str

#: Part of a mesh -> which cells lie in it.
InRegion = Callable[[Part], Mask]


class FieldValues(Protocol):
    """A field at n points."""

    def values(self, theta: Array) -> Array:
        """Values (batch, n) for the field's own columns theta (batch, p). Not finite where there is no such field."""

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        """Sums over the points of cotangents (batch, n) times the values' derivatives to theta, shape (batch, p)."""


@runtime_checkable
class DirectedValues(FieldValues, Protocol):
    """A field that gives directional derivatives too."""

    def pushforward(self, theta: Array, directions: Array) -> Array:
        """Derivatives (batch, n) of the values along directions (batch, p)."""


#: Of central differences of a field's values along a direction, over the size of theta along it.
DIFFERENCE = 1e-6


def pushforward(values: FieldValues, theta: Array, directions: Array) -> Array:
    """Derivatives (batch, n) of a field's values along directions (batch, p), the transpose of its `pullback`.

    A field without a `pushforward` of its own is differenced: it is cheap beside a solve.
    """
    if isinstance(values, DirectedValues):
        return values.pushforward(theta, directions)
    sizes = np.abs(directions).max(axis=1, initial=0.0, keepdims=True)
    scale = np.maximum(1.0, np.abs(theta).max(axis=1, initial=0.0, keepdims=True))
    step = DIFFERENCE * scale / np.where(sizes > 0.0, sizes, 1.0)
    change = values.values(theta + step * directions) - values.values(theta - step * directions)
    return np.asarray(change / (2.0 * step))


@runtime_checkable
class Field(Protocol):
    """A scalar field of p = sum(sizes) unknowns."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknowns; none for a fixed field."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many columns of theta each unknown takes."""

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """Prepare the field for points (n, 2); ``in_region`` (part -> mask) knows the mesh's regions by name."""


class ScalarUnknowns:
    """Base of fields with slots, each a number or the name of a scalar unknown; a name may stand in several."""

    @property
    def _slots(self) -> tuple[Unknown, ...]:
        return ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return tuple(dict.fromkeys(names_of(*self._slots)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return (1,) * len(self.parameters)


@dataclass(frozen=True)
class NamesAlone(ScalarUnknowns):
    """Names of scalar unknowns that belong to no field, as `union` reads them."""

    names: tuple[str, ...]

    @property
    def _slots(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True)
class Linear:
    """Values offset + matrix @ theta, for a matrix (n, p), dense or sparse, and an offset (n,)."""

    matrix: Sparse
    offset: Array | float = 0.0

    def values(self, theta: Array) -> Array:
        """As `FieldValues.values`."""
        return _rows(self.matrix, theta) + self.offset

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        """As `FieldValues.pullback`."""
        return _rows(self.matrix.T, cotangents)

    def pushforward(self, theta: Array, directions: Array) -> Array:
        """As `DirectedValues.pushforward`."""
        return _rows(self.matrix, directions)


def combination(shapes: Sequence[tuple[Array | Mask, Unknown]], unknowns: tuple[str, ...]) -> Linear:
    """The sum of shapes (n,), at least one, each times a number or one of the ``unknowns``."""
    size = len(shapes[0][0])
    matrix, offset = np.zeros((size, len(unknowns))), np.zeros(size)
    for shape, value in shapes:
        if isinstance(value, str):
            matrix[:, unknowns.index(value)] += shape
        else:
            offset += value * shape
    return Linear(matrix, offset)


def grids_of(*fields: object) -> dict[str, str]:
    """Digests of the meshes at whose nodes unknowns are the values, by name; a field lists its own as ``grids``.

    Raises
    ------
    ValueError
        If an unknown has values on two meshes.
    """
    found: dict[str, str] = {}
    for field in fields:
        for name, digest in getattr(field, "grids", {}).items():
            if found.setdefault(name, digest) != digest:
                raise ValueError(f"{name!r} must have its values at the nodes of one mesh, got two meshes")
    return found


def by_row(function: Callable[..., Array], *arrays: Array) -> Array:
    """A function of rows (batch, ...), row by row: each has the same bits alone and in any batch."""
    if not len(arrays[0]):
        return function(*arrays)
    # contiguous, because strides too decide about the order of sums
    rows = [[np.ascontiguousarray(array[i : i + 1]) for array in arrays] for i in range(len(arrays[0]))]
    return np.concatenate([function(*row) for row in rows])


def known_values(values: FieldValues, size: int) -> Array:
    """Those of the ``size`` values of a field that depend on no unknown; none unless the field is `Linear`."""
    if not isinstance(values, Linear):
        return np.empty(0)
    free = np.asarray(abs(values.matrix).sum(axis=1)).ravel() == 0
    return np.broadcast_to(values.offset, size)[free]


def union(fields: Sequence[Field | NamesAlone]) -> tuple[tuple[str, ...], tuple[int, ...], list[Numbers]]:
    """Unknowns of several fields: names and sizes in the order of first mention, and each field's columns.

    Raises
    ------
    ValueError
        If two fields give one name different sizes.
    """
    sizes: dict[str, int] = {}
    for field in fields:
        for name, size in zip(field.parameters, field.sizes, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"unknown {name!r} must have one size, got {sizes[name]} and {size}")
    ends = np.cumsum([0, *sizes.values()])
    place = {name: np.arange(ends[i], ends[i + 1]) for i, name in enumerate(sizes)}
    none = [np.empty(0, dtype=np.intp)]
    columns = [np.concatenate(none + [place[name] for name in field.parameters]) for field in fields]
    return tuple(sizes), tuple(sizes.values()), columns


def _rows(matrix: Sparse, rows: Array) -> Array:
    """The product with each row (batch, p) by itself: its rounding does not depend on the rest of the batch."""
    product = np.empty((len(rows), matrix.shape[0]))
    for row, values in enumerate(rows):
        product[row] = matrix @ values
    return product


def is_number(value: object) -> bool:
    """Whether it is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def names_of(*slots: Unknown) -> tuple[str, ...]:
    """The names among numbers and names."""
    return tuple(slot for slot in slots if isinstance(slot, str))


def checked_unknown(name: str, value: object) -> Unknown:
    """A finite number as a float, or a name.

    Raises
    ------
    ValueError
        If it is neither; ``name`` is what the message calls it.
    """
    if isinstance(value, str) and value:
        return value
    return real(name, value, also=", or a name for an unknown")


def checked_pair(name: str, values: object) -> tuple[Unknown, Unknown]:
    """A pair of these."""
    entries = sequence(name, values, "a pair of numbers or names")
    if len(entries) != 2:
        raise ValueError(f"{name} must be a pair of numbers or names, got {values!r}")
    first, second = (checked_unknown(f"{name}[{axis}]", value) for axis, value in enumerate(entries))
    return first, second


def evaluated(given: object, points: Array, shape: tuple[int, ...]) -> Array:
    """Values (n, *shape) of what is an array or a function of points."""
    try:
        values = np.asarray(given(points) if callable(given) else given, dtype=float)
    except TypeError as error:
        raise ValueError(f"{describe(given)} must take points (n, 2) and give numbers: {error}") from error
    if values.shape != (len(points), *shape):
        raise ValueError(f"{describe(given)} must have shape {(len(points), *shape)} there, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{describe(given)} must be finite at every point")
    return values


def describe(given: object) -> str:
    """A word for what a repr would show with an address or in full."""
    if isinstance(given, np.ndarray):
        return f"array {given.shape} {hashlib.sha256(np.ascontiguousarray(given).tobytes()).hexdigest()[:8]}"
    return given.__qualname__ if hasattr(given, "__qualname__") else repr(given)
