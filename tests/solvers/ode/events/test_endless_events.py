"""Events that never end have a status of their own, and words."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.ode import Event, OdeModel, Status


@pytest.mark.parametrize(
    "events",
    [
        # bounces that follow ever faster
        [Event(when=lambda t, x, p: x[0], change=lambda t, x, p: (0.0, -0.5 * x[1]), direction="down")],
        # what each of them changes sets off the other
        [
            Event(when=lambda t, x, p: x[0] - 0.5, change=lambda t, x, p: (2.0, x[1]), direction="down"),
            Event(when=lambda t, x, p: x[0] - 1.5, change=lambda t, x, p: (0.1, x[1]), direction="up"),
        ],
    ],
    ids=["ever faster", "each other"],
)
def test_endless_events(events) -> None:
    ball = OdeModel(lambda t, x, p: (x[1], -p[0]), ("height", "speed"), ("gravity",), events=events, method="RK45")
    seen = ball.observe([0.1, 9.0], initial=(1.0, 0.0), t0=0.0)
    assert ball.solve([[9.8]], [1.0, 0.0], [0.0, 9.0]).status[0] == Status.TOO_MANY_EVENTS
    assert np.isnan(seen(np.array([[9.8]]))).all()
    assert "TOO_MANY_EVENTS" in seen.message and "the events do not end" in seen.message.lower()
