"""Taylor's method: errors within the tolerance, sensitivities, values between steps, stiffness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.ode import Event, OdeModel, Status
from invsamp.solvers.ode.integrators.taylor import order_of

ECCENTRICITY, TIMES = 0.5, np.linspace(0.0, 12.0, 41)


def kepler(t, x, p):
    cube = (x[0] ** 2 + x[1] ** 2) ** 1.5
    return x[2], x[3], -p[0] * x[0] / cube, -p[0] * x[1] / cube


def orbit(times, mass):
    """States (n_times, 4) from the perihelion at time 0, by Kepler's equation; of a complex mass, too."""
    e, rate = ECCENTRICITY, mass**0.5
    angle = rate * times + e * np.sin(rate * times)
    for _ in range(50):
        angle = angle - (angle - e * np.sin(angle) - rate * times) / (1 - e * np.cos(angle))
    root, speed = math.sqrt(1 - e * e), rate / (1 - e * np.cos(angle))
    return np.stack([np.cos(angle) - e, root * np.sin(angle), -speed * np.sin(angle), speed * root * np.cos(angle)], 1)


def model_of(rtol, method="Taylor", rhs=kepler, **settings):
    return OdeModel(rhs, ("x", "y", "u", "v"), ("mass",), method, rtol=rtol, atol=1e-3 * rtol, **settings)


def start(mass):
    return orbit(np.zeros(1), mass)[0]


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-9, 1e-12])
def test_errors_and_those_of_sensitivities_are_of_the_order_of_the_tolerance(rtol):
    mass, model = 1.3, model_of(rtol)
    solution = model.solve_with_sensitivities([[mass]], start(mass), TIMES, initial_states=())
    assert solution.status[0] == Status.OK
    np.testing.assert_array_equal(solution.states, model.solve([[mass]], start(mass), TIMES).states)
    # the start does not depend on the mass here, as in the closed solution it does
    seeds = model.solve_with_sensitivities([[mass]], start(mass), TIMES)
    slopes = seeds.sensitivities[0, :, :, 0] + seeds.sensitivities[0, :, :, 1:] @ (start(mass + 1e-30j).imag / 1e-30)
    exact = orbit(TIMES, mass + 1e-30j)
    assert np.abs(solution.states[0] - exact.real).max() < 30 * rtol
    assert np.abs(slopes - exact.imag / 1e-30).max() < 100 * rtol * np.abs(exact.imag / 1e-30).max()
    # control: a tolerance that is looser by a hundred has errors that would fail
    loose = model_of(min(1e3 * rtol, 0.1)).solve([[mass]], start(mass), TIMES)
    assert np.abs(loose.states[0] - exact.real).max() > 30 * rtol or rtol > 1e-4


def test_the_order_grows_with_the_logarithm_of_the_tolerance_and_steps_hardly():
    """Jorba and Zou: ceil(1 - ln(r) / 2)."""
    assert [order_of(rtol) for rtol in (1e-3, 1e-6, 1e-9, 1e-12, 1e-13)] == [5, 8, 12, 15, 16]
    steps = [model_of(rtol).solve([[1.0]], start(1.0), TIMES).steps[0] for rtol in (1e-4, 1e-12)]
    assert steps[1] < 1.5 * steps[0]
    assert model_of(1e-12, "DOP853").solve([[1.0]], start(1.0), TIMES).steps[0] > 1.5 * steps[1]


def test_values_between_steps_do_not_depend_on_which_are_asked_for():
    fine = np.linspace(0.0, 12.0, 401)
    model = model_of(1e-8)
    some = model.solve_with_sensitivities([[1.0], [1.1]], start(1.0), TIMES)
    all_of_them = model.solve_with_sensitivities([[1.0], [1.1]], start(1.0), fine)
    np.testing.assert_array_equal(some.states, all_of_them.states[:, ::10])
    np.testing.assert_allclose(some.sensitivities, all_of_them.sensitivities[:, ::10], rtol=1e-12, atol=1e-12)


def test_sensitivities_take_shorter_steps_where_states_rest():
    rest = OdeModel(lambda t, x, p: (p[0] * (p[1] - x[0]),), ["x"], ["rate", "level"], "Taylor", rtol=1e-8)
    times = np.linspace(0.0, 3.0, 31)
    solution = rest.solve_with_sensitivities([[4.0, 2.0]], [2.0], times, initial_states=())
    np.testing.assert_array_equal(solution.states, 2.0)
    np.testing.assert_allclose(solution.sensitivities[0, :, 0, 1], 1 - np.exp(-4.0 * times), rtol=1e-7, atol=1e-8)


def test_an_event_is_found_on_the_polynomial():
    # the state passes 1 at log(p) / k, and is doubled there
    double = Event(when=lambda t, x, p: x[0] - 1.0, change=lambda t, x, p: (2.0 * x[0],), direction="down")
    model = OdeModel(lambda t, x, p: (-p[0] * x[0],), ["x"], ["k"], "Taylor", rtol=1e-10, atol=1e-11, events=(double,))
    times, k = np.array([0.5, 1.0, 1.5]), 0.9
    forward = model.observe(times, (math.e,), t0=0.0)
    y, slopes = forward.jacobian(np.array([[k]]))
    passed = np.array([1.0, 1.0, 2.0])
    np.testing.assert_allclose(y[0], passed * np.exp(1.0 - k * times), rtol=1e-9)
    np.testing.assert_allclose(slopes[0, :, 0], -times * passed * np.exp(1.0 - k * times), rtol=1e-8)


def test_stiffness_is_reported():
    def stiff(t, x, p):
        return -p[0] * (x[0] - np.cos(t)), p[0] * (x[0] - x[1])

    given, times = [[1e6], [1e6]], [0.0, 1.0, 10.0]
    alone = OdeModel(stiff, ("x", "y"), ("k",), "Taylor").solve(given, [1.0, 1.0], times)
    assert (alone.status == Status.STIFF).all()
    auto = OdeModel(stiff, ("x", "y"), ("k",), rtol=1e-8).solve(given, [1.0, 1.0], times)
    assert (auto.status == Status.OK).all() and auto.switched.all()
    np.testing.assert_allclose(auto.states[0, -1], np.cos(10.0), rtol=1e-5)


def test_the_default_takes_it_at_tight_tolerances_where_it_can():
    assert model_of(1e-8, "auto").method_used == "Taylor"
    assert model_of(1e-7, "auto").method_used == "RK45"
    choosing = model_of(1e-8, "auto", rhs=lambda t, x, p: (x[2], x[3], -p[0] * abs(x[0]), -p[0] * x[1]))
    assert choosing.method_used == "DOP853"
    # where the series begins with no number, another explicit method is tried
    root = OdeModel(lambda t, x, p: (1.0 - p[0] * x[0] ** 1.5,), ["x"], ["k"], rtol=1e-9)
    assert root.method_used == "Taylor"
    solution = root.solve([[0.5]], [0.0], [0.0, 30.0])
    assert solution.status[0] == Status.OK and abs(solution.states[0, 1, 0] - 2 ** (2 / 3)) < 1e-8
