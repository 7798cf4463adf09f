"""Statistics that say whether draws can be trusted: ESS, R-hat, MCSE, swap rates and round trips.

`explain` says what the code of a warning means. Divergences from a known distribution are in
`invsamp.diagnostics.divergences`.
"""

from invsamp.diagnostics.divergences import divergence_on_grid, iid_floor
from invsamp.diagnostics.draws import ess, mcse, rhat, statistics
from invsamp.diagnostics.ladders import passage_times, replica_paths, round_trips, swap_rates
from invsamp.warning_codes import InvsampWarning, explain

__all__ = [
    "InvsampWarning",
    "divergence_on_grid",
    "ess",
    "explain",
    "iid_floor",
    "mcse",
    "passage_times",
    "replica_paths",
    "rhat",
    "round_trips",
    "statistics",
    "swap_rates",
]
