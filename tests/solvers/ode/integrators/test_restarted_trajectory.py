"""What is promised of integrators of other packages: bounds, statuses, values that are finite."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from functions import robertson
from optional_methods import CVODE

from invsamp.solvers.ode.integrators import restarted_trajectory
from invsamp.solvers.ode.model.ode_model import OdeModel, Status

METHODS = ["LSODA", CVODE]


@pytest.mark.parametrize("method", METHODS)
def test_a_bad_value_that_a_shorter_step_avoids_is_no_failure(method):
    # the square root's argument falls to 0 at infinity; too long a step makes it negative
    model = OdeModel(lambda t, x, p: (-math.sqrt(x[0]) * x[0] if t >= 0 else 0.0,), ["x"], [], method, rtol=1e-3)
    solution = model.solve(np.empty((1, 0)), [1.0], [0.0, 1.0, 1000.0])
    assert solution.status[0] == Status.OK
    np.testing.assert_allclose(solution.states[0, :, 0], [1.0, 4 / 9, 4 / 1002**2], rtol=0.05, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_evaluations_is_bounded(monkeypatch, method):
    monkeypatch.setattr(restarted_trajectory, "_MOST_PER_STEP", 0)
    model = OdeModel(lambda t, x, p: (math.cos(50 * t),), ["x"], [], method, max_steps=50)
    solution = model.solve(np.empty((1, 0)), [1.0], [0.0, 100.0])
    assert solution.status[0] == Status.TOO_MANY_STEPS and solution.evaluations[0] <= 53


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_fails_row_by_row(method):
    model = OdeModel(lambda t, x, p: (p[0] * x[0] * x[0],), ["x"], ["rate"], method)
    solution = model.solve([[0.1], [2.0], [math.nan], [0.2]], [1.0], [0.0, 1.0])
    assert solution.status[[0, 3]].tolist() == [Status.OK] * 2 and solution.status[2] == Status.NON_FINITE
    assert solution.status[1] != Status.OK and np.isnan(solution.states[[1, 2]]).all()
    assert (solution.steps >= 0).all() and (solution.steps <= 10_000).all()


@pytest.mark.parametrize("method", METHODS)
def test_several_threads_may_call_it(method):
    model = OdeModel(robertson, tuple("abc"), ("k1", "k2", "k3"), method)
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


@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_finite_is_never_reported_as_good(method, capfd):
    """The right-hand side ends at 0.5, or as the state reaches 0, and no value comes from beyond."""
    ends = (lambda t, x, p: (1.0 if t < 0.5 else math.nan,), lambda t, x, p: (-math.sqrt(x[0]) - 0.1,))
    for rhs in ends:
        model = OdeModel(rhs, ["x"], [], method)
        for times in ([0.0, 0.4, 4.0], [0.0, 4.0], np.linspace(0.0, 4.0, 400)):
            solution = model.solve(np.empty((1, 0)), [1.0], times)
            assert solution.status[0] == Status.NON_FINITE and np.isnan(solution.states).all()
        if method == "CVODE":  # LSODA steps beyond the last output
            assert model.solve(np.empty((1, 0)), [1.0], [0.0, 0.4]).status[0] == Status.OK

    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_printed(method, capfd):
    blowing_up = OdeModel(lambda t, x, p: (x[0] * x[0],), ["x"], [], method)
    assert blowing_up.solve(np.empty((1, 0)), [1.0], [0.0, 2.0]).status[0] not in (Status.OK, Status.TOO_MANY_STEPS)
    endless = OdeModel(lambda t, x, p: (np.cos(50 * t),), ["x"], [], method, max_steps=20)
    assert endless.solve(np.empty((1, 0)), [1.0], [0.0, 1.0, 20.0]).status[0] == Status.TOO_MANY_STEPS
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""
