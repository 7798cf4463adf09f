"""Replica exchange: swap schemes (which rungs attempt a swap) and swap rules (whether they swap).

Schemes: `deo`, `seo`, `sweep`, `adjacent`, `all_pairs`. Rules: `metropolis` for exact energies; `noise_penalty`,
`state_dependent_penalty` and `multi_variance` for noisy ones; `product_target` and `delayed_acceptance` for rungs of
different fidelities. The swap itself: `engine/exchange`.
"""

from invsamp.swaps.discrepancy import Discrepancy
from invsamp.swaps.rules import (
    delayed_acceptance,
    metropolis,
    multi_variance,
    noise_penalty,
    product_target,
    state_dependent_penalty,
)
from invsamp.swaps.schemes import adjacent, all_pairs, deo, seo, sweep

__all__ = [
    "Discrepancy",
    "adjacent",
    "all_pairs",
    "delayed_acceptance",
    "deo",
    "metropolis",
    "multi_variance",
    "noise_penalty",
    "product_target",
    "seo",
    "state_dependent_penalty",
    "sweep",
]
