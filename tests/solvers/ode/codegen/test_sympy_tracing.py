"""Tracing: the generated source computes what the function does, and its derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.ode.codegen.sympy_tracing import Untraceable, sensitivities_source, states_source, trace


def run(source, t, y, p, size):
    scope, out = {}, [math.nan] * size
    exec(source, scope)
    scope["evaluate"](t, y, p, out)
    return np.array(out)


def rhs(t, x, p):
    a, b = x
    return (
        math.exp(-p[0] * t) * np.sin(a) + math.log(2.0 + np.cos(b)) + 10**12 * 1e-12 / 3,
        -(b**3) + np.arctan2(a, p[1]) * math.pi + abs(b - 5.0) ** 1.5 + np.square(a) / (1 + b**2) ** 0.5,
    )


def test_the_source_computes_the_function():
    traced = trace(rhs, 2, 2)
    assert [str(symbol) for symbol in (*traced.states, *traced.parameters)] == [
        *("state0", "state1"),
        *("parameter0", "parameter1"),
    ]
    values = run(states_source(traced), 0.7, [0.3, 1.1], [0.4, 0.9], 2)
    np.testing.assert_allclose(values, rhs(0.7, [0.3, 1.1], [0.4, 0.9]), rtol=1e-14)


def test_the_source_computes_the_variational_equations():
    t, x, p = 0.7, np.array([0.3, 1.1]), np.array([0.4, 0.9])
    S = np.random.default_rng(0).normal(size=(2, 3))
    values = run(sensitivities_source(trace(rhs, 2, 2), 1), t, [*x, *S.T.ravel()], p, 8)
    np.testing.assert_allclose(values[:2], rhs(t, x, p), rtol=1e-14)
    step = 1e-6
    for column in range(3):
        direction = np.eye(3)[column, :2]
        moved = [np.array(rhs(t, x + sign * step * S[:, column], p + sign * step * direction)) for sign in (1.0, -1.0)]
        np.testing.assert_allclose(values[2:].reshape(3, 2)[column], (moved[0] - moved[1]) / (2 * step), rtol=1e-7)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t, x, p: (x[0] if x[0] < 1 else 2.0,), "rhs must be traceable .* TypeError"),
        (lambda t, x, p: (np.interp(t, [0, 1], [0, 1]),), "rhs must be traceable .* attribute .interp"),
        (lambda t, x, p: ("x",)[:1] and (None,), "rhs must be traceable"),
    ],
)
def test_what_does_not_trace_is_said(function, message):
    with pytest.raises(Untraceable, match=message):
        trace(function, 1, 0)


def test_the_number_of_values_is_checked():
    with pytest.raises(ValueError, match="rhs must return 2 values, one per state"):
        trace(lambda t, x, p: (x[0],), 2, 0)


MATRIX = np.array([[-1.0, 0.5], [0.25, -2.0]])


def product_of_arrays(t, x, p):
    return p[0] * (MATRIX @ np.array(x))


def product_with_a_list(t, x, p):
    return MATRIX @ x * p[0]


def entry_by_entry(t, x, p):
    x = np.asarray(x, dtype=float)
    return MATRIX.dot(x) + p[0] * np.sin(x) - np.exp(-(x**2)) * np.sum(x)


def filled(t, x, p):
    derivative = np.zeros(2)
    derivative[0] = -p[0] * x[0]
    derivative[1] = x[0] - np.dot(p, p) * x[1]
    return derivative


def of_vectors(t, x, p):
    return (1 - x) * x * p - 2 * x[::-1] / (1 + x**2) + np.hypot(x, t) * np.sign(x - 1.0) + np.clip(x, 0.5, 1.0 + p[0])


@pytest.mark.parametrize("function", [product_of_arrays, product_with_a_list, entry_by_entry, filled, of_vectors])
def test_arrays_are_traced(function):
    t, x, p = 0.7, np.array([0.3, 1.1]), np.array([0.4])
    S = np.random.default_rng(0).normal(size=(2, 2))
    traced = trace(function, 2, 1)
    np.testing.assert_allclose(run(states_source(traced), t, x, p, 2), function(t, x, p), rtol=1e-14)
    values = run(sensitivities_source(traced, 1), t, [*x, *S.T.ravel()], p, 6)[2:].reshape(2, 2)
    for column, shift in enumerate((1e-6, 0.0)):
        ends = [function(t, x + sign * 1e-6 * S[:, column], p + sign * shift) for sign in (1, -1)]
        np.testing.assert_allclose(values[column], (ends[0] - ends[1]) / 2e-6, rtol=1e-7)


def test_an_array_of_two_axes_is_no_right_hand_side():
    with pytest.raises(ValueError, match="one axis, got shape"):
        trace(lambda t, x, p: np.array([x, x]), 2, 0)
