"""ArviZ, and groups of draws in its container: an InferenceData of ArviZ 0, an xarray DataTree of ArviZ 1.

Of a container ``data`` of either, ``name in data``, ``list(data)`` and ``data[name]["variable"]`` read. All else that
differs between them is here.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from invsamp.protocols import Array, Facts, InferenceData

if TYPE_CHECKING:
    import xarray as xr


def load_arviz() -> ModuleType:
    """ArviZ, imported on first use: it takes seconds, several times the rest of invsamp together."""
    with warnings.catch_warnings():
        # ArviZ announces its own refactoring once a day; which does not concern users of a sampler
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
        try:
            import arviz
        except OSError:  # it writes down the day in the user's cache folder, and fails where there can be none
            from unittest import mock  # slow to import

            with tempfile.TemporaryDirectory() as home, mock.patch.dict(os.environ, HOME=home, XDG_CACHE_HOME=home):
                import arviz
    return arviz


def _datatrees() -> bool:
    """Whether the installed ArviZ keeps draws in an xarray DataTree, as it does from version 1 on."""
    return int(load_arviz().__version__.split(".")[0]) >= 1


def container(datasets: Mapping[str, xr.Dataset], attributes: Mapping[str, str]) -> InferenceData:
    """The container of the installed ArviZ, with these groups."""
    if not _datatrees():
        return load_arviz().InferenceData(attrs=dict(attributes), **datasets)
    import xarray as xr

    tree = xr.DataTree.from_dict(dict(datasets))
    tree.attrs = dict(attributes)
    return tree


def smoothed_weights(log_ratio: Array, efficiency: float) -> tuple[Array, Array]:
    """Pareto-smoothed log weights (n, draws), normalized for each of the n rows, and shapes of the tails (n,)."""
    if not _datatrees():
        log_weight, shape = load_arviz().psislw(log_ratio, efficiency)
        return log_weight, shape
    from arviz_stats.base import array_stats

    with _distinct_weights():
        log_weight, shape = array_stats.psislw(-log_ratio, efficiency)
    return log_weight, shape


def cross_validation(posterior: xr.Dataset, log_likelihood: xr.Dataset) -> InferenceData:
    """ArviZ's leave-one-out cross-validation by the variable ``data`` of the log likelihood."""
    groups = container({"posterior": posterior, "log_likelihood": log_likelihood}, {})
    with _distinct_weights():
        return load_arviz().loo(groups, var_name="data", pointwise=True)


@contextmanager
def _distinct_weights() -> Iterator[None]:
    """A clear error where ArviZ 1 finds no tail to fit."""
    try:
        yield
    except ValueError as error:
        if "tail values" not in str(error):
            raise
        raise ValueError(
            "draws must differ for cross-validation: the largest importance weights of a datum are all equal. "
            "Make more draws"
        ) from error


def standard_error(terms: Array) -> float:
    """That of the sum of so many terms (n,), as the installed ArviZ has it."""
    return float(np.sqrt(len(terms) * np.var(terms, ddof=int(_datatrees()))))


def cross_validated(found: Facts) -> InferenceData:
    """The same from its numbers, by the names of ArviZ 1: ``elpd``, ``se``, ``p``, ..., ``elpd_i``, ``pareto_k``."""
    if _datatrees():
        from arviz_stats import utils

        if hasattr(utils, "ELPDDataLOO"):
            return utils.ELPDDataLOO(**found)
        return utils.ELPDData(kind="loo", **found)  # before 1.3
    from arviz.stats.stats_utils import ELPDData

    names = {"elpd": "elpd_loo", "p": "p_loo", "elpd_i": "loo_i"}
    return ELPDData(data=list(found.values()), index=[names.get(name, name) for name in found])


def dataset(data: InferenceData, group: str) -> xr.Dataset:
    """A group as a dataset."""
    found: InferenceData = data[group]
    return found.to_dataset() if hasattr(found, "to_dataset") else found


def put(data: InferenceData, group: str, values: xr.Dataset) -> None:
    """Add a group, or replace one that has its name."""
    if group in data:
        del data[group]
    if hasattr(data, "add_groups"):
        data.add_groups({group: values})
    else:
        data[group] = type(data)(values)


def write(data: InferenceData, path: str) -> None:
    """Write a netCDF file, compressed: attributes in the root, and a group for each of the groups."""
    import xarray as xr

    xr.Dataset(attrs=data.attrs).to_netcdf(path, mode="w", engine="h5netcdf")
    for group in data:
        values = dataset(data, group)
        encoding = {name: {"zlib": True} for name, array in values.variables.items() if array.dtype.kind in "biufc"}
        values.to_netcdf(path, group=group, mode="a", engine="h5netcdf", encoding=encoding)


def read(path: str, groups: Iterable[str]) -> InferenceData:
    """Read these groups of a netCDF file into memory: lazy data would keep the file open, and locked."""
    import xarray as xr

    with xr.open_dataset(path, engine="h5netcdf") as root:
        attributes = root.attrs
    return container({group: xr.load_dataset(path, engine="h5netcdf", group=group) for group in groups}, attributes)
