"""The graph of operations: values, derivatives against differences, and large networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from parts import cases
from scipy.integrate import solve_ivp

from invsamp.solvers.ode import OdeModel, Status
from invsamp.solvers.ode.codegen import llvm
from invsamp.solvers.ode.codegen.compile_cache import compiled
from invsamp.solvers.ode.codegen.llvm import emitted, entries_plan, products_source, sensitivities_plan, source_of
from invsamp.solvers.ode.codegen.operation_graph import Untraceable, trace_graph
from invsamp.solvers.ode.integrators.restarted_trajectory import evaluate

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


def from_arrays(t, x, p):
    x = np.asarray(x, dtype=float)
    return MATRIX.dot(x) + p[0] * np.sin(x) - np.exp(-(x**2)) * np.sum(x) - 2 * x[::-1] / (1 + x**2)


def entry_by_entry(t, x, p):
    derivative = np.zeros(2)
    derivative[0] = -p[0] * x[0]
    derivative[1] = x[0] - np.dot(p, p) * x[1] + abs(x[0] - 1.0)
    return derivative


def with_a_list(t, x, p):
    return MATRIX @ x * p[0]


def rounded(t, x, p):
    return x[0] * (t % 0.3), x[1] * (t // 0.2) + np.where(x[1] % 2 < 1.9, p[0], p[1]) + np.floor(-t) + np.fmod(-t, 0.3)


def chosen(t, x, p):
    high = np.logical_and(x[0] > x[1], np.logical_not(x[1] >= p[1]))
    return np.where(high, x[0] * x[1], p[0] / x[1]), np.where(np.logical_or(x[0] <= t, x[1] < 0.2), 1.0, x[0] ** 1.5)


def values(source, scope, y, p, size):
    out = np.empty((1, size))
    function = compiled(source, "test", key=None, scope=scope)
    evaluate(function.address, 0.7, -np.inf, np.inf, y, p, np.zeros(len(y)), out)
    return out[0]


def by_entries(rhs, n, q, columns, own):
    """Values of the variational equations by loops over the entries of the Jacobian."""
    pairs = entries_plan(trace_graph(rhs, n, q), own)[2:]
    operations = emitted(lambda: entries_plan(trace_graph(rhs, n, q), own)[:2])
    return products_source(n, columns, n, *pairs), {"operations": operations}


def written_out(rhs, n, q, columns, own):
    operations = emitted(lambda: sensitivities_plan(trace_graph(rhs, n, q), n, columns, own))
    return source_of(), {"operations": operations}


@pytest.mark.parametrize(
    "rhs", [every_function, others, products, filled, vectors, from_arrays, entry_by_entry, with_a_list, rounded]
)
def test_values_and_derivatives_are_those_of_the_function(rhs):
    rng = np.random.default_rng(0)
    x, p, S = np.array([0.3, 1.1]), np.array([0.4, 0.9]), rng.normal(size=(3, 2))
    y = np.concatenate([x, S.ravel()])
    ours = values(*by_entries(rhs, 2, 2, 3, (0, 1)), y, p, 8)
    np.testing.assert_allclose(values(*written_out(rhs, 2, 2, 3, (0, 1)), y, p, 8), ours, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ours[:2], np.array(rhs(0.7, x, p), dtype=float), rtol=1e-14)
    for column, shift in enumerate((*np.eye(2), np.zeros(2))):
        ends = [np.array(rhs(0.7, x + sign * 1e-6 * S[column], p + sign * 1e-6 * shift)) for sign in (1, -1)]
        slope = np.asarray(ends[0] - ends[1], dtype=float) / 2e-6
        np.testing.assert_allclose(ours[2:].reshape(3, 2)[column], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rhs", cases([every_function, others, products, chosen], {every_function, chosen}))
def test_loops_over_tables_have_the_numbers_of_what_is_written_out(rhs, monkeypatch):
    rng = np.random.default_rng(0)
    for x in ([0.3, 1.1], [1.3, 0.1]):
        y, p = np.concatenate([x, rng.normal(size=6)]), np.array([0.4, 0.9])
        found = []
        for most, pieces in ((8000, 600), (0, 30_000), (0, 5)):
            monkeypatch.setattr(llvm, "_MOST_WRITTEN_OUT", most)
            monkeypatch.setattr(llvm, "_MOST_IN_TABLES", pieces)
            found.append(values(*by_entries(rhs, 2, 2, 3, (0, 1)), y, p, 8))
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
        (lambda t, x, p: (x[0] if x[0] < 1 else 2.0,), "rhs must be traceable .*TypeError: a branch"),
        (lambda t, x, p: (float(x[0]),), "rhs must be traceable .*a number was asked for"),
        (lambda t, x, p: (np.interp(t, [0, 1], [0, 1]),), "rhs must be traceable .* attribute .interp"),
        (lambda t, x, p: (None,), "rhs must be traceable"),
        (lambda t, x, p: np.array([x, x]), "one axis, got shape"),
        (lambda t, x, p: (t % x[0],), "rounding .* of states or parameters has no derivative"),
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


@pytest.mark.parametrize("method", ["auto", "Rodas5P"])
@pytest.mark.parametrize(
    "level", [lambda h: np.maximum(h, 0.0), lambda h: np.maximum(0.0, h), lambda h: np.clip(h, 0.0, 9.0)]
)
def test_the_root_of_a_level_that_is_cut_off_at_zero_has_no_slope_there(level, method):
    """A tank that runs dry: h = (sqrt(h0) - k t / 2)^2 until then. One that begins empty fills up."""

    def outflow(t, x, p):
        return (p[1] - p[0] * np.sqrt(level(x[0])),)

    model = OdeModel(outflow, ("h",), ("k", "q"), method=method)
    y, jacobian = model.observe([0.5, 3.0], initial=("h0",), t0=0.0, given={"q": 0.0}).jacobian([[1.0, 0.64]])
    root = 0.8 - 0.25
    np.testing.assert_allclose(y[0], [root**2, 0.0], atol=1e-5)
    np.testing.assert_allclose(jacobian[0], [[-0.5 * root, root / 0.8], [0.0, 0.0]], atol=1e-4)

    empty = model.observe([0.5, 3.0], initial=(0.0,), t0=0.0)
    theta = np.array([[0.8, 0.3]])
    _, jacobian = empty.jacobian(theta)
    steps = 1e-5 * np.eye(2)
    differences = [(empty(theta + step) - empty(theta - step))[0] / 2e-5 for step in steps]
    np.testing.assert_allclose(jacobian[0], np.transpose(differences), atol=1e-4)
