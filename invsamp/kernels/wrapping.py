"""Kernels in which another one moves."""

from __future__ import annotations

from invsamp.kernels.contract import Kernel


class Wrapping:
    """What a kernel tells of itself as the one within it does; what that one proposes is accepted or refused."""

    kernel: Kernel

    @property
    def gradient(self) -> bool:
        """As of the kernel within."""
        return self.kernel.gradient

    @property
    def adjusted(self) -> bool:
        """Always."""
        return True

    @property
    def friction(self) -> float:
        """As of the kernel within."""
        return self.kernel.friction

    @property
    def target_acceptance(self) -> float:
        """As of the kernel within, of its own steps."""
        return self.kernel.target_acceptance

    @property
    def stability_limit(self) -> float:
        """As of the kernel within."""
        return self.kernel.stability_limit

    @property
    def longest_step(self) -> float:
        """As of the kernel within."""
        return self.kernel.longest_step

    @property
    def short_step(self) -> float:
        """As of the kernel within."""
        return self.kernel.short_step

    @property
    def ensemble_size(self) -> int | None:
        """As of the kernel within."""
        return self.kernel.ensemble_size
