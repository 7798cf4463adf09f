from __future__ import annotations

import numpy as np
import pytest
from space_checks import irregular_mesh, rectangles

from invsamp.solvers.fem import elements
from invsamp.solvers.fem.mesh import Mesh, unit_square

MESHES = pytest.mark.parametrize(
    "mesh", [unit_square(5), irregular_mesh(), rectangles()], ids=["square", "irregular", "rectangles"]
)


def plane(points):
    return 2.0 - 3.0 * points[:, 0] + 0.5 * points[:, 1]


@MESHES
def test_points_and_averages_of_a_plane_are_exact(mesh):
    points = np.concatenate([np.random.default_rng(0).random((20, 2)), mesh.points[:3], [[0, 0], [1, 1], [0.5, 0.0]]])
    np.testing.assert_allclose(elements.point_rows(mesh, points) @ plane(mesh.points), plane(points), atol=1e-13)
    left = mesh.midpoints[:, 0] < 0.4
    mean = (mesh.areas * plane(mesh.midpoints))[left].sum() / mesh.areas[left].sum()
    found = elements.average_rows(mesh, [lambda points: points[:, 0] < 0.4]) @ plane(mesh.points)
    np.testing.assert_allclose(found, [mean], rtol=1e-13)


@MESHES
def test_load_of_an_edge_integrates_linear_fields_along_it(mesh):
    # along y = 1 the plane is 2.5 - 3 x, whose integral is 1
    assert elements.edge_loads(mesh, "top") @ plane(mesh.points) == pytest.approx(1.0, rel=1e-12)
    assert elements.edge_loads(mesh).sum() == pytest.approx(4.0, rel=1e-12)


@MESHES
def test_weighted_sums_of_element_matrices_add_up_in_the_pattern(mesh):
    rng = np.random.default_rng(1)
    corners = mesh.cells.shape[1]
    blocks, weights = rng.normal(size=(len(mesh.cells), corners, corners)), rng.normal(size=len(mesh.cells))
    ones, slots = elements.pattern(mesh.cells, len(mesh.points))
    found = ones.copy()
    found.data = elements.weighted_sums(blocks, slots, ones.nnz) @ weights
    dense = np.zeros(ones.shape)
    for corners, block, weight in zip(mesh.cells, blocks, weights, strict=True):
        dense[np.ix_(corners, corners)] += weight * block
    np.testing.assert_allclose(found.toarray(), dense, atol=1e-13)
    np.testing.assert_allclose(elements.added(slots, np.ones(len(slots)), ones.nnz).sum(), len(slots))


def test_points_in_parallelograms_see_bilinear_fields_exactly():
    # s t is bilinear in each image of a square, if s and t are the square's coordinates
    square, slant = unit_square(4, "squares"), np.array([[2.0, 0.3], [-0.5, 1.0]])
    mesh = Mesh(square.points @ slant, square.cells)
    points = np.random.default_rng(2).random((30, 2))
    found = elements.point_rows(mesh, points @ slant) @ square.points.prod(axis=1)
    np.testing.assert_allclose(found, points.prod(axis=1), atol=1e-14)
    np.testing.assert_allclose(mesh.areas, np.linalg.det(slant) / 16)
    with pytest.raises(ValueError, match="must lie in the mesh"):
        elements.point_rows(mesh, np.array([[0.9, 1.01]]) @ slant)


def test_what_is_added_up_of_nothing_is_zero_and_a_float():
    # a rank of a small mesh may own no cell
    found = elements.added(np.empty(0, dtype=np.intp), np.empty(0), 3)
    assert found.dtype == float and found.tolist() == [0.0, 0.0, 0.0]


def test_points_outside_are_errors_and_rounding_is_not():
    mesh = unit_square(4)
    elements.locate(mesh, np.array([[1.0 + 1e-14, 0.3]]))
    with pytest.raises(ValueError, match=r"must lie in the mesh, got \[1.001, 0.3\]"):
        elements.locate(mesh, np.array([[0.5, 0.5], [1.001, 0.3]]))
    with pytest.raises(ValueError, match=r"must have shape \(n_sensors, 2\), got \(2,\)"):
        elements.locate(mesh, np.array([0.5, 0.5]))
