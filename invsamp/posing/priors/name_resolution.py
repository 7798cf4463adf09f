"""Resolution of the names in a prior: parents and shapes, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from invsamp.posing.distributions.base import Distribution, ScalarFamily
from invsamp.posing.distributions.random_field import FieldDistribution
from invsamp.posing.expressions.bound_expression import Names, names_in
from invsamp.posing.priors.conditional_distribution import joint_shape, tied_shape
from invsamp.posing.priors.noncentering import ordered
from invsamp.protocols import Array


def resolved(
    free: Mapping[str, Distribution], fixed: Mapping[str, Array], tied: Mapping[str, str]
) -> tuple[dict[str, Distribution], dict[str, tuple[int, ...]], dict[str, tuple[str, ...]]]:
    """Distributions with their shapes, shapes of all that is not fixed, and parents of what has some."""
    known = Names(dict.fromkeys((*free, *tied), ()), {}, fixed)
    parents: dict[str, tuple[str, ...]] = {}
    for name, distribution in free.items():
        field = isinstance(distribution, FieldDistribution)
        formulas = distribution.formulas if isinstance(distribution, ScalarFamily | FieldDistribution) else {}
        found = [one for key, value in formulas.items() for one in names_in(f"{key} of {name}", value, known)]
        if formulas or field:
            parents[name] = tuple(dict.fromkeys(found))
    parents |= {name: names_in(name, value, known) for name, value in tied.items()}
    for name, its in parents.items():
        if unknown := [parent for parent in its if parent not in (*free, *fixed, *tied)]:
            what = tied[name] if name in tied else free[name]
            raise ValueError(f"{name} must use names in the prior, {[*free, *fixed, *tied]}, got {unknown} in {what!r}")
    distributions, shapes = dict(free), {name: distribution.shape for name, distribution in free.items()}
    for name in ordered(parents):
        so_far = Names(shapes, {}, fixed)
        if name in tied:
            shapes[name] = tied_shape(name, parents[name], so_far)
        elif name in parents:
            distribution = distributions[name]
            if isinstance(distribution, FieldDistribution):
                continue
            assert isinstance(distribution, ScalarFamily)  # others have no formulas
            shapes[name] = joint_shape(name, distribution, so_far)
            distributions[name] = replace(distribution, shape=shapes[name])  # type: ignore[call-arg]
    return distributions, shapes, parents


def check_scales(
    name: str, distribution: ScalarFamily, supports: Mapping[str, tuple[Array, Array]], fixed: Mapping[str, Array]
) -> None:
    """`ValueError` if a name that stands for a positive parameter may be negative; of formulas nothing is known yet."""
    for key, value in distribution.formulas.items():
        if key not in distribution.positive:
            continue
        if value in fixed and not (fixed[value] > 0.0).all():
            raise ValueError(f"{key} of {name} must be positive, got {fixed[value].tolist()!r} of {value}")
        if value in supports and not (supports[value][0] >= 0.0).all():
            raise ValueError(f"{key} of {name} must be positive: the prior of {value} must have positive support")
