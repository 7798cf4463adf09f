"""Fields at the nodes and cells of a space, of which a rank may hold a part, in an order of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.field_contract import FieldValues, known_values, pushforward
from invsamp.solvers.fem.space import Space


def on_nodes(whole: FieldValues, space: Space) -> FieldValues:
    """A field at all points of the mesh, restricted to this rank's nodes."""
    return _restricted(whole, space.node_numbers, len(space.mesh.points))


def on_cells(whole: FieldValues, space: Space) -> FieldValues:
    """A field at the midpoints of all cells of the mesh, restricted to this rank's cells."""
    return _restricted(whole, space.cell_numbers, len(space.mesh.cells))


@contextlib.contextmanager
def fitting(name: str) -> Iterator[None]:
    """Say of which argument a field does not fit the mesh."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name} does not fit the mesh: {error}") from error


def check_conductivity(values: FieldValues, cells: int) -> None:
    """Raise ValueError for a conductivity that is known not to be positive in one of the mesh's ``cells``."""
    known = known_values(values, cells)
    bad = ~(np.isfinite(known) & (known > 0))
    if bad.any():
        raise ValueError(f"conductivity must be positive and finite, got {known[bad][0]}")


def _restricted(whole: FieldValues, numbers: Numbers, size: int) -> FieldValues:
    if len(numbers) == size and (numbers == np.arange(size)).all():
        return whole
    return _Restricted(whole, numbers, size)


@dataclass(frozen=True, eq=False)
class _Restricted:
    """A field on some of its points: every rank evaluates all of them, which costs little beside a solve."""

    whole: FieldValues
    numbers: Numbers
    size: int

    def values(self, theta: Array) -> Array:
        return self.whole.values(theta)[:, self.numbers]

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        spread = np.zeros((len(theta), self.size))
        spread[:, self.numbers] = cotangents
        return self.whole.pullback(theta, spread)

    def pushforward(self, theta: Array, directions: Array) -> Array:
        return pushforward(self.whole, theta, directions)[:, self.numbers]
