"""Target distributions of rungs: the posterior at a temperature, with part of the likelihood, or flat in the energy.

The contract is `invsamp.tempering.target_distribution`.
"""

from invsamp.tempering.contour_learning import gain
from invsamp.tempering.contours import contour
from invsamp.tempering.cooling import annealed, cold_posterior
from invsamp.tempering.linear_targets import tempered, tempered_likelihood

__all__ = ["annealed", "cold_posterior", "contour", "gain", "tempered", "tempered_likelihood"]
