"""A Gaussian for comparison with proposals: the prior's own in positions, or one with its moments."""

from __future__ import annotations

import numpy as np

from invsamp.posing.distributions.univariate import LogNormal, MultivariateNormal, Normal
from invsamp.posing.priors.joint_prior import Prior
from invsamp.posing.priors.sampled_prior import Sampled
from invsamp.posing.transforms.univariate import Coordinates, Identity, Log
from invsamp.protocols import Array, DrawablePrior, GaussianReference, Problem, Reference

#: Draws, or numbers in them, from which medians and quartiles are taken where a distribution is not Gaussian.
DRAWS, NUMBERS = 4000, 10_000_000


def reference_of(problem: Problem) -> Reference:
    """Of a problem: its own, or one with the moments of its prior, or else of its starting points."""
    if isinstance(problem, GaussianReference):
        return problem.reference()
    rng, count = np.random.default_rng(0), _count(problem.dimension)
    if isinstance(problem, DrawablePrior):
        return moments(problem.to_position(problem.sample_prior(rng, count)))
    return moments(problem.sample_start(rng, count))


def reference_of_prior(prior: Prior, sampled: Sampled, coordinates: Coordinates) -> Reference:
    """Exact for normal parameters that are sampled as themselves and log-normal ones sampled as logarithms.

    And for those that are sampled by way of a standard normal one.
    """
    base = sampled.base
    mean, sd = np.empty(base.dimension), np.ones(base.dimension)
    blocks: list[tuple[slice, Array]] = []
    others: list[slice] = []
    exact = np.zeros(base.dimension, dtype=bool)
    for name, columns in base.slices.items():
        part, transforms = base.distributions[name], set(coordinates.transforms[columns])
        if type(part) is Normal and transforms == {Identity()}:
            mean[columns], sd[columns], exact[columns] = part.flat("mean"), part.flat("sd"), True
        elif type(part) is LogNormal and transforms == {Log(0.0)}:
            mean[columns], sd[columns], exact[columns] = part.flat("log_mean"), part.flat("log_sd"), True
        elif type(part) is MultivariateNormal and transforms == {Identity()}:
            mean[columns], exact[columns] = part.mean, True
            blocks.append((columns, np.linalg.cholesky(part.covariance)))
        else:
            others.append(columns)
    if others:  # draws of a field would cost a solve each
        theta = prior.sample(np.random.default_rng(0), _count(base.dimension))
        found = moments(coordinates.to_position(sampled.whitened(theta)))
        for columns in others:
            mean[columns], sd[columns] = found.mean[columns], found.factor[columns]
    if not blocks:
        return Reference(mean, sd, exact)
    factor = np.diag(sd)
    for columns, block in blocks:
        factor[columns, columns] = block
    return Reference(mean, factor, exact)


def moments(draws: Array) -> Reference:
    """Medians and quartiles as of a Gaussian: a Cauchy distribution has no moments."""
    with np.errstate(invalid="ignore"):
        low, middle, high = np.nanquantile(np.where(np.isfinite(draws), draws, np.nan), (0.25, 0.5, 0.75), axis=0)
    sd = (high - low) / 1.349
    return Reference(middle, np.where(sd > 0.0, sd, 1.0))


def _count(dimension: int) -> int:
    return int(np.clip(NUMBERS // dimension, 100, DRAWS))
