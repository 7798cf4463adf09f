"""Sensitivities under full error control, with a status where there are none, and under the looser one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from functions import robertson
from optional_methods import CVODE
from parts import cases
from scipy.integrate import solve_ivp

from invsamp.solvers.ode.model.ode_model import OdeModel, Status


def van_der_pol(t, x, p):
    return x[1], p[0] * (1 - x[0] ** 2) * x[1] - x[0]


def hires(t, x, p):
    """Hairer and Wanner, "Solving Ordinary Differential Equations II", IV.10, eq. (10.4)."""
    a, b, c, d, e, f, g, h = x
    k1, k2, k3 = p
    made = k3 * f * h - 1.81 * g
    return (
        *(-k1 * a + k2 * b + 8.32 * c + 0.0007, k1 * a - 8.75 * b, -10.03 * c + k2 * d + 0.035 * e),
        *(8.32 * b + k1 * c - 1.12 * d, -1.745 * e + k2 * f + k2 * g),
        *(-k3 * f * h + 0.69 * d + k1 * e - k2 * f + 0.69 * g, made, -made),
    )


def exact(rhs, p, start, times):
    """Sensitivities to the parameters (n_times, n_states, q) by differences of Radau's trajectories."""

    def states(values):
        settings = {"rtol": 1e-9, "atol": 1e-15, "t_eval": times}
        return solve_ivp(lambda t, x: rhs(t, x, values), (0, times[-1]), start, "Radau", **settings).y.T

    steps = np.diag(1e-3 * np.abs(p))
    slopes = [(states(p + step) - states(p - step)) / (2 * step.sum()) for step in steps]
    return np.stack(slopes, axis=-1)


#: mu -> states of van der Pol's oscillator and their derivatives by mu after 2 mu, by Radau at 1e-11 with the exact
#: Jacobian, as in benchmarks/stiff_sensitivities.py.
OSCILLATOR = {
    5.0: np.array([-1.15870127, 0.430469809, -0.631501703, -0.672657282]),
    50.0: np.array([1.73766247, -0.0172057312, 0.0335834454, 0.00100535383]),
    1000.0: np.array([1.70616773, -0.000892809701, 0.00178479379, 2.80420382e-06]),
}


STIFF = [("RK45", 5.0), ("RK45", 50.0), ("LSODA", 50.0), ("LSODA", 1000.0), ("Rodas5P", 50.0), ("Rodas5P", 1000.0)]


@pytest.mark.parametrize("initial_states", [(), None])
@pytest.mark.parametrize(("method", "mu"), STIFF)
def test_van_der_pol(method, mu, initial_states):
    model = OdeModel(van_der_pol, ("y", "v"), ("mu",), method)
    solution = model.solve_with_sensitivities([[mu]], [2.0, 0.0], [0.0, 2 * mu], initial_states=initial_states)
    assert solution.status[0] == Status.OK
    np.testing.assert_allclose(solution.states[0, -1], OSCILLATOR[mu][:2], rtol=1e-4)
    np.testing.assert_allclose(solution.sensitivities[0, -1, :, 0], OSCILLATOR[mu][2:], rtol=0.03)


METHODS = ["RK45", "DOP853", "Taylor", "LSODA", "Rodas5P", "auto", CVODE]


@pytest.mark.parametrize("method", METHODS)
def test_sensitivities_of_states_at_rest_stay_stable_without_full_control(method):
    """States at rest have no errors, whatever the step: without a control of sensitivities DOP853's reached 1e78."""
    rest = OdeModel(lambda t, x, p: (p[0] * (p[1] - x[0]),), ["x"], ["rate", "level"], method, error_control="states")
    rates = np.array([10.0, 30.0, 100.0])
    solution = rest.solve_with_sensitivities(
        np.stack([rates, [2.0, 2.0, 2.0]], axis=1), [2.0], [0.0, 0.1, 24.0], initial_states=()
    )
    assert (solution.status == Status.OK).all()
    np.testing.assert_array_equal(solution.states, 2.0)
    slopes = 1 - np.exp(-rates[:, None] * [0.1, 24.0])
    np.testing.assert_allclose(solution.sensitivities[:, 1:, 0, 1], slopes, atol=0.05)
    np.testing.assert_array_equal(solution.sensitivities[:, :, 0, 0], 0.0)


