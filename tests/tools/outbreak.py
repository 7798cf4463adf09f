"""The posterior of `invsamp.problems.influenza` by quadrature."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import stats

from invsamp.problems.influenza import IN_BED, outbreak


@cache
def by_quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Means and sds of beta, gamma and the dispersion, on a grid that holds all but a millionth of the mass."""
    beta, gamma, dispersion = np.linspace(1.4, 2.3, 61), np.linspace(0.3, 0.95, 61), np.geomspace(0.01, 1.5, 61)
    rates = np.stack(np.meshgrid(beta, gamma, indexing="ij"), axis=-1).reshape(-1, 2)
    y = outbreak("poisson").predict(rates)[:, :, 0]
    prior = stats.norm.logpdf(rates, (2.0, 0.4), (1.0, 0.5)).sum(axis=1)
    log = np.stack(
        [
            stats.nbinom.logpmf(IN_BED, 1 / a, 1 / (1 + a * y)).sum(axis=1) + prior - 5 * a + np.log(a)
            for a in dispersion
        ],
        axis=1,
    )
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    of_rates, of_dispersion = weight.sum(axis=1), weight.sum(axis=0)
    mean = np.append(of_rates @ rates, of_dispersion @ dispersion)
    square = np.append(of_rates @ rates**2, of_dispersion @ dispersion**2)
    return mean, np.sqrt(square - mean**2)
