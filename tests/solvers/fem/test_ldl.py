"""Triangular solves: right, alone as in a block, and refused where the matrix is no good."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

from invsamp.solvers.fem.ldl import factor


def spd(size=40, seed=0):
    rng = np.random.default_rng(seed)
    root = sparse.random(size, size, 0.05, random_state=rng) + sparse.eye(size)
    return sparse.csc_matrix(root @ root.T)


def test_solves_and_copies_the_other_rows():
    matrix, rng = spd(), np.random.default_rng(1)
    free = np.sort(rng.permutation(50)[:40])
    right = rng.normal(size=(50, 3))
    kept = right.copy()
    solution = factor(matrix, free).solve(right)
    np.testing.assert_array_equal(right, kept)
    others = np.setdiff1d(np.arange(50), free)
    np.testing.assert_array_equal(solution[others], right[others])
    np.testing.assert_allclose(solution[free], np.linalg.solve(matrix.toarray(), right[free]), rtol=1e-10, atol=1e-12)


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


def test_bad_matrices_have_no_factors():
    singular = sparse.csc_matrix(np.diag([1.0, 0.0, 2.0]))
    indefinite = sparse.csc_matrix(np.diag([1.0, -1.0, 2.0]))
    infinite = sparse.csc_matrix(np.diag([1.0, np.inf, 2.0]))
    for matrix in (singular, indefinite, infinite):
        assert factor(matrix, np.arange(3)) is None