@pytest.mark.parametrize("control", ["full", "states"])
def test_stiffness_shows_in_sensitivities_where_states_rest(control):
    # 30,000 explicit steps, or some dozens
    rest = OdeModel(
        *(lambda t, x, p: (p[0] * (p[1] - x[0]),), ["x"], ["rate", "level"]), error_control=control, max_steps=100_000
    )
    solution = rest.solve_with_sensitivities([[100.0, 2.0]], [2.0], [0.0, 1000.0], initial_states=())
    assert solution.status[0] == Status.OK and solution.steps[0] < 1000
    np.testing.assert_allclose(solution.sensitivities[0, 1, 0], [0.0, 1.0], atol=1e-3)


@pytest.mark.parametrize("method", ["RK45", "LSODA", "Rodas5P"])
def test_without_full_control_errors_are_bounded_but_for_what_was_far_larger_on_the_way(method):
    model = OdeModel(van_der_pol, ("y", "v"), ("mu",), method, error_control="states", max_steps=100_000)
    for mu, bounded in ((50.0, True), (1000.0, False)):
        if bounded or method == "LSODA":
            solution = model.solve_with_sensitivities([[mu]], [2.0, 0.0], [0.0, 2 * mu], initial_states=())
            assert solution.status[0] == Status.OK
            error = np.abs(solution.sensitivities[0, -1, :, 0] / OSCILLATOR[mu][2:] - 1)
            assert (error < 0.1).all() if bounded else (error > 0.5).all()


@pytest.mark.parametrize("method", ["LSODA", "Rodas5P"])
@pytest.mark.parametrize("rtol", [1e-3, 1e-5, 1e-8])
def test_van_der_pol_at_other_tolerances(rtol, method):
    model = OdeModel(van_der_pol, ("y", "v"), ("mu",), method, rtol=rtol, atol=1e-3 * rtol, max_steps=50_000)
    solution = model.solve_with_sensitivities([[1000.0]], [2.0, 0.0], np.linspace(0, 2000, 30))
    assert solution.status[0] == Status.OK
    # over 90 values of mu and tolerances from 1e-3 to 1e-8 the largest error was .09, at the loosest
    np.testing.assert_allclose(solution.sensitivities[0, -1, :, 0], OSCILLATOR[1000.0][2:], rtol=0.3)


@pytest.mark.parametrize(("method", "rtol"), [("Rodas5P", 10.0**-k) for k in range(4, 9)] + [("LSODA", 1e-6)])
def test_van_der_pol_to_the_root_of_the_tolerance(method, rtol):
    # dy/dmu at mu = 3000 by Rodas5P at 1e-12, whose own error is 1e-6 of it; over 25 values of mu from 40 to 4000, with
    # and without initial states, the largest error at rtol 1e-6 was 1.7 sqrt(rtol), and at 1e-8 .3 sqrt(rtol)
    model = OdeModel(van_der_pol, ("y", "v"), ("mu",), method, rtol=rtol, atol=1e-3 * rtol, max_steps=100_000)
    solution = model.solve_with_sensitivities([[3000.0]], [2.0, 0.0], [6000.0], t0=0.0, initial_states=())
    assert solution.status[0] == Status.OK
    assert abs(solution.sensitivities[0, 0, 0, 0] / 5.9548404e-4 - 1) < math.sqrt(rtol)


@pytest.mark.parametrize("rtol", [1e-11, 1e-12])
def test_the_tightest_tolerances_are_checked_against_looser_ones(rtol):
    # 2.4e-5 and 1.73e-5 in place of 1.78e-5, when they were compared with themselves
    model = OdeModel(van_der_pol, ("y", "v"), ("mu",), "LSODA", rtol=rtol, atol=1e-3 * rtol, max_steps=300_000)
    solution = model.solve_with_sensitivities([[1e5]], [2.0, 0.0], [2e5], t0=0.0, initial_states=())
    error = abs(solution.sensitivities[0, 0, 0, 0] / 1.783e-5 - 1)
    assert solution.status[0] == Status.NO_SENSITIVITIES or error < 0.02


@pytest.mark.parametrize("method", cases(["LSODA", "Rodas5P", "auto"], {"auto"}))
def test_robertson(method):
    p, start, times = np.array([0.04, 1e4, 3e7]), np.array([1.0, 0.0, 0.0]), np.geomspace(1e-3, 1e3, 7)
    model = OdeModel(robertson, tuple("abc"), ("k1", "k2", "k3"), method, atol=1e-12)
    solution = model.solve_with_sensitivities([p], start, times, t0=0.0, initial_states=())
    assert solution.status[0] == Status.OK
    slopes = exact(robertson, p, start, times)
    # the tolerance is 1e-6 per step; the differences' own error is 1e-6 of theirs, and Radau's 1e-9 over 1e-3
    assert (np.abs(solution.sensitivities[0] - slopes).max(axis=0) / np.abs(slopes).max(axis=0)).max() < 1e-3


