"""Tables of data: their numbers, what their columns are called, and whether all who name outputs agree."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from invsamp.arguments import numbers
from invsamp.axis_labels import Axis, check_order, stated_axes
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.per_output import Outputs
from invsamp.protocols import Array
from invsamp.warning_codes import InvsampWarning

Shape = tuple[int, ...]


def series_of(data: object, noise: Noise | Outputs, model: object, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """Names of the entries of the data's last axis; None if nothing gives as many, each its own.

    A table of data names them by its columns, `Outputs` by the names of its noises, a forward model by ``series``: the
    first that does counts.

    Raises
    ------
    ValueError
        If two of them have a name in common, but in different places, or the data's last axis is not that of the
        model's series. Otherwise data would be compared with the wrong outputs.
    """
    stated = {
        "data": columns_of(data),
        "noise": tuple(noise.noises) if isinstance(noise, Outputs) and noise.labels is None else None,
        "forward": _declared_by(model),
    }
    _check_width(stated["data"], stated["forward"], shape)
    found = {who: names for who, names in stated.items() if names is not None}
    for who, other in combinations(found, 2):
        check_places(who, found[who], other, found[other])
    width = shape[-1] if len(shape) > 1 else 1
    return next((names for names in found.values() if len(names) == width), None)


def columns_of(data: Any) -> tuple[str, ...] | None:
    """Names of a table's columns, or that of its only one; None if one has none, or two have the same.

    Of a labeled array with several axes, the texts along the last.
    """
    if _is_labeled(data) and data.ndim > 1 and data.dims[-1] in data.coords:
        names = data.coords[data.dims[-1]].values.tolist()
        if not all(isinstance(name, str) for name in names):
            return None
    elif _is_table(data):
        names = list(data.columns) if data.ndim > 1 else [data.name]
    else:
        return None
    stated = tuple(" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in names)
    nameless = any(name is None or name != name for name in names) or names == list(range(len(names)))
    return None if nameless or "" in stated or len(set(stated)) < len(stated) else stated


def numbers_of(data: Any) -> Array:
    """Data as numbers; what a table lacks is NaN.

    Raises
    ------
    ValueError
        If they are no numbers: of a table, with the column.
    """
    if not _is_table(data):
        return numbers("data", data)
    if data.ndim == 1:
        return numbers("data", _filled(data))
    columns = [numbers(f"data[{name!r}]", _filled(column)) for name, column in data.items()]
    return np.stack(columns, axis=1) if columns else np.empty(data.shape)


def with_missing(data: Any) -> Array:
    """Data as a read-only array, with NaN where they are missing."""
    missing = np.ma.getmaskarray(data) if np.ma.is_masked(data) else None
    values = np.array(numbers_of(data if missing is None else np.ma.getdata(data)), dtype=float)
    if missing is not None:
        values[missing] = np.nan
    elif (count := np.isnan(values).sum()) and count < values.size:
        warnings.warn(
            f"{count} of {values.size} data are NaN: they are taken as missing. To state this, use a masked array",
            InvsampWarning,
            stacklevel=3,
        )
    values.setflags(write=False)
    return values


def check_places(who: str, names: tuple[str, ...], other: str, others: tuple[str, ...]) -> None:
    """`ValueError` if both have a name, and not in one place."""
    for at, name in enumerate(names):
        if name in others and (place := others.index(name)) != at:
            raise ValueError(
                f"{who} must have its outputs in the order of {other}, {list(others)}, got {list(names)}: {name!r} is "
                f"in place {at} instead of {place}"
            )


def check_noise_labels(noise: Noise | Outputs, data: object, series: tuple[str, ...] | None, shape: Shape) -> None:
    """`ValueError` if numbers of the noise have the data's labels, or names of outputs, in another order."""
    axes = stated_axes(data, len(shape))
    if series is not None and len(shape) > 1 and axes[-1].labels is None:
        axes[-1] = Axis(axes[-1].name, series)
    if not isinstance(noise, Outputs):
        _check_order("", noise, axes)
        return
    for (name, part), places in zip(noise.noises.items(), noise.places(shape), strict=True):
        own = axes[:-1]
        if noise.labels is not None and axes[0].labels is not None:
            own = [Axis(axes[0].name, [axes[0].labels[k] for k in places])]
        _check_order(f"{name}.", part, own)


def _check_order(prefix: str, noise: Noise, axes: Sequence[Axis]) -> None:
    for name, own in noise.labeled.items() if axes else ():
        check_order(prefix + name, own, axes)


def _check_width(columns: tuple[str, ...] | None, series: tuple[str, ...] | None, shape: Shape) -> None:
    """`ValueError` if data with an axis for outputs have not as many as a model that observes several."""
    if series is None or len(series) < 2 or len(shape) < 2 or shape[-1] == len(series):
        return
    if columns is not None:
        say = f": say table[{list(series)}]" if set(series) <= set(columns) else ""
        raise ValueError(f"data must have the columns that forward gives, {list(series)}, got {list(columns)}{say}")
    raise ValueError(
        f"data must have {len(series)} entries on the last axis, as forward gives {list(series)}, got shape {shape}"
    )


def _declared_by(model: object) -> tuple[str, ...] | None:
    names = getattr(model, "series", None)
    return None if names is None else (names,) if isinstance(names, str) else tuple(map(str, names))


def _is_table(data: object) -> bool:
    pandas = sys.modules.get("pandas")  # who has a table has imported it
    return pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series)


def _is_labeled(data: object) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(data, xarray.DataArray)


def _filled(column: Any) -> Any:
    """A column's values, NaN for `None` and `pandas.NA`."""
    if column.dtype.kind in "bcmM" or not column.isna().any():
        return column.to_numpy()
    kind = float if column.dtype.kind in "iuf" else object
    return column.to_numpy(dtype=kind, na_value=np.nan)
