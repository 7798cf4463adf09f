"""What chains teach in warm-up: nothing where they have not arrived; and steps that were given for a metric to come."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.diagnostics.limits import STRAY_LIMIT, VIRIAL_LIMIT
from invsamp.engine.adaptation.metric_estimation import DenseMetricEstimator, DiagonalMetricEstimator
from invsamp.estimators import noisy
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import parallel_tempering, sghmc, sgld

KINDS = [DenseMetricEstimator, DiagonalMetricEstimator]
#: Of two nearly dependent unknowns: steps of .02 are thousands of times too long in a metric by the starts' spread.
COVARIANCE = np.array([[1.0, 0.999, 0.0], [0.999, 1.0, 0.0], [0.0, 0.0, 0.01]])
PRECISION = np.linalg.inv(COVARIANCE)
SPREAD = 20.0


def metric_estimator(kind, draws, wide=1.0, energies=(0.0,) * 8):
    """Eight chains on a normal distribution far from the origin, with draws that are too wide by a factor."""
    rng = np.random.default_rng(3)
    found, d = kind(draws, 8, 5), 5
    for x in wide * rng.standard_normal((draws, 8, d)):
        found.add(1e3 + x, x, 0.5 * np.square(x).sum(axis=1) + energies)
    return found


def narrow():
    """A correlated normal distribution with much wider starting points."""

    def function(position):
        pull = position @ PRECISION
        return 0.5 * (pull * position).sum(axis=1), pull

    return Target(FunctionPotential(function, 3), start=lambda rng, n: SPREAD * rng.standard_normal((n, 3)))


def exact(chains):
    """Draws of it."""
    return np.random.default_rng(5).multivariate_normal(np.zeros(3), COVARIANCE, size=chains)


def width_errors(matrix):
    """Logs of the widths of a metric over those of the distribution, along all axes."""
    return 0.5 * np.log(np.linalg.eigvals(np.linalg.solve(COVARIANCE, np.array(matrix))).real)


class TestUnsettled:
    @pytest.mark.parametrize("kind", KINDS)
    def test_converged_chains_are_not(self, kind):
        found = metric_estimator(kind, 100).stationarity()
        assert found.virial == pytest.approx(1.0, abs=0.15)
        assert found.stray == 0.0 and not found.disturbed

    @pytest.mark.parametrize("kind", KINDS)
    def test_chains_that_are_thrown_about_are(self, kind):
        found = metric_estimator(kind, 100, wide=3.0).stationarity()
        assert found.virial == pytest.approx(9.0, rel=0.15)
        assert found.disturbed

    @pytest.mark.parametrize("kind", KINDS)
    def test_modes_far_apart_are_none(self, kind):
        rng, modes = np.random.default_rng(3), 1e4 * np.repeat([-1.0, 1.0], 4)[:, None]
        found = kind(100, 8, 5)
        for x in rng.standard_normal((100, 8, 5)):
            found.add(modes + x, x, 0.5 * np.square(x).sum(axis=1))
        assert found.stationarity().virial == pytest.approx(1.0, abs=0.15)

    @pytest.mark.parametrize("kind", KINDS)
    def test_chains_far_above_the_others(self, kind):
        far = (0.0, 0.0, *[1000.0] * 5, 1001.0)
        found = metric_estimator(kind, 20, energies=far)
        assert found.stationarity().stray == 0.75 and found.stationarity().disturbed
        assert found.arrived_chains().sum() == 2
        assert 4 <= len(found.lower()) < 8 and set(found.lower()) >= {0, 1}

    def test_both_kinds_agree_also_when_they_are_restored(self):
        virials = []
        for kind in KINDS:
            found, again = metric_estimator(kind, 50), kind(50, 8, 5)
            again.restore(found.state())
            assert again.stationarity() == found.stationarity()
            virials.append(found.stationarity().virial)
        assert virials[0] == pytest.approx(virials[1], rel=1e-9)


class TestStepsThatWereGiven:
    """They are right in the metric that warm-up finds, and until then none but that of the starts is known."""

    @pytest.mark.parametrize("seed", [1, 2, 3])
    @pytest.mark.parametrize(
        "make",
        [
            lambda: sgld(0.02, preconditioner="dense"),
            lambda: sghmc(0.02, preconditioner="dense"),
            lambda: parallel_tempering((1.0, 5.0), step_size=(0.02, 0.04), adjusted=False, preconditioner="dense"),
            lambda: sgld(lambda step: 0.02, preconditioner="dense"),
        ],
        ids=["sgld", "sghmc", "ladder", "schedule"],
    )
    def test_the_metric_is_right(self, draw, make, seed):
        run = draw(narrow(), make(), draws=10, warmup=500, chains=16, seed=seed, start=exact(16))
        for matrix in run.report["preconditioner_matrices"]:
            assert np.abs(width_errors(matrix)).max() < 0.3
        assert all(of["virial"] < VIRIAL_LIMIT and of["stray"] == 0.0 for of in run.report["stationarity"])
        if not callable(make().rungs[0].step_size):
            assert run.report["step_sizes"] == [rung.step_size for rung in make().rungs]

    def test_of_noisy_energies(self, draw):
        """They are held back if the first metric is that of the starts: no chain leaves."""
        sampler = sgld(0.02, estimator=noisy(0.0, 1.0), preconditioner="dense")
        run = draw(narrow(), sampler, draws=10, warmup=200, chains=16, start=exact(16))
        assert np.abs(width_errors(run.report["preconditioner_matrices"][0])).max() < 0.05
        assert run.report["step_sizes"] == [0.02]
        assert np.abs(run.theta).max() < 6.0


@pytest.mark.filterwarnings("ignore:R-hat|ess_")
class TestItIsSaid:
    def test_steps_too_long_for_the_target(self):
        """Of step h in whitened coordinates a variance is 1 / (1 - h / 2) of the right one: 5 times."""
        with pytest.warns(UserWarning, match="Steps are too long"):
            sampler = sgld(1.6, preconditioner="dense")
            run = iv.sample(narrow(), sampler, draws=50, warmup=1000, chains=32, seed=1, progress=False)
        (found,) = run.report["stationarity"]
        assert VIRIAL_LIMIT < found["virial"] == pytest.approx(5.0, rel=0.35)

    def test_chains_that_stay_far_above_the_others(self):
        """Most begin in a hollow that has no mass, and from which no step leads."""

        def function(position):
            away = np.where(position > 50.0, 100.0, 0.0)
            return (0.5 * np.square(position - away) + np.where(away, 1000.0, 0.0)).sum(axis=1), position - away

        target, sampler = Target(FunctionPotential(function, 1)), sgld(0.1, preconditioner="dense")
        start = np.where(np.arange(8) < 3, 0.0, 100.0)[:, None]
        with pytest.warns(UserWarning, match="62% of the chains were far above"):
            run = iv.sample(target, sampler, draws=50, warmup=200, chains=8, seed=1, start=start, progress=False)
        (found,) = run.report["stationarity"]
        assert found["stray"] == 0.625 > STRAY_LIMIT
