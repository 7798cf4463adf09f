"""The graph of operations: values and derivatives against SymPy's, and large networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from parts import cases
from scipy.integrate import solve_ivp

from invsamp.solvers.ode import OdeModel, Status
from invsamp.solvers.ode.codegen import llvm
from invsamp.solvers.ode.codegen.compile_cache import compiled
from invsamp.solvers.ode.codegen.llvm import graph_source, operations
from invsamp.solvers.ode.codegen.operation_graph import Untraceable, trace_graph
from invsamp.solvers.ode.codegen.sympy_tracing import sensitivities_source, trace
from invsamp.solvers.ode.integrators.methods import evaluate

MATRIX = np.array([[-1.0, 0.5], [0.0, -2.0]])


def every_function(t, x, p):
    a, b = x
    c, d = p
    return (
        math.exp(-c * t) * np.sin(a) + math.log(2.0 + np.cos(b)) + np.expm1(a) * np.log1p(b) + np.tan(c * a) - 1.0 / 3,
        -(b**3) + np.arctan2(a, d) * math.pi + abs(b - 5.0) ** 1.5 + np.square(a) / (1 + b**-2) ** 0.5 + a**d,
    )


def others(t, x, p):
    a, b = x
    return [
        np.arcsin(a / 9) + math.acos(b / 9) + np.arctan(a) + np.sinh(b) - math.cosh(a) * np.tanh(b) + p[0] * 0.0,
        math.asinh(a)
        + np.arccosh(2 + b)
        + math.atanh(a / 9)
        + math.erf(b)
        + math.sqrt(a)
        + 2.0**a
        + p[1] / p[0]
        - (-a),
    ]


def products(t, x, p):
    return (
        p[0] * (MATRIX @ np.array(x)) + np.sum(x) * np.ones(2) - np.dot(MATRIX, x) ** 2 * p[1] + np.cumsum(np.array(p))
    )


def vectors(t, x, p):
    return (1 - x) * x * p - np.hypot(x, t) * np.sign(x - p) + np.clip(x, 0.5, 1.0) - np.clip(x, 0.0, 0.2)


def filled(t, x, p):
    out = np.zeros(2)
    out[0] = x[0] * x[1]
    return out


def chosen(t, x, p):
    high = np.logical_and(x[0] > x[1], np.logical_not(x[1] >= p[1]))
    return np.where(high, x[0] * x[1], p[0] / x[1]), np.where(np.logical_or(x[0] <= t, x[1] < 0.2), 1.0, x[0] ** 1.5)


def values(source, scope, y, p, size):
    out = np.empty((1, size))
    function = compiled(source, "test", key=None, scope=scope)
    evaluate(function.address, 0.7, -np.inf, np.inf, y, p, np.zeros(len(y)), out)
    return out[0]


@pytest.mark.parametrize("rhs", [every_function, others, products, filled, vectors])
def test_values_and_derivatives_are_those_of_sympy(rhs):
    rng = np.random.default_rng(0)
    x, p, S = np.array([0.3, 1.1]), np.array([0.4, 0.9]), rng.normal(size=(3, 2))
    y = np.concatenate([x, S.ravel()])
    ours = values(graph_source(rhs, 2, 2, 3, (0, 1)), {"operations": operations(rhs, 2, 2, True)}, y, p, 8)
    theirs = values(sensitivities_source(trace(rhs, 2, 2), 1), {}, y, p, 8)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
    alone = values(graph_source(rhs, 2, 2, 0, ()), {"operations": operations(rhs, 2, 2, False)}, x, p, 2)
    np.testing.assert_array_equal(alone, ours[:2])
    by_states = values(graph_source(rhs, 2, 2, 1, ()), {"operations": operations(rhs, 2, 2, True)}, y[:4], p, 4)
    moved = [np.array(rhs(0.7, x + sign * 1e-6 * S[0], p)) for sign in (1, -1)]
    np.testing.assert_allclose(by_states[2:], (moved[0] - moved[1]) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rhs", cases([every_function, others, products, chosen], {every_function, chosen}))
def test_loops_over_tables_have_the_numbers_of_what_is_written_out(rhs, monkeypatch):
    rng = np.random.default_rng(0)
    for x in ([0.3, 1.1], [1.3, 0.1]):
        y, p = np.concatenate([x, rng.normal(size=6)]), np.array([0.4, 0.9])
        source, found = graph_source(rhs, 2, 2, 3, (0, 1)), []
        for most, pieces in ((8000, 600), (0, 30_000), (0, 5)):
            monkeypatch.setattr(llvm, "_MOST_WRITTEN_OUT", most)
            monkeypatch.setattr(llvm, "_MOST_IN_TABLES", pieces)
            found.append(values(source, {"operations": operations(rhs, 2, 2, True)}, y, p, 8))
        np.testing.assert_array_equal(found[1:], 2 * [found[0]])


def test_operations_exist_once_and_zeros_do_not():
    traced = trace_graph(products, 2, 2)
    names = [row for row in traced.graph.rows if row[0] != "constant"]
    assert len(names) == len(set(names))

    def chain(t, x, p):
        return tuple(np.exp(x[0] * x[1]) + p[0] * x[i] for i in range(4))

    traced = trace_graph(chain, 4, 1)
    assert sum(row[0] == "exp" for row in traced.graph.rows) == 1
    assert list(zip(traced.by_states.rows, traced.by_states.columns, strict=True)) == [
        *((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 3))
    ]


@pytest.mark.parametrize(
    ("rhs", "message"),
    [
        (lambda t, x, p: (x[0] if x[0] < 1 else 2.0,), "rhs must be traceable, .*a branch"),
        (lambda t, x, p: (float(x[0]),), "rhs must be traceable, .*a number was asked for"),
        (lambda t, x, p: (np.interp(t, [0, 1], [0, 1]),), "rhs must be traceable"),
        (lambda t, x, p: (x[0], x[0]), "rhs must return 1 values"),
    ],
)
def test_what_does_not_trace_is_said(rhs, message):
    with pytest.raises((Untraceable, ValueError), match=message):
        trace_graph(rhs, 1, 0)


N = 200
COUPLING = np.zeros((N, N))
for _row in range(N):
    COUPLING[_row, np.random.default_rng(_row).integers(0, N, 4)] = 0.3


def network(t, x, p):
    x = np.array(x)
    return p[0] * (COUPLING @ x) / (1 + x**2) + p[1] * np.sin(t) - p[2] * x * np.roll(x, 1) - x


def test_a_network_of_two_hundred_states():
    names = [f"x{i}" for i in range(N)]
    model = OdeModel(network, names, ("a", "b", "c"), rtol=1e-9, atol=1e-9)
    assert model.derivatives == "traced"
    theta, times = np.array([[1.0, 0.1, 0.2]]), [0.0, 0.5]
    solution = model.solve_with_sensitivities(theta, np.ones(N), times, initial_states=("x7",))
    assert solution.status[0] == Status.OK
    step, start = 1e-4, np.ones(N)
    for column in range(4):
        ends = []
        for sign in (1, -1):
            p, x = theta.copy(), start.copy()
            (p[0] if column < 3 else x)[column if column < 3 else 7] += sign * step
            ends.append(model.solve(p, x, times).states[0, 1])
        difference = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(solution.sensitivities[0, 1, :, column], difference, atol=1e-6)
    plain = solve_ivp(lambda t, x: network(t, x, theta[0]), (0, 0.5), start, "DOP853", times, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(solution.states[0], plain.y.T, rtol=1e-11)


def test_a_large_model_with_a_branch_is_compiled_as_it_stands():
    def rhs(t, x, p):
        rate = p[0] if t < 1.0 else 2.0 * p[0]
        return [-rate * entry for entry in x]

    model = OdeModel(rhs, [f"x{i}" for i in range(18)], ("k",), breakpoints=(1.0,), rtol=1e-9)
    assert model.derivatives == "complex step"
    slopes = model.solve_with_sensitivities([[0.5]], np.ones(18), [0.0, 2.0], initial_states=()).sensitivities
    np.testing.assert_allclose(slopes[0, 1, :, 0], -3.0 * math.exp(-1.5), rtol=1e-6)
