"""Predictions of a run as a table of bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from invsamp.arguments import array

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@dataclass(frozen=True)
class Predictions:
    """Predictions by draws of a run, with observation noise and without; made by `Run.predict`.

    Attributes
    ----------
    dataset : Dataset
        ``data`` (chain, draw, *dimensions of the data) with noise, ``mean`` without.
    draws : int
        How many were predicted, over all chains together.
    available : int
        How many the run has.
    observed : DataArray or None
        The data.
    """

    dataset: xr.Dataset
    draws: int
    available: int
    observed: xr.DataArray | None = None

    def to_dataframe(self, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> pd.DataFrame:
        """Quantile bands: a row for each datum, labeled as the data are.

        Parameters
        ----------
        levels : sequence of float in (0, 1)
            Of the quantiles.

        Returns
        -------
        DataFrame
            Indexed by the dimensions of the data, such as time and output. Columns: ``observed``, NaN where it is
            missing; ``data 5%`` and so on, of new data with noise; ``mean 5%`` and so on, of the model without noise.
            Failed solves are left out. ``attrs["draws"]`` is the number of draws.

        Raises
        ------
        ValueError
            If a level is none.
        """
        import pandas as pd

        wanted = array("levels", levels, ("n",), above=0, below=1)
        values = self.dataset["data"]
        dims, shape = values.dims[2:], values.shape[2:]
        labels = [values[dim].to_numpy() for dim in dims]
        index = pd.MultiIndex.from_product(labels, names=dims) if len(dims) > 1 else pd.Index(labels[0], name=dims[0])
        columns = {}
        if self.observed is not None:
            columns["observed"] = self.observed.to_numpy().ravel()
        for name in ("data", "mean"):
            rows = self.dataset[name].to_numpy().reshape(-1, math.prod(shape))
            solved = rows[np.isfinite(rows).all(axis=1)]
            found = (
                np.quantile(solved, wanted, axis=0) if len(solved) else np.full((len(wanted), rows.shape[1]), np.nan)
            )
            columns |= {f"{name} {100 * level:g}%": band for level, band in zip(wanted, found, strict=True)}
        table = pd.DataFrame(columns, index)
        table.attrs["draws"] = self.draws
        return table

    def __repr__(self) -> str:
        sizes = ", ".join(f"{size} of {dim}" for dim, size in list(self.dataset.sizes.items())[2:])
        return f"Predictions({self.draws} of {self.available} draws; {sizes}): to_dataframe() has quantile bands"
