"""Fidelities compared where everything is known: Gaussians of other means, widths and constants."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from invsamp.diagnostics.weights import effective
from invsamp.estimators import minibatch, noisy
from invsamp.fidelities.comparison import compare
from invsamp.fidelities.reweighting import log_mixture, weights
from invsamp.fidelities.swap_forecast import acceptance
from invsamp.posing.distributions.univariate import Normal
from invsamp.posing.forward_models.adapters import with_jacobian
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.posterior.target import Target
from invsamp.posing.priors.joint_prior import Prior
from invsamp.samplers import parallel_tempering
from invsamp.swaps.rules import delayed_acceptance, product_target


def gaussian(mean=0.0, sd=1.0, constant=0.0):
    def function(x):
        return constant + ((x - mean) ** 2).sum(axis=1) / (2 * sd**2), (x - mean) / sd**2

    return FunctionPotential(function, 2)


def target(**coarse):
    return Target({"coarse": gaussian(**coarse), "fine": gaussian()})


def normals(n, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).standard_normal((n, 2))


class TestLevels:
    def test_a_constant_is_an_offset_and_nothing_else(self):
        coarse, fine = compare(target(constant=3.0), normals(50)).levels
        assert coarse.energy_offset == pytest.approx(3.0)
        assert coarse.energy_sd == pytest.approx(0.0, abs=1e-12)
        assert coarse.energy_correlation == pytest.approx(1.0)
        assert coarse.gradient_error == pytest.approx(0.0)
        assert coarse.gradient_cosine == pytest.approx(1.0)
        assert fine.relative_cost == 1.0

    def test_a_wider_level(self):
        theta = normals(400)
        coarse, _ = compare(target(sd=2.0), theta).levels
        # the energy is a quarter of the fine one, and so is the gradient
        difference = -0.75 * (theta**2).sum(axis=1) / 2
        assert coarse.energy_offset == pytest.approx(difference.mean())
        assert coarse.energy_sd == pytest.approx(difference.std())
        assert coarse.gradient_error == pytest.approx(0.75)
        assert coarse.gradient_cosine == pytest.approx(1.0)

    def test_states_that_a_level_cannot_solve_are_counted_and_left_out(self):
        def fails(x):
            energy, gradient = gaussian().function(x)
            return np.where(x[:, 0] > 1.0, np.nan, energy), gradient

        theta = normals(200)
        found = compare(Target({"coarse": FunctionPotential(fails, 2), "fine": gaussian()}), theta)
        assert found.levels[0].failed == (theta[:, 0] > 1.0).sum() > 10
        assert found.levels[1].failed == 0
        assert found.states.energies.shape == (2, 200 - found.levels[0].failed)

    def test_noise_of_an_estimator(self, within):
        found = compare(target(), normals(300), (1.0, 2.0), estimator={"coarse": noisy(2.0, 0.5)}, probes=40, seed=1)
        coarse, fine = found.levels
        # 300 * 39 degrees of freedom: a sd is known to 0.65%
        assert within([coarse.energy_noise_sd / 2.0 - 1.0, coarse.gradient_noise_sd / 0.5 - 1.0], 0.03)
        assert fine.energy_noise_sd == fine.gradient_noise_sd == 0.0
        (pair,) = found.pairs
        assert pair.noise_sd == pytest.approx(math.sqrt(2 * coarse.energy_noise_sd**2 / 4.0))
        assert "noise: energy" in str(found)

    def test_a_posterior_from_prior_draws(self, within):
        """The posterior is as wide as the prior over sqrt(2): a draw in two counts."""
        identity = with_jacobian(lambda t: t, lambda t: np.ones((len(t), 1, 1)))
        shifted = with_jacobian(lambda t: t + 0.3, lambda t: np.ones((len(t), 1, 1)))
        posterior = Posterior(Prior(x=Normal(0, 1)), {"coarse": shifted, "fine": identity}, [0.0], GaussianNoise(1.0))
        found = compare(posterior, 2000, (1.0, 3.0), seed=1)
        x, weight = found.states.theta[:, 0], found.states.weight
        assert weight.sum() == pytest.approx(1.0)
        assert 1000 < effective(weight) < 2000
        # 1,700 effective draws: 4.5 standard errors of the variance
        assert within((weight * x**2).sum() - 0.5, 4.5 * 0.5 * math.sqrt(2 / 1700))
        assert found.labels == ("x",)


class TestSwaps:
    def test_two_harmonic_rungs(self, within):
        """Energies of a plane's Gaussian are exponential: a rate of 2 / (1 + T) for swaps of 1 and T."""
        (pair,) = compare(target(), normals(1000), (1.0, 1.5), ("fine", "fine")).pairs
        # pairs of 400 draws of each rung: a standard error of about 0.01
        assert within(pair.swap_rate - 2 / 2.5, 0.045)
        assert pair.second_stage == pytest.approx(1.0)
        assert pair.own_energies_error == pair.discrepancy_sd == 0.0

    def test_forecast_is_what_a_sampler_finds(self, draw, within):
        problem = target(mean=0.5, sd=1.3)
        ladder = (1.0, 3.0)
        run, product = (
            draw(problem, parallel_tempering(ladder, swap=rule), draws=600, thin=2, warmup=800)
            for rule in (delayed_acceptance(), product_target())
        )
        (pair,) = compare(problem, run, max_states=8000).pairs
        assert (pair.cold, pair.hot, pair.cold_temperature, pair.hot_temperature) == ("fine", "coarse", 1.0, 3.0)
        # 31,000 attempts, not quite independent, and 4,000 states of each rung: about 0.006
        found, products = (one.report["swap_accepts"][0] / one.report["swap_attempts"][0] for one in (run, product))
        first = run.report["swap_solves_per_attempt"]["fine"]
        assert within([pair.swap_rate - found, pair.first_stage - first, pair.product_rate - products], 0.045)
        # the stage in which the levels disagree costs swaps: this test would see it left out
        assert not within(pair.first_stage - found, 0.045)

    def test_what_biased_rules_miss(self):
        (pair,) = compare(target(constant=3.0), normals(400), (1.0, 1.5)).pairs
        assert pair.own_energies_error == pytest.approx(3.0 * (1 - 1 / 1.5))
        assert pair.cold_energies_error == pytest.approx(0.0, abs=1e-12)
        assert pair.second_stage == pytest.approx(1.0)

    def test_states_that_do_not_reach_a_rung_say_nothing(self):
        found = compare(target(mean=8.0), normals(100), (1.0, 2.0))
        assert math.isnan(found.pairs[0].swap_rate)
        assert found.pairs[0].hot_effective < 20
        assert "too few to forecast" in str(found)

    @pytest.mark.parametrize("variance", [0.0, 0.3, 4.0])
    def test_acceptance_with_noise(self, variance):
        ratio = np.array([-3.0, -0.5, 0.0, 0.7, 4.0])
        points, weight = np.polynomial.hermite_e.hermegauss(200)
        noisy_ratio = ratio[:, None] + math.sqrt(variance) * points - variance / 2
        expected = np.minimum(1.0, np.exp(noisy_ratio)) @ weight / weight.sum()
        np.testing.assert_allclose(acceptance(ratio, variance), expected, atol=4e-3)
        # detailed balance, which no other penalty keeps
        np.testing.assert_allclose(acceptance(ratio, variance), np.exp(ratio) * acceptance(-ratio, variance), rtol=1e-9)


