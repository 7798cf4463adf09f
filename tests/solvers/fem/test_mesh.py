"""Meshes: the unit square, files with named groups, parts by name and predicate, and what is refused."""

from __future__ import annotations

import meshio
import numpy as np
import pytest

from invsamp.solvers.fem.mesh import Mesh, read_mesh, unit_square


def test_unit_square():
    mesh = unit_square(3)
    assert len(mesh.points) == 16 and len(mesh.cells) == 18
    np.testing.assert_allclose(mesh.points[1], [0.0, 1 / 3])  # y varies fastest
    np.testing.assert_allclose(mesh.areas, 1 / 18)
    # every triangle has the diagonal from lower left to upper right
    corners = mesh.points[mesh.cells]
    sides = corners - np.roll(corners, 1, axis=1)
    assert (np.isclose(sides[..., 0], sides[..., 1]) & ~np.isclose(sides[..., 0], 0)).any(axis=1).all()
    for name, axis, value in (("left", 0, 0.0), ("right", 0, 1.0), ("bottom", 1, 0.0), ("top", 1, 1.0)):
        np.testing.assert_array_equal(mesh.part_nodes(name), np.isclose(mesh.points[:, axis], value))
        assert mesh.edges[name].shape == (3, 2)
    assert len(mesh.outer_edges) == 12 and mesh.part_nodes().sum() == 12


def test_unit_square_of_squares():
    mesh = unit_square(3, "squares")
    assert mesh.kind == "parallelograms" and mesh.cells.shape == (9, 4)
    np.testing.assert_array_equal(mesh.points, unit_square(3).points)
    np.testing.assert_allclose(mesh.areas, 1 / 9)
    np.testing.assert_allclose(mesh.midpoints[1], [1 / 6, 1 / 2])
    for name, pairs in unit_square(3).edges.items():
        np.testing.assert_array_equal(mesh.edges[name], pairs)
    assert len(mesh.outer_edges) == 12 and mesh != unit_square(3)
    assert repr(mesh).startswith("Mesh(16 nodes; 9 parallelograms; ")
    turned = Mesh(mesh.points, mesh.cells[:, ::-1])
    assert (turned.areas > 0).all()


def test_parts_by_predicate():
    mesh = unit_square(4)
    np.testing.assert_array_equal(
        np.sort(mesh.part_edges(lambda p: p[:, 0] == 0), axis=1), np.sort(mesh.edges["left"], axis=1)
    )
    assert len(mesh.part_edges(lambda p: np.abs(p[:, 1] - 0.5) > 0.2)) == 12
    # an edge between two ends that hold counts only if its middle holds
    with pytest.raises(ValueError, match="must hold an edge"):
        mesh.part_edges(lambda p: np.isin(p[:, 1], [0.25, 0.5]) & (p[:, 0] == 0))
    assert mesh.region_cells(lambda p: p[:, 0] < 0.25).sum() == 8


def test_equal_contents_are_equal_meshes_with_a_short_repr():
    mesh = unit_square(4)
    assert mesh == unit_square(4) and mesh != unit_square(5)
    assert hash(mesh) == hash(unit_square(4))
    assert mesh != Mesh(mesh.points, mesh.cells, {"half": np.arange(16)}, mesh.edges)
    assert repr(mesh).startswith("Mesh(25 nodes; 32 triangles; edges left, right, bottom, top; ")


def square_with_groups():
    """Two triangles on the left, two on the right; a point that belongs to no triangle; z is there, and constant."""
    points = np.array([[0, 0, 2], [1, 0, 2], [2, 0, 2], [0, 1, 2], [1, 1, 2], [2, 1, 2], [9, 9, 2]], dtype=float)
    cells = [
        ("vertex", np.array([[6]])),
        ("line", np.array([[0, 3], [2, 5]])),
        ("triangle", np.array([[0, 1, 4], [0, 3, 4]])),  # the second is clockwise
        ("triangle", np.array([[1, 2, 5], [1, 5, 4]])),
    ]
    physical = [np.array([9]), np.array([1, 2]), np.array([5, 5]), np.array([6, 6])]
    names = {"cold": np.array([1, 1]), "iron": np.array([5, 2])}
    data = {"gmsh:physical": physical, "gmsh:geometrical": physical}
    return meshio.Mesh(points, cells, cell_data=data, field_data=names)


