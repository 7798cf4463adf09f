"""Coefficients of the directions that data inform most, by which runs of many unknowns are judged.

The nodes of a mesh far from all data have their prior's values, which any kernel about a Gaussian reference draws
independently. What is sampled with effort lies in the informed directions.
"""

from __future__ import annotations

import numpy as np

from invsamp.engine.driver.running_moments import LARGE
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.kernels.gaussian_reference import mode_of
from invsamp.protocols import Array

#: Name of the coefficients among what is recorded, and how many of them there are at most.
NAME, MOST = "informed", 10


def informed_coefficients(rung: RungChains, position: Array) -> dict[str, Array]:
    """Coefficients (chains, k) of positions (chains, d) by name; none of few unknowns, or of another kernel.

    They are those of the whitened coordinates of a mode's Gaussian, along its directions with the largest eigenvalues.
    """
    reference = mode_of(rung.settings.kernel)
    if position.shape[1] <= LARGE or reference is None:
        return {}
    metric = reference.metric
    most = np.argsort(-metric.values)[:MOST]
    white = metric.uncolor(position - reference.mean)
    return {NAME: white @ metric.vectors[:, most]}
