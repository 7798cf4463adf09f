"""Loops over the components of a trajectory in LLVM's language: four at once, then two, then one, with the same bits.

LLVM makes loops for many components of what it gets from numba. With three to twelve components, these loops write
twice as many outputs between steps in the same time. Sums of stages are left to LLVM. A right-hand side writes its
values one by one, and a load of four at once would have to wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from invsamp.solvers.foreign import Llvm

DOUBLE, SIZE = ir.DoubleType(), ir.IntType(64)
POINTER = DOUBLE.as_pointer()
_LANES = (4, 2, 1)


class Lanes(NamedTuple):
    """Some neighboring components from number ``i`` on, as one value."""

    builder: Llvm
    i: Llvm
    width: int

    @property
    def kind(self) -> Llvm:
        """LLVM's type of the value."""
        return DOUBLE if self.width == 1 else ir.VectorType(DOUBLE, self.width)

    def load(self, row: Llvm) -> Llvm:
        """These components of the row at a pointer."""
        found = self.builder.load(self._at(row))
        found.align = 8
        return found

    def store(self, value: Llvm, row: Llvm) -> None:
        """Write these components of the row at a pointer."""
        self.builder.store(value, self._at(row)).align = 8

    def constant(self, value: float) -> Llvm:
        """The same number for all of them."""
        return ir.Constant(self.kind, value if self.width == 1 else [value] * self.width)

    def spread(self, value: Llvm) -> Llvm:
        """The same scalar for all of them."""
        if self.width == 1:
            return value
        undefined, index = ir.Constant(self.kind, ir.Undefined), ir.IntType(32)
        one = self.builder.insert_element(undefined, value, index(0))
        return self.builder.shuffle_vector(
            one, undefined, ir.Constant(ir.VectorType(index, self.width), [0] * self.width)
        )

    def _at(self, row: Llvm) -> Llvm:
        return self.builder.bitcast(self.builder.gep(row, [self.i]), self.kind.as_pointer())


def over_components(builder: Llvm, count: Llvm, body: Callable[[Lanes], None]) -> None:
    """For all components from 0 to ``count``; the builder is left behind the loop."""
    first = SIZE(0)
    for lanes in _LANES:
        before, function = builder.block, builder.function
        head, inside, after = (function.append_basic_block(name) for name in ("head", "lanes", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        i = builder.phi(SIZE)
        i.add_incoming(first, before)
        following = builder.add(i, SIZE(lanes))
        builder.cbranch(builder.icmp_signed("<=", following, count), inside, after)
        builder.position_at_end(inside)
        body(Lanes(builder, i, lanes))
        if lanes == _LANES[0]:  # of the others there is one at most
            i.add_incoming(following, builder.block)
            builder.branch(head)
            builder.position_at_end(after)
            first = i
        else:
            end = builder.block
            builder.branch(after)
            builder.position_at_end(after)
            reached = builder.phi(SIZE)
            reached.add_incoming(i, head)
            reached.add_incoming(following, end)
            first = reached
