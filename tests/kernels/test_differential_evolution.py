"""Differential evolution: its distribution with a fixed archive, modes, and few chains that are independent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from targets import CORRELATED, gaussian, second_moments, upper

import invsamp as iv
from invsamp.kernels import differential_evolution, metropolis
from invsamp.posing.posterior.function_potential import FunctionPotential

TARGET = iv.Target(gaussian(np.linalg.inv(CORRELATED)))
SETTINGS = {"draws": 300, "thin": 4, "warmup": 300}


class TestDistribution:
    @pytest.mark.parametrize("step_size", [1.0, 0.4])
    def test_a_gaussian(self, draw, agrees, step_size):
        run = draw(TARGET, iv.samplers.differential_evolution(step_size), **SETTINGS)
        assert agrees(second_moments(run), upper(CORRELATED))

    def test_snooker_moves_alone_have_it_too_and_not_without_their_factor(self, draw, agrees, monkeypatch):
        monkeypatch.setattr(differential_evolution, "SNOOKER", 1.0)
        run = draw(TARGET, iv.samplers.differential_evolution(), **SETTINGS)
        assert agrees(second_moments(run), upper(CORRELATED))

        def symmetric(rung, here, end, log_factor, rows):
            return metropolis.proposed(rung, here, end, np.where(np.isfinite(log_factor), 0.0, -np.inf), rows)

        monkeypatch.setattr(differential_evolution, "proposed", symmetric)
        run = draw(TARGET, iv.samplers.differential_evolution(), **SETTINGS)
        assert not agrees(second_moments(run), upper(CORRELATED))

    def test_without_warm_up_the_archive_is_the_priors_and_the_draws_are_right(self, draw, agrees):
        prior = iv.Prior(x=iv.Normal(0.0, 3.0), y=iv.Normal(0.0, 3.0))
        posterior = iv.Posterior(prior, lambda t: t, [1.0, 2.0], iv.GaussianNoise(1.0))
        run = draw(posterior, iv.samplers.differential_evolution(), draws=500, thin=4, warmup=0)
        late = run.theta[:, 50:]
        found = np.concatenate([late.mean(axis=1), (late**2).mean(axis=1)], axis=1)
        assert agrees(found, [0.9, 1.8, 0.9 + 0.81, 0.9 + 3.24])

    def test_modes_far_apart_get_their_shares(self, draw, agrees, monkeypatch):
        def energy(x):  # three quarters about 8, a quarter about -8, of sd 1
            parts = np.log([0.25, 0.75]) - 0.5 * (x - [-8.0, 8.0]) ** 2
            top = parts.max(axis=1)
            weights = np.exp(parts - top[:, None])
            value = -top - np.log(weights.sum(axis=1))
            return value, (weights * (x - [-8.0, 8.0])).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)

        start = np.random.default_rng(0).choice([-8.0, 8.0], (1, 256, 1))
        problem, settings = iv.Target(FunctionPotential(energy, 1)), SETTINGS | {"start": start, "draws": 500}
        run = draw(problem, iv.samplers.differential_evolution(), **settings)
        assert agrees((run.theta > 0.0).mean(axis=1), [0.75])
        monkeypatch.setattr(differential_evolution, "WHOLE", 0.0)  # no jump leads across: half begin in each mode
        monkeypatch.setattr(differential_evolution, "SNOOKER", 0.0)
        run = draw(problem, iv.samplers.differential_evolution(0.2), **settings)
        assert not agrees((run.theta > 0.0).mean(axis=1), [0.75])

    def test_a_function_without_derivatives_in_a_domain(self, draw, agrees):
        prior = iv.Prior(a=iv.Gamma(2.0, 1.0), b=iv.Normal(0.5, 1.0))
        posterior = iv.Posterior(
            prior, lambda t: t[:, :1] * t[:, 1:], [1.5], iv.GaussianNoise(1.0), iv.constraint("b < 1.2")
        )
        run = draw(posterior, iv.samplers.differential_evolution(), draws=150, thin=4, warmup=300)
        a, b = np.meshgrid(np.linspace(1e-4, 30.0, 6001), np.linspace(-6.0, 1.2, 2401), indexing="ij")
        density = a * np.exp(-a - 0.5 * (b - 0.5) ** 2 - 0.5 * (a * b - 1.5) ** 2)
        truth = [(density * value).sum() / density.sum() for value in (a, b, a**2, b**2)]
        theta = run.theta
        assert agrees(np.concatenate([(theta**k).mean(axis=1) for k in (1, 2)], axis=1), truth)


class TestFewChains:
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_four_chains_of_ten_parameters_mix_as_an_optimal_random_walk_does(self):
        """Roberts and Rosenthal (2001): of d parameters an effective draw takes about d / .331 steps."""
        rng = np.random.default_rng(0)
        factor = rng.normal(size=(10, 10)) * 10.0 ** rng.uniform(-2, 2, (10, 1))
        target = iv.Target(gaussian(np.linalg.inv(factor @ factor.T)))
        run = iv.sample(target, iv.samplers.differential_evolution(), draws=5_000, warmup=5_000, seed=1, progress=False)
        assert run.report["ensemble_size"] == 1
        worth = run.summary()["ess_bulk"].to_numpy() / 20_000
        assert 0.5 * 0.0331 < worth.mean() < 1.3 * 0.0331
        sd = np.sqrt(np.diag(factor @ factor.T))
        error = np.abs(run.theta.reshape(-1, 10).std(axis=0) / sd - 1.0)
        assert (error < 5.0 / np.sqrt(2.0 * worth * 20_000)).all()

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_the_archive_is_fixed_after_warm_up(self, monkeypatch):
        seen = []

        def watched(rung, x, archive):
            seen.append(archive.copy())
            return jumps(rung, x, archive)

        jumps = differential_evolution._jumps
        monkeypatch.setattr(differential_evolution, "_jumps", watched)
        iv.sample(TARGET, iv.samplers.differential_evolution(), draws=40, warmup=40, chains=2, seed=1, progress=False)
        changes = [not np.array_equal(one, after) for one, after in itertools.pairwise(seen)]
        assert sum(changes[:40]) == 4 and not any(changes[40:])
        assert len(seen[0]) == 120