class TestReweighting:
    def test_pooled_draws_of_two_temperatures(self):
        theta = np.concatenate([normals(4000), normals(4000, 1, 2.0)])
        energy = (theta**2).sum(axis=1) / 2
        mixture = log_mixture(np.stack([energy, energy / 4.0]), [4000, 4000])
        for temperature in (1.0, 2.0, 4.0):
            weight = weights(energy / temperature, mixture)
            n = effective(weight)
            assert n > 3000
            assert (weight[:, None] * theta**2).sum(axis=0) == pytest.approx(
                temperature, abs=4.5 * temperature * math.sqrt(2 / n)
            )

    def test_states_of_no_target(self):
        energy = np.array([0.0, np.inf, 1.0])
        mixture = log_mixture(energy[None], [3])
        np.testing.assert_allclose(weights(energy, mixture), [0.5, 0.0, 0.5])
        np.testing.assert_array_equal(weights(np.full(3, np.inf), mixture), 0.0)


class TestAdvice:
    def test_one_fidelity_on_both_rungs(self):
        found = compare(target(), normals(300), (1.0, 1.5), ("fine", "fine"))
        assert "own energies decide exactly" in found.advice[-1]

    def test_levels_that_agree(self):
        found = compare(target(constant=0.01), normals(300), (1.0, 1.5))
        assert "state_dependent_penalty(assume_unbiased=True)" in found.advice[-1]

    def test_levels_that_do_not(self):
        found = compare(target(mean=0.8), normals(600), (1.0, 1.5))
        assert "delayed_acceptance(), exact" in found.advice[-1]
        assert "biased" in found.advice[-1]

    def test_noise_that_ends_all_swaps(self):
        found = compare(target(), normals(300), (1.0, 1.5), estimator=noisy(8.0))
        assert any("almost no swap" in sentence for sentence in found.advice)

    def test_a_temperature_is_named(self, draw, within):
        """2 / (1 + 9) is a fifth."""
        run = draw(target(), parallel_tempering((1.0, 20.0), swap=product_target()), draws=40, thin=20)
        found = compare(target(), run, temperatures=(1.0, 3.0), max_states=4000)
        # 400 draws of each rung: .015 of the rate, .08 of the logarithm; steps of .18
        assert within(np.log(found.hot_temperatures["coarse"] / 9.0), 0.5)
        assert any("Hotter needs a rung between" in sentence for sentence in found.advice)

    @pytest.mark.parametrize("seed", range(5))
    def test_draws_of_the_cold_rung_do_not_inform_hot_ones(self, seed):
        """Weights exp((1 - 1/T) U) have no finite variance from T = 2 on, and no mean at infinite T."""
        found = compare(target(), normals(4000, seed))
        # with 120 seeds 2.05 to 4.99
        assert 1.6 <= found.hot_temperatures["coarse"] <= 7.2
        assert found.pairs[0].hot_temperature == found.hot_temperatures["coarse"]
        assert any("The states do not cover hotter ones" in sentence for sentence in found.advice)


