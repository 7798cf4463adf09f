"""The search for modes: what it finds, and how many simulations that takes."""

from __future__ import annotations

import numpy as np

import invsamp as iv
from invsamp.emulation.emulator.outputs import output_scale
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.emulation.search.descents import Descents
from invsamp.emulation.search.mode_search import search
from invsamp.emulation.search.search_points import quasi_random


def searched(target: iv.Posterior, seed: int, points: int = 12) -> tuple[object, int]:
    found, simulations = simulated(target, seed, points)
    return found, simulations.made


def simulated(target: iv.Posterior, seed: int, points: int = 12, budget: int = 200) -> tuple[object, Simulations]:
    rng, simulations = np.random.default_rng(seed), Simulations(target, budget)
    prior = target.sample_start(rng, 500)
    scale = output_scale(simulations.noise, target.to_theta(prior), rng)
    return search(simulations, scale, prior, points, 8, rng)[0], simulations


def test_finds_the_mode_of_a_linear_model_in_a_few_waves() -> None:
    matrix = np.random.default_rng(0).standard_normal((12, 4))
    truth = np.array([0.5, -1.0, 0.2, 1.0])
    prior = iv.Prior(x=iv.Normal(0, 1, shape=4))
    target = iv.Posterior(prior, lambda theta: theta @ matrix.T, matrix @ truth, iv.GaussianNoise(0.1))
    precision = matrix.T @ matrix / 0.01 + np.eye(4)
    exact = np.linalg.solve(precision, matrix.T @ (matrix @ truth) / 0.01)
    for seed in range(3):
        found, made = searched(target, seed)
        (mode,) = found.weighty
        # the linear model is the simulator: whatever is left is what a descent does not bother about
        away = mode.position - exact
        assert away @ precision @ away < 1.0
        assert np.abs(np.linalg.inv(mode.covariance) / precision - 1.0).max() < 0.1
        assert mode.found == 8
        assert made <= 60


def test_finds_both_modes_of_a_square() -> None:
    prior = iv.Prior(x=iv.Normal(0, 2), y=iv.Normal(0, 2))
    target = iv.Posterior(
        prior, lambda theta: np.column_stack([theta[:, 0] ** 2, theta[:, 1]]), [4.0, 0.3], iv.GaussianNoise(0.2)
    )
    for seed in range(3):
        found, made = searched(target, seed)
        assert sorted(round(one.position[0]) for one in found.weighty) == [-2, 2]
        assert made <= 70


def test_an_unknown_noise_does_not_explain_a_bad_fit_away() -> None:
    # a frequency: far from the right one the best fit is none, with large noise
    times = np.linspace(0.0, 3.0, 25)
    prior = iv.Prior(frequency=iv.LogNormal(1.0, 0.4), sigma=iv.LogNormal(-1.0, 1.0))

    class Wave:
        parameters = ("frequency",)

        def __call__(self, theta: np.ndarray) -> np.ndarray:
            return np.sin(theta * times)

    data = np.sin(3.0 * times) + 0.1 * np.random.default_rng(1).standard_normal(25)
    target = iv.Posterior(prior, Wave(), data, iv.GaussianNoise("sigma"))
    found, _ = searched(target, 0)
    assert abs(np.exp(found.weighty[0].position[0]) - 3.0) < 0.1


def test_goes_around_points_at_which_the_simulator_fails() -> None:
    prior = iv.Prior(x=iv.Normal(0, 1, shape=2))

    def model(theta: np.ndarray) -> np.ndarray:
        y = theta @ np.array([[1.0, 0.5], [0.2, 1.0]])
        y[theta.sum(axis=1) < -1.0] = np.nan
        return y

    target = iv.Posterior(prior, model, [1.0, 1.0], iv.GaussianNoise(0.1))
    found, _ = searched(target, 0)
    assert np.isfinite(found.minima[0].energy)
    assert found.minima[0].energy < 3.0


def test_searches_again_while_no_minimum_fits() -> None:
    matrix = np.random.default_rng(0).standard_normal((20, 2))
    errors = np.random.default_rng(1).standard_normal(20)

    class Linear:
        parameters = ("a", "b")

        def __call__(self, theta: np.ndarray) -> np.ndarray:
            return theta @ matrix.T

    slopes = iv.Normal(0, 1)
    for size, sigma, fits in ((0.1, 0.1, True), (1.0, 0.1, False), (0.1, "sigma", True), (1.0, "sigma", False)):
        unknown = {"sigma": iv.LogNormal(-2.0, 0.5)} if sigma == "sigma" else {}
        target = iv.Posterior(
            iv.Prior(a=slopes, b=slopes, **unknown),
            Linear(),
            matrix @ np.array([0.5, -1.0]) + size * errors,
            iv.GaussianNoise(sigma),
        )
        found, _ = searched(target, 0)
        assert found.fits == fits
        assert found.descents == (8 if fits else 24)


def test_descents_take_derivatives_where_simulations_do_not_explain_each_other() -> None:
    matrix = np.random.default_rng(0).standard_normal((20, 3))
    functions = {"linear": lambda theta: theta @ matrix.T, "waves": lambda theta: np.sin(4.0 * theta @ matrix.T)}
    for name, function in functions.items():
        data = function(np.array([[0.3, -0.2, 0.1]]))[0]
        target = iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=3)), function, data, iv.GaussianNoise(0.1))
        for seed in range(20):
            rng, simulations = np.random.default_rng(seed), Simulations(target, 200)
            prior = target.sample_start(rng, 500)
            scale = output_scale(simulations.noise, target.to_theta(prior), rng)
            descents = Descents(simulations, scale, prior, rng)
            descents.begin(descents.start(quasi_random(target, prior, 16, rng), "prior"), 8)
            assert simulations.purposes.count("derivatives") == (24 if name == "waves" else 0)


def test_derivatives_take_a_third_of_the_budget_at_most() -> None:
    target = iv.Posterior(
        iv.Prior(x=iv.Normal(0, 1, shape=3)), lambda theta: np.sin(9.0 * theta), [0.1, 0.5, -0.3], iv.GaussianNoise(0.1)
    )
    found, runs = simulated(target, 0, budget=40)
    assert runs.purposes.count("derivatives") == 9
    assert found.descents == 3
