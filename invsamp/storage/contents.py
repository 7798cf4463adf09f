"""Contents of a run, as groups and attributes of an ArviZ InferenceData."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.protocols import Array, DrawablePrior, GaussianMarginals, InferenceData, Observed, Plain
from invsamp.storage import arviz_data, layout

if TYPE_CHECKING:
    import xarray as xr

#: group -> name -> array
Groups = dict[str, dict[str, Array]]
#: Draws in the group ``prior``, and numbers in it: of very many parameters there are fewer draws.
PRIOR_DRAWS, PRIOR_NUMBERS = 1000, 10_000_000


def groups_of(
    theta: Array | None,
    shapes: Mapping[str, tuple[int, ...]],
    stats: Mapping[str, Array],
    recorded: Mapping[str, Array] | None = None,
    between: Array | None = None,
) -> Groups:
    """Groups that grow with the draws, as arrays by name: ``posterior``, ``sample_stats``, ``hot`` and ``hot_stats``.

    And ``coarse``, where there is something between the draws.

    Parameters
    ----------
    theta : ndarray, shape (rungs, chains, draws, d), or None
        None: those that are kept are among ``recorded``, and of the rungs above the cold one nothing is.
    shapes : mapping
        Shape of every parameter, in the order of theta's columns.
    stats : mapping of names to ndarray, shape (chains, draws) or (rungs, chains, draws)
    recorded : mapping of names to ndarray, shape (chains, draws, *shape), optional
    between : ndarray, shape (steps, chains, draws, d), optional
        Theta of a coarse rung on the way to each draw.
    """
    groups: Groups = {
        "posterior": ({} if theta is None else layout.split(theta[0], shapes)) | dict(recorded or {}),
        "sample_stats": {name: values if values.ndim == 2 else values[0] for name, values in stats.items()},
    }
    if theta is not None and len(theta) > 1:
        groups["hot"] = layout.split(np.moveaxis(theta[1:], 0, 2), shapes)
        groups["hot_stats"] = {n: np.moveaxis(values[1:], 0, 2) for n, values in stats.items() if values.ndim == 3}
    if between is not None:
        groups["coarse"] = layout.split(np.moveaxis(between, 0, 2), shapes)
    return groups


def inference_data(datasets: dict[str, xr.Dataset], attributes: Mapping[str, str]) -> InferenceData:
    """The container of a run for ArviZ, from the datasets of its groups."""
    if "hot" in datasets:
        report = json.loads(attributes["report"])
        rungs, names = 1 + datasets["hot"].sizes["rung"], datasets["posterior"].data_vars
        hot = layout.hot_coordinates(rungs, report.get("temperatures"), names)
        for group in ("hot", "hot_stats"):
            if datasets[group].data_vars:
                datasets[group] = datasets[group].assign_coords(hot)
    return arviz_data.container(datasets, attributes)


def constants(
    problem: object, shapes: Mapping[str, tuple[int, ...]], seed: int | None, kept: Collection[str] | None = None
) -> Groups:
    """Groups that do not grow, as arrays by name: ``observed_data``, and ``prior`` with up to 1000 draws from it.

    And ``prior_moments``: mean and sd of each value of the prior's Gaussian fields. ``kept``: the parameters of which
    this is wanted; all by default.
    """
    groups: Groups = {}
    if isinstance(problem, Observed):
        groups["observed_data"] = {"data": np.asarray(problem.data)}
    if isinstance(problem, DrawablePrior) and (kept is None or kept):
        dimension = sum(math.prod(shape) for shape in shapes.values())
        count = int(np.clip(PRIOR_NUMBERS // dimension, 10, PRIOR_DRAWS))
        with suppress(ValueError):  # it has hardly any mass in the domain
            draws = problem.sample_prior(np.random.default_rng(seed if isinstance(seed, int) else 0), count)
            parts = layout.split(draws[None], shapes)
            groups["prior"] = {name: part for name, part in parts.items() if kept is None or name in kept}
    if isinstance(problem, GaussianMarginals):
        known = {name: np.stack(both) for name, both in problem.gaussian_marginals().items()}
        if wanted := {name: both for name, both in known.items() if kept is None or name in kept}:
            groups["prior_moments"] = wanted
    return groups


def mean_and_sd(sums: Array, count: int) -> Array:
    """Mean and standard deviation (2, ...) of each number, from mean and sum of squared deviations over ``count``."""
    return np.stack([sums[0], np.sqrt(sums[1] / max(1, count - 1))])


def attributes_of(
    shapes: Mapping[str, tuple[int, ...]],
    report: Mapping[str, object],
    domain: Domain | None,
    recorded: Mapping[str, tuple[int, ...]] | None = None,
    every: int = 1,
) -> dict[str, str]:
    """Attributes of a run's data: shapes of the parameters that are kept, and of what was recorded of them.

    And the k of the every k-th draw of the group ``thinned``.
    """
    attributes = {
        "inference_library": "invsamp",
        "report": layout.to_json(report),
        "parameters": layout.to_json({name: list(shape) for name, shape in shapes.items()}),
    }
    if recorded:
        attributes["recorded"] = layout.to_json({name: list(shape) for name, shape in recorded.items()})
    if domain is not None:
        attributes["domain"] = layout.to_json(domain.to_dict())
    if every > 1:
        attributes["every"] = str(every)
    return attributes


def described(shapes: Mapping[str, tuple[int, ...]], domain: Domain | None) -> Plain:
    """Entries that the description of a run must have for `Stored`."""
    text = None if domain is None else json.loads(layout.to_json(domain.to_dict()))
    return {"parameters": {name: list(shape) for name, shape in shapes.items()}, "domain": text}


def versions() -> dict[str, str]:
    """Versions of Python, invsamp and what it computes with, for the report of a run."""
    return dict(_versions())


def version(distribution: str) -> str | None:
    """Version of what is installed; None if it is not."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(distribution)
    return None


@cache
def _versions() -> dict[str, str]:
    packages = ("invsamp", "numpy", "scipy", "numba", "arviz", "scikit-fem", "fenics-dolfinx", "torch")
    known = {package: found for package in packages if (found := version(package)) is not None}
    return {"python": ".".join(map(str, sys.version_info[:3]))} | known
