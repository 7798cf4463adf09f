"""What a run holds, as groups and attributes of an ArviZ InferenceData."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from invsamp.contract import Array
from invsamp.diagnostics import load_arviz
from invsamp.domains import Domain
from invsamp.results import layout

#: Draws in the group ``prior``.
PRIOR_DRAWS = 1000


def inference_data(
    problem: Any,
    names_shapes: Mapping[str, tuple[int, ...]],
    theta: Array,
    sample_stats: Mapping[str, Array],
    report: Mapping[str, Any],
    domain: Domain | None,
) -> Any:
    """The `arviz.InferenceData` of what a sampler recorded; arguments and errors as of `Run.from_arrays`."""
    layout.check_arrays(names_shapes, theta, sample_stats)
    rungs = len(theta)
    hot_coordinates = layout.hot_coordinates(rungs, report.get("temperatures"), names_shapes)
    stats = {name: np.asarray(values) for name, values in sample_stats.items()}
    cold_stats = {name: values if values.ndim == 2 else values[0] for name, values in stats.items()}
    hot_stats = {name: np.moveaxis(values[1:], 0, 2) for name, values in stats.items() if values.ndim == 3}
    groups = {
        "posterior": layout.dataset(layout.split(theta[0], names_shapes), ("chain", "draw")),
        "sample_stats": layout.dataset(cold_stats, ("chain", "draw")),
    }
    if rungs > 1:
        hot = layout.split(np.moveaxis(theta[1:], 0, 2), names_shapes)
        groups["hot"] = layout.dataset(hot, layout.DIMENSIONS).assign_coords(hot_coordinates)
        groups["hot_stats"] = layout.dataset(hot_stats, layout.DIMENSIONS).assign_coords(
            hot_coordinates if hot_stats else {}
        )
    for name, values in constants(problem, names_shapes, report.get("seed")).items():
        groups[name] = layout.dataset(values, layout.LEADING[name])
    attributes = attributes_of(names_shapes, report, domain)
    return load_arviz().InferenceData(attrs=attributes, **groups)


def constants(problem: Any, shapes: Mapping[str, tuple[int, ...]], seed: Any) -> dict[str, dict[str, Array]]:
    """Groups that do not grow, as arrays by name: ``observed_data``, and ``prior`` with 1000 draws from it."""
    groups = {}
    observed = getattr(problem, "data", None)
    if observed is not None:
        groups["observed_data"] = {"data": np.asarray(observed)}
    prior = getattr(problem, "prior", None)
    if prior is not None:
        draws = prior.sample(np.random.default_rng(seed if isinstance(seed, int) else 0), PRIOR_DRAWS)
        groups["prior"] = layout.split(draws[None], shapes)
    return groups


def attributes_of(
    shapes: Mapping[str, tuple[int, ...]], report: Mapping[str, Any], domain: Domain | None
) -> dict[str, str]:
    """Attributes of a run's data."""
    attributes = {
        "inference_library": "invsamp",
        "report": layout.to_json(report),
        "parameters": layout.to_json({name: list(shape) for name, shape in shapes.items()}),
    }
    if domain is not None:
        attributes["domain"] = layout.to_json(domain.to_dict())
    return attributes


def versions() -> dict[str, str]:
    """Versions of Python, invsamp and what it computes with, for the report of a run."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in ("invsamp", "numpy", "scipy", "numba", "arviz", "scikit-fem", "fenics-dolfinx", "torch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
