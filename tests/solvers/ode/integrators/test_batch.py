"""Batches of trajectories: the same steps as SciPy, statuses, rows of their own times, doses, switches, events."""

from __future__ import annotations

import io
import math
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from functions import lotka_volterra
from scipy.integrate import solve_ivp

from invsamp.solvers.ode.integrators.batch import COMPILING, announce_compilation
from invsamp.solvers.ode.model.ode_model import OdeModel, Status

THETA = np.array([[0.547, 0.0277, 0.800, 0.0241], [0.6, 0.03, 0.7, 0.02]])
START = np.array([[34.0, 5.94], [30.0, 7.0]])


NAN = math.nan


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Notebook(io.StringIO):
    """What a notebook has for standard error."""

    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(
    ("known", "stream", "messages"), [([], Terminal, 1), ([], Notebook, 1), ([1], Terminal, 0), ([], io.StringIO, 0)]
)
def test_the_compilation_of_the_first_call_is_announced(known, stream, messages, monkeypatch):
    seen = stream()
    monkeypatch.setattr(sys, "stderr", seen)
    with announce_compilation(SimpleNamespace(overloads=known), after=0.0):
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(10.0)
    assert seen.getvalue().count(COMPILING) == messages
    with announce_compilation(SimpleNamespace(overloads=known), after=60.0):
        pass  # it took less
    assert seen.getvalue().count(COMPILING) == messages


def fitzhugh_nagumo(t, x, p):
    v, w = x
    return v - v**3 / 3 - w + 0.5 + 0.1 * math.sin(t), 0.08 * (v + 0.7 - 0.8 * w)


def prey(**settings):
    return OdeModel(lotka_volterra, ("u", "v"), ("alpha", "beta", "gamma", "delta"), **settings)


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize(
    ("rhs", "theta", "start"), [(lotka_volterra, THETA[0], START[0]), (fitzhugh_nagumo, np.empty(0), np.ones(2))]
)
def test_steps_and_states_are_those_of_scipy(rhs, theta, start, rtol):
    times = np.linspace(0.0, 50.0, 301)
    if rhs is fitzhugh_nagumo:
        python = lambda t, x: fitzhugh_nagumo(t, x, theta)  # noqa: E731
    else:
        python = lambda t, x: lotka_volterra(t, x, theta)  # noqa: E731
    scipy = solve_ivp(python, (0, 50), start, "RK45", times, rtol=rtol, atol=1e-3 * rtol)
    model = OdeModel(rhs, ("u", "v"), [f"p{i}" for i in range(len(theta))], "RK45", rtol=rtol, atol=1e-3 * rtol)
    ours = model.solve(theta[None], start, times)
    assert ours.evaluations[0] == scipy.nfev
    np.testing.assert_allclose(ours.states[0], scipy.y.T, rtol=1e-10, atol=1e-10)
    assert ours.ended[0] == 50.0


def test_sensitivities_agree_with_the_complex_step():
    times = np.linspace(0.0, 20.0, 11)
    ours = prey(rtol=1e-12, atol=1e-12).solve_with_sensitivities(THETA[:1], START[:1], times)
    point = np.concatenate([THETA[0], START[0]])
    for column in range(6):
        moved = point.astype(complex)
        moved[column] += 1e-30j
        exact = solve_ivp(
            lambda t, x, p=moved[:4]: lotka_volterra(t, x, p),
            (0, 20),
            moved[4:],
            "DOP853",
            times,
            rtol=1e-12,
            atol=1e-12,
        )
        slope = exact.y.T.imag / 1e-30
        np.testing.assert_allclose(ours.sensitivities[0, :, :, column], slope, atol=1e-8 * np.abs(slope).max())


