"""Factors by their pattern: right, used again for other numbers, and refused where the matrix is no good."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

from invsamp.solvers.fem.factors.ldl import Elimination


def spd(size=40, seed=0):
    rng = np.random.default_rng(seed)
    root = sparse.random(size, size, 0.05, random_state=rng) + sparse.eye(size)
    return sparse.csr_matrix(root @ root.T)


def factor(matrix, free):
    return Elimination.make(matrix, free).factor(matrix.data)


def test_solves_and_copies_the_other_rows():
    matrix, rng = spd(50), np.random.default_rng(1)
    free = np.sort(rng.permutation(50)[:40])
    right = rng.normal(size=(50, 3))
    kept = right.copy()
    solution = factor(matrix, free).solve(right)
    np.testing.assert_array_equal(right, kept)
    others = np.setdiff1d(np.arange(50), free)
    expected = np.linalg.solve(matrix.toarray()[np.ix_(free, free)], right[free])
    np.testing.assert_array_equal(solution[others], right[others])
    np.testing.assert_allclose(solution[free], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_column_has_the_same_bits_alone_and_in_a_block(order):
    factors = factor(spd(), np.arange(40))
    right = np.asarray(np.random.default_rng(2).normal(size=(40, 41)), order=order)
    alone = np.hstack([factors.solve(right[:, k : k + 1]) for k in range(41)])
    # every kind of loop, and blocks of several kinds
    for columns in (2, 3, 4, 5, 7, 8, 32, 33, 41):
        np.testing.assert_array_equal(factors.solve(right[:, :columns]), alone[:, :columns])


def test_a_column_that_is_not_finite_leaves_the_others_alone():
    factors = factor(spd(), np.arange(40))
    right = np.random.default_rng(3).normal(size=(40, 2))
    good = factors.solve(right)[:, 1]
    right[5, 0] = np.nan
    solution = factors.solve(right)
    np.testing.assert_array_equal(solution[:, 1], good)
    assert np.isnan(solution[5, 0])


def test_one_elimination_serves_all_matrices_of_a_pattern():
    first = spd()
    elimination = Elimination.make(first, np.arange(40))
    rng = np.random.default_rng(4)
    second = first.copy()
    second.data = rng.normal(size=second.nnz)
    second = 0.5 * (second + second.T) + 20 * sparse.eye(40, format="csr")
    right = rng.normal(size=(40, 1))
    for matrix in (first, second):
        factors = elimination.factor(matrix.data)
        lower = sparse.csc_matrix((factors.entries, factors.rows.astype(int), factors.starts.astype(int)), (40, 40))
        lower = lower.toarray() + np.eye(40)
        assert (np.triu(lower, 1) == 0).all()
        product = lower @ np.diag(factors.diagonal) @ lower.T
        np.testing.assert_allclose(product, matrix.toarray()[np.ix_(factors.order, factors.order)], atol=1e-13)
        np.testing.assert_allclose(matrix @ factors.solve(right), right, atol=1e-11)


def test_the_order_keeps_the_fill_small():
    # of a grid of 40 x 40: a band would fill 40 entries in each column
    line = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (40, 40))
    grid = sparse.csr_matrix(sparse.kron(line, sparse.eye(40)) + sparse.kron(sparse.eye(40), line))
    assert len(Elimination.make(grid, np.arange(1600)).below) < 15 * 1600


def test_no_free_node():
    right = np.ones((3, 2))
    np.testing.assert_array_equal(factor(sparse.eye(3, format="csr"), np.empty(0, dtype=int)).solve(right), right)


def full(matrix):
    return sparse.csr_matrix((np.ravel(matrix), np.tile(np.arange(3), 3), [0, 3, 6, 9]), (3, 3))


@pytest.mark.parametrize(
    "matrix",
    [
        np.diag([1.0, 0.0, 2.0]),
        np.diag([1.0, -1.0, 2.0]),
        np.diag([1.0, np.inf, 2.0]),
        np.diag([1.0, np.nan, 2.0]),
        [[1.0, np.nan, 0.0], [np.nan, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[1.0, 0.0, np.inf], [0.0, 1.0, 0.0], [np.inf, 0.0, 1.0]],
        # singular but for rounding
        [[0.1 + 0.2, -0.1, -0.2], [-0.1, 0.1 + 0.7, -0.7], [-0.2, -0.7, 0.2 + 0.7]],
    ],
)
def test_bad_matrices_have_no_factors(matrix):
    assert np.isnan(factor(full(matrix), np.arange(3)).solve(np.ones((3, 2)))).all()