def check_groups(mesh):
    assert len(mesh.points) == 6 and (mesh.areas == 0.5).all()
    assert set(mesh.regions) == {"iron", "6"} and set(mesh.edges) == {"cold", "2"}
    np.testing.assert_array_equal(mesh.region_cells("iron"), mesh.midpoints[:, 0] < 1)
    np.testing.assert_array_equal(mesh.part_nodes("cold"), mesh.points[:, 0] == 0)
    np.testing.assert_array_equal(mesh.part_nodes("2"), mesh.points[:, 0] == 2)


def test_gmsh_file_of_format_2(tmp_path):
    meshio.write(tmp_path / "square.msh", square_with_groups(), file_format="gmsh22")
    check_groups(read_mesh(tmp_path / "square.msh"))


GMSH_4 = """$MeshFormat
4.1 0 8
$EndMeshFormat
$PhysicalNames
2
1 1 "cold"
2 5 "iron"
$EndPhysicalNames
$Entities
0 2 2 0
1 0 0 0 0 1 0 1 1 0
2 2 0 0 2 1 0 1 2 0
1 0 0 0 1 1 0 1 5 0
2 1 0 0 2 1 0 1 6 0
$EndEntities
$Nodes
1 6 1 6
2 1 0 6
1
2
3
4
5
6
0 0 0
1 0 0
2 0 0
0 1 0
1 1 0
2 1 0
$EndNodes
$Elements
4 6 1 6
1 1 1 1
1 1 4
1 2 1 1
2 3 6
2 1 2 2
3 1 2 5
4 1 5 4
2 2 2 2
5 2 3 6
6 2 6 5
$EndElements
"""


def test_gmsh_file_of_format_4(tmp_path):
    (tmp_path / "square.msh").write_text(GMSH_4)
    check_groups(read_mesh(tmp_path / "square.msh"))


def test_another_format(tmp_path):
    plain = meshio.Mesh(square_with_groups().points[:6, :2], [("triangle", np.array([[0, 1, 4], [0, 4, 3]]))])
    with np.errstate(all="ignore"):
        meshio.write(tmp_path / "square.off", meshio.Mesh(np.c_[plain.points, np.zeros(6)], plain.cells))
    mesh = read_mesh(tmp_path / "square.off")
    assert len(mesh.points) == 4 and not mesh.regions


def test_triangles_of_several_groups_stand_once(tmp_path):
    # Gmsh's format 2.2 repeats them, once for each group
    content = square_with_groups()
    repeated = [*content.cells, meshio.CellBlock("triangle", np.array([[0, 1, 4], [4, 3, 0], [2, 5, 1], [1, 5, 4]]))]
    physical = [*content.cell_data["gmsh:physical"], np.full(4, 7)]
    data = {"gmsh:physical": physical, "gmsh:geometrical": physical}
    names = {**content.field_data, "all": np.array([7, 2])}
    meshio.write(
        tmp_path / "two.msh", meshio.Mesh(content.points, repeated, cell_data=data, field_data=names), "gmsh22"
    )
    mesh = read_mesh(tmp_path / "two.msh")
    assert set(mesh.regions) == {"iron", "6", "all"} and mesh.region_cells("all").all()
    assert len(mesh.cells) == 4 and len(mesh.outer_edges) == 6
    np.testing.assert_array_equal(mesh.region_cells("iron"), mesh.midpoints[:, 0] < 1)


def test_reading_prints_nothing(tmp_path, capfd):
    (tmp_path / "square.msh").write_text(GMSH_4)
    read_mesh(tmp_path / "square.msh")
    assert capfd.readouterr() == ("", "")