def test_threads_give_the_same_numbers():
    rng = np.random.default_rng(3)
    theta = THETA[0] * rng.uniform(0.8, 1.2, (37, 4))
    theta[5] = np.nan
    times = np.linspace(0.0, 20.0, 21)
    serial = prey().solve_with_sensitivities(theta, START[0], times)
    for threads in (2, 5):
        parallel = prey(threads=threads).solve_with_sensitivities(theta, START[0], times)
        for one, other in zip(serial, parallel, strict=True):
            np.testing.assert_array_equal(one, other)
    assert serial.status[5] == Status.NON_FINITE and (np.delete(serial.status, 5) == Status.OK).all()


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_rows_may_have_times_of_their_own(method):
    model = prey(method=method)
    nan = math.nan
    times = np.array([[1.0, 2.0, 5.0], [3.0, 4.0, nan], [2.0, nan, nan], [nan, nan, nan]])
    t0 = np.array([0.5, 3.0, 1.0, 0.0])
    batch = model.solve_with_sensitivities(THETA[[0, 1, 0, 1]], START[[0, 1, 1, 0]], times, t0=t0)
    assert (batch.status == Status.OK).all()
    for row, count in enumerate((3, 2, 1, 0)):
        assert np.isnan(batch.states[row, count:]).all() and np.isnan(batch.sensitivities[row, count:]).all()
        if count:
            alone = model.solve_with_sensitivities(
                THETA[[row % 2]], START[[[0, 1, 1][row]]], times[row, :count], t0=t0[row]
            )
            np.testing.assert_array_equal(batch.states[row, :count], alone.states[0])
            np.testing.assert_array_equal(batch.sensitivities[row, :count], alone.sensitivities[0])


@pytest.mark.parametrize(
    ("rhs", "start", "expected"),
    [
        (lambda t, x, p: (x[0] * x[0],), 1.0, {Status.STEP_TOO_SMALL, Status.NON_FINITE, Status.TOO_MANY_STEPS}),
        (lambda t, x, p: (NAN * x[0],), 1.0, {Status.NON_FINITE}),
        (lambda t, x, p: (math.sqrt(0.5 - t),), 1.0, {Status.NON_FINITE}),
        (lambda t, x, p: (-1e7 * (x[0] - math.cos(t)),), 0.0, {Status.STIFF}),
        (lambda t, x, p: (-1e7 * x[0],), 1.0, {Status.STIFF}),
        (lambda t, x, p: (1e300 * x[0],), 1.0, {Status.NON_FINITE, Status.STEP_TOO_SMALL}),
    ],
    ids=["blow-up", "nan", "nan-later", "stiff", "stiff-decay", "overflow"],
)
@pytest.mark.parametrize("method", ["RK45", "DOP853", "Rodas5P", "LSODA", "auto"])
def test_a_failure_is_a_status_and_nan_at_once(rhs, start, expected, method):
    model = OdeModel(rhs, ("x",), (), method)
    arguments = np.empty((1, 0)), np.array([start]), np.linspace(0.0, 2.0, 5)
    solution = model.solve(*arguments)
    assert solution.switched[0] == (method == "auto" and expected == {Status.STIFF})
    if method in ("Rodas5P", "LSODA", "auto") and expected == {Status.STIFF}:
        assert solution.status[0] == Status.OK  # their own ground
        return
    assert solution.status[0] in expected or (method not in ("RK45", "DOP853") and solution.status[0] != Status.OK)
    assert np.isnan(solution.states).all()
    # "at once": within the default of 10,000 steps, of seven evaluations each
    assert 0 <= solution.steps[0] <= 10_000 and 0 <= solution.evaluations[0] <= 130_000 and solution.ended[0] <= 2.0


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_doses_and_infusions(method):
    # one compartment: dose 5 at 0 and 2, infusion at rate 3 from 3 to 4.5; the answer is a sum of exponentials
    def pharmacokinetics(t, x, p):
        return (-p[0] * x[0] + (3.0 if 3.0 <= t < 4.5 else 0.0),)

    def exact(t, k):
        amount = 5 * np.exp(-k * t) * (t > 0) + 5 * np.exp(-k * (t - 2)) * (t > 2)
        return amount + 3 / k * ((1 - np.exp(-k * (t - 3))) * (t > 3) - (1 - np.exp(-k * (t - 4.5))) * (t > 4.5))

    model = OdeModel(
        pharmacokinetics,
        ["amount"],
        ["k"],
        method,
        rtol=1e-10,
        atol=1e-12,
        breakpoints=(3.0, 4.5),
        doses=((0.0, {"amount": 5.0}), (2.0, {"amount": 5.0})),
    )
    times = np.array([0.0, 1.0, 2.0, 2.5, 3.0, 4.0, 4.5, 6.0])
    solution = model.solve_with_sensitivities([[0.7]], [0.0], times)
    assert model.derivatives == "complex step"
    tolerance = 1e-8 if method == "RK45" else 2e-7
    np.testing.assert_allclose(solution.states[0, :, 0], exact(times, 0.7), atol=tolerance)
    slope = exact(times, 0.7 + 1e-30j).imag / 1e-30
    np.testing.assert_allclose(solution.sensitivities[0, :, 0, 0], slope, atol=10 * tolerance)
    # the infusion's ends are found where they are not declared
    found = OdeModel(pharmacokinetics, ["amount"], ["k"], method, rtol=1e-10, atol=1e-12, doses=model.doses)
    np.testing.assert_array_equal(found.solve([[0.7]], [0.0], times).states, solution.states)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_a_trajectory_with_doses_can_be_cut_at_any_time(method):
    model = prey(
        method=method,
        rtol=1e-10,
        atol=1e-10,
        breakpoints=(5.0,),
        doses=((4.0, {"u": 3.0}), (6.0, {"v": 2.0, "u": 1.0})),
    )
    times = np.array([1.0, 4.0, 5.5, 6.0, 9.0])
    whole = model.solve(THETA[:1], START[:1], times, t0=0.0).states[0]
    for cut in (1, 3):  # at the time of a dose too
        first = model.solve(THETA[:1], START[:1], times[: cut + 1], t0=0.0).states[0]
        second = model.solve(THETA[:1], first[-1], times[cut + 1 :], t0=times[cut]).states[0]
        np.testing.assert_allclose(np.concatenate([first, second]), whole, rtol=1e-7)


