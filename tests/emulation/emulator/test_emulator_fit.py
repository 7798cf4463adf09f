"""The fit of an emulator: lengths belong to the directions that make the outputs more probable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import invsamp as iv
from invsamp.emulation.emulator.emulated_posterior import Emulator
from invsamp.emulation.emulator.emulator_fit import fit_emulator
from invsamp.emulation.emulator.outputs import output_scale
from invsamp.emulation.runs.simulation_runs import Simulations

OBLIQUE = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0]) / np.sqrt(6.0)
TIMES = np.linspace(0.5, 1.5, 4)
Model = Callable[[np.ndarray], np.ndarray]


def oblique(theta: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * (theta @ OBLIQUE)[:, None] * TIMES) + 0.05 * theta[:, :4]


def separate(theta: np.ndarray) -> np.ndarray:
    return np.sin(3.0 * theta[:, :1] * TIMES) + theta[:, 1:5]


def emulated(model: Model, rotated: bool, seed: int) -> Emulator:
    prior = iv.Prior(x=iv.Normal(0.0, 1.0, shape=6))
    target = iv.Posterior(prior, model, np.zeros(4), iv.GaussianNoise(0.1))
    rng = np.random.default_rng(seed)
    simulations = Simulations(target, 1000)
    simulations.run(target.sample_start(rng, 40), "prior")
    scale = output_scale(simulations.noise, target.to_theta(target.sample_start(rng, 200)), rng)
    near = np.ones(40, dtype=bool)
    return fit_emulator(simulations, scale, near, np.zeros(6), np.eye(6), iterations=60, rotated=rotated)


def error(model: Model, emulator: Emulator) -> float:
    theta = np.random.default_rng(1).standard_normal((200, 6))
    predicted = emulator.components.decode(emulator.columns(theta)[0][:, :-2]).y
    return float(np.sqrt(np.square(predicted - model(theta)).mean()))


def test_an_oblique_direction_has_a_length_of_its_own_and_makes_errors_smaller() -> None:
    ratios = []
    for seed in range(3):
        emulator = emulated(oblique, True, seed)
        assert np.abs(emulator.whitening @ emulator.whitening.T - np.eye(6)).max() < 1e-9
        ratios.append(error(oblique, emulator) / error(oblique, emulated(oblique, False, seed)))
    assert max(ratios) < 0.8  # at most .62 for seeds 0 to 19


def test_inputs_that_act_separately_keep_lengths_of_their_own() -> None:
    for seed in range(3):
        emulator = emulated(separate, True, seed)
        np.testing.assert_array_equal(emulator.whitening, np.eye(6))
