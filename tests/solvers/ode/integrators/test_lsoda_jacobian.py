"""LSODA's Jacobians against differences, and that they are used."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from invsamp.solvers.ode.codegen.compile_rhs import prepare_jacobian, prepare_sensitivities
from invsamp.solvers.ode.integrators import lsoda, restarted_trajectory
from invsamp.solvers.ode.integrators.lsoda_jacobian import bands, state_jacobian, whole
from invsamp.solvers.ode.model.ode_model import OdeModel, Status


def traced(t, x, p):
    return p[0] * x[0] * x[1] - math.exp(-x[0]), p[1] * x[1] ** 2 + x[0] * t


def branching(t, x, p):
    return p[0] * x[0] * x[1] - math.exp(-x[0]) if x[0] > 0 else 1.0, p[1] * x[1] ** 2 + x[0] * t


def given(t, x, p):
    rows = ((p[0] * x[1] + math.exp(-x[0]), p[0] * x[0]), (t, 2 * p[1] * x[1]))
    return rows, ((x[0] * x[1], 0.0), (0.0, x[1] ** 2))


T, P, X = 0.7, np.array([0.4, -1.3]), np.array([0.8, 1.1])


@pytest.mark.parametrize(
    ("rhs", "jacobian", "way"),
    [(traced, None, "traced"), (branching, given, "given"), (branching, None, "complex step")],
)
def test_jacobians_are_right(rhs, jacobian, way):
    prepared = prepare_jacobian(rhs, jacobian, 2, 2)
    assert prepared.derivatives == way
    variations = prepared.compiled.address
    exact = np.array(given(T, X, P)[0])
    np.testing.assert_allclose(state_jacobian(variations, T, X, P), exact, rtol=1e-13)
    address = prepare_sensitivities(rhs, jacobian, 2, 2, 1).compiled.address
    y, out = np.concatenate([X, np.random.default_rng(0).normal(size=6)]), np.empty((1, 8))

    def augmented(y):
        evaluate(address, T, y, P, out)
        return out[0].copy()

    difference = approx_fprime(y, augmented, 1e-7)
    np.testing.assert_allclose(whole(address, variations, 2, T, y, P, np.ones(2)), difference, atol=1e-5)
    band = bands(variations, 2, T, y, P)
    for i in range(8):
        for j in range(8):
            if abs(i - j) < 2:
                assert band[i - j + 1, j] == pytest.approx(exact[i % 2, j % 2] if i // 2 == j // 2 else 0.0)


def evaluate(address, t, y, p, out):
    restarted_trajectory.evaluate(address, t, -np.inf, np.inf, y, p, np.zeros(len(y)), out)


def test_what_is_not_finite_is_left_out():
    variations = prepare_jacobian(lambda t, x, p: (math.sqrt(x[0]), x[1]), None, 2, 0).compiled.address
    np.testing.assert_array_equal(
        state_jacobian(variations, 0.0, np.array([0.0, 1.0]), np.empty(0)), np.diag([0.0, 1.0])
    )


def chain(t, x, p):
    ends = (1.0, *x, 0.0)
    return [p[0] * (ends[i] - 2 * ends[i + 1] + ends[i + 2]) - x[i] ** 2 for i in range(len(x))]


@pytest.mark.parametrize("most_dense", [0, 1000])
def test_both_forms_give_the_sensitivities(monkeypatch, most_dense):
    monkeypatch.setattr(lsoda, "MOST_DENSE", most_dense)
    model = OdeModel(chain, [f"x{i}" for i in range(6)], ["d"], "LSODA")
    tight = OdeModel(chain, [f"x{i}" for i in range(6)], ["d"], rtol=1e-10, atol=1e-12)
    arguments = [[300.0]], np.zeros(6), [0.0, 0.01, 1.0]
    ours, exact = (m.solve_with_sensitivities(*arguments) for m in (model, tight))
    assert ours.status[0] == Status.OK
    np.testing.assert_allclose(ours.sensitivities, exact.sensitivities, atol=1e-5)


def test_differences_are_taken_only_where_there_are_no_derivatives():
    def rounding(t, x, p):
        return [entry + 1e-300 * (x[0] // 1.0) for entry in chain(t, x, p)]

    names = [f"x{i}" for i in range(12)]
    arguments = [[300.0]], np.zeros(12), [0.0, 1.0]
    exact, difference = (OdeModel(rhs, names, ["d"], "LSODA").solve(*arguments) for rhs in (chain, rounding))
    assert OdeModel(rounding, names, ["d"]).derivatives == "none"
    np.testing.assert_allclose(exact.states, difference.states, rtol=1e-4)
    # 12 evaluations for each of ten Jacobians
    assert difference.evaluations[0] > exact.evaluations[0] + 60
