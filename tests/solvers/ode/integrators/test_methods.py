"""LSODA by odeint: kept within bounds, and its counters and failures reported."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import scipy
from functions import robertson

from invsamp.solvers.ode.codegen.compile_rhs import prepare_jacobian
from invsamp.solvers.ode.integrators import methods
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


def test_robertson_needs_an_implicit_method():
    settings = {"rtol": 1e-6, "atol": 1e-10}
    explicit = (("RK45", Status.STIFF), ("DOP853", Status.STIFF))
    for method, status in (("LSODA", 0), ("Rodas5P", 0), ("auto", 0), *explicit):
        model = OdeModel(robertson, tuple("abc"), ("k1", "k2", "k3"), method, **settings)
        solution = model.solve([[0.04, 1e4, 3e7]], [1.0, 0.0, 0.0], [0.0, 1e3])
        assert solution.status[0] == status and solution.switched[0] == (method == "auto")


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


def test_a_bad_value_that_a_shorter_step_avoids_is_no_failure():
    # the square root's argument falls to 0 at infinity; too long a step makes it negative
    model = OdeModel(lambda t, x, p: (-math.sqrt(x[0]) * x[0] if t >= 0 else 0.0,), ["x"], [], "LSODA", rtol=1e-3)
    solution = model.solve(np.empty((1, 0)), [1.0], [0.0, 1.0, 1000.0])
    assert solution.status[0] == Status.OK
    np.testing.assert_allclose(solution.states[0, :, 0], [1.0, 4 / 9, 4 / 1002**2], rtol=0.05, atol=1e-6)


def test_the_number_of_evaluations_is_bounded(monkeypatch):
    monkeypatch.setattr(methods, "_MOST_PER_STEP", 0)
    model = OdeModel(lambda t, x, p: (math.cos(50 * t),), ["x"], [], "LSODA", max_steps=50)
    solution = model.solve(np.empty((1, 0)), [1.0], [0.0, 100.0])
    assert solution.status[0] == Status.TOO_MANY_STEPS and solution.evaluations[0] <= 53


def test_a_batch_fails_row_by_row():
    model = OdeModel(lambda t, x, p: (p[0] * x[0] * x[0],), ["x"], ["rate"], "LSODA")
    solution = model.solve([[0.1], [2.0], [math.nan], [0.2]], [1.0], [0.0, 1.0])
    assert solution.status[[0, 3]].tolist() == [Status.OK] * 2 and solution.status[2] == Status.NON_FINITE
    assert solution.status[1] != Status.OK and np.isnan(solution.states[[1, 2]]).all()
    assert (solution.steps >= 0).all() and (solution.steps <= 10_000).all()


def test_several_threads_may_call_it():
    model = OdeModel(robertson, tuple("abc"), ("k1", "k2", "k3"), "LSODA")
    arguments = [[0.04, 1e4, 3e7]], [1.0, 0.0, 0.0], np.geomspace(1e-3, 1e3, 20)
    alone = model.solve(*arguments).states
    found = []
    threads = [threading.Thread(target=lambda: found.append(model.solve(*arguments).states)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for states in found:
        np.testing.assert_array_equal(states, alone)


@pytest.mark.parametrize("implicit", ["Rodas5P", "LSODA"])
def test_auto_leaves_stiff_rows_alone_to_an_implicit_method(implicit):
    """Rows keep their bits; how far a stiff one was tried does not matter."""
    rows = np.array([[1.0], [1e6], [2.0]])
    arguments = rows, [0.0], np.linspace(0.0, 3.0, 7)

    def relaxation(t, x, p):
        return (-p[0] * (x[0] - math.cos(t)),)

    def branching(t, x, p):  # which does not trace
        return (-p[0] * (x[0] - math.cos(t)),) if t < 10 else (0.0,)

    rhs = relaxation if implicit == "Rodas5P" else branching
    models = {name: OdeModel(rhs, ["x"], ["k"], name) for name in ("auto", "RK45", implicit)}
    found = {name: each.solve_with_sensitivities(*arguments) for name, each in models.items()}
    assert found["auto"].switched.tolist() == [False, True, False] and (found["auto"].status == Status.OK).all()
    assert found["RK45"].status.tolist() == [Status.OK, Status.STIFF, Status.OK]
    for row, name in ((0, "RK45"), (1, implicit), (2, "RK45")):
        for part in ("states", "sensitivities"):
            np.testing.assert_array_equal(getattr(found["auto"], part)[row], getattr(found[name], part)[row])
    alone = models["auto"].solve([[1e6]], *arguments[1:])
    np.testing.assert_array_equal(alone.states[0], found["auto"].states[1])
    # a hopeless row is given up long before the bound on steps
    assert models["auto"].solve([[1e6]], *arguments[1:]).steps[0] < 1000
    tight = OdeModel(relaxation, ["x"], ["k"], rtol=1e-9)
    series = OdeModel(relaxation, ["x"], ["k"], "Taylor", rtol=1e-9)
    np.testing.assert_array_equal(tight.solve(*arguments).states[0], series.solve(*arguments).states[0])


def test_an_observation_says_who_solved():
    forward = OdeModel(lambda t, x, p: (-p[0] * (x[0] - math.cos(t)),), ["x"], ["k"]).observe(
        [1.0, 2.0], (0.0,), t0=0.0
    )
    assert forward.solver == "auto"
    forward(np.array([[1.0], [1e6]]))
    assert forward.solver == "auto, but another one for 1 of 2 trajectories"


def test_what_is_stiff_for_a_while_is_not_called_stiff():
    pulse = OdeModel(
        lambda t, x, p: (-(5e3 if t < 0.1 else 1.0) * (x[0] - 1.0),), ["x"], [], "RK45", breakpoints=(0.1,)
    )
    assert pulse.solve(np.empty((1, 0)), [0.0], [0.0, 1.0]).status[0] == Status.OK
    few = OdeModel(lambda t, x, p: (x[1], -x[0]), ["x", "y"], [], "RK45", max_steps=200, rtol=1e-10)
    assert few.solve(np.empty((1, 0)), [0.0, 1.0], [0.0, 1e3]).status[0] == Status.TOO_MANY_STEPS
