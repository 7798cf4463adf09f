"""Samplers as compositions of parts: rungs (temperature levels), swaps, and how temperatures are spaced."""

from invsamp.ladder.rung import GradientNoise, Rung
from invsamp.ladder.sampler import Sampler, Swap, geometric
from invsamp.ladder.spacing import auto_ladder

__all__ = ["GradientNoise", "Rung", "Sampler", "Swap", "auto_ladder", "geometric"]
