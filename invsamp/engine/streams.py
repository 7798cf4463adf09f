"""Random numbers of one purpose, drawn in blocks because a step takes few of them at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from invsamp.contract import AnyArray, Array, Plain

#: What a part of a run saves: a tree of plain values, arrays and parts, for `invsamp.engine.state.encode`.
Saved = Plain
#: Of normal numbers in single precision that are made at a time.
PAIRS = 2**14


class Stream:
    """Random arrays of one shape, drawn in blocks (the numbers do not depend on them).

    ``draw(rng, shape)`` gives arrays whose entries do not depend on each other. The generator is the stream's own.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        shape: tuple[int, ...],
        draw: Callable[[np.random.Generator, tuple[int, ...]], AnyArray] = np.random.Generator.standard_normal,
        block: int = 8192,
    ) -> None:
        self._rng, self._shape, self._draw = rng, shape, draw
        self._count = max(1, block // max(1, math.prod(shape)))
        self._begin = rng.bit_generator.state
        self._left: Iterator[Array] = iter(())  # of the block

    def draw(self) -> Array:
        """The next array."""
        for drawn in self._left:  # the cheapest way to take one, if there is one
            return drawn
        self._fill()
        return next(self._left)

    def state(self) -> Saved:
        """Where the stream stands: the generator at the beginning of the block, and the place in it."""
        # at the end of a block nothing of it is needed any more
        left = operator.length_hint(self._left)
        begin = self._begin if left else self._rng.bit_generator.state
        return {"generator": begin, "next": self._count - left if left else 0}

    def restore(self, state: Saved) -> None:
        """Go on from a state."""
        self._rng.bit_generator.state = state["generator"]
        self._left = iter(())
        if state["next"]:
            self._fill(state["next"])

    def _fill(self, begun: int = 0) -> None:
        self._begin = self._rng.bit_generator.state
        self._left = iter(self._draw(self._rng, (self._count, *self._shape))[begun:])


def single_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Standard normal numbers in single precision, in a third of the time: for energies that have no more digits.

    Pairs by Box and Muller (1958); with 23 bits none is beyond 5.7, as two exact ones in 10^8 are.
    """
    count = math.prod(shape)
    half = -(-count // 2)
    bits = rng.integers(2**64, size=half, dtype=np.uint64).view(np.uint32)
    found = bits.view(np.float32)
    for begin in range(0, half, PAIRS):  # in place, a piece that fits into a cache at a time: half the time
        end = min(begin + PAIRS, half)
        for piece in (bits[begin:end], bits[half + begin : half + end]):
            piece >>= np.uint32(9)
            piece |= np.uint32(0x3F800000)  # the bits of uniform numbers in [1, 2)
        first, second = found[begin:end], found[half + begin : half + end]
        radius = np.subtract(np.float32(2.0), first)
        np.log(radius, out=radius)
        radius *= np.float32(-2.0)
        np.sqrt(radius, out=radius)
        second *= np.float32(2.0 * np.pi)
        np.cos(second, out=first)
        np.sin(second, out=second)
        first *= radius
        second *= radius
    return found[:count].reshape(shape)


def log_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Logs of uniform numbers: below a log ratio with probability min(1, ratio)."""
    return np.log1p(-rng.random(shape))