@pytest.mark.parametrize("levels", [2, 3, pytest.param(6, marks=pytest.mark.slow)])
def test_prints_and_plots(levels):
    potentials = {f"level {k}": gaussian(mean=0.1 * k) for k in range(levels - 1, -1, -1)}
    found = compare(Target(potentials), normals(100))
    text = str(found)
    assert all(name in text for name in potentials)
    assert list(found.to_dataframe().index) == list(potentials)
    assert set(found.to_dataframe("pairs").hot) <= set(potentials)
    figure = found.plot()
    assert isinstance(figure, Figure)
    figure.savefig(io.BytesIO(), format="png", dpi=40)


def test_plots_one_parameter_and_uninformative_states():
    def function(x):
        return 50.0 * (x[:, 0] - 3.0) ** 2, 100.0 * (x - 3.0)

    narrow = FunctionPotential(function, 1)
    found = compare(Target({"coarse": narrow, "fine": narrow}), np.zeros((20, 1)) + 0.0)
    found.plot().savefig(io.BytesIO(), format="png", dpi=40)
    assert math.isnan(found.levels[0].energy_correlation)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"thetas": np.zeros((20, 3))}, r"thetas must have shape \(n, 2\), got \(20, 3\)"),
        ({"thetas": np.full((20, 2), np.nan)}, "thetas must be finite numbers, a Run or a number of draws"),
        ({"thetas": "many"}, "thetas must be finite numbers, a Run or a number of draws"),
        ({"thetas": 100}, "thetas must be states or a Run where the problem has no prior"),
        ({"thetas": np.zeros((5, 2))}, "at least 10 states that every fidelity can solve, got 5 of 5"),
        ({"temperatures": (1.0,)}, "temperatures must have at least two entries"),
        ({"temperatures": (2.0, 3.0)}, "temperatures must start at 1"),
        ({"temperatures": (1.0, 2.0), "fidelities": ("fine",)}, "fidelities must have one entry for each of the 2"),
        ({"temperatures": (1.0, 2.0), "fidelities": ("fine", "middle")}, "fidelities must be one of 'coarse', 'fine'"),
        ({"fidelities": ("fine", "coarse")}, "fidelities are those of temperatures"),
        ({"estimator": {"middle": noisy()}}, "estimator must be given for fidelities out of"),
        ({"estimator": minibatch(5)}, "minibatch needs a potential with data terms"),
        ({"probes": 1}, "probes must be an integer >= 2, got 1"),
        ({"max_states": 5}, "max_states must be an integer >= 10, got 5"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare(**({"posterior": target(), "thetas": normals(20)} | arguments))


def test_needs_two_fidelities():
    with pytest.raises(ValueError, match="at least two fidelities to compare"):
        compare(Target(gaussian()), normals(20))


def test_a_run_of_another_problem(draw):
    run = draw(Target(FunctionPotential(lambda x: ((x**2).sum(axis=1) / 2, x), 3)), None, draws=5, warmup=500, chains=4)
    with pytest.raises(ValueError, match="posterior must have the parameters of the run"):
        compare(target(), run)


def test_part_of_the_data_frame():
    with pytest.raises(ValueError, match="part must be one of 'levels', 'pairs'"):
        compare(target(), normals(20)).to_dataframe("rungs")
