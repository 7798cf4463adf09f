"""What a kernel states of itself unless it says otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from invsamp.evaluate.requests import Memory, Rows
from invsamp.kernels.contract import ActiveRung
from invsamp.protocols import Array


class KernelDefaults:
    """Unadjusted steps by gradients, independent chains, no momentum, no memory: a kernel's class says what differs."""

    adjusted: bool = False
    gradient: bool = True
    friction: float = 1.0
    target_acceptance: float = 1.0
    stability_limit: float = 2.0
    longest_step: float = math.inf
    short_step: float = 1.0
    ensemble_size: int | None = 1
    statistics: Mapping[str, type] = MappingProxyType({})

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Nothing is kept."""
        return {}

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """What is kept stays with the rung."""
        return memory
