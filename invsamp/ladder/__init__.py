"""Rungs, and the sampler that they make up, as data."""

from invsamp.ladder.rung import (
    COARSEST,
    ESTIMATOR,
    VARIANCE_MODEL,
    Beyond,
    GradientNoise,
    Rung,
    as_fidelity,
    as_step_size,
)
from invsamp.ladder.sampler import (
    MOST_DENSE,
    SWAP_ENERGIES,
    SWAP_RULE,
    SWAP_SCHEME,
    Sampler,
    Swap,
    SwapEnergies,
    geometric,
)

__all__ = [
    "COARSEST",
    "ESTIMATOR",
    "MOST_DENSE",
    "SWAP_ENERGIES",
    "SWAP_RULE",
    "SWAP_SCHEME",
    "VARIANCE_MODEL",
    "Beyond",
    "GradientNoise",
    "Rung",
    "Sampler",
    "Swap",
    "SwapEnergies",
    "as_fidelity",
    "as_step_size",
    "geometric",
]
