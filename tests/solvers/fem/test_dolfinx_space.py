from __future__ import annotations

import pickle
import weakref

import numpy as np
import pytest
from space_checks import check, check_failures, irregular_mesh, rectangles

from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.skfem_space import SkfemSpace

pytest.importorskip("dolfinx")
pytestmark = pytest.mark.dolfinx

from invsamp.solvers.fem import petsc_factors  # noqa: E402
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
    check(space, SkfemSpace(mesh), 1e-12)


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


def test_symbolic_factors_are_used_again_when_nobody_holds_them(monkeypatch):
    made = []
    monkeypatch.setattr(
        petsc_factors, "Slot", lambda plan, Slot=petsc_factors.Slot: made.append(slot := Slot(plan)) or slot
    )
    monkeypatch.setattr(petsc_factors, "SLOTS", 3)
    space = DolfinxSpace(unit_square(5))
    fixed, right = space.on_boundary(), np.ones((len(space.nodes), 1))

    def factors(scale):
        return space.factor(space.combine(scale, space.mass, 0.0, space.mass), fixed)

    inner = ~fixed
    first = factors(1.0).solve(right)
    for scale in (2.0, 3.0, 4.0):
        np.testing.assert_allclose(factors(scale).solve(right)[inner], first[inner] / scale, rtol=1e-12)
    assert len(made) == 1
    held = [factors(scale) for scale in (1.0, 2.0, 3.0, 4.0, 5.0)]  # two more than there are slots to keep
    for scale, each in zip((1.0, 2.0, 3.0, 4.0, 5.0), held, strict=True):
        np.testing.assert_allclose(each.solve(right)[inner], first[inner] / scale, rtol=1e-12)
    assert len(made) == 5
    gone = weakref.ref(held[-1])
    del held, each
    assert gone() is None
    factors(1.0)
    assert len(made) == 5


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
