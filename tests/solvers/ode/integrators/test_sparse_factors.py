"""Factors of sparse matrices, and large stiff systems that are solved with them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from invsamp.solvers.ode.integrators.sparse_factors import (
    dense_pattern,
    factorize_sparse,
    pattern_of,
    solve_sparse,
)
from invsamp.solvers.ode.model import ode_solver
from invsamp.solvers.ode.model.ode_model import OdeModel, Status


@njit
def solved(pattern, shift, entries, b):
    n = len(pattern.order)
    values, w = np.empty(len(pattern.indices)), np.empty(n)
    factorize_sparse(pattern, shift, entries, 0, values, w)
    solve_sparse(pattern, values, w, b, n)


def square(side):
    """Rows and columns of a matrix that couples neighbors on a square, and of some that are not symmetric."""
    at = np.arange(side * side).reshape(side, side)
    pairs = [(at, at), (at[1:], at[:-1]), (at[:-1], at[1:]), (at[:, 1:], at[:, :-1]), (at[:-1, :-1], at[1:, 1:])]
    return (np.concatenate([pair[k].ravel() for pair in pairs]) for k in (0, 1))


def test_the_factors_solve_the_system():
    rng = np.random.default_rng(1)
    rows, columns = square(12)
    n, entries = 144, rng.normal(size=(1, len(rows)))
    pattern = pattern_of(n, rows, columns)
    assert 0 < len(pattern.indices) < n * n / 4
    matrix = 9.0 * np.eye(n)
    matrix[rows, columns] -= entries[0]
    right = rng.normal(size=3 * n)
    exact = np.linalg.solve(matrix, right[n : 2 * n])
    found = right.copy()
    solved(pattern, 9.0, entries, found)
    np.testing.assert_allclose(
        found[n : 2 * n], exact, rtol=0, atol=1e-13 * np.abs(exact).max() * np.linalg.cond(matrix)
    )
    np.testing.assert_array_equal(np.delete(found, np.s_[n : 2 * n]), np.delete(right, np.s_[n : 2 * n]))


@pytest.mark.parametrize(("n", "filled"), [(10, 0.2), (60, 0.5)])
def test_small_and_full_matrices_stay_dense(n, filled):
    rows, columns = np.nonzero(np.random.default_rng(2).uniform(size=(n, n)) < filled)
    assert not len(pattern_of(n, rows, columns).starts)


def brusselator(t, x, p):
    out, n = [], len(x) // 2
    for k in range(n):
        u, v = x[2 * k], x[2 * k + 1]
        before = (x[2 * k - 2], x[2 * k - 1]) if k else (1.0, 3.0)
        after = (x[2 * k + 2], x[2 * k + 3]) if k < n - 1 else (1.0, 3.0)
        rate, made = p[1] * (n + 1) ** 2, u * u * v
        out += [1.0 + made - (p[0] + 1.0) * u + rate * (before[0] - 2.0 * u + after[0])]
        out += [p[0] * u - made + rate * (before[1] - 2.0 * v + after[1])]
    return out


def line(cells, method, **settings):
    at = np.arange(1, cells + 1) / (cells + 1)
    start = np.stack([1.0 + 0.5 * np.sin(2 * np.pi * at), np.full(cells, 3.0)], axis=1).ravel()
    return OdeModel(brusselator, [f"x{i}" for i in range(2 * cells)], ("b", "rate"), method, **settings), start


def test_sparse_and_dense_factors_give_the_same_steps(monkeypatch):
    model, start = line(16, "Rodas5P")
    times = [0.0, 0.5, 3.0]
    assert len(ode_solver._pattern(brusselator, 32, 2).starts)
    sparse = model.solve_with_sensitivities([[3.0, 0.02]], start, times, initial_states=())
    entries = ode_solver.jacobian_entries(brusselator, 32, 2)
    monkeypatch.setattr(ode_solver, "_pattern", lambda *_: dense_pattern(*entries))
    dense = model.solve_with_sensitivities([[3.0, 0.02]], start, times, initial_states=())
    assert sparse.steps[0] == dense.steps[0]
    np.testing.assert_allclose(sparse.states, dense.states, rtol=1e-9)
    np.testing.assert_allclose(sparse.sensitivities, dense.sensitivities, rtol=1e-6, atol=1e-8)


def test_a_large_stiff_system_is_left_to_the_implicit_method():
    """400 states: explicit steps would be limited to 2.6 / (4 rate cells^2), 6,400 of them."""
    model, start = line(200, "auto")
    times, p = [0.0, 1.0, 2.0], np.array([[3.0, 0.02]])
    found = model.solve_with_sensitivities(p, start, times, initial_states=())
    assert found.status[0] == Status.OK and found.switched[0] and found.steps[0] < 400
    tight = line(200, "Rodas5P", rtol=1e-8, atol=1e-10)[0]
    np.testing.assert_allclose(found.states, tight.solve(p, start, times).states, rtol=0, atol=1e-5)
    moved = [tight.solve(p + np.array([0.0, e]), start, times).states for e in (1e-6, -1e-6)]
    slope = (moved[0] - moved[1])[0] / 2e-6
    np.testing.assert_allclose(found.sensitivities[0, :, :, 1], slope, rtol=0, atol=2e-4 * np.abs(slope).max())
