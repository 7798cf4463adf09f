"""The fit of an emulator: lengths belong to the directions in which outputs change."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.emulation.emulator import emulator_fit
from invsamp.emulation.emulator.emulated_posterior import Emulator
from invsamp.emulation.emulator.outputs import output_scale
from invsamp.emulation.runs.simulation_runs import Simulations

OBLIQUE = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0]) / np.sqrt(6.0)
TIMES = np.linspace(0.5, 1.5, 4)


def simulator(theta: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * (theta @ OBLIQUE)[:, None] * TIMES) + 0.05 * theta[:, :4]


def emulated(points: int = 40) -> Emulator:
    prior = iv.Prior(x=iv.Normal(0.0, 1.0, shape=6))
    target = iv.Posterior(prior, simulator, np.zeros(4), iv.GaussianNoise(0.1))
    rng = np.random.default_rng(0)
    simulations = Simulations(target, 1000)
    simulations.run(target.sample_start(rng, points), "prior")
    scale = output_scale(simulations.noise, target.to_theta(target.sample_start(rng, 200)), rng)
    near = np.ones(points, dtype=bool)
    return emulator_fit.fit_emulator(simulations, scale, near, np.zeros(6), np.eye(6))


def error(emulator: Emulator) -> float:
    theta = np.random.default_rng(1).standard_normal((200, 6))
    predicted = emulator.components.decode(emulator.columns(theta)[0][:, :-2]).y
    return float(np.sqrt(np.square(predicted - simulator(theta)).mean()))


def test_an_oblique_direction_is_found_and_makes_errors_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = emulated()
    assert np.abs(emulator.whitening @ emulator.whitening.T - np.eye(6)).max() < 1e-9
    assert abs(emulator.whitening[-1] @ OBLIQUE) > 0.95
    monkeypatch.setattr(emulator_fit, "_axes", lambda x, values: np.eye(x.shape[1]))
    assert error(emulator) < 0.7 * error(emulated())
