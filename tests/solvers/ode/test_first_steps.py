"""The first step of a trajectory: states at rest tell of no time, and what moves them must not be passed by."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.ode import OdeModel

RISE, HEIGHT, DRIFT = 0.2, 100.0, 1e-8


def pulse(t, x, p):
    """Next to nothing at the start, then a pulse that is over before the first output."""
    return (DRIFT + HEIGHT * np.exp(-t / p[0]) * (1.0 - np.exp(-t / RISE)),)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Rodas5P"])
def test_a_pulse_at_the_start_is_seen(method):
    times, falls = np.array([5.0, 10.0]), np.array([[0.5], [0.02], [1e-3]])
    both = 1.0 / (1.0 / falls + 1.0 / RISE)
    area = falls * (1.0 - np.exp(-times / falls)) - both * (1.0 - np.exp(-times / both))
    model = OdeModel(pulse, ("x",), ("fall",), method=method)
    found = model.solve(falls, [1.0], times, t0=0.0).states[:, :, 0] - 1.0
    np.testing.assert_allclose(found, DRIFT * times + HEIGHT * area, rtol=1e-3, atol=1e-6)
    assert (found > 4e-4).all()
