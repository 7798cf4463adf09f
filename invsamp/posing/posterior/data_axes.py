"""Axes of the data, as the forward model describes its outputs."""

from __future__ import annotations

import numpy as np

from invsamp.posing.forward_models.population import Population
from invsamp.protocols import Plain


def axes_of(model: object, shape: tuple[int, ...]) -> Plain:
    """Known axes of data of a shape: ``members``, ``times`` and ``sensors``, each where there are some.

    ``members`` is the length of the first axis where the model is that of a population. ``times`` are those of the next
    axis: the model's ``times``, if its ``output_shape`` begins with as many. ``sensors`` is True where it has
    ``sensors``.
    """
    found: Plain = {}
    rest = shape
    if isinstance(model, Population):
        if len(shape) < 2 or shape[0] != model.members:
            return {}
        found["members"], rest, model = model.members, shape[1:], model.model
    times, arranged = _numbers(getattr(model, "times", None)), getattr(model, "output_shape", None)
    if times and arranged is not None and rest[:1] == (len(times),) == tuple(arranged)[:1]:
        found["times"] = times
    if getattr(model, "sensors", None) is not None:
        found["sensors"] = True
    return found


def _numbers(values: object) -> list[float]:
    """A row of numbers; none where a model calls something else its times."""
    try:
        row = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        return []
    return row.tolist() if row.ndim == 1 and np.isfinite(row).all() else []
