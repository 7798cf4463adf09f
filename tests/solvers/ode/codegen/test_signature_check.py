"""An invalid right-hand side, or argument of it, raises a clear error at construction."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.ode.codegen.interpolation_tables import Table
from invsamp.solvers.ode.codegen.signature_check import probe
from invsamp.solvers.ode.model.ode_model import OdeModel


def decay(t, x, p):
    return -p[0] * x[0], x[0] - p[1] * x[1]


def model(rhs=decay, **settings):
    return OdeModel(rhs, ("u", "v"), ("a", "b"), **settings)


def scipys(t, y):
    return -y[0], y[0]


def odeints(y, t, p):
    return -p[0] * y[0], y[0]


def unpacked(x, time, a, b):
    return -a * x[0], b * x[0]


def swapped(state, when, p):
    u, v = state
    return -p[0] * u, v


@pytest.mark.parametrize(
    ("rhs", "message"),
    [
        (scipys, r"rhs must be rhs\(t, x, p\), got scipys\(t, y\): the parameters are one sequence, the third"),
        (odeints, r"rhs must be rhs\(t, x, p\), time first, got odeints\(y, t, p\), which is odeint's order"),
        (unpacked, r"rhs must be rhs\(t, x, p\), got unpacked\(x, time, a, b\): the parameters are one sequence"),
        (swapped, r"rhs must be rhs\(t, x, p\): t is a number, but it was unpacked; in odeint's order"),
        (
            lambda y, s, p: (y[0], y[1]),
            r"rhs must be rhs\(t, x, p\): t is a number, but t\[0\] was asked for; in odeint",
        ),
        (lambda t, x, p: (x(t - 1.0)[0], x[0]), r"rhs must be .*x was called, .* delays such as x\(t - tau\) are not"),
        (
            lambda t, x, p: (p["a"], x[0]),
            r"rhs must be .*p\['a'\] was asked for, but p is a sequence in the order of `par",
        ),
        (
            lambda t, x, p: (x["u"], p[0]),
            r"rhs must be .*x\['u'\] was asked for, but x is a sequence in the order of `sta",
        ),
        (lambda t, x, p: (p.a, x[0]), r"rhs must be .*p\.a was asked for, but p is a sequence in the order"),
        (lambda t, x, p: (undefined, x[0]), r"rhs must be .*NameError.*undefined"),  # noqa: F821
        (lambda t, x, p: (-p, x[0]), "rhs must return 2 values, one per state"),
        (lambda t, x, p: (x[0], x[2]), "rhs must take 2 states and 2 parameters, but raised: index 2 is out"),
        (lambda t, x, p: x + np.ones(3), "rhs must take 2 states and 2 parameters, but raised: .*broadcast"),
        (lambda t, x, p: np.eye(3) @ x, "rhs must take 2 states and 2 parameters, but raised: .*mismatch"),
        (lambda t, x, p: x[0], r"rhs must return 2 values, one per state, got 1\.0"),
        (lambda t, x, p: ((x[0], x[1]), x[0]), "rhs must return 2 values, one per state"),
        (lambda t, x, p: None, "rhs must return 2 values|None"),
        ("x", "rhs must be a function rhs"),
    ],
)
def test_a_wrong_right_hand_side_is_reported(rhs, message):
    with pytest.raises(ValueError, match=message):
        model(rhs)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_a_right_hand_side_of_one_state_in_odeints_order_is_no_silent_misreading(method):
    # y is time here, a number too, so that nothing would raise
    with pytest.raises(ValueError, match="time first"):
        OdeModel(lambda y, t, p: (-p[0] * y,), ["y"], ["p"], method)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"doses": [(1.0, {"u": "D"})]},
            r"doses\[0\]: 'u' must be a number, one of the parameters .* or a function of p, got 'D'",
        ),
        ({"doses": [(1.0, {"u": None})]}, r"doses\[0\]: 'u' must be a finite number, got None"),
        ({"doses": [(0.0, {"u": 1}), ("c", {"u": 1})]}, r"doses\[1\]: its time must be a number, one of .*'c'"),
        ({"doses": (1.0, {"u": 2.0})}, "doses must be pairs of a time and amounts by state.*got"),
        ({"doses": {"u": 2.0}}, "doses must be pairs"),
        ({"doses": 3.0}, "doses must be pairs"),
        ({"doses": [(1.0, 2.0)]}, "doses must be pairs"),
        ({"doses": [(1.0, {"w": 2.0})]}, r"doses must name states out of \('u', 'v'\), got \['w'\] at 1.0"),
        ({"breakpoints": 3.0}, "breakpoints must be a sequence of times, got 3.0"),
        ({"breakpoints": ["c"]}, r"breakpoints\[0\] must be a number, one of the parameters"),
        ({"rtol": "1e-6"}, r"rtol must be a number in \[1e-13, 1\), got '1e-6'"),
        ({"atol": None}, "atol must be a positive finite number, got None"),
        ({"max_steps": True}, "max_steps must be an integer >= 1, got True"),
        ({"threads": "2"}, "threads must be an integer >= 1, got '2'"),
        ({"method": 5}, "method must be one of .*'RK45', .*got 5"),
        ({"error_control": "partial"}, "error_control must be one of 'full', 'states', got 'partial'"),
        ({"stop": lambda t, x: x[0]}, r"stop must be stop\(t, x, p\), got <lambda>\(t, x\)"),
        ({"stop": lambda t, x, p: x}, "stop must return a number, got"),
        ({"stop": lambda t, x, p: x["u"]}, r"stop must be stop\(t, x, p\): x\['u'\] was asked for"),
        ({"jacobian": lambda t, x: 1.0}, r"jacobian must be jacobian\(t, x, p\), got"),
        ({"jacobian": lambda t, x, p: ((1.0, 0.0), (0.0, 1.0))}, "jacobian must return the rows of df/dx and those"),
    ],
)
def test_wrong_settings_are_reported(settings, message):
    with pytest.raises(ValueError, match=message):
        model(**settings)


@pytest.mark.parametrize(
    ("states", "parameters", "message"),
    [
        ("uv", ["a", "b"], "states must be a sequence of names"),
        (["u", "v"], "ab", "parameters must be a sequence of names"),
        (["u", 1], ["a", "b"], "states must be a sequence of distinct names"),
        (["u", "v"], ["a", "u"], r"parameters must be distinct names, none of a state, got \['u'\] in both"),
        (["u", "v"], 3, "parameters must be a sequence of names"),
        ([], ["a"], "states must be a sequence of names"),
    ],
)
def test_wrong_names_are_reported(states, parameters, message):
    with pytest.raises(ValueError, match=message):
        OdeModel(decay, states, parameters)


@pytest.mark.parametrize(
    ("p", "x", "message"),
    [
        ([["a", "b"]], [1.0, 1.0], "parameters must be numbers, got"),
        ([[1j, 1.0]], [1.0, 1.0], "parameters must be numbers, got"),
        ([[1.0, 1.0]], [None, "x"], "initial must be numbers, got"),
    ],
)
def test_what_is_no_number_is_reported(p, x, message):
    with pytest.raises(ValueError, match=message):
        model().solve(p, x, [0.0, 1.0])


def test_what_is_not_defined_at_ones_is_no_mistake():
    assert probe("rhs", lambda t, x, p: (1.0 / (x[0] - p[0]),), 1, 1) is None
    assert probe("rhs", lambda t, x, p: (math.sqrt(-x[0]),), 1, 1) is None
    assert probe("rhs", lambda t, x, p: (math.log(x[0] - p[0]),), 1, 1) is None
    np.testing.assert_array_equal(probe("rhs", lambda t, x, p: x, 2, 0), [1.0, 1.0])


def test_arrays_lengths_slices_and_loops_work():
    def rhs(t, x, p):
        total = sum(x) + sum(p[:1]) + len(x) - 2 + np.sum(np.array(x)) - sum(entry for entry in x)
        return [total - x[-1] * p[1], *x[:1]]

    states = model(rhs).solve([[0.0, 3.0]], [1.0, 1.0], [0.0, 1.0]).states
    assert np.isfinite(states).all()


def logistic(t, x, p):
    return p * x * (1 - x)


def limited(t, x, p):  # this does not trace
    return p * x * np.where(np.linalg.norm(x) < 10.0, 1.0 - x, 0.0)


@pytest.mark.parametrize(("rhs", "how"), [(logistic, "traced"), (limited, "complex step")])
def test_states_and_parameters_are_vectors(rhs, how):
    p, x, t = np.array([0.7, 1.3]), np.array([0.2, 0.4]), np.array([0.0, 1.0, 2.0])
    grown = model(rhs, rtol=1e-9)
    assert grown.derivatives == how
    solution = grown.solve_with_sensitivities([p], x, t, initial_states=())
    exact = 1 / (1 + (1 / x - 1) * np.exp(-p * t[:, None]))
    np.testing.assert_allclose(solution.states[0], exact, rtol=1e-7)
    slopes = t[:, None] * exact * (1 - exact)
    np.testing.assert_allclose(solution.sensitivities[0], slopes[:, :, None] * np.eye(2), rtol=1e-6, atol=1e-9)
    total = grown.observe(t, x, of=lambda t, x, p: p[:1] * x.sum())
    assert total.derivatives == "symbolic"
    y, by_parameter = total.jacobian(p[None])
    np.testing.assert_allclose(y[0], p[0] * exact.sum(axis=1), rtol=1e-7)
    wanted = p[0] * slopes
    wanted[:, 0] += exact.sum(axis=1)
    np.testing.assert_allclose(by_parameter[0], wanted, rtol=1e-6)


FLOW = Table([0.0, 9.0], [1.0, 3.0])
MATRIX = np.array([[-1.0, 0.5], [0.2, -0.7]])


def fed(t, x, p):
    return p[0] * MATRIX @ x + np.array([p[1], 0.0]) * FLOW(t)


def interpolated(t, x, p):  # a table of two axes is no matrix
    return -p[0] * x[0] * np.interp(t, TABLE[0], TABLE[1]), -p[1] * x[1]


TABLE = np.array([[0.0, 1.0, 3.0], [1.0, 2.0, 0.5]])


def branching(t, x, p):
    return -p * x if t < 1.0 else -2.0 * p * x


def entry_by_entry(t, x, p):
    slopes = np.zeros(2)
    for i in range(2):
        slopes[i] = -p[i] * x[i] if t < 1.0 else -2.0 * p[i] * x[i]
    return slopes


@pytest.mark.parametrize("rhs", [fed, interpolated, branching, entry_by_entry])
def test_vectors_that_do_not_trace(rhs):
    made = model(rhs, rtol=1e-10, atol=1e-12, breakpoints=[1.0], stop=lambda t, x, p: x.sum() + 100.0)
    assert made.derivatives == "complex step"
    p, step = np.array([0.7, 0.4]), 1e-4 * np.eye(2)
    slopes = made.solve_with_sensitivities([p], [0.5, 0.6], [0.0, 0.5, 2.0], initial_states=()).sensitivities[0]
    ends = made.solve(np.concatenate([p + step, p - step]), [0.5, 0.6], [0.0, 0.5, 2.0]).states
    np.testing.assert_allclose(slopes, np.moveaxis(ends[:2] - ends[2:], 0, -1) / 2e-4, rtol=1e-5, atol=1e-7)
    if rhs not in (fed, interpolated):
        decayed = np.array([0.5, 0.6]) * np.exp(-p * np.array([[0.0], [0.5], [3.0]]))
        np.testing.assert_allclose(made.solve([p], [0.5, 0.6], [0.0, 0.5, 2.0]).states[0], decayed, rtol=1e-8)