def file_with(tmp_path, content):
    path = tmp_path / "bad.msh"
    path.write_text(content) if isinstance(content, str) else meshio.write(path, content, file_format="gmsh22")
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not a mesh", "path must be a mesh file that meshio can read, got .*bad.msh"),
        (GMSH_4[:-60], "path must be a mesh file that meshio can read"),
        (meshio.Mesh(np.eye(3), [("line", np.array([[0, 1]]))]), "must hold triangles, got none"),
        (meshio.Mesh(np.eye(4)[:, :3], [("quad", np.arange(4)[None])]), "triangles of order 1.* got .*'quad'"),
        (meshio.Mesh(np.eye(3), [("triangle", np.arange(3)[None])]), "plane z = const, got z from 0.0 to 1.0"),
    ],
)
def test_files_that_are_no_mesh(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_mesh(file_with(tmp_path, content))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"path must be a mesh file .* not found"):
        read_mesh(tmp_path / "none.msh")
    with pytest.raises(ValueError, match=r"path must be a mesh file that meshio can read, got 'mesh.unknown'"):
        read_mesh("mesh.unknown")


CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: unit_square(1), "cells must be an integer >= 2, got 1"),
        (lambda: unit_square(4.0), "cells must be an integer >= 2, got 4.0"),
        (lambda: Mesh(np.eye(3), [[0, 1, 2]]), r"cells must have shape \(k, 4\), got \(1, 3\)"),
        (lambda: Mesh(CORNERS, [[0, 1, 3]]), "cells must lie between 0 and 2, got 0 to 3"),
        (lambda: Mesh(CORNERS, [[0, 1]]), r"cells must have shape \(k, 3\), got \(1, 2\)"),
        (lambda: Mesh(CORNERS, [[0.0, 1.0, 2.0]]), "cells must be integers, got"),
        (
            lambda: Mesh(np.array([[0, 0], [1, 0], [2, 2], [0, 1.0]]), [[0, 1, 2, 3]]),
            "must be parallelograms, .* cell 0",
        ),
        (lambda: Mesh(np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]]), [[0, 2, 1, 3]]), "must be parallelograms"),
        (lambda: unit_square(3, "hexagons"), "kind must be one of 'triangles', 'squares', got 'hexagons'"),
        (lambda: Mesh(CORNERS, np.empty((0, 3), int)), "cells must have at least one entry"),
        (lambda: Mesh(CORNERS * [1, 0], [[0, 1, 2]]), "cells must have a positive area, got .* as cell 0"),
        (lambda: Mesh(np.where(CORNERS > 0, np.inf, 0.0), [[0, 1, 2]]), "points must be finite"),
        (lambda: Mesh(np.eye(4)[:, :2], [[0, 1, 2]]), r"every point must belong to a cell, got \[0.0, 0.0\] in none"),
        (lambda: Mesh(CORNERS, [[0, 1, 2]], {"a": [1]}), r"regions\['a'\] must lie between 0 and 0, got 1 to 1"),
        (lambda: unit_square(3).part_edges("side"), "a part of the boundary must be one of .*'left'.* got 'side'"),
        (lambda: unit_square(3).part_edges(lambda p: p[:, 0] > 2), "a part of the boundary must hold an edge"),
        (lambda: unit_square(3).region_cells("iron"), r"a region must be one of \[\], got 'iron'"),
        (lambda: unit_square(3).region_cells(lambda p: p[:, 0] > 2), "a region must hold a cell"),
        (lambda: unit_square(3).region_cells(lambda p: p), "a predicate must give a mask of shape"),
        (lambda: unit_square(3).region_cells(3), "a part of a mesh must be a name or a predicate"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_region_that_lies_in_the_second_block_of_triangles_alone(tmp_path, monkeypatch):
    square = unit_square(2)
    parts = [("triangle", square.cells[:3]), ("line", square.outer_edges), ("triangle", square.cells[3:])]
    content = meshio.Mesh(square.points, parts)
    content.cell_sets = {"late": [None, None, np.array([0, 2])]}
    monkeypatch.setattr(meshio, "read", lambda path: content)
    np.testing.assert_array_equal(read_mesh(tmp_path / "square.msh").regions["late"], [3, 5])
