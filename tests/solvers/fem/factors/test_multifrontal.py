"""Fronts of nested dissection: the factors are those of dense arithmetic, and a matrix that is no good is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

from invsamp.solvers.fem import space as fem_space
from invsamp.solvers.fem.factors.multifrontal import Multifrontal
from invsamp.solvers.fem.factors.nested_dissection import fronts
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space


def laplacian(*sizes: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """The matrix of differences on a grid, and its points."""
    total = sparse.csr_matrix((1, 1))
    for size in sizes:
        line = sparse.diags([-1.0, 2.1, -1.0], [-1, 0, 1], (size, size))
        total = sparse.kron(total, sparse.eye(size)) + sparse.kron(sparse.eye(total.shape[0]), line)
    total = sparse.csr_matrix(total)
    total.sort_indices()
    grids = np.meshgrid(*map(np.arange, sizes), indexing="ij")
    return total, np.stack([grid.ravel() for grid in grids], axis=1).astype(float)


@pytest.mark.parametrize("sizes", [(1,), (700,), (30, 40), (9, 10, 11)])
def test_solves_and_copies_the_other_rows(sizes):
    matrix, points = laplacian(*sizes)
    n, rng = len(points), np.random.default_rng(1)
    free = np.sort(rng.permutation(n)[: max(1, 4 * n // 5)])  # holes, and parts that nothing connects
    right = rng.normal(size=(n, 3))
    solution = Multifrontal.make(matrix, free, points).factor(matrix.data).solve(right)
    others = np.setdiff1d(np.arange(n), free)
    np.testing.assert_array_equal(solution[others], right[others])
    expected = np.linalg.solve(matrix.toarray()[np.ix_(free, free)], right[free])
    np.testing.assert_allclose(solution[free], expected, rtol=1e-10, atol=1e-12)


def test_a_column_has_the_same_bits_alone_and_in_a_block():
    matrix, points = laplacian(30, 40)
    factors = Multifrontal.make(matrix, np.arange(1200), points).factor(matrix.data)
    right = np.random.default_rng(2).normal(size=(1200, 41))
    alone = np.hstack([factors.solve(right[:, k : k + 1]) for k in range(41)])
    for columns in (2, 3, 8, 33, 41):
        np.testing.assert_array_equal(factors.solve(right[:, :columns]), alone[:, :columns])


def test_one_elimination_serves_all_matrices_of_a_pattern():
    matrix, points = laplacian(20, 25)
    elimination = Multifrontal.make(matrix, np.arange(500), points)
    rng = np.random.default_rng(3)
    right = rng.normal(size=(500, 1))
    for shift in (0.0, 3.0):
        second = sparse.csr_matrix(matrix + shift * sparse.diags(rng.random(500)))
        second.sort_indices()
        np.testing.assert_allclose(second @ elimination.factor(second.data).solve(right), right, atol=1e-11)


@pytest.mark.parametrize("bad", [-5.0, np.nan, np.inf])
def test_what_is_not_positive_definite_has_no_solution(bad):
    matrix, points = laplacian(20, 25)
    matrix.data[matrix.indptr[77] : matrix.indptr[78]] = bad
    factors = Multifrontal.make(matrix, np.arange(500), points).factor(matrix.data)
    assert not factors.good
    assert np.isnan(factors.solve(np.ones((500, 2)))).all()


def test_fronts_cover_all_nodes_and_keep_the_fill_small():
    matrix, points = laplacian(120, 120)
    found = fronts(matrix, points)
    np.testing.assert_array_equal(np.sort(found.order), np.arange(14400))
    assert (found.parents[:-1] > np.arange(len(found.parents) - 1)).all()
    widths, heights = np.diff(found.starts), np.diff(found.row_starts)
    # each row that a front reaches is one of its parent's, or reached by it
    for k, parent in enumerate(found.parents[:-1]):
        reached = found.rows[found.row_starts[k] : found.row_starts[k + 1]]
        beyond = reached[reached >= found.starts[parent + 1]]
        assert np.isin(beyond, found.rows[found.row_starts[parent] : found.row_starts[parent + 1]]).all()
    assert ((widths + heights) * widths).sum() < 70 * 14400  # a band would fill 120 entries in each column


def test_nodes_at_one_place_are_not_divided():
    matrix, _ = laplacian(100)
    factors = Multifrontal.make(matrix, np.arange(100), np.zeros((100, 2))).factor(matrix.data)
    np.testing.assert_allclose(matrix @ factors.solve(np.ones((100, 1))), 1.0, atol=1e-11)


def test_large_meshes_go_by_fronts_to_the_same_solution(monkeypatch):
    space, rng = Space(unit_square(40)), np.random.default_rng(4)
    matrix, fixed = space.stiffness(rng.uniform(1, 9, len(space.areas))), space.on_boundary()
    right = rng.normal(size=(len(space.nodes), 2)) * ~fixed[:, None]
    small = space.factor(matrix, fixed)
    monkeypatch.setattr(fem_space, "MULTIFRONTAL", 100)
    large = Space(unit_square(40)).factor(matrix, fixed)
    assert type(large) is not type(small)
    np.testing.assert_allclose(large.solve(right), small.solve(right), rtol=1e-11, atol=1e-13)
