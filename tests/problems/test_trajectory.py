"""Made-up trajectories: clean states, exact derivatives, noise of the stated size."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.problems.trajectory import simulate
from invsamp.solvers.ode import OdeModel

TIMES = np.linspace(0.0, 10.0, 2001)


def oscillator(t, x, p):
    return x[1], -p[0] * x[0]


@pytest.fixture
def model():
    return OdeModel(oscillator, ("x", "v"), ("k",), method="RK45", rtol=1e-10, atol=1e-12)


def test_states_and_derivatives_are_those_of_the_closed_form(model):
    trajectory = simulate(model, {"k": 4.0, "unused": 1.0}, (1.0, 0.0), TIMES)
    exact = np.column_stack([np.cos(2 * TIMES), -2 * np.sin(2 * TIMES)])
    np.testing.assert_allclose(trajectory.clean, exact, atol=1e-8)
    np.testing.assert_allclose(trajectory.derivatives, np.column_stack([exact[:, 1], -4 * exact[:, 0]]), atol=1e-7)
    np.testing.assert_array_equal(trajectory.states, trajectory.clean)
    assert trajectory.noise_sd.tolist() == [0.0, 0.0]


def test_noise_is_relative_to_each_states_spread_and_comes_from_the_seed(model, within):
    first, again, other = (simulate(model, {"k": 4.0}, (1.0, 0.0), TIMES, noise=0.1, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.states, again.states)
    assert not np.any(first.states == other.states)
    np.testing.assert_allclose(first.noise_sd, 0.1 * first.clean.std(axis=0))
    scaled = (first.states - first.clean) / first.noise_sd
    # 2,001 draws: the sd's standard error is 1.6%; 5 of those leave one failure in a million
    assert within(scaled.std(axis=0) - 1.0, 5 * 0.0158)
    absolute = simulate(model, {"k": 4.0}, (1.0, 0.0), TIMES, noise_sd=(0.1, 0.4), seed=1)
    np.testing.assert_allclose((absolute.states - absolute.clean) / (0.1, 0.4), scaled, atol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": -0.1}, "noise must be a finite number >= 0, got -0.1"),
        ({"noise_sd": -0.1}, "noise_sd must be finite numbers >= 0, got -0.1"),
        ({"noise_sd": 0.1, "noise": 0.1}, "without noise, got 0.1, 0.1"),
        ({"times": [1.0, 0.0]}, "times must increase"),
        ({"initial": (np.nan, 0.0)}, "initial must be finite numbers"),
    ],
)
def test_refusals(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(model, {"k": 4.0}, **({"initial": (1.0, 0.0), "times": TIMES} | arguments))
