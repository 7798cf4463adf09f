from __future__ import annotations

import pickle

import numpy as np
import pytest
from space_checks import check, check_failures, irregular_mesh, rectangles

from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space

pytest.importorskip("dolfinx")
pytestmark = pytest.mark.dolfinx

from invsamp.solvers.fem.dolfinx_space import DolfinxSpace  # noqa: E402


@pytest.mark.parametrize(
    "mesh",
    [unit_square(7), irregular_mesh(), unit_square(7, "squares"), rectangles()],
    ids=["triangles", "irregular", "squares", "rectangles"],
)
def test_one_process_agrees_with_scikit_fem(mesh):
    space = DolfinxSpace(mesh)
    np.testing.assert_array_equal(space.node_numbers, np.arange(len(mesh.points)))
    np.testing.assert_array_equal(space.cell_numbers, np.arange(len(mesh.cells)))
    check(space, Space(mesh), 1e-12)


def test_failed_solves_are_nan():
    check_failures(DolfinxSpace(unit_square(6)))


def test_columns_do_not_depend_on_their_block():
    space = DolfinxSpace(unit_square(9))
    fixed = space.on_boundary()
    factors = space.factor(space.combine(1.0, space.mass, 0.1, space.stiffness(np.ones(len(space.areas)))), fixed)
    right = np.random.default_rng(1).normal(size=(len(space.nodes), 5))
    whole = factors.solve(right)
    for k in range(5):
        np.testing.assert_array_equal(factors.solve(right[:, k : k + 1])[:, 0], whole[:, k])


def test_pickled_space_is_made_again():
    space = DolfinxSpace(irregular_mesh())
    again = pickle.loads(pickle.dumps(space))
    fields = np.random.default_rng(1).normal(size=(len(space.nodes), 2))
    np.testing.assert_array_equal(again.mass @ fields, space.mass @ fields)


def test_points_outside_and_unknown_parts_are_errors():
    space = DolfinxSpace(unit_square(4))
    with pytest.raises(ValueError, match=r"must lie in the mesh, got \[1.5, 0.5\]"):
        space.points(np.array([[0.5, 0.5], [1.5, 0.5]]))
    with pytest.raises(ValueError, match="must be one of"):
        space.on_boundary("north")
    with pytest.raises(ValueError, match="must hold a cell"):
        space.averages([lambda points: points[:, 0] > 2])


def test_what_is_no_communicator_is_an_error():
    with pytest.raises(ValueError, match="comm must be a communicator of mpi4py, got 2"):
        DolfinxSpace(unit_square(4), comm=2)
