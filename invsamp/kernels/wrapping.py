"""Kernels in which another one moves."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from invsamp.kernels.contract import Kernel


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
