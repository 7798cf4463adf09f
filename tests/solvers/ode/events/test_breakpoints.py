"""Pulses and switches at times of their own are found, however short, and sensitivities know when they are."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from invsamp.solvers.ode import Event, OdeModel
from invsamp.solvers.ode.model import ode_solver as solver_module

HORIZON = 10.0
NAMES = ("area", "center", "width", "rate")


def gaussian(t, x, p):
    return (p[0] / p[2] * np.exp(-(((t - p[1]) / p[2]) ** 2)) - p[3] * x[0],)


def rectangle(t, x, p):
    return (p[0] / p[2] * np.where((t > p[1]) & (t < p[1] + p[2]), 1.0, 0.0) - p[3] * x[0],)


def branching(t, x, p):
    inflow = 0.0
    if p[1] < t < p[1] + p[2]:
        inflow = p[0] / p[2]
    return (inflow - p[3] * x[0],)


def periodic(t, x, p):
    """Once in the horizon."""
    return (p[0] / p[2] * np.where((t - p[1]) % 10.0 < p[2], 1.0, 0.0) - p[3] * x[0],)


def of_two_steps(t, x, p):
    steep = 20.0 / p[2]
    on, off = np.tanh(steep * (t - p[1])), np.tanh(steep * (t - p[1] - p[2]))
    return (p[0] / p[2] * 0.5 * (on - off) - p[3] * x[0],)


def triangle(t, x, p):
    return (p[0] / p[2] * np.maximum(0.0, 1.0 - np.abs((t - p[1]) / p[2])) - p[3] * x[0],)


def absorbed(t, x, p):
    since = (t - p[1]) / p[2]
    return (p[0] / p[2] * np.where(since > 0.0, since * np.exp(-since), 0.0) - p[3] * x[0],)


def on_a_background(t, x, p):
    pulse = np.exp(-(((t - p[1]) / p[2]) ** 2)) / p[2]
    return (p[0] * (pulse + 0.1) * (1.0 + 0.5 * np.sin(t)) - 0.1 * p[0] * (1.0 + 0.5 * np.sin(t)) - p[3] * x[0],)


#: Right-hand sides with what their pulses add in the limit of no width, in units of the area at the center.
PULSES = {
    gaussian: math.sqrt(math.pi), rectangle: 1.0, branching: 1.0, periodic: 1.0, of_two_steps: 1.0, triangle: 1.0,
    absorbed: 1.0,
}  # fmt: skip


def late_pulses(width, count=40, seed=0):
    """Parameters of pulses of this width."""
    rng = np.random.default_rng(seed)
    rows = np.ones((count, 4))
    rows[:, 1], rows[:, 2], rows[:, 3] = rng.uniform(3.0, 9.0, count), width * HORIZON, rng.uniform(0.05, 0.5, count)
    return rows


def missed(rhs, p, expected, **settings):
    """Share of trajectories from 1 that end more than a hundredth off."""
    end = OdeModel(rhs, ("x",), NAMES, **settings).solve(p, [1.0], [HORIZON], t0=0.0).states[:, 0, 0]
    return np.mean(~(np.abs(end / expected - 1.0) < 0.01))


def limits(p, height=1.0):
    return np.exp(-p[:, 3] * HORIZON) + height * p[:, 0] * np.exp(-p[:, 3] * (HORIZON - p[:, 1]))


@pytest.mark.parametrize("rhs", PULSES)
def test_no_pulse_is_stepped_over(rhs, monkeypatch):
    for width in (1e-3, 1e-5):
        p = late_pulses(width)
        expected = limits(p, PULSES[rhs])
        assert missed(rhs, p, expected) == 0.0
    # control: steps alone find few
    monkeypatch.setattr(solver_module, "with_own_breakpoints", lambda course, *_: course)
    assert missed(rhs, p, expected) > 0.5


@pytest.mark.parametrize("method", ["DOP853", "LSODA", "Rodas5P"])
def test_nor_by_another_method(method):
    p = late_pulses(1e-4, 10)
    assert missed(gaussian, p, limits(p, math.sqrt(math.pi)), method=method) == 0.0


def test_a_pulse_beside_waves():
    p = late_pulses(1e-4)
    expected = limits(p, math.sqrt(math.pi) * (1.0 + 0.5 * np.sin(p[:, 1])))
    assert missed(on_a_background, p, expected) == 0.0


def test_the_pulse_of_the_documentation():
    def rhs(t, x, p):
        return (p[0] * np.exp(-(((t - p[1]) / p[2]) ** 2)) - p[3] * x[0],)

    model = OdeModel(rhs, ("x",), NAMES)
    p, times = [[10.0, 5.0, 0.1, 0.1]], [1.0, 3.0, 6.0, 9.0, 10.0]
    solution = model.solve_with_sensitivities(p, [1.0], times, t0=0.0)
    # e^(-k t) + a w sqrt(pi) e^(-k (t - c) + (k w / 2)^2) after the pulse
    at_6 = math.exp(-0.6) + math.sqrt(math.pi) * math.exp(-0.1 + 0.005**2)
    assert solution.states[0, 2, 0] == pytest.approx(at_6, rel=1e-5)


SWITCHING = {
    "fixed order": rectangle,
    "a branch": branching,
    "a square of time": lambda t, x, p: (np.where((t - p[1]) ** 2 < p[2], p[0], 0.0) * x[0] - p[3] * x[0],),
    "waves": lambda t, x, p: (np.where(np.sin(t / p[1] + p[2]) > 0.3, p[0], 0.0) - p[3] * x[0],),
    "periods": lambda t, x, p: (np.where(t % p[1] < p[2], p[0], 0.0) - p[3] * x[0],),
}


@pytest.mark.parametrize("name", SWITCHING)
@pytest.mark.parametrize("method", ["RK45", "DOP853", "Taylor", "LSODA"])
def test_sensitivities_to_the_times_of_switches(name, method):
    if method == "Taylor" and name in ("fixed order", "a branch"):  # which do not trace
        with pytest.raises(ValueError, match="Taylor series, but rhs must be traceable"):
            OdeModel(SWITCHING[name], ("x",), NAMES, method)
        return
    model = OdeModel(SWITCHING[name], ("x",), NAMES, method, rtol=1e-9, atol=1e-11)
    p, times, step = np.array([[2.0, 2.3, 0.5, 0.3]]), np.linspace(0.0, 8.0, 9), 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that they may be wrong
        found = model.solve_with_sensitivities(p, [1.0], times, initial_states=()).sensitivities[0, :, 0]
    moved = [[model.solve(p + sign * step * e, [1.0], times).states[0, :, 0] for sign in (1, -1)] for e in np.eye(4)]
    differences = np.stack([(a - b) / (2 * step) for a, b in moved], axis=-1)
    assert np.abs(differences[:, 1:3]).max() > 0.1  # they depend on the times
    np.testing.assert_allclose(found, differences, atol=1e-5 * np.abs(differences).max())
    # a forward model asks for the columns that it needs
    forward = model.observe(times[1:], (1.0,), t0=0.0, given={"area": 2.0, "rate": 0.3})
    np.testing.assert_allclose(forward.jacobian(p[:, 1:3])[1][0], found[1:, 1:3], atol=1e-5 * np.abs(found).max())


def test_a_declared_time_counts_once():
    p, times = np.array([[2.0, 2.3, 0.5, 0.3]]), np.linspace(0.0, 8.0, 9)
    plain, declared, dosed = (
        OdeModel(rectangle, ("x",), NAMES, rtol=1e-9, atol=1e-11, **settings)
        for settings in (
            {},
            {"breakpoints": ("center", "center + width")},
            {"doses": [("center", {"x": 0.0})]},
        )
    )
    expected = plain.solve_with_sensitivities(p, [1.0], times)
    for model in (declared, dosed):
        found = model.solve_with_sensitivities(p, [1.0], times)
        np.testing.assert_allclose(found.sensitivities, expected.sensitivities, atol=1e-6)
        np.testing.assert_allclose(found.states, expected.states, rtol=1e-8)


def test_what_does_not_depend_on_time_is_solved_to_the_bit_as_before(monkeypatch):
    def lotka_volterra(t, x, p):
        return (p[0] * x[0] - x[0] * x[1], x[0] * x[1] - p[1] * x[1])

    def driven(t, x, p):
        return (x[1], -x[0] - p[0] * x[1] + p[1] * np.cos(2.0 * t) + np.exp(-t / 5.0))

    for rhs in (lotka_volterra, driven):
        model = OdeModel(rhs, ("x", "y"), ("a", "b"))
        arguments = np.random.default_rng(0).uniform(0.5, 1.5, (5, 2)), [1.0, 0.5], np.linspace(0.0, 20.0, 11)
        found = model.solve_with_sensitivities(*arguments)
        with monkeypatch.context() as patched:
            patched.setattr(solver_module, "with_own_breakpoints", lambda course, *_: course)
            before = model.solve_with_sensitivities(*arguments)
        np.testing.assert_array_equal(found.states, before.states)
        np.testing.assert_array_equal(found.sensitivities, before.sensitivities)
        np.testing.assert_array_equal(found.evaluations, before.evaluations)


def test_more_switches_than_at_first_there_is_room_for():
    def rhs(t, x, p):
        return (np.where(np.sin(p[0] * t) > 0.0, 1.0, 0.0),)

    model = OdeModel(rhs, ("x",), ("frequency",))
    solution = model.solve([[2.0 * math.pi * 40.0]], [0.0], [2.0], t0=0.0)  # 160 switches
    assert solution.states[0, 0, 0] == pytest.approx(1.0, rel=1e-9)
    few = OdeModel(rhs, ("x",), ("frequency",), max_steps=100)
    assert few.solve([[2.0 * math.pi * 40.0]], [0.0], [2.0], t0=0.0).status[0] == 1  # TOO_MANY_STEPS


def test_the_longest_step():
    def rhs(t, x, p):  # a pulse as the state passes by
        return (1.0, 1e4 * np.exp(-(((x[0] - 5.05) / 1e-3) ** 2)))

    times, area = [10.0], 10.0 * math.sqrt(math.pi)
    for method in ("RK45", "DOP853", "Rodas5P", "LSODA"):
        short = OdeModel(rhs, ("x", "y"), (), method, max_step=5e-3)
        found = short.solve(np.empty((1, 0)), [0.0, 0.0], times, t0=0.0)
        assert found.states[0, 0, 1] == pytest.approx(area, rel=1e-2)
        assert found.steps[0] >= 2000
    free = OdeModel(rhs, ("x", "y"), (), "RK45").solve(np.empty((1, 0)), [0.0, 0.0], times, t0=0.0)
    assert abs(free.states[0, 0, 1]) < 0.01 * area  # what it is for
    with pytest.raises(ValueError, match="max_step must be"):
        OdeModel(rhs, ("x", "y"), (), max_step=0.0)


def test_events_at_times_of_their_own_are_all_seen():
    when = lambda t, x, p: np.sin(t) - p[0]  # noqa: E731
    event = Event(when=when, change=lambda t, x, p: (x[0] + 1.0,))
    model = OdeModel(lambda t, x, p: (0.0 * x[0],), ("count",), ("level",), events=(event,))
    levels = np.array([[0.9], [0.999], [0.9999], [1.0 - 1e-9]])
    np.testing.assert_allclose(model.solve(levels, [0.0], [19.0], t0=0.0).states[:, 0, 0], 6.0)
