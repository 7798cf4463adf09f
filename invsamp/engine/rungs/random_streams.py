"""Random numbers of one purpose, drawn in blocks because a step takes few of them at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.protocols import AnyArray, Array, Facts

whole, single, bit = np.int32, np.float32, np.uint32
#: The bits of sqrt(1/2) in single precision: below it begins another power of two.
ROOT_HALF, LOG_2 = 0x3F3504F3, math.log(2.0)


class Stream(Lasting, lasting=("place",)):
    """Random arrays of one shape, drawn in blocks (the numbers do not depend on them).

    ``draw(rng, shape)`` gives arrays whose entries do not depend on each other. The generator is the stream's own.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        shape: tuple[int, ...],
        draw: Callable[[np.random.Generator, tuple[int, ...]], AnyArray] = np.random.Generator.standard_normal,
        block: int = 32768,
    ) -> None:
        self._rng, self._shape, self._draw = rng, shape, draw
        self._count = max(1, block // max(1, math.prod(shape)))
        self._begin = rng.bit_generator.state
        self._block = np.empty((0, *shape))
        self._left: Iterator[Array] = iter(())  # of the block

    def draw(self) -> Array:
        """The next array."""
        for drawn in self._left:  # the cheapest way to take one, if there is one
            return drawn
        self._fill()
        return next(self._left)

    def ahead(self) -> Array:
        """The arrays (n, *shape) that are left of the block, one at least: they are taken by `skip`."""
        if not operator.length_hint(self._left):
            self._fill()
        return self._block[self._count - operator.length_hint(self._left) :]

    def skip(self, arrays: int) -> None:
        """Go past so many of those."""
        self._left = iter(self.ahead()[arrays:])

    @property
    def place(self) -> tuple[Facts, int]:
        """The state of the generator at the beginning of the block, and how many arrays of it were taken."""
        # at the end of a block nothing of it is needed any more
        left = operator.length_hint(self._left)
        return (self._begin, self._count - left) if left else (self._rng.bit_generator.state, 0)

    @place.setter
    def place(self, place: tuple[Facts, int]) -> None:
        begin, taken = place
        if taken and len(self._block) and begin == self._begin:
            self._left = iter(self._block[taken:])
            return
        self._rng.bit_generator.state = begin
        self._block, self._left = self._block[:0], iter(())
        if taken:
            self._fill(taken)

    def _fill(self, begun: int = 0) -> None:
        self._begin = self._rng.bit_generator.state
        self._block = self._draw(self._rng, (self._count, *self._shape))
        self._left = iter(self._block[begun:])


def single_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Standard normal numbers in single precision, in a sixth of the time: for energies that have no more digits.

    Pairs by Box and Muller (1958); with 23 bits none is beyond 5.7, as two exact ones in 10^8 are. Sums, products,
    quotients and roots make them, which every processor rounds alike: a seed's numbers are the same everywhere.
    """
    count = math.prod(shape)
    half = -(-count // 2)
    bits = rng.integers(2**64, size=half, dtype=np.uint64).view(np.uint32)
    _paired(bits[:half], bits[half:])
    return bits.view(np.float32)[:count].reshape(shape)


def log_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Logs of uniform numbers: below a log ratio with probability min(1, ratio)."""
    return np.log1p(-rng.random(shape))


@njit(cache=True, error_model="numpy")
def _paired(first: npt.NDArray[np.uint32], second: npt.NDArray[np.uint32]) -> None:
    """Random bits of distances and angles become those of pairs of normal numbers in single precision.

    Series, each to the last digit: of log m = 2 artanh((m - 1) / (m + 1)) for sqrt(1/2) <= m < sqrt(2), and of sine and
    cosine within an eighth of a turn. Without branches or NumPy's functions, so that it runs by a processor's vectors.
    """
    for k in range(len(first)):
        uniform = single(whole(whole(2**23) - whole(first[k] >> 9)))  # times 2^-23, in (0, 1]
        bits = uniform.view(whole)
        exponent = whole(whole(bits - whole(ROOT_HALF)) >> 23)
        m = whole(bits - whole(exponent << 23)).view(single)
        z = (m - single(1)) / (m + single(1))
        zz = z * z
        log = single(1 / 7) + zz * single(1 / 9)
        log = single(1) + zz * (single(1 / 3) + zz * (single(1 / 5) + zz * log))
        log = single(2) * z * log + single(whole(exponent - 23)) * single(LOG_2)
        radius = np.sqrt(single(-2) * log)

        turn = whole(second[k] >> 9)  # times 2^-23
        quarter = whole(whole(turn + 2**20) >> 21)
        x = single(whole(turn - whole(quarter << 21))) * single(2 * math.pi / 2**23)
        xx = x * x
        sine = single(-1 / 5040) + xx * single(1 / 362880)
        sine = x * (single(1) + xx * (single(-1 / 6) + xx * (single(1 / 120) + xx * sine)))
        cosine = single(-1 / 720) + xx * single(1 / 40320)
        cosine = single(1) + xx * (single(-1 / 2) + xx * (single(1 / 24) + xx * cosine))
        across, along = (sine, cosine) if quarter & 1 else (cosine, sine)
        across = -across if (quarter + 1) & 2 else across
        along = -along if quarter & 2 else along
        first[k], second[k] = single(radius * across).view(bit), single(radius * along).view(bit)
