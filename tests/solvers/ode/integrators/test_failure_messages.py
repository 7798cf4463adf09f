"""Every status has its words."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.ode.integrators.failure_messages import failure
from invsamp.solvers.ode.integrators.status import Status


@pytest.mark.parametrize("method", ["RK45", "DOP853", "LSODA", "auto"])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.TOO_MANY_STEPS, "100 steps do not reach the end.* a larger max_steps, or a looser rtol"),
        (Status.NON_FINITE, "The solution diverges, or leaves the domain of rhs"),
        (Status.STEP_TOO_SMALL, "The solution diverges, or rhs jumps: .*breakpoints"),
        (Status.STOPPED, "The event of stop= came before the last observation"),
        (Status.STIFF, "(The system is stiff: )?100 (explicit )?steps do not reach the end"),
        (Status.TOO_MANY_EVENTS, "The events do not end within 100 steps: "),
        (Status.NO_SENSITIVITIES, "The states were solved, .* Try method=.*, a larger max_steps"),
    ],
)
def test_a_status_message_has_a_suggestion(status, words, method):
    statuses, ended = np.array([Status.OK, status, Status.NON_FINITE]), np.array([2.0, 0.25, 0.5])
    said = failure(statuses, ended, 2.0, method=method, max_steps=100)
    head = rf"{status.name} by {method} after t = 0.25 of 2 \(2 of 3 trajectories failed\)\. "
    with pytest.raises(ValueError, match=head + words):
        raise ValueError(said)
    # another method is no help where there are too many steps for LSODA
    other = "RK45" if method == "LSODA" else "LSODA"
    suggested = status == Status.NO_SENSITIVITIES or (status == Status.STIFF and method != "auto")
    assert (f'method="{other}"' in said) == suggested


def test_success_is_silent():
    assert failure(np.zeros(3, dtype=int), np.ones(3), 1.0, method="RK45", max_steps=1) is None
