"""Statistics that say whether draws can be trusted: ESS, R-hat, MCSE, swap rates and round trips.

Distances to a known law (`invsamp.diagnostics.divergences`) are at hand here too.
"""

from invsamp.diagnostics.divergences import (
    divergence_on_grid,
    iid_floor,
    quantile_function,
    sliced_wasserstein,
    wasserstein,
)
from invsamp.diagnostics.draws import ess, mcse, rhat, statistics
from invsamp.diagnostics.ladders import passage_times, replica_paths, round_trips, swap_rates

__all__ = [
    "divergence_on_grid",
    "ess",
    "iid_floor",
    "mcse",
    "passage_times",
    "quantile_function",
    "replica_paths",
    "rhat",
    "round_trips",
    "sliced_wasserstein",
    "statistics",
    "swap_rates",
    "wasserstein",
]
