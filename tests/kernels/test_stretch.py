"""The stretch move: its distribution, affine invariance, and ensembles that count as one chain."""

from __future__ import annotations

import numpy as np
import pytest
from targets import CORRELATED, gaussian, second_moments, upper

import invsamp as iv
from invsamp.kernels import Stretch, metropolis

TARGET = iv.Target(gaussian(np.linalg.inv(CORRELATED)))


def by_ensemble(values, walkers=8):
    """Means over the chains of each ensemble."""
    return values.reshape(-1, walkers, values.shape[1]).mean(axis=1)


class TestDistribution:
    SETTINGS = {"draws": 150, "thin": 4, "warmup": 300, "chains": 8 * 64}  # noqa: RUF012

    @pytest.mark.parametrize("step_size", [1.0, 4.0])
    def test_a_gaussian(self, draw, agrees, step_size):
        run = draw(TARGET, iv.samplers.stretch(step_size, walkers=8), **self.SETTINGS)
        assert agrees(by_ensemble(second_moments(run)), upper(CORRELATED))

    def test_without_the_factor_of_z_it_is_another(self, draw, agrees, monkeypatch):
        def symmetric(rung, here, end, log_factor, rows):
            return metropolis.proposed(rung, here, end, np.zeros_like(log_factor), rows)

        monkeypatch.setattr("invsamp.kernels.stretch.proposed", symmetric)
        run = draw(TARGET, iv.samplers.stretch(walkers=8), **self.SETTINGS)
        assert not agrees(by_ensemble(second_moments(run)), upper(CORRELATED))

    def test_a_function_without_derivatives_in_a_domain(self, draw, agrees):
        prior = iv.Prior(a=iv.Gamma(2.0, 1.0), b=iv.Normal(0.5, 1.0))
        posterior = iv.Posterior(
            prior, lambda t: t[:, :1] * t[:, 1:], [1.5], iv.GaussianNoise(1.0), iv.constraint("b < 1.2")
        )
        run = draw(posterior, iv.samplers.stretch(walkers=8), draws=100, thin=3, warmup=200, chains=8 * 64)
        a, b = np.meshgrid(np.linspace(1e-4, 30.0, 6001), np.linspace(-6.0, 1.2, 2401), indexing="ij")
        density = a * np.exp(-a - 0.5 * (b - 0.5) ** 2 - 0.5 * (a * b - 1.5) ** 2)
        truth = [(density * value).sum() / density.sum() for value in (a, b, a**2, b**2)]
        theta = run.theta
        assert agrees(by_ensemble(np.concatenate([(theta**k).mean(axis=1) for k in (1, 2)], axis=1)), truth)

    @pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
    def test_linear_maps_of_the_parameters_change_nothing(self):
        rng = np.random.default_rng(0)
        matrix = rng.normal(size=(3, 3)) * [1e-3, 1.0, 1e3]
        precision = np.linalg.inv(matrix @ matrix.T)
        start = rng.normal(size=(16, 3))
        settings = {"draws": 20, "warmup": 0, "chains": 16, "seed": 1, "progress": False}
        sampler = iv.samplers.stretch(walkers=8)
        plain = iv.sample(iv.Target(gaussian(np.eye(3))), sampler, start=start, **settings)
        mapped = iv.sample(iv.Target(gaussian(precision)), sampler, start=start @ matrix.T, **settings)
        assert (np.diff(plain.theta[:, -2:], axis=1) != 0.0).any()
        np.testing.assert_allclose(np.linalg.solve(matrix, mapped.theta[..., None])[..., 0], plain.theta, atol=1e-6)


class TestEnsembles:
    @pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
    def test_diagnostics_take_an_ensemble_for_one_chain(self):
        run = iv.sample(TARGET, iv.samplers.stretch(), draws=50, warmup=20, chains=32, seed=1, progress=False)
        assert run.report["ensemble_size"] == 16
        np.testing.assert_array_equal(run.summary()["r_hat"], iv.diagnostics.rhat(run.theta, ensemble_size=16))
        np.testing.assert_array_equal(run.summary()["ess_bulk"], iv.diagnostics.ess(run.theta, ensemble_size=16))

    def test_the_default_number_of_chains_says_what_to_take(self):
        with pytest.raises(ValueError, match=r"chains must be a multiple of 16, .*\(stretch 16\), got 4"):
            iv.sample(TARGET, iv.samplers.stretch(), draws=5, progress=False)

    @pytest.mark.parametrize(
        "walkers, words",
        [(2, "walkers must be an integer >= 4, got 2"), (5, "walkers must be even, .*got 5")],
    )
    def test_walkers_that_cannot_be(self, walkers, words):
        with pytest.raises(ValueError, match=words):
            Stretch(walkers)

    def test_too_few_walkers_for_the_parameters(self):
        with pytest.raises(ValueError, match="walkers must be at least twice the 9 parameters, 18, got 16"):
            iv.sample(iv.Target(gaussian(np.eye(9))), iv.samplers.stretch(), draws=5, chains=16, progress=False)