def test_hires():
    arguments = [[1.71, 0.43, 280.0]], [1, 0, 0, 0, 0, 0, 0, 0.0057], np.linspace(10.0, 321.8122, 5)
    models = (
        OdeModel(hires, tuple("abcdefgh"), ("k1", "k2", "k3"), method, **settings, max_steps=100_000)
        for method, settings in (("LSODA", {}), ("Rodas5P", {}), ("RK45", {"rtol": 1e-11, "atol": 1e-14}))
    )
    *ours, tight = (model.solve_with_sensitivities(*arguments, t0=0.0) for model in models)
    scale = np.abs(tight.sensitivities).max(axis=1)
    for found in ours:
        assert found.status[0] == tight.status[0] == Status.OK
        assert (np.abs(found.sensitivities - tight.sensitivities).max(axis=1) / scale).max() < 1e-3


@pytest.mark.parametrize("method", ["RK45", "LSODA", "Rodas5P"])
def test_sensitivities_that_cancel_are_refined(method):
    """A comet's: they grow a hundredfold as it passes the sun, and are gone on the other side."""

    def comet(t, x, p):
        a, b, u, v = x
        cube = (a * a + b * b) ** 1.5
        return u, v, -p[0] * a / cube, -p[0] * b / cube

    start, times = [1.99, 0.0, 0.0, math.sqrt(0.01 / 1.99)], [0.0, 4 * math.pi]
    model = OdeModel(comet, tuple("abuv"), ["mu"], method, max_steps=100_000)
    solution = model.solve_with_sensitivities([[1.0]], start, times)
    tight = OdeModel(comet, tuple("abuv"), ["mu"], max_steps=1_000_000, rtol=1e-12, atol=1e-14)
    exact = tight.solve_with_sensitivities([[1.0]], start, times).sensitivities[0, -1]
    assert solution.status[0] == Status.OK
    assert np.abs(solution.sensitivities[0, -1] - exact).max() < 0.05 * np.abs(exact).max()


@pytest.mark.parametrize("method", ["RK45", "LSODA", "Rodas5P"])
@pytest.mark.parametrize("control", ["full", "states"])
def test_states_are_those_of_solve_to_the_bit(method, control):
    model = OdeModel(van_der_pol, ("y", "v"), ("mu",), method, error_control=control)
    arguments = [[5.0], [20.0]], [2.0, 0.0], np.linspace(0.0, 30.0, 50)
    states, solution = model.solve(*arguments), model.solve_with_sensitivities(*arguments)
    np.testing.assert_array_equal(solution.states, states.states)
    forward = model.observe(arguments[2], (2.0, 0.0))
    np.testing.assert_array_equal(forward(arguments[0]), forward.linearize(np.array(arguments[0]))[0])


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_sensitivities_that_overflow_have_a_status_of_their_own(method):
    # an unstable state of rest: nothing moves, and the sensitivity to where it begins is exp(p t)
    rest = OdeModel(lambda t, x, p: (p[0] * x[0],), ["x"], ["p"], method)
    solution = rest.solve_with_sensitivities([[1.0], [-1.0], [0.5]], [0.0], [0.0, 800.0])
    assert solution.status.tolist() == [Status.NO_SENSITIVITIES, Status.OK, Status.OK]
    np.testing.assert_array_equal(solution.states, 0.0)
    assert np.isnan(solution.sensitivities[0]).all() and np.isfinite(solution.sensitivities[1:]).all()
    assert abs(math.log(solution.sensitivities[2, 1, 0, 1]) / 400 - 1) < 1e-4


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_sensitivities_that_need_too_many_steps_have_the_status(method):
    steps = OdeModel(van_der_pol, ("y", "v"), ("mu",), method).solve([[50.0]], [2.0, 0.0], [0.0, 100.0]).steps[0]
    tight = OdeModel(van_der_pol, ("y", "v"), ("mu",), method, max_steps=int(steps))
    solution = tight.solve_with_sensitivities([[50.0]], [2.0, 0.0], [0.0, 100.0])
    assert solution.status[0] == Status.NO_SENSITIVITIES
    assert np.isfinite(solution.states).all() and np.isnan(solution.sensitivities).all()


