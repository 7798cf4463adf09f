"""Events that a function passes and turns back from within one step."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.ode import Event, OdeModel


def counted(level, direction, method="RK45", rtol=1e-6):
    """Events of a sine at a level in three periods."""
    event = Event(
        when=lambda t, x, p: x[0] - p[0], change=lambda t, x, p: (x[0], x[1], x[2] + 1.0), direction=direction
    )
    model = OdeModel(
        lambda t, x, p: (x[1], -x[0], 0.0), ("x", "v", "n"), ("level",), method, rtol, 1e-3 * rtol, events=(event,)
    )
    return model.solve([[level]], [0.0, 1.0, 0.0], [19.0], t0=0.0).states[0, 0, 2]


@pytest.mark.parametrize("level", [0.9, 0.999, 0.9999])
@pytest.mark.parametrize(("direction", "number"), [("both", 6), ("up", 3), ("down", 3)])
def test_grazing_events_are_seen(level, direction, number):
    for method in ("RK45", "DOP853", "Rodas5P"):
        assert counted(level, direction, method, 1e-8) == number
    assert counted(level, direction) == number
    # control: what it does not reach
    assert counted(1.001, direction) == 0


def test_sensitivities_through_a_grazing_event():
    # x = sin(t) passes up through the level at asin(level), and y grows from there until it passes down
    events = [
        Event(when=lambda t, x, p: x[0] - p[0], change=lambda t, x, p: (x[0], x[1], 1.0, x[3]), direction="up"),
        Event(when=lambda t, x, p: x[0] - p[0], change=lambda t, x, p: (x[0], x[1], 0.0, x[3]), direction="down"),
    ]
    model = OdeModel(
        lambda t, x, p: (x[1], -x[0], 0.0, x[2]), ("x", "v", "on", "y"), ("level",), rtol=1e-8, events=events
    )
    solution = model.solve_with_sensitivities([[0.999]], [0.0, 1.0, 0.0, 0.0], [3.0], t0=0.0, initial_states=())
    assert solution.states[0, 0, 3] == pytest.approx(np.pi - 2 * np.arcsin(0.999), rel=1e-4)
    assert solution.sensitivities[0, 0, 3, 0] == pytest.approx(-2 / np.sqrt(1 - 0.999**2), rel=1e-3)


def test_two_events_that_graze_in_one_step_come_in_order():
    # that of the lower level comes first, and notes a count of 0 and 5 more
    events = [
        Event(
            when=lambda t, x, p: x[0] - 0.9995, change=lambda t, x, p: (x[0], x[1], x[2] + 1.0, x[3]), direction="up"
        ),
        Event(when=lambda t, x, p: x[0] - 0.999, change=lambda t, x, p: (x[0], x[1], x[2], x[2] + 5.0), direction="up"),
    ]
    model = OdeModel(lambda t, x, p: (x[1], -x[0], 0.0, 0.0), ("x", "v", "n", "note"), (), events=events)
    end = model.solve(np.empty((1, 0)), [0.0, 1.0, 0.0, 0.0], [7.0], t0=0.0).states[0, 0]
    assert end[2] == 1.0 and end[3] == 5.0
