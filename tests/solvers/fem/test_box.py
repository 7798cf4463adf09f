"""Meshes in one to three dimensions, and equations on them."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.fem import elements
from invsamp.solvers.fem.box import SIDES, box
from invsamp.solvers.fem.fields import LogField
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.nodal import Nodal
from invsamp.solvers.heat import HeatEquation, dirichlet, neumann
from invsamp.solvers.poisson import PoissonEquation

MESHES = {1: box(6, 1.0, 3.0), 2: box((3, 4), upper=[1.0, 2.0]), 3: box((3, 2, 2), upper=[1.0, 1.0, 0.5])}


@pytest.mark.parametrize("dimension", MESHES)
class TestBox:
    def test_cells_fill_it_and_sides_bound_it(self, dimension):
        mesh = MESHES[dimension]
        assert mesh.areas.sum() == pytest.approx({1: 2.0, 2: 2.0, 3: 0.5}[dimension])
        assert (mesh.areas > 0).all()
        surface = {name: elements.edge_loads(mesh, name).sum() for pair in SIDES[dimension] for name in pair}
        assert sum(surface.values()) == pytest.approx(elements.edge_loads(mesh).sum())
        assert sum(len(mesh.edges[name]) for name in surface) == len(mesh.outer_edges)
        if dimension == 3:
            assert surface["left"] == pytest.approx(0.5) and surface["top"] == pytest.approx(1.0)

    def test_points_are_located(self, dimension):
        mesh = MESHES[dimension]
        low, high = mesh.points.min(axis=0), mesh.points.max(axis=0)
        points = low + (high - low) * np.random.default_rng(0).random((200, dimension))
        plane = mesh.points @ np.arange(1.0, dimension + 1)
        np.testing.assert_allclose(
            elements.point_rows(mesh, points) @ plane, points @ np.arange(1.0, dimension + 1), rtol=1e-12
        )
        with pytest.raises(ValueError, match="sensors must lie in the mesh"):
            elements.point_rows(mesh, (high + 0.01)[None])

    def test_gradients_are_exact(self, dimension):
        mesh, rng = MESHES[dimension], np.random.default_rng(1)
        sensor = mesh.points.mean(axis=0, keepdims=True)
        conductivity = LogField(Nodal("u", mesh))
        for model in (
            PoissonEquation(mesh=mesh, conductivity=conductivity).observe(sensor),
            HeatEquation(
                mesh=mesh,
                conductivity=conductivity,
                steps=3,
                end_time=0.1,
                initial=1.0,
                boundary={"left": dirichlet(0.0)},
            ).observe(sensor),
        ):
            theta, direction = 0.3 * rng.standard_normal((2, 2, len(mesh.points)))
            y, product = model.linearize(theta)
            slope = (product(np.ones_like(y)) * direction).sum(axis=1)
            step = 1e-5
            differences = (model(theta + step * direction) - model(theta - step * direction))[:, 0] / (2 * step)
            np.testing.assert_allclose(slope, differences, rtol=1e-6)


def test_a_solution_in_space_converges_at_second_order():
    """u = sin(pi x) sin(pi y) sin(pi z), zero on the boundary, at the center."""
    errors = []
    for cells in (4, 8, 16):
        source = lambda x: 3 * np.pi**2 * np.sin(np.pi * x).prod(axis=1)  # noqa: E731
        model = PoissonEquation(mesh=box((cells,) * 3), source=source).observe([[0.5, 0.5, 0.5]])
        errors.append(abs(model(np.empty((1, 0)))[0, 0] - 1.0))
    assert errors[-1] < 0.017
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.1)


def test_heat_on_a_line_is_that_on_a_square_without_flux_across():
    def model(mesh):
        sensor = np.full((1, mesh.points.shape[1]), 0.25)
        ends = {"left": dirichlet(0.0), "right": neumann(1.0)}
        return HeatEquation(mesh=mesh, steps=4, end_time=0.1, initial=1.0, boundary=ends).observe(sensor)

    none = np.empty((1, 0))
    assert model(box(8))(none)[0, 0] == pytest.approx(model(unit_square(8))(none)[0, 0], rel=2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: box((2, 2, 2, 2)), r"cells must hold one to three numbers, one for each axis, got \(2, 2, 2, 2\)"),
        (lambda: box(0), "cells must be"),
        (lambda: box(2, 1.0, 0.5), "lower must be below upper, got 1.0 and 0.5"),
        (lambda: Mesh(np.zeros((5, 4)), [[0, 1, 2, 3, 4]]), r"points must have shape \(n, 1\), \(n, 2\) or \(n, 3\)"),
        (
            lambda: PoissonEquation(mesh=box(4)).observe([[0.5, 0.5]]),
            r"sensors must have shape \(n_sensors, 1\), got \(1, 2\)",
        ),
    ],
)
def test_what_cannot_be_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
