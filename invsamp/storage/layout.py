"""How the draws of a run are laid out: columns of theta as named arrays in xarray datasets, settings as JSON."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from invsamp.posing.expressions.variable_names import DIMENSIONS, check_names, check_quantities
from invsamp.protocols import Array, Plain

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


def dataset(values: Mapping[str, Array], dims: Sequence[str]) -> xr.Dataset:
    """Dataset whose variables share the leading ``dims``; the others are called ``name_dim_0`` and so on."""
    import xarray as xr

    variables = {}
    for name, array in values.items():
        own = [f"{name}_dim_{axis}" for axis in range(array.ndim - len(dims))]
        variables[name] = xr.Variable((*dims, *own), array)
    unlabeled = xr.Dataset(variables)
    return unlabeled.assign_coords({dim: np.arange(size) for dim, size in unlabeled.sizes.items()})


def to_json(value: object) -> str:
    """JSON of plain values and of NumPy's; `TypeError` for anything else."""

    def plain(item: object) -> object:
        if isinstance(item, np.ndarray | np.generic):
            return item.tolist()
        raise TypeError(f"a report holds JSON-able values, got {item!r} of type {type(item).__name__}")

    return json.dumps(value, default=plain)
