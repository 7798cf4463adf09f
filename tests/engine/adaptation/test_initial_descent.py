"""Warm-up from starts that are thousands of sds off: no chain strands, whatever the scales, on a few seeds of each."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.domains import HalfSpaces
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan

SEEDS = [1, 2, 3]


def linear(columns, data, prior, noise, domain=None):
    model = iv.with_jacobian(
        lambda b: b @ columns.T, lambda b: np.broadcast_to(columns, (len(b), *columns.shape)), parameters=["b"]
    )
    return iv.Posterior(prior, model, data, noise, domain)


def uncentered():
    """A thousand data, four regressors that are not centered, unknown noise."""
    rng = np.random.default_rng(1)
    columns = np.column_stack([np.ones(1000), 100.0 + rng.standard_normal((1000, 4))])
    data = columns @ [1.0, 2.0, 3.0, -1.0, 0.5] + 0.9 * rng.standard_normal(1000)
    prior = iv.Prior(b=iv.Normal(np.zeros(5), 10.0), sigma=iv.LogNormal(0.0, 1.0))
    return linear(columns, data, prior, iv.GaussianNoise("sigma"))


def narrow():
    """A millionth of the prior's width."""
    columns = np.random.default_rng(2).standard_normal((10, 5))
    return linear(
        columns, columns @ np.linspace(-1, 1, 5), iv.Prior(b=iv.Normal(np.zeros(5), 1.0)), iv.GaussianNoise(1e-6)
    )


def scaled():
    """Twelve orders of magnitude."""
    scales = np.logspace(-6, 6, 9)
    columns = np.random.default_rng(4).standard_normal((20, 9)) / scales
    prior = iv.Prior(b=iv.Normal(np.zeros(9), 10.0 * scales))
    return linear(columns, columns @ scales, prior, iv.GaussianNoise(1.0))


def slab(width=1e-6):
    """Between two close bounds, oblique to all axes; and along and across it."""
    across = np.ones(3) / np.sqrt(3.0)
    domain = HalfSpaces(np.stack([across, -across]), [width / 2, width / 2])
    posterior = linear(np.eye(3), np.zeros(3), iv.Prior(b=iv.Normal(np.zeros(3), 1.0)), iv.GaussianNoise(1.0), domain)
    return posterior, across


class TestNoChainStrands:
    @pytest.mark.parametrize("make", [iv.mala, iv.samplers.ghmc, iv.mams], ids=["mala", "ghmc", "mams"])
    @pytest.mark.parametrize("seed", SEEDS)
    def test_uncentered_regression(self, draw, within, make, seed):
        run = draw(uncentered(), make(), draws=300, chains=4, seed=seed)
        sigma = run.draws("sigma").mean(axis=1)
        # its sd is .02: stranded chains were at 13 to 776
        assert within((sigma - 0.9) / 0.02, 4.5)
        assert run.report["descents"][0]["unfinished"] == 0

    def test_they_do_without_initial_optimization(self, draw, within, monkeypatch):
        monkeypatch.setattr("invsamp.engine.adaptation.step_size_and_metric.starts_by_descent", lambda rung: False)
        runs = [draw(uncentered(), iv.samplers.ghmc(), draws=300, chains=4, seed=seed) for seed in SEEDS]
        sigma = np.concatenate([run.draws("sigma").mean(axis=1) for run in runs])
        assert not within((sigma - 0.9) / 0.02, 4.5)

    @pytest.mark.parametrize("make", [narrow, scaled])
    @pytest.mark.parametrize("sampler", [iv.samplers.ghmc(), iv.mams()], ids=["ghmc", "mams"])
    def test_whatever_the_scales(self, draw, agrees, make, sampler):
        posterior = make()
        run = draw(posterior, sampler, draws=100, warmup=300, chains=64)
        modes = iv.maximize(posterior, 2, seed=1)  # of a Gaussian, with its covariance
        whitened = np.linalg.solve(
            np.linalg.cholesky(modes.covariances[0]), (run.theta - modes.theta[0]).reshape(-1, run.theta.shape[2]).T
        )
        whitened = whitened.T.reshape(run.theta.shape)
        d = whitened.shape[2]
        assert agrees(
            np.concatenate([whitened.mean(axis=1), (whitened**2).mean(axis=1)], axis=1), [0.0] * d + [1.0] * d
        )

    def test_between_close_bounds(self, draw, agrees):
        posterior, across = slab()
        run = draw(posterior, iv.mams(), draws=100, warmup=300, chains=64)
        along = np.array([1.0, -1.0, 0.0]) / np.sqrt(2.0)
        squares = np.stack([((run.theta @ axis) ** 2).mean(axis=1) for axis in (across / 1e-6, along)], axis=1)
        assert agrees(squares, [1 / 12, 0.5])


