"""Right-hand sides that jump at a threshold of a state are reported; kinks, declared jumps and times are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from invsamp.solvers.ode import Event, OdeModel

TIMES = np.linspace(0.0, 3.0, 7)
P = np.array([[0.7, 1.0], [0.8, 0.9]])


def at_a_state(t, x, p):
    """Full at 1, it fills at a third of the rate."""
    if x[0] > p[1]:
        return (p[0] / 3.0,)
    return (p[0],)


def small_step(t, x, p):
    if x[0] > 1.0:
        return (p[0] * 0.98 + np.sin(t),)
    return (p[0] + np.sin(t),)


def kinked(t, x, p):
    if x[0] > p[1]:
        return (p[0] - (x[0] - p[1]),)
    return (p[0],)


def at_a_time(t, x, p):
    if t > 1.3:
        return (-p[0] * x[0],)
    return (p[0],)


def smooth(t, x, p):
    if p[0] > 100.0:  # never here
        return (0.0,)
    return (p[0] * np.tanh(50.0 * (x[0] - p[1])),)


def model(rhs, **settings):
    return OdeModel(rhs, states=("level",), parameters=("rate", "edge"), **settings)


def slopes(made):
    """Sensitivities to the parameters, and central differences of the states."""
    found = made.solve_with_sensitivities(P, [0.0], TIMES, initial_states=())
    step = 1e-4
    moved = [[made.solve(P + sign * step * e, [0.0], TIMES).states for sign in (1, -1)] for e in np.eye(2)]
    return found.sensitivities[:, :, 0], np.stack([(a - b)[..., 0] / (2 * step) for a, b in moved], axis=-1)


@pytest.mark.parametrize(("rhs", "crossed"), [(at_a_state, "level or edge"), (small_step, "level")])
def test_jumps_are_reported(rhs, crossed):
    made = model(rhs, rtol=1e-9, atol=1e-9)
    with pytest.warns(UserWarning, match=rf"rhs jumps at t = .*, where {crossed} crosses a threshold.*Event"):
        found, differences = slopes(made)
    assert np.abs(found - differences).max() > 1e-3  # they are wrong indeed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slopes(made)  # reported once


@pytest.mark.parametrize("rhs", [kinked, at_a_time, smooth])
def test_what_does_no_harm_is_not(rhs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, differences = slopes(model(rhs, rtol=1e-9, atol=1e-9))
    np.testing.assert_allclose(found, differences, atol=1e-3)


def strictly_above(t, x, p):
    if x[0] > p[1]:
        return (p[0] / 3.0,)
    return (p[0],)


def strictly_below(t, x, p):
    if x[0] < p[1]:
        return (p[0],)
    return (p[0] / 3.0,)


@pytest.mark.parametrize("far", [0.0, 1e4])
@pytest.mark.parametrize("rhs", [strictly_above, strictly_below])
def test_declared_thresholds_are_right_on_whichever_side_they_count(rhs, far):
    """At the threshold itself the right-hand side may be that before it or that after it."""
    made = model(rhs, rtol=1e-9, atol=1e-9, events=[Event(when=lambda t, x, p: x[0] - p[1])])
    p = np.random.default_rng(0).uniform(0.6, 1.1, (20, 2))
    starts = np.full((20, 1), far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = made.solve_with_sensitivities(np.add(p, [0.0, far]), starts, TIMES, initial_states=()).sensitivities[
            :, :, 0
        ]
    rate, edge = p.T[:, :, None]
    after = edge / rate < TIMES
    by_rate, by_edge = np.where(after, TIMES / 3.0, TIMES), np.where(after, 2.0 / 3.0, 0.0)
    np.testing.assert_allclose(found, np.stack([by_rate, by_edge], axis=2), atol=1e-5)
