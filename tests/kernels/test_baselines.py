"""What baselines really do: pSGLD, SVGD, SGD with SWAG, and DEO*-SGD; and where they are refused."""

from __future__ import annotations

import numpy as np
import pytest
from targets import gaussian

import invsamp as iv
from invsamp.kernels import DeoSgd, RmsLangevin
from invsamp.kernels.stein import direction

NORMAL = iv.Target(gaussian(1.0))
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class TestRmsLangevin:
    def test_with_steady_scales_it_is_langevin(self, draw, agrees):
        """V of gradients that are over many data is nothing: the step is that of SGLD, over the floor."""
        run = draw(NORMAL, iv.samplers.psgld(0.02, data=1e9), draws=200, thin=2, warmup=100)
        assert agrees((run.theta[..., 0] ** 2).mean(axis=1), 1.0 / (1.0 - 0.1))

    def test_where_curvature_changes_it_is_biased(self, draw, agrees):
        """Without Gamma, with a short memory, on exp(-x^4 / 4): the steps are shorter further out, and nothing makes
        up."""
        target = iv.Target(iv.extending.FunctionPotential(lambda x: (0.25 * x[:, 0] ** 4, x**3), 1))
        x = np.linspace(-5.0, 5.0, 20_001)
        density = np.exp(-0.25 * x**4)
        truth = (x**2 * density).sum() / density.sum()
        second = {}
        for name, sampler in (("psgld", iv.samplers.psgld(0.005, decay=0.0)), ("sgld", iv.samplers.sgld(0.005))):
            run = draw(target, sampler, draws=200, thin=10, warmup=1000)
            second[name] = (run.theta[..., 0] ** 2).mean(axis=1)
        assert agrees(second["sgld"], truth, 0.01)
        assert not agrees(second["psgld"], truth, 0.01)

    def test_arguments(self):
        with pytest.raises(ValueError, match="decay must be"):
            RmsLangevin(decay=1.0)


class TestStein:
    @staticmethod
    def fixed(d, n=60):
        rng = np.random.default_rng(0)
        x, step = rng.standard_normal((n, d)), 0.5
        for _ in range(3000):
            move = direction(x, x)
            if np.abs(move).max() < 2e-3:
                return x
            x = x + step * move
        raise AssertionError("no fixed point in 3000 iterations")

    def test_one_dimension_has_its_variance_and_forty_have_not(self):
        """The collapse: variances of 60 particles at the fixed point, of N(0, I)."""
        one, forty = self.fixed(1).var(), self.fixed(40).var(axis=0).mean()
        assert 0.75 < one < 1.1
        assert forty < 0.35

    def test_particles_run_as_chains(self):
        run = iv.sample(NORMAL, iv.samplers.svgd(0.5), draws=400, warmup=0, chains=40, seed=1, progress=False)
        last = run.theta[:, -1, 0]
        assert abs(last.mean()) < 0.05 and 0.7 < last.var() < 1.1
        assert np.abs(np.diff(run.theta[:, -2:, 0])).max() < 1e-2  # no noise

    def test_one_particle_descends(self):
        np.testing.assert_allclose(direction(np.array([[2.0]]), np.array([[2.0]])), [[-2.0]])


class TestSwag:
    def test_draws_have_its_covariance(self, within):
        rng = np.random.default_rng(3)
        iterates = rng.standard_normal((200, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 0.6, 0.2], [0.0, 0.0, 2.0]])
        iterates[-30:] *= 2.0  # the last ones spread more than all do
        found = iv.results.swag(iterates, rank=30)
        np.testing.assert_allclose(found.mean, iterates.mean(axis=0))
        own = np.cov(iterates[-30:].T, ddof=1) + np.outer(*(2 * [iterates[-30:].mean(axis=0) - found.mean])) * 30 / 29
        np.testing.assert_allclose(found.covariance, 0.5 * np.diag(iterates.var(axis=0)) + 0.5 * own)
        draws = found.draws(40_000, seed=1)
        variance = np.diag(found.covariance)
        sd = np.sqrt((np.outer(variance, variance) + found.covariance**2) / 40_000)  # of a covariance of the draws
        assert within((np.cov(draws.T) - found.covariance) / sd, 5.0)
        assert not within((np.cov(draws.T) - np.cov(iterates.T)) / sd, 5.0)

    def test_the_spread_is_that_of_the_gradients_noise(self, draw, agrees):
        """SGD on N(0, 1) with noise s: variance h s^2 / (2 - h), whatever the posterior's is."""
        run = draw(NORMAL, iv.samplers.sgd(0.1, estimator=iv.estimators.noisy(0.0, 2.0)), draws=300, thin=2, warmup=200)
        assert agrees((run.theta[..., 0] ** 2).mean(axis=1), 0.1 * 4.0 / 1.9)
        assert not agrees((run.theta[..., 0] ** 2).mean(axis=1), 1.0)

    def test_refused(self):
        with pytest.raises(ValueError, match="iterates must be at least rank=20, got 5"):
            iv.results.swag(np.zeros((5, 2)))


WAVES = iv.extending.FunctionPotential(
    lambda x: (
        0.2 * (x**2).sum(axis=1) - 2.0 * np.cos(2 * np.pi * x).sum(axis=1),
        0.4 * x + 4 * np.pi * np.sin(2 * np.pi * x),
    ),
    2,
)


