"""Running moments of blocks whose draws would not fit into memory."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from invsamp.engine.driver.recorded_variables import Record, SomeValues
from invsamp.protocols import Array, Problem
from invsamp.warning_codes import coded

#: Bytes of draws from which on blocks of more numbers than that are not kept whole; and how many of them are.
MOST_BYTES, LARGE, KEPT = 2**28, 2000, 50
#: Bytes of the draws that are kept of such blocks, in single precision: in memory, and in a directory.
THINNED_BYTES, STORED_BYTES = 2**26, 2**31


class RunningMoments:
    """Mean and sum of squared deviations of each number of a block, over all draws of all chains.

    References
    ----------
    Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance", The American Statistician 37,
    eq. (2.1).
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.begin()

    def begin(self) -> None:
        """Forget all draws."""
        self.count, self.mean, self._squares = 0, np.zeros(self.size), np.zeros(self.size)

    def add(self, values: Array) -> None:
        """Values (chains, size) of one draw of each chain."""
        own = values.mean(axis=0)
        apart, new = own - self.mean, len(values)
        total = self.count + new
        self._squares += np.square(values - own).sum(axis=0) + np.square(apart) * (self.count * new / total)
        self.mean += apart * (new / total)
        self.count = total

    @property
    def sums(self) -> Array:
        """Mean and sum of squared deviations (2, size)."""
        return np.stack([self.mean, self._squares])

    def restore(self, sums: Array, count: int) -> None:
        """Continue from `sums` over so many values of each number."""
        self.count, self.mean, self._squares = count, sums[0].copy(), sums[1].copy()


def within_memory(
    record: Record, problem: Problem, draws: int, rungs: int, stored: bool = False
) -> tuple[Record, str | None]:
    """The record of so many draws of all chains, for each rung, and a warning where that is not all of them.

    Where all would take more than `MOST_BYTES`, blocks of more than `LARGE` numbers are replaced by running moments,
    every k-th draw in single precision, and `KEPT` of their numbers at every draw. ``stored``: in a directory.
    """
    sizes = {name: math.prod(shape) for name, shape in problem.shapes.items()}
    large = [size for size in sizes.values() if size > LARGE]
    if not record.whole or not large or 8 * rungs * draws * sum(sizes.values()) <= MOST_BYTES:
        return record, None
    every = max(1, math.ceil(4 * draws * sum(large) / (STORED_BYTES if stored else THINNED_BYTES)))
    less = without_large(record, problem, every)
    room = 8e-9 * rungs * draws * sum(sizes.values())
    which = "all draws" if every == 1 else f"one draw in {every}"
    some = ", ".join(name for name in less.functions if name not in record.functions)
    others = ", ".join(less.parameters or ())
    rest = f"run.theta has {others} alone. " if others else ""
    said = coded(
        "IV-MEMORY",
        f"all draws of {', '.join(less.moments)} would take {room:.2g} GB. The run keeps means and sds over all draws "
        f"(run.moments), {which} in single precision (run.field, run.thinned), and {KEPT} numbers of each at every "
        f"draw, {some}. {rest}Use record= to keep functions of them"
        + ("" if stored or every == 1 else ", or directory= to keep more draws on disk"),
    )
    return less, said


def without_large(record: Record, problem: Problem, every: int) -> Record:
    """The record with moments, every k-th draw and some numbers of large blocks in place of all their draws."""
    sizes = {name: math.prod(shape) for name, shape in problem.shapes.items()}
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    large = tuple(name for name, size in sizes.items() if size > LARGE)
    some = {
        f"{name}_some": SomeValues(first[name] + np.linspace(0, sizes[name] - 1, KEPT).astype(np.intp))
        for name in large
    }
    rest = tuple(name for name in sizes if name not in large)
    return replace(record, functions=dict(record.functions) | some, parameters=rest, moments=large, every=every)
