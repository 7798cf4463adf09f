"""A right-hand side, or what belongs to it, that cannot be right is told in words at construction."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.ode.model import OdeModel
from invsamp.solvers.ode.probing import probe


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
        (lambda t, x, p: (-p, x[0]), r"rhs must be .*TypeError.*'tuple'"),
        (lambda t, x, p: (x[0], x[2]), "rhs must take 2 states and 2 parameters, but raised: list index"),
        (lambda t, x, p: x[0], r"rhs must return 2 values, one per state, got 1\.0"),
        (lambda t, x, p: ((x[0], x[1]), x[0]), "rhs must return 2 values, one per state"),
        (lambda t, x, p: None, "rhs must return 2 values|None"),
        ("x", "rhs must be a function rhs"),
    ],
)
def test_a_wrong_right_hand_side_is_told(rhs, message):
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
def test_wrong_settings_are_told(settings, message):
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
def test_wrong_names_are_told(states, parameters, message):
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
def test_what_is_no_number_is_told(p, x, message):
    with pytest.raises(ValueError, match=message):
        model().solve(p, x, [0.0, 1.0])


def test_what_is_not_defined_at_ones_is_no_mistake():
    assert probe("rhs", lambda t, x, p: (1.0 / (x[0] - p[0]),), 1, 1) is None
    assert probe("rhs", lambda t, x, p: (math.sqrt(-x[0]),), 1, 1) is None
    assert probe("rhs", lambda t, x, p: x, 2, 0) == [1.0, 1.0]


def test_arrays_lengths_slices_and_loops_work():
    def rhs(t, x, p):
        total = sum(x) + sum(p[:1]) + len(x) - 2 + np.sum(np.array(x)) - sum(entry for entry in x)
        return [total - x[-1] * p[1], *x[:1]]

    states = model(rhs).solve([[0.0, 3.0]], [1.0, 1.0], [0.0, 1.0]).states
    assert np.isfinite(states).all()