def test_without_accuracy_left_there_are_none():
    # jumps so sharp that no tolerance above rounding leaves a digit
    model = OdeModel(van_der_pol, ("y", "v"), ("mu",), "LSODA", max_steps=200_000)
    solution = model.solve_with_sensitivities([[1e6]], [2.0, 0.0], [0.0, 2e6], initial_states=())
    assert solution.status[0] == Status.NO_SENSITIVITIES and np.isfinite(solution.states).all()


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_what_has_died_away_is_no_loss_of_accuracy(method):
    # the start is forgotten: a sensitivity of 1e-17 needs no digits
    decay = OdeModel(lambda t, x, p: (-p[0] * x[0],), ["x"], ["p"], method)
    solution = decay.solve_with_sensitivities([[1.0], [30.0]], [1.0], [40.0], t0=0.0)
    assert (solution.status == Status.OK).all() and (np.abs(solution.sensitivities) < 1e-8).all()
    plain = OdeModel(lambda t, x, p: (-p[0] * x[0],), ["x"], ["p"], method, error_control="states")
    again = plain.solve_with_sensitivities([[1.0], [30.0]], [1.0], [40.0], t0=0.0)
    assert (solution.evaluations < 3 * again.evaluations).all()


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_the_size_of_a_parameter_does_not_matter(method):
    # x' = -c p x: the sensitivity is that of c = 1, times c
    for unit in (1e-7, 1.0, 1e7):
        model = OdeModel(lambda t, x, p, c=unit: (-c * p[0] * x[0] * (x[0] - 2),), ["x"], ["p"], method)
        solution = model.solve_with_sensitivities([[0.7 / unit]], [1.5], [0.0, 1.0, 3.0], initial_states=())
        # x / (2 - x) = 3 exp(2 p t), so that x = 2 - 2 / (1 + 3 exp(2 p t))
        growth = 3 * np.exp(1.4 * np.array([1.0, 3.0]))
        slope = unit * np.array([1.0, 3.0]) * 4 * growth / (1 + growth) ** 2
        np.testing.assert_allclose(solution.sensitivities[0, 1:, 0, 0], slope, rtol=1e-4)


def test_a_parameter_at_zero_keeps_its_sensitivity_under_control():
    # with an absolute tolerance of atol / |p| nothing would be
    for value in (0.0, 1e-300, 1e-12):
        model = OdeModel(lambda t, x, p: (x[1] + p[0] * math.cos(20 * t), -400 * x[0]), tuple("xv"), ["p"], rtol=1e-8)
        solution = model.solve_with_sensitivities([[value]], [0.0, 0.0], [0.0, 3.0], initial_states=())
        # resonance: x = p (t cos 20t / 2 + sin 20t / 40)
        assert abs(solution.sensitivities[0, 1, 0, 0] - (1.5 * math.cos(60) + math.sin(60) / 40)) < 1e-5


def test_an_event_leaves_the_sensitivities_before_it():
    ball = OdeModel(lambda t, x, p: (x[1], -p[0]), tuple("hv"), ["g"], stop=lambda t, x, p: x[0])
    solution = ball.solve_with_sensitivities([[9.81]], [1.0, 0.0], [0.0, 0.2, 0.4, 0.6])
    assert solution.status[0] == Status.STOPPED
    np.testing.assert_allclose(solution.sensitivities[0, :3, 0, 0], [0, -0.02, -0.08], atol=1e-9)
    assert np.isnan(solution.sensitivities[0, 3]).all()


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_nothing_to_differentiate_by_and_nothing_that_was_solved(method):
    growth = OdeModel(lambda t, x, p: (x[0] * x[0],), ["x"], [], method)
    none = growth.solve_with_sensitivities(np.empty((2, 0)), [[0.1], [math.nan]], [0.0, 1.0], initial_states=())
    assert none.sensitivities.shape == (2, 2, 1, 0) and none.status.tolist() == [Status.OK, Status.NON_FINITE]
    failed = growth.solve_with_sensitivities(np.empty((2, 0)), [math.nan], [0.0, 1.0])
    assert np.isnan(failed.sensitivities).all() and failed.sensitivities.shape == (2, 2, 1, 1)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_sensitivities_far_above_a_tiny_state_overflow_in_silence(method):
    """The tests' settings turn a warning of NumPy that arises in the package into an error."""
    model = OdeModel(lambda t, x, p: (p[0] * 1e300 - x[0],), ("x",), ("p",), method)
    solution = model.solve_with_sensitivities([[1e-310]], [0.0], [0.0, 1.0])
    assert solution.status[0] in (Status.OK, Status.NO_SENSITIVITIES)
