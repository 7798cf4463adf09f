"""Which coordinates a posterior is sampled in."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from invsamp.domains.contract import Domain
from invsamp.posing.distributions.base import Distribution, ScalarFamily
from invsamp.posing.distributions.from_scipy import ScipyDistribution
from invsamp.posing.distributions.truncated import Truncated
from invsamp.posing.distributions.univariate import Uniform
from invsamp.posing.priors.conditional_distribution import OfPrior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.posing.transforms.multivariate import VectorTransform
from invsamp.posing.transforms.univariate import Coordinates, Identity, Log, Logit, Transform


def choose_coordinates(prior: Prior, domain: Domain, chosen: Mapping[str, str]) -> Coordinates:
    """The transform of every column: as ``chosen`` by name, else the logarithm of what is bounded below only.

    And of what has a distribution of its logarithm, which may have two ends. Between two ends the logit, where the
    density grows without bound towards one of them: its slope there would leave no step size. Vectors whose entries
    constrain each other have coordinates of their own. Columns that the domain constrains are sampled as themselves.

    Raises
    ------
    ValueError
        If a name or a kind is unknown, or a kind does not fit its parameter's support or the domain.
    """
    prior.check_names("transforms", chosen)
    constrained = domain.constrains(prior.dimension)
    transforms: list[Transform] = []
    vectors: list[tuple[slice, VectorTransform]] = []
    for name, columns in prior.slices.items():
        kind = chosen.get(name)
        if kind not in (None, "identity", "log", "logit"):
            raise ValueError(f"transforms[{name!r}] must be 'identity', 'log' or 'logit', got {kind!r}")
        vector = prior.distributions[name].vector_transform
        of_logarithm = kind in (None, "log") and prior.distributions[name].logarithmic
        if vector is not None and kind in ("log", "logit"):
            raise ValueError(f"transforms[{name!r}] must be 'identity', or its own by default, got {kind!r}")
        if vector is not None and kind is None and not constrained[columns].any():
            vectors.append((columns, vector))
            transforms += [Identity()] * (columns.stop - columns.start)
            continue
        between = np.isfinite(np.array([end[columns] for end in prior.support])).all(axis=0)
        # the density is compiled only where its growth decides
        logit = between & unbounded_density(prior.distributions[name]) if between.any() else between
        for column in range(columns.start, columns.stop):
            if constrained[column] and kind in ("log", "logit"):
                raise ValueError(
                    f"transforms[{name!r}] must be 'identity', got {kind!r}: the domain constrains "
                    f"{prior.labels[column]}, so it has to be sampled without a transform"
                )
            ends = float(prior.support[0][column]), float(prior.support[1][column])
            own = "logit" if kind is None and logit[column - columns.start] else kind
            made = Log() if of_logarithm else _transform(name, own, *ends)
            transforms.append(Identity() if constrained[column] else made)
    return Coordinates(transforms, vectors)


def _transform(name: str, kind: str | None, lower: float, upper: float) -> Transform:
    if kind == "logit":
        if not (math.isfinite(lower) and math.isfinite(upper)):
            raise ValueError(f"transforms[{name!r}] is 'logit': its support must be finite, got ({lower}, {upper})")
        return Logit(lower, upper)
    if kind == "log" and not math.isfinite(lower):
        raise ValueError(f"transforms[{name!r}] is 'log': its support must be bounded below, got ({lower}, {upper})")
    if kind == "log" or (kind is None and math.isfinite(lower) and upper == math.inf):
        return Log(lower)
    return Identity()


def unbounded_density(distribution: Distribution) -> npt.NDArray[np.bool_]:
    """Entries (size,) whose density grows without bound towards a finite end, or may do so between two."""
    known = np.isfinite(ends := np.array([np.ravel(end) for end in distribution.support]))
    if isinstance(distribution, Uniform) or not known.any():  # nothing is compiled for these
        return np.zeros(known.shape[1], dtype=bool)
    if isinstance(distribution, OfPrior):  # given others, such as Beta("a", 2)
        return np.asarray(known.all(axis=0))
    inner = np.where(known[0], ends[0] + 0.5, np.where(known[1], ends[1] - 0.5, 0.0))
    rows = np.where(known, ends, inner)
    with np.errstate(all="ignore"):
        if isinstance(distribution, ScipyDistribution):
            return np.asarray((known & (distribution.log_densities(rows) == np.inf)).any(axis=0))
        if isinstance(distribution, ScalarFamily | Truncated):
            slopes = distribution.evaluate(rows)[1]
            return np.asarray((known & (slopes == np.array([[-np.inf], [np.inf]]))).any(axis=0))
    return np.zeros(known.shape[1], dtype=bool)
