"""Names of the data's axes, and labels along them: from tables, labeled arrays and forward models."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence

import numpy as np

from invsamp.axis_labels import Axis, stated_axes
from invsamp.posing.expressions.variable_names import DIMENSIONS
from invsamp.posing.posterior.data_axes import axes_of
from invsamp.protocols import Array, AxisLabels, Plain
from invsamp.warning_codes import InvsampWarning

#: Names that dimensions of data cannot have, as variables of the same groups or other dimensions have them.
_TAKEN = (*DIMENSIONS, "sample", "data", "mean")
#: Relative difference of times that are the same.
_SAME_TIME = 1e-6


def data_labels(
    data: object, model: object, series: Sequence[str] | None, shape: tuple[int, ...], taken: Collection[str] = ()
) -> AxisLabels:
    """Labels of each axis of the data, by its name and in order; none where no one knows anything.

    An axis without labels counts from 0, and one without a name is ``data_dim_0`` and so on. What a DataFrame, a Series
    or an xarray DataArray says counts before what the forward model says.

    Parameters
    ----------
    data : object
        As it was given.
    model : object
        The finest forward model.
    series : sequence of str, optional
        Names of the entries of the last axis.
    shape : tuple of int
        Of the data.
    taken : collection of str
        Names that an axis cannot have: those of parameters.

    Raises
    ------
    ValueError
        If the rows of a table are in another order than the model's times.

    Warns
    -----
    UserWarning
        If a table has other times than the model.
    """
    stated, known = stated_axes(data, len(shape)), _of_model(model, series, shape)
    if not any(axis != Axis() for axis in (*stated, *known)):
        return {}
    found: AxisLabels = {}
    for k, (own, other) in enumerate(zip(stated, known, strict=True)):
        _check_times(own, other)
        name = own.name or other.name or ""
        labels = own.labels if own.labels is not None else other.labels
        if not name or name in found or name in taken or name in _TAKEN or "/" in name:
            name = f"data_dim_{k}"
        found[name] = list(range(shape[k]) if labels is None or len(labels) != shape[k] else labels)
    return found


def labels_for_prediction(named: AxisLabels, axes: Plain, own: AxisLabels, own_axes: Plain) -> AxisLabels:
    """Labels of data under other conditions: members of a population as in the data, times under the data's name.

    Parameters
    ----------
    named, axes : mapping
        What the other model says: labels, and what its axes are (`axes_of`).
    own, own_axes : mapping
        The same of the data.
    """
    if not named or len(own) != len(named) or axes.keys() != own_axes.keys():
        return named
    entries, before = list(named.items()), list(own.items())
    first = int("members" in axes)
    if first and axes["members"] == own_axes.get("members"):
        entries[0] = before[0]
    if "times" in axes and "times" in own_axes and not before[first][0].startswith("data_dim"):
        entries[first] = before[first][0], entries[first][1]
    return dict(entries) if len(dict(entries)) == len(entries) else named


def _of_model(model: object, series: Sequence[str] | None, shape: tuple[int, ...]) -> list[Axis]:
    """Axes that the forward model describes, and the outputs that ``series`` names."""
    known, found = axes_of(model, shape), [Axis()] * len(shape)
    first = 1 if "members" in known else 0
    if first:
        found[0] = Axis("member")
    if "times" in known:
        found[first] = Axis("time", known["times"])
    if series is not None and len(shape) > 1 and len(series) == shape[-1] and found[-1] == Axis():
        found[-1] = Axis("output", list(series))
    elif known.get("sensors") and found[-1] == Axis():
        found[-1] = Axis("sensor")
    return found


def _check_times(own: Axis, other: Axis) -> None:
    """Compare what a table says of its rows with the model's times.

    Raises
    ------
    ValueError
        If its labels are these times in another order, whatever it calls them.

    Warns
    -----
    UserWarning
        If it has other times, or does not say what its numbers are.
    """
    if other.name != "time" or own.labels is None:
        return
    try:
        stated, times = np.asarray(own.labels, dtype=float), np.asarray(other.labels, dtype=float)
    except ValueError:
        return
    if stated.shape != times.shape or _same_times(stated, times):
        return
    at, name = int(np.argmax(np.abs(stated - times))), own.name or "the index"
    where = f"data has {name} {stated[at]:g} in row {at}, where the forward model observes at time {times[at]:g}"
    if _same_times(np.sort(stated), times):
        raise ValueError(f"{where}: sort the data in time")
    if own.name is None or own.name.lower().startswith("t"):
        warnings.warn(
            f"{where}: give the model the times of the data, or rename the index", InvsampWarning, stacklevel=5
        )


def _same_times(one: Array, other: Array) -> bool:
    return np.allclose(one, other, rtol=_SAME_TIME, atol=_SAME_TIME * np.ptp(other))
