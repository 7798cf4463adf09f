"""What tests ask of ArviZ, of version 0 or 1."""

from __future__ import annotations

from typing import Any

import arviz
import numpy as np
import pandas as pd
import xarray as xr

#: Whether draws are kept in an xarray DataTree.
DATATREES = int(arviz.__version__.split(".")[0]) >= 1
CONTAINER = xr.DataTree if DATATREES else arviz.InferenceData


def container(groups: dict[str, dict[str, np.ndarray]]) -> Any:
    """Groups of arrays by name."""
    return arviz.from_dict(groups) if DATATREES else arviz.from_dict(**groups)


def pointwise(found: Any) -> xr.DataArray:
    """The expected log predictive density of each datum."""
    return found.elpd_i if DATATREES else found.loo_i


def elpd(found: Any) -> float:
    """The expected log predictive density of all data."""
    return found.elpd if DATATREES else found.elpd_loo


def effective_parameters(found: Any) -> float:
    """Their effective number, by cross-validation."""
    return found.p if DATATREES else found.p_loo


def summary(data: Any) -> pd.DataFrame:
    """ArviZ's summary, unrounded, with tails of 5%."""
    found = arviz.summary(data, round_to="none")
    if DATATREES:
        tails = arviz.ess(data.to_dataset(), method="tail", prob=(0.05, 0.95))
        found["ess_tail"] = np.concatenate([np.ravel(values) for values in tails.data_vars.values()])
    return found


def standard_error(found: Any) -> float:
    """That of the sum over data."""
    values = pointwise(found).to_numpy()
    return np.sqrt(values.size * np.var(values, ddof=int(DATATREES)))
