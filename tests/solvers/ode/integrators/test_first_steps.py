"""The first step of a trajectory: states at rest have no time scale, and later changes must not be missed."""

from __future__ import annotations

import numpy as np
import pytest
from optional_methods import CVODE

from invsamp.solvers.ode import OdeModel

RISE, HEIGHT, DRIFT = 0.2, 100.0, 1e-8


def pulse(t, x, p):
    """Next to nothing at the start, then a pulse that is over before the first output."""
    return (DRIFT + HEIGHT * np.exp(-t / p[0]) * (1.0 - np.exp(-t / RISE)),)


def dose(t, x, p):
    """A pulse of area 1 that rises and falls by its own times, on a decay."""
    fall, rise = p
    both = 1.0 / (1.0 / fall + 1.0 / rise)
    return (np.exp(-t / fall) * (1.0 - np.exp(-t / rise)) / (fall - both) - 0.1 * (x[0] - 1.0),)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Rodas5P", "LSODA", CVODE])
def test_a_pulse_at_the_start_is_seen(method):
    times, falls = np.array([5.0, 10.0]), np.array([[0.5], [0.02], [1e-3]])
    both = 1.0 / (1.0 / falls + 1.0 / RISE)
    area = falls * (1.0 - np.exp(-times / falls)) - both * (1.0 - np.exp(-times / both))
    model = OdeModel(pulse, ("x",), ("fall",), method=method)
    found = model.solve(falls, [1.0], times, t0=0.0).states[:, :, 0] - 1.0
    np.testing.assert_allclose(
        found, DRIFT * times + HEIGHT * area, rtol=5e-3 if method in ("LSODA", "CVODE") else 1e-3, atol=1e-6
    )
    assert (found > 4e-4).all()


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Rodas5P", "LSODA", CVODE])
def test_however_short_the_pulse(method):
    """Times of rise and fall over seven decades each: some trial step is as long as any pulse."""
    times = 10.0 ** np.arange(-9.0, -1.5, 0.5)
    times = np.stack([each.ravel() for each in np.meshgrid(times, times)], axis=1)
    model = OdeModel(dose, ("x",), ("fall", "rise"), method=method)
    found = model.solve(times, [1.0], [10.0], t0=0.0).states[:, 0, 0] - 1.0
    np.testing.assert_allclose(found, np.exp(-1.0), rtol=0.02)


def test_without_time_dependence_the_first_step_is_unchanged():
    """Evaluations as SciPy's, by the same steps."""
    from scipy.integrate import solve_ivp

    model = OdeModel(lambda t, x, p: (-p[0] * x[0] * x[1], p[0] * x[0] * x[1] - x[1]), ("s", "i"), ("rate",))
    ours = model.solve([[3.0]], [0.99, 0.01], [20.0], t0=0.0)
    theirs = solve_ivp(
        lambda t, x: (-3.0 * x[0] * x[1], 3.0 * x[0] * x[1] - x[1]), (0.0, 20.0), [0.99, 0.01], rtol=1e-6, atol=1e-9
    )
    assert ours.steps[0] == len(theirs.t) - 1
