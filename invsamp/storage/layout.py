"""How the draws of a run are laid out: columns of theta as named arrays in xarray datasets, settings as JSON."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from invsamp.posing.expressions.variable_names import DIMENSIONS, check_names, check_quantities
from invsamp.protocols import Array, AxisLabels, Plain

if TYPE_CHECKING:
    import xarray as xr

#: Leading dimensions of every group.
LEADING: dict[str, tuple[str, ...]] = {
    "posterior": ("chain", "draw"),
    "sample_stats": ("chain", "draw"),
    "hot": DIMENSIONS,
    "hot_stats": DIMENSIONS,
    "coarse": ("chain", "draw", "step"),
    "prior": ("chain", "draw"),
    "observed_data": (),
    "moments": ("moment",),
    "prior_moments": ("moment",),
    "sums": ("moment",),
    "thinned": ("chain", "draw"),
}


def check_arrays(
    names_shapes: Mapping[str, tuple[int, ...]],
    theta: Array,
    sample_stats: Mapping[str, Array],
    recorded: Mapping[str, Array] | None = None,
) -> None:
    """`ValueError` unless the shapes of what a sampler recorded fit together."""
    for name, values in (recorded or {}).items():
        if np.shape(values)[:2] != theta.shape[1:3]:
            right = f"({theta.shape[1]}, {theta.shape[2]}, ...)"
            raise ValueError(f"recorded[{name!r}] must have shape {right}, got {np.shape(values)}")
    columns = sum(int(np.prod(shape)) for shape in names_shapes.values())
    if theta.ndim != 4 or theta.shape[-1] != columns or 0 in theta.shape:
        raise ValueError(f"theta must have shape (rungs, chains, draws, {columns}), none of them 0, got {theta.shape}")
    check_names(names_shapes)
    check_quantities(
        "recorded", names_shapes, {name: np.shape(values)[2:] for name, values in (recorded or {}).items()}
    )
    for name, values in sample_stats.items():
        if np.shape(values) not in (theta.shape[1:3], theta.shape[:3]):
            raise ValueError(
                f"sample_stats[{name!r}] must have shape {theta.shape[1:3]} or {theta.shape[:3]}, "
                f"got {np.shape(values)}"
            )


def hot_coordinates(rungs: int, temperatures: Sequence[float] | None, names: Container[object]) -> Plain:
    """Coordinates of the rungs above the cold one: their numbers, and their temperatures where these are known.

    A parameter of the name ``temperature`` comes before the coordinate.
    """
    coordinates: Plain = {"rung": np.arange(1, rungs)}
    if temperatures is not None and len(temperatures) == rungs and "temperature" not in names:
        coordinates["temperature"] = ("rung", np.asarray(temperatures[1:], dtype=float))
    return coordinates


def split(theta: Array, names_shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Columns (..., d) as one array (..., *shape) per parameter."""
    parts, first = {}, 0
    for name, shape in names_shapes.items():
        size = int(np.prod(shape))
        parts[name] = theta[..., first : first + size].reshape(theta.shape[:-1] + tuple(shape))
        first += size
    return parts


def join(parts: Mapping[str, Array]) -> Array:
    """Inverse of `split` for arrays (chain, draw, *shape) in the order of the columns."""
    return np.concatenate([part.reshape((*part.shape[:2], -1)) for part in parts.values()], axis=-1)


def dataset(
    values: Mapping[str, Array], dims: Sequence[str], labels: Mapping[str, AxisLabels] | None = None
) -> xr.Dataset:
    """Dataset whose variables share the leading ``dims``; the others are called as ``labels`` say, or ``name_dim_0``.

    Each dimension has coordinates: these labels, or numbers from 0.
    """
    import xarray as xr

    variables, coordinates = {}, Coordinates(labels or {}, dims)
    for name, array in values.items():
        variables[name] = xr.Variable((*dims, *coordinates.dims(name, array.shape[len(dims) :])), array)
    return coordinates.assigned(xr.Dataset(variables))


class Coordinates:
    """Dimensions of variables, and their coordinates, as labels say.

    Parameters
    ----------
    labels : mapping
        Labels of the axes, by name of the variable.
    leading : sequence of str
        Dimensions that all variables share.
    """

    def __init__(self, labels: Mapping[str, AxisLabels], leading: Sequence[str]) -> None:
        self._labels, self._leading = labels, leading
        self._found: AxisLabels = {}

    def dims(self, name: str, shape: Sequence[int]) -> list[str]:
        """Dimensions of a variable behind those that all share."""
        own = self._labels.get(name, {})
        fits = [len(found) for found in own.values()] == list(shape)
        same = all(self._found.get(dim, found) == found and dim not in self._leading for dim, found in own.items())
        if fits and same:
            self._found |= own
            return list(own)
        return [f"{name}_dim_{axis}" for axis in range(len(shape))]

    def assigned(self, unlabeled: xr.Dataset) -> xr.Dataset:
        """A dataset of these variables with their coordinates."""
        known = {dim: np.asarray(found) for dim, found in self._found.items() if dim not in unlabeled.data_vars}
        numbers = {dim: np.arange(size) for dim, size in unlabeled.sizes.items() if dim not in self._found}
        return unlabeled.assign_coords(numbers | known)


def labels_in(attributes: Mapping[str, str]) -> dict[str, AxisLabels]:
    """Labels of axes that the attributes of a run hold, by name of the variable."""
    return labels_in_report(json.loads(attributes["report"]))


def labels_in_report(report: Mapping[str, Any]) -> dict[str, AxisLabels]:
    """Labels of axes that the report of a run holds, by name of the variable."""
    found: dict[str, AxisLabels] = (report.get("posed") or {}).get("labels") or {}
    return found


def to_json(value: object) -> str:
    """JSON of plain values and of NumPy's; `TypeError` for anything else."""

    def plain(item: object) -> object:
        if isinstance(item, np.ndarray | np.generic):
            return item.tolist()
        raise TypeError(f"a report holds JSON-able values, got {item!r} of type {type(item).__name__}")

    return json.dumps(value, default=plain)
