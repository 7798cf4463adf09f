"""Tracing: the generated source computes what the function does, and its derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.ode.tracing import Untraceable, sensitivities_source, states_source, trace


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
