"""Steps with the right-hand side in them give the numbers of steps that call it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.problems import lorenz
from invsamp.solvers.ode import Event, OdeModel
from invsamp.solvers.ode.codegen.inlined_stages import prepare_steps
from invsamp.solvers.ode.model import ode_solver


def driven(t, x, p):
    """Time, parameters alone, constants, a state that moves none, and one whose rate is a constant."""
    rate = np.exp(-p[0]) + 0.5
    return -rate * x[0] + p[1] * np.sin(3 * t), x[0] - 2.0 * x[1] * np.sqrt(1 + x[1] ** 2), p[2], 1.5


def relaxed(t, x, p):
    return x[1], p[0] * (1 - x[0] ** 2) * x[1] - x[0]


def switched(t, x, p):
    """A condition as a number."""
    return (p[0] * (t < 1.5) - x[0] * (x[0] > 0.2),)


CASES = {
    "switched": (switched, (0.7,), (0.0,), {}),
    "Lorenz": (lorenz.rhs, (10.0, 28.0, 8 / 3), (1.0, 1.0, 1.0), {}),
    "driven": (driven, (0.3, 2.0, -0.1), (1.0, 0.0, 0.2, 0.0), {}),
    "doses": (driven, (0.3, 2.0, -0.1), (1.0, 0.0, 0.2, 0.0), {"doses": [(1.3, {"x0": 1.0})]}),
    "events": (
        relaxed,
        (2.0,),
        (2.0, 0.0),
        {"events": [Event(lambda t, x, p: x[0], change=lambda t, x, p: (x[0], 0.9 * x[1]))]},
    ),
    "stop": (relaxed, (2.0,), (2.0, 0.0), {"stop": lambda t, x, p: x[0] + 1.5}),
    "stiff": (relaxed, (100.0,), (2.0, 0.0), {}),
}


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_as_with_calls(case, method, monkeypatch):
    rhs, p, initial, settings = CASES[case]
    names = [f"x{i}" for i in range(len(initial))], [f"p{j}" for j in range(len(p))]
    parameters, times = np.array([p, p]) * [[1.0], [1.1]], np.linspace(0.0, 4.0, 31)

    def solved():
        ode_solver._integration.cache_clear()
        model = OdeModel(rhs, *names, method, **settings)
        return [
            model.solve(parameters, initial, times),
            model.solve_with_sensitivities(parameters, initial, times, initial_states=()),
            model.solve_with_sensitivities(parameters, initial, times, initial_states=("x0",)),
        ]

    assert prepare_steps(rhs, len(initial), len(p), 0, (), "RK45") is not None
    found = solved()
    monkeypatch.setattr(ode_solver, "prepare_steps", lambda *_: None)
    expected = solved()
    ode_solver._integration.cache_clear()
    for one, other in zip(found, expected, strict=True):
        for entries, others in zip(one, other, strict=True):
            np.testing.assert_array_equal(entries, others)


def test_what_does_not_trace_or_is_long_is_called():
    def branching(t, x, p):
        return (x[0] if x[0] > math.pi else -x[0],)

    def long(t, x, p):
        return [sum(p[0] * x[j] * x[i] for j in range(30)) for i in range(30)]

    assert prepare_steps(branching, 1, 0, 0, (), "RK45") is None
    assert prepare_steps(long, 30, 1, 0, (), "RK45") is None
