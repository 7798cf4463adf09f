"""Swap schemes: which neighbouring rungs meet at an attempt. Apart from whether they swap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class SwapScheme(Protocol):
    """Lower indices of the pairs (k, k + 1) that meet."""

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> range:
        """Pairs that meet at attempt number ``attempt``."""
        ...


@dataclass(frozen=True)
class Adjacent:
    """One pair of neighbours, drawn uniformly."""

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> range:
        """One random pair."""
        k = int(rng.integers(rungs - 1))
        return range(k, k + 1)


@dataclass(frozen=True)
class StochasticEvenOdd:
    """All even or all odd pairs, by a coin (reversible)."""

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> range:
        """Even or odd pairs at random."""
        return _parity(int(rng.integers(2)), rungs)


@dataclass(frozen=True)
class DeterministicEvenOdd:
    """Even and odd pairs in turn (non-reversible): round trips in O(rungs) instead of O(rungs^2)."""

    def pairs(self, attempt: int, rungs: int, rng: np.random.Generator) -> range:
        """Even and odd pairs in turn."""
        return _parity(attempt % 2, rungs)


def adjacent() -> SwapScheme:
    """One random pair of neighbours at each attempt."""
    return Adjacent()


def seo() -> SwapScheme:
    """Stochastic even-odd scheme."""
    return StochasticEvenOdd()


def deo() -> SwapScheme:
    """Deterministic even-odd scheme (Okabe et al. 2001; Syed et al. 2022, section 3), the default."""
    return DeterministicEvenOdd()


def _parity(parity: int, rungs: int) -> range:
    # with one pair only there is no odd set: an attempt must not be wasted on it
    return range(0, 1) if rungs == 2 else range(parity, rungs - 1, 2)