class TestDeoSgd:
    def test_rates_that_fall_are_refused(self):
        with pytest.raises(ValueError, match=r"highest must be a finite number > 0\.1, got 0\.01"):
            iv.samplers.deo_sgd(0.1, highest=0.01)

    def run(self, **settings):
        sampler = iv.samplers.deo_sgd(0.003, processes=8, estimator=iv.estimators.noisy(2.0, 2.0), **settings)
        return iv.sample(
            iv.Target(WAVES), sampler, draws=1500, warmup=0, chains=6, seed=2, progress=False, start=np.zeros(2)
        )

    def test_it_adapts_to_its_target_and_makes_round_trips(self):
        run = self.run()
        stats = run.data.sample_stats
        assert abs(stats.swap_rate.to_numpy()[:, 500:].mean() - 0.4) < 0.05
        trips = stats.process_round_trips.to_numpy()
        assert (np.diff(trips, axis=1) >= 0).all() and trips[:, -1].min() > 5
        assert set(np.unique(stats.first_process)) == set(range(8))

    def test_its_swaps_keep_no_density(self, draw, agrees, within):
        """On N(0, 1): what descends without noise lies at the mode, and swaps bring that to the draws again and
        again."""
        run = draw(
            NORMAL, iv.samplers.deo_sgd(0.05, processes=3, highest=0.2, buffer=0.0), draws=200, warmup=200, chains=64
        )
        second = (run.theta[..., 0] ** 2).mean(axis=1)
        assert within(second.mean(), 0.75)  # half of the posterior's
        assert not agrees(second, 1.0 / (1.0 - 0.025))

    def test_rates_stay_between_the_given_ones_and_replicas_are_permuted(self):
        kernel, rng = DeoSgd(5, 0.5), np.random.default_rng(0)
        memory = kernel.init(rng, (3, 2)) | {"rate": np.tile(np.geomspace(0.01, 0.5, 5), (3, 1))}
        for k in range(300):
            energy = rng.standard_normal((3, 5))
            order, better, free = kernel._swapped(energy, np.zeros((3, 5), dtype=bool), memory, k)
            memory = memory | {"free": free, **kernel._adapted(memory, better, k), **kernel._traveled(memory, order)}
            np.testing.assert_array_equal(np.sort(memory["replica"], axis=1), np.tile(np.arange(5), (3, 1)))
        np.testing.assert_allclose(memory["rate"][:, [0, -1]], [[0.01, 0.5]] * 3)

    def test_a_gate_lets_one_swap_through_in_a_window(self):
        kernel, rng = DeoSgd(4, 0.5, window=3, buffer=0.0), np.random.default_rng(0)
        memory = kernel.init(rng, (1, 1))
        energy, alive = np.array([[3.0, 2.0, 1.0, 0.0]]), np.zeros((1, 4), dtype=bool)
        order, _, free = kernel._swapped(energy, alive, memory, 0)
        np.testing.assert_array_equal(order, [[1, 0, 3, 2]])
        np.testing.assert_array_equal(free, [[False, True, False]])
        order, _, free = kernel._swapped(energy, alive, memory | {"free": free}, 1)
        np.testing.assert_array_equal(order, [[0, 1, 2, 3]])
        order, _, _ = kernel._swapped(energy, alive, memory | {"free": free}, 3)
        np.testing.assert_array_equal(order, [[0, 2, 1, 3]])


@pytest.mark.parametrize(
    "sampler",
    [iv.samplers.deo_sgd(0.003, processes=4), iv.samplers.psgld(0.01), iv.samplers.svgd(0.1), iv.samplers.sgd(0.01)],
    ids=lambda s: s.rungs[0].kernel.name,
)
class TestAll:
    def test_are_resumed_to_the_bit(self, tmp_path, sampler):
        target, settings = iv.Target(WAVES), {"warmup": 0, "chains": 3, "seed": 3, "progress": False}
        whole = iv.sample(target, sampler, draws=30, **settings)
        iv.sample(target, sampler, draws=12, directory=tmp_path / "run", **settings)
        run = iv.resume(tmp_path / "run", target, draws=30, progress=False)
        np.testing.assert_array_equal(run.theta, whole.theta)
        for name, values in whole.data.sample_stats.items():
            np.testing.assert_array_equal(run.data.sample_stats[name], values)

    def test_refuse_a_domain(self, sampler):
        target = iv.Target(WAVES, domain=iv.Box([-1.0, -1.0], [1.0, 1.0]))
        with pytest.raises(ValueError, match="needs a problem without a domain, got Box"):
            iv.sample(target, sampler, draws=1)

    def test_say_what_they_are(self, sampler):
        assert "approximate" in str(sampler) or "samples nothing" in str(sampler)

    def test_leave_out_solves_that_fail(self, sampler):
        broken = iv.extending.FunctionPotential(
            lambda x: (np.where(x[:, 0] > 0.3, np.inf, WAVES.energy(x)), WAVES.energy_and_gradient(x)[1]), 2
        )
        run = iv.sample(
            iv.Target(broken),
            sampler,
            draws=30,
            warmup=0,
            chains=3,
            seed=1,
            progress=False,
            start=np.array([0.2, 0.1]),
            check_gradient=False,
        )
        assert run.theta[..., 0].max() <= 0.3 and np.isfinite(run.data.sample_stats.energy).all()
