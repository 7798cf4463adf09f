"""Labels of tables and labeled arrays, and whether numbers with labels come in the order of others."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from invsamp.arguments import Array


def freeze(value: Array) -> Any:
    """An array as a number or nested tuples, which compare and hash."""
    return float(value) if value.ndim == 0 else tuple(freeze(entry) for entry in value)


class Axis(NamedTuple):
    """Name of an axis, and labels along it; None where no one knows."""

    name: str | None = None
    labels: Sequence[Any] | None = None


class Labeled(tuple[Any, ...]):
    """Nested tuples of numbers that came with labels: ``axes`` has one entry for each axis."""

    axes: tuple[Axis, ...]


def frozen(given: object, values: Array) -> Any:
    """The values of what was given as a number or nested tuples, with its labels if it has some."""
    plain, axes = freeze(values), stated_axes(given, values.ndim)
    if not values.ndim or all(axis == Axis() for axis in axes):
        return plain
    labeled = Labeled(plain)
    labeled.axes = tuple(axes)
    return labeled


def stated_axes(given: Any, axes: int) -> list[Axis]:
    """Axes of a table or labeled array, or of what was made of one."""
    xarray, pandas = sys.modules.get("xarray"), sys.modules.get("pandas")  # who has one has imported it
    if isinstance(given, Labeled):
        return list(given.axes)
    if xarray is not None and isinstance(given, xarray.DataArray):
        return [
            Axis(str(dim), plain_labels(given.coords[dim].values) if dim in given.coords else None)
            for dim in given.dims
        ]
    if pandas is not None and isinstance(given, pandas.DataFrame | pandas.Series):
        indices = [given.index] if given.ndim == 1 else [given.index, given.columns]
        return [_of_index(index, pandas.RangeIndex) for index in indices]
    return [Axis()] * axes


def plain_labels(values: Any) -> list[Any]:
    """Labels as numbers and text, which JSON keeps; points in time as ISO 8601, spans as seconds."""
    found = np.asarray(values)
    if found.dtype.kind == "M":
        return np.datetime_as_string(found, unit="auto").tolist()
    if found.dtype.kind == "m":
        return (found / np.timedelta64(1, "s")).tolist()
    if found.dtype.kind in "iufb":
        return found.tolist()
    return [" ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in values]


def check_order(who: str, axes: Sequence[Axis], of_data: Sequence[Axis], known_as: str = "the data") -> None:
    """`ValueError` if numbers that broadcast to the data have labels of these in other places, or on another axis."""
    last = len(of_data) - 1
    for k, own in enumerate(reversed(axes[-len(of_data) :])):
        other = of_data[last - k]
        names = [axis.name for axis in of_data]
        if own.name is not None and own.name in names and other.name not in (None, own.name):
            raise ValueError(
                f"{who} must have its axes in the order of {known_as}, {names}, got {own.name!r} for {other.name!r}"
            )
        if own.labels is None or len(own.labels) == 1:
            continue
        known = list(own.labels if other.labels is None else other.labels)
        if list(own.labels) == known:
            continue
        for at, label in enumerate(own.labels if len(own.labels) == len(known) else ()):
            if label in known and (place := known.index(label)) != at:
                raise ValueError(
                    f"{who} must come in the order of {known_as}, {_listed(known)}, got {_listed(own.labels)}: "
                    f"{label!r} is in place {at} instead of {place}. Sort it, or give an array without labels"
                )
        if any(j != last - k and list(own.labels) == list(axis.labels or ()) for j, axis in enumerate(of_data)):
            raise ValueError(
                f"{who} has labels of another axis of {known_as}, {_listed(own.labels)}: give it all axes, of length 1 "
                "where it does not change"
            )


def check_same_order(given: Mapping[str, object]) -> None:
    """`ValueError` if tables or labeled arrays, by the names of arguments, have the same labels in other places."""
    first: tuple[str, list[Axis]] | None = None
    for name, value in given.items():
        axes = stated_axes(value, 0)
        if not any(axis.labels for axis in axes):
            continue
        if first is None:
            first = name, axes
        else:
            check_order(name, [Axis(None, axis.labels) for axis in axes], first[1], first[0])


def _of_index(index: Any, default: Any) -> Axis:
    name = " ".join(map(str, index.names)) if all(one is not None for one in index.names) else None
    counted = isinstance(index, default) and index[0] == 0 and index.step == 1 if len(index) else True
    return Axis(name, None if counted and name is None else plain_labels(index))


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, labels[:8]))
    return f"[{shown}{', ...' if len(labels) > 8 else ''}]"
