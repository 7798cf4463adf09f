"""Default properties of kernels: of gradient steps, of baselines, and of kernels that wrap another one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from invsamp.evaluate.requests import Memory, Rows
from invsamp.kernels.contract import ActiveRung, Kernel
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
        """The memory after a swap: unchanged, as it belongs to the rung."""
        return memory


class Baseline(KernelDefaults):
    """Approximate by construction, and for comparisons alone; a domain is refused, which none of them keeps right."""

    stability_limit: float = math.inf


def _of_kernel(name: str) -> Any:
    return property(attrgetter(f"kernel.{name}"), doc="As of the kernel within.")


class Wrapping:
    """A kernel with the settings of the one within it, whose proposals it accepts or refuses."""

    kernel: Kernel
    adjusted = True
    gradient: bool = _of_kernel("gradient")
    friction: float = _of_kernel("friction")
    target_acceptance: float = _of_kernel("target_acceptance")
    stability_limit: float = _of_kernel("stability_limit")
    longest_step: float = _of_kernel("longest_step")
    short_step: float = _of_kernel("short_step")
    ensemble_size: int | None = _of_kernel("ensemble_size")
