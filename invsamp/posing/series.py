"""What the columns of the data are called, for figures and reports."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from invsamp.posing.noise_contract import Noise
from invsamp.posing.outputs import Outputs


def series_of(data: object, noise: Noise | Outputs, model: object, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """Names of the entries of the data's last axis; None if nobody tells as many.

    A table of data tells them by its columns, `Outputs` by the names of its noises, a forward model by ``series``: the
    first that does counts.
    """
    pandas = sys.modules.get("pandas")  # who has a table has imported it
    told: list[Iterable[object] | None] = [getattr(model, "series", None)]
    if isinstance(noise, Outputs) and noise.labels is None:
        told.insert(0, noise.noises)
    if pandas is not None and isinstance(data, pandas.DataFrame):
        told.insert(0, data.columns)
    width = shape[-1] if len(shape) > 1 else 1
    listed = [tuple(map(str, names)) for names in told if names is not None]
    return next((names for names in listed if len(names) == width), None)
