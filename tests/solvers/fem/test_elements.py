from __future__ import annotations

import numpy as np
import pytest
from space_checks import irregular_mesh

from invsamp.solvers.fem import elements
from invsamp.solvers.fem.mesh import unit_square

MESHES = pytest.mark.parametrize("mesh", [unit_square(5), irregular_mesh()], ids=["square", "irregular"])


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
    blocks, weights = rng.normal(size=(len(mesh.triangles), 3, 3)), rng.normal(size=len(mesh.triangles))
    ones, slots = elements.pattern(mesh.triangles, len(mesh.points))
    found = ones.copy()
    found.data = elements.weighted_sums(blocks, slots, ones.nnz) @ weights
    dense = np.zeros(ones.shape)
    for corners, block, weight in zip(mesh.triangles, blocks, weights, strict=True):
        dense[np.ix_(corners, corners)] += weight * block
    np.testing.assert_allclose(found.toarray(), dense, atol=1e-13)
    np.testing.assert_allclose(elements.added(slots, np.ones(len(slots)), ones.nnz).sum(), len(slots))


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
