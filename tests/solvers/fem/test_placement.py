"""Fields on a rank's nodes and cells, in that rank's order."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from invsamp.solvers.fem.fields import Fixed, GaussianBump, LogField, Modes
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.piecewise import PerRegion
from invsamp.solvers.fem.placement import on_cells, on_nodes

SQUARE = unit_square(5)
MESH = Mesh(SQUARE.points, SQUARE.cells, {"iron": np.arange(20)}, SQUARE.edges)
RNG = np.random.default_rng(0)


def rank(nodes, cells):
    return SimpleNamespace(mesh=MESH, node_numbers=nodes, cell_numbers=cells)


WHOLE = rank(np.arange(36), np.arange(50))
NODES, CELLS = np.split(RNG.permutation(36), [10]), np.split(RNG.permutation(50), [20])
PARTS = [rank(*own) for own in zip(NODES, CELLS, strict=True)]


@pytest.mark.parametrize(
    ("place", "field", "theta"),
    [
        (on_nodes, GaussianBump(width="w", center=(0.3, "y")), [[0.2, 0.4], [0.3, 0.6]]),
        (on_nodes, Modes("z", RNG.normal(size=(36, 2))), [[1.0, 2.0]]),
        (on_cells, LogField(PerRegion({"iron": "k"}, elsewhere=0.5)), [[0.3], [0.1]]),
        (on_cells, Fixed(RNG.uniform(size=50)), [[]]),
    ],
)
def test_the_parts_are_those_of_the_whole(place, field, theta):
    theta = np.array(theta, dtype=float)
    numbers = "node_numbers" if place is on_nodes else "cell_numbers"
    points = MESH.points if place is on_nodes else MESH.midpoints
    everywhere = field.at(points, MESH.region_cells)
    whole = place(everywhere, WHOLE)
    cotangents, pulled = RNG.normal(size=whole.values(theta).shape), np.zeros(theta.shape)
    for part in PARTS:
        own = getattr(part, numbers)
        np.testing.assert_array_equal(place(everywhere, part).values(theta), whole.values(theta)[:, own])
        pulled += place(everywhere, part).pullback(theta, cotangents[:, own])
    np.testing.assert_allclose(pulled, whole.pullback(theta, cotangents), rtol=1e-12, atol=1e-13)
