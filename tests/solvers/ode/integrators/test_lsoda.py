"""LSODA by odeint: its counters, and that it is left."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from functions import robertson

from invsamp.solvers.ode.codegen.compile_rhs import prepare_jacobian
from invsamp.solvers.ode.integrators.lsoda_jacobian import state_jacobian
from invsamp.solvers.ode.model.ode_model import OdeModel, Status


def test_counters_are_those_of_odeint():
    times = np.array([0.0, 0.4, 40.0, 4000.0])
    p = np.array([0.04, 1e4, 3e7])
    # compiled as it stands: another order of sums changes the steps of a stiff problem
    model = OdeModel(
        lambda t, x, p: robertson(t, x, p) if t >= 0 else (0.0, 0.0, 0.0),
        *(tuple("abc"), ("k1", "k2", "k3"), "LSODA"),
        rtol=1e-8,
        atol=1e-12,
    )
    ours = model.solve(p[None], [1.0, 0.0, 0.0], times)

    # rounding in the Jacobian is enough for other steps, too
    variations = prepare_jacobian(model.rhs, None, 3, 3).compiled.address
    settings = {"tfirst": True, "rtol": 1e-8, "atol": 1e-12, "full_output": True}
    settings["Dfun"] = lambda t, y: state_jacobian(variations, t, y, p)
    y, info = scipy.integrate.odeint(lambda t, y: robertson(t, y, p), [1.0, 0, 0], times, **settings)
    assert ours.steps[0] == info["nst"][-1]
    assert info["nfe"][-1] <= ours.evaluations[0] <= info["nfe"][-1] + 3
    np.testing.assert_allclose(ours.states[0], y, rtol=1e-9, atol=1e-14)
    assert ours.ended[0] == 4000.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_lsoda_is_left_when_there_are_only_bad_values(bad, monkeypatch):
    called = []
    original = scipy.integrate.odeint

    def spy(*arguments, **settings):
        called.append(1)
        return original(*arguments, **settings)

    monkeypatch.setattr(scipy.integrate, "odeint", spy)
    model = OdeModel(lambda t, x, p: (1.0 if t < 0.5 else bad,), ["x"], [], "LSODA")
    solution = model.solve(np.empty((1, 0)), [1.0], [0.0, 1.0])
    assert called and solution.status[0] == Status.NON_FINITE
    assert solution.evaluations[0] < 1000
