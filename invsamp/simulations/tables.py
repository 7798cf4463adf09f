"""Simulations as tables: arrays, pandas DataFrames and xarray Datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import names as distinct_names
from invsamp.arguments import shown
from invsamp.protocols import Array

DataFrame = Any
Dataset = Any


class SimulationTable(NamedTuple):
    """All simulations of one version of a model, repeated ones too, in the order in which they were finished.

    Attributes
    ----------
    names : tuple of str
        Of the columns of theta.
    theta : ndarray, shape (n, p)
    outputs : ndarray, shape (n, m)
        NaN where the simulation failed.
    failed : ndarray of bool, shape (n,)
    messages : tuple of str or None
        Why those failed that have.
    seconds : ndarray, shape (n,)
        What each took; NaN where that is not known.
    version : str
    """

    names: tuple[str, ...]
    theta: Array
    outputs: Array
    failed: npt.NDArray[np.bool_]
    messages: tuple[str | None, ...]
    seconds: Array
    version: str

    def to_dataframe(self) -> DataFrame:
        """A row for each simulation: parameters by name, outputs as y[0], y[1], ..., and how it went."""
        import pandas as pd

        found = {name: self.theta[:, k] for k, name in enumerate(self.names)}
        found |= {f"y[{k}]": self.outputs[:, k] for k in range(self.outputs.shape[1])}
        about = {"failed": self.failed, "message": list(self.messages), "seconds": self.seconds}
        return pd.DataFrame(found | about | {"version": [self.version] * len(self.theta)})

    def to_xarray(self) -> Dataset:
        """A Dataset with the dimensions simulation, parameter and output."""
        import xarray as xr

        return xr.Dataset(
            {
                "theta": (("simulation", "parameter"), self.theta),
                "outputs": (("simulation", "output"), self.outputs),
                "failed": ("simulation", self.failed),
                "message": ("simulation", [message or "" for message in self.messages]),
                "seconds": ("simulation", self.seconds),
            },
            {"parameter": list(self.names)},
            {"version": self.version},
        )


def runs_of(
    frame: DataFrame, names: Sequence[str], outputs: Sequence[str], seconds: str | None
) -> Iterator[tuple[Array, Array, float | None]]:
    """Theta (p,), outputs (m,) and seconds of each row of a DataFrame.

    Raises
    ------
    ValueError
        If a column is missing, or holds something else than numbers.
    """
    if not (hasattr(frame, "columns") and hasattr(frame, "to_numpy")):
        raise ValueError(f"frame must be a pandas DataFrame, got {shown(frame)}")
    wanted = [*names, *distinct_names("outputs", outputs), *([] if seconds is None else [seconds])]
    if seconds is not None and seconds not in frame.columns:
        raise ValueError(f"seconds must be a column of frame, got {seconds!r}")
    if missing := [name for name in wanted if name not in frame.columns]:
        raise ValueError(f"frame must have the columns {wanted}, got none for {missing}")
    try:
        values = frame[wanted].to_numpy(dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"frame must hold numbers in the columns {wanted}, got {error}") from None
    p = len(names)
    if not np.isfinite(values[:, :p]).all():
        row = int(np.argmin(np.isfinite(values[:, :p]).all(axis=1)))
        raise ValueError(f"frame must have finite parameters, got {values[row, :p].tolist()} in row {row}")
    for row in values:
        took = None if seconds is None or not row[-1] >= 0.0 else float(row[-1])
        yield row[:p], row[p : p + len(outputs)], took
