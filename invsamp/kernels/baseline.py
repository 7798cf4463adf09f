"""What kernels of the literature's baselines share: unadjusted, with a step size that is given, in no domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from invsamp.contract import Array
from invsamp.evaluate.requests import Rows
from invsamp.kernels.contract import ActiveRung, Memory


class Baseline:
    """Approximate by construction, and for comparisons alone; a domain is refused, which none of them keeps right."""

    adjusted: ClassVar[bool] = False
    friction: ClassVar[float] = 1.0
    target_acceptance: ClassVar[float] = 1.0
    stability_limit: ClassVar[float] = 2.0
    gradient: ClassVar[bool] = True
    longest_step: ClassVar[float] = math.inf
    short_step: ClassVar[float] = 1.0
    statistics: ClassVar[Mapping[str, type]] = {}

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Nothing is kept."""
        return {}

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """What is kept stays with the rung."""
        return memory