def test_a_dose_is_not_stepped_over():
    # at rest until the pulse, so that steps grow without bound
    quiet = OdeModel(lambda t, x, p: (-x[0],), ["x"], [], doses=((500.0, {"x": 1.0}),))
    solution = quiet.solve(np.empty((1, 0)), [0.0], [500.0, 501.0, 502.0], t0=0.0)
    np.testing.assert_allclose(solution.states[0, :, 0], [0.0, math.exp(-1), math.exp(-2)], rtol=1e-5, atol=1e-12)


def test_an_event_stops_the_trajectory():
    ball = OdeModel(
        lambda t, x, p: (x[1], -p[0]),
        ("height", "speed"),
        ("gravity",),
        stop=lambda t, x, p: x[0],
        rtol=1e-10,
        atol=1e-10,
    )
    times = np.linspace(0.0, 3.0, 31)
    # thrown up from the ground, where the function is zero at the start, and never coming down
    solution = ball.solve_with_sensitivities([[9.81], [9.81], [0.1]], [[0.0, 10.0], [1.0, 0.0], [0.0, 1.0]], times)
    landing = [20 / 9.81, math.sqrt(2 / 9.81)]
    assert solution.status.tolist() == [Status.STOPPED, Status.STOPPED, Status.OK]
    np.testing.assert_allclose(solution.ended, [*landing, 3.0], rtol=1e-9)
    for row, end in enumerate(landing):
        before = times < end
        height = [0.0, 1.0][row] + [10.0, 0.0][row] * times - 9.81 * times**2 / 2
        np.testing.assert_allclose(solution.states[row, before, 0], height[before], atol=1e-9)
        assert np.isnan(solution.states[row, ~before]).all() and np.isnan(solution.sensitivities[row, ~before]).all()
        np.testing.assert_allclose(solution.sensitivities[row, before, 0, 0], -(times[before] ** 2) / 2, atol=1e-9)


def test_a_dose_can_be_the_event():
    tank = OdeModel(lambda t, x, p: (-x[0],), ["x"], [], doses=((1.0, {"x": 5.0}),), stop=lambda t, x, p: x[0] - 4.0)
    solution = tank.solve(np.empty((1, 0)), [1.0], [0.5, 1.0, 1.5])
    assert solution.status[0] == Status.STOPPED and solution.ended[0] == 1.0
    assert np.isnan(solution.states[0, :, 0]).tolist() == [False, False, True]


def test_the_bound_on_steps_counts_the_whole_trajectory():
    needed = int(prey().solve(THETA[:1], START[:1], np.arange(21.0)).steps[0])
    for breakpoints in ((), (7.0, 11.0)):
        steps = int(prey(breakpoints=breakpoints).solve(THETA[:1], START[:1], np.arange(21.0)).steps[0])
        assert steps >= needed
        for bound, status in ((steps, Status.OK), (steps - 1, Status.TOO_MANY_STEPS)):
            model = prey(max_steps=bound, breakpoints=breakpoints)
            assert model.solve(THETA[:1], START[:1], np.arange(21.0)).status[0] == status