class TestStarts:
    def test_minima_far_above_the_lowest_are_left(self):
        """Two Gaussians of one width at -5 and 5, of which one is 30 lower; starts in both."""

        def function(x):
            low = x[:, 0] > 0.0
            center = np.where(low, 5.0, -5.0)
            return 0.5 * (x[:, 0] - center) ** 2 + np.where(low, 0.0, 30.0), (x[:, 0] - center)[:, None]

        target = iv.Target(iv.extending.FunctionPotential(function, 1), start=np.array([[-5.0], [4.9]]))
        engine = Engine(target, iv.mala(), Plan(draws=1, warmup=100, thin=1, chains=8, seed=1))
        engine.begin()
        led = engine.rungs[0].led
        assert led.moved == np.count_nonzero(led.energies > 20.0) > 0
        assert (engine.rungs[0].position > 0.0).all()
        # and spread, not all at one point
        assert np.ptp(engine.rungs[0].position) > 0.1

    def test_minima_of_nearly_one_height_are_kept(self):
        def function(x):
            center = np.where(x[:, 0] > 0.0, 5.0, -5.0)
            return 0.5 * (x[:, 0] - center) ** 2 + 3.0 * (x[:, 0] < 0.0), (x[:, 0] - center)[:, None]

        target = iv.Target(iv.extending.FunctionPotential(function, 1), start=np.array([[-5.1], [4.9]]))
        engine = Engine(target, iv.mala(), Plan(draws=1, warmup=100, thin=1, chains=8, seed=1))
        engine.begin()
        assert engine.rungs[0].led.moved == 0
        assert (engine.rungs[0].position < 0.0).any() and (engine.rungs[0].position > 0.0).any()

    def test_solves_that_fail_on_the_way_do_no_harm(self, draw):
        def function(x):
            inside = x[:, 0] > -1.0
            return np.where(inside, 0.5 * x[:, 0] ** 2, np.nan), x

        target = iv.Target(
            iv.extending.FunctionPotential(function, 1), start=lambda rng, n: rng.uniform(0.0, 9.0, (n, 1))
        )
        run = draw(target, iv.mala(), draws=50, chains=8)
        assert run.theta.min() > -1.0
        assert run.report["descents"][0]["unfinished"] == 0

    def test_given_steps_are_not_led(self, draw):
        target = iv.Target(
            iv.extending.FunctionPotential(lambda x: (0.5 * x[:, 0] ** 2, x), 1), start=np.array([[50.0]])
        )
        run = draw(target, iv.mala(0.01), draws=1, warmup=0, chains=8)
        assert run.theta.min() > 45.0
        assert run.report["descents"] == [None]


class TestItsLength:
    posterior = linear(np.eye(4), np.zeros(4), iv.Prior(b=iv.Normal(np.zeros(4), 1.0)), iv.GaussianNoise(0.1))

    def test_ends_when_nothing_changes_any_more(self, draw):
        report = draw(self.posterior, iv.mams(), draws=1000, chains=4).report
        assert report["warmup"] < report["warmup_most"] == 500

    def test_is_what_was_asked_for(self, draw):
        report = draw(self.posterior, iv.mams(), draws=10, warmup=200, chains=4).report
        assert report["warmup"] == report["warmup_most"] == 200

    def test_on_a_ladder_is_the_whole(self, draw):
        assert draw(self.posterior, iv.samplers.parallel_tempering(), draws=10, chains=4).report["warmup"] == 500

    def test_a_directory_changes_nothing(self, draw, tmp_path):
        alone = draw(self.posterior, iv.mams(), draws=30, chains=4)
        kept = draw(self.posterior, iv.mams(), draws=30, chains=4, directory=tmp_path / "run", segment=7)
        assert kept.report["warmup"] == alone.report["warmup"] < 500
        np.testing.assert_array_equal(kept.theta, alone.theta)
        more = iv.resume(tmp_path / "run", self.posterior, draws=40, progress=False)
        np.testing.assert_array_equal(more.theta[:, :30], alone.theta)


def test_what_is_far():
    assert far(2) == 10.0
    assert far(200) == 130.0
