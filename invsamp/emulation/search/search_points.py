"""Points of the prior, and energies of positions whose outputs are known."""

from __future__ import annotations

import numpy as np

from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array

#: Quasi-random points leave out so much of each coordinate's prior at either end.
_TAIL = 0.02


def spread_of(draws: Array) -> Array:
    """Sds (d,) of draws (n, d), by quartiles, as some distributions have none."""
    low, high = np.quantile(draws, (0.25, 0.75), axis=0)
    return np.asarray(np.maximum((high - low) / 1.349, 1e-12))


def quasi_random(posterior: Posterior, prior: Array, points: int, rng: np.random.Generator) -> Array:
    """Positions (points, dimension) that fill the prior evenly, each coordinate by its quantiles among prior draws."""
    d = prior.shape[1]
    count = 2 ** int(np.ceil(np.log2(points)))  # what Sobol' points are balanced in
    from scipy.stats import qmc  # scipy.stats takes most of a second to import

    share = _TAIL + (1.0 - 2.0 * _TAIL) * qmc.Sobol(d, seed=rng).random(count)[:points]
    ordered, number = np.sort(prior, axis=0), np.arange(len(prior))
    columns = [np.interp(share[:, k] * (len(prior) - 1), number, ordered[:, k]) for k in range(d)]
    position = np.column_stack(columns)
    outside = ~posterior.sampling_domain.contains(position)
    position[outside] = prior[rng.integers(len(prior), size=int(outside.sum()))]
    return position


def energies(posterior: Posterior, position: Array, outputs: Array) -> Array:
    """Energies (n,) of positions (n, dimension) whose outputs (n, m) are known; infinite where these are NaN."""
    found = np.full(len(position), np.inf)
    good = np.isfinite(outputs).all(axis=1)
    if good.any():
        misfit = posterior.misfit(posterior.to_theta(position[good]), outputs[good])
        found[good] = misfit - posterior.log_prior_at(position[good])
    return found
