"""Distributions under noisy gradients: what the noise budget repairs, and what it does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from targets import CORRELATED, gaussian, second_moments, sgld_covariance, upper

import invsamp.kernels.langevin
from invsamp.domains import Unbounded
from invsamp.estimators import minibatch, noisy
from invsamp.ladder import GradientNoise
from invsamp.posing.posterior.function_potential import SumPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import fast_resgld, resgld, sgld
from invsamp.variances.models import kernel_ridge, known, running_average


def printed_budget(gradient, noise, step_size, gradient_noise):
    """The budget as f-reSGLD prints it, tau eta where 2 tau eta is right."""
    left = np.maximum(step_size - step_size**2 * gradient_noise, 0.0)
    return np.sqrt(left)[:, None] * noise - step_size * gradient, 0


class TestNoiseBudget:
    """With the gradient's noise subtracted from the injected noise, SGLD's distribution is that of exact gradients."""

    step = 0.5

    @pytest.mark.parametrize(
        "variance", [known(), known(1.0), running_average(), kernel_ridge()], ids=lambda v: type(v).__name__
    )
    def test_each_variance_model(self, draw, agrees, variance):
        # 1,000 probes at 100 states and more: the learned variance is right to 0.5%
        run = self.run(draw, noisy(0.0, 1.0), GradientNoise(variance), gaussian(1.0))
        truth = 1.0 / (1.0 - self.step / 2.0)
        learned = self.step / 2.0 * 0.005 * truth
        assert agrees(second_moments(run), truth, learned)
        assert run.report["clipped_noise"] == [0.0]

    def test_no_budget_is_rejected(self, draw, agrees):
        run = self.run(draw, noisy(0.0, 1.0), None, gaussian(1.0))
        assert not agrees(second_moments(run), 1.0 / (1.0 - self.step / 2.0))

    def test_printed_budget_is_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr(invsamp.kernels.langevin, "propose", printed_budget)
        run = self.run(draw, noisy(0.0, 1.0), GradientNoise(), gaussian(1.0))
        assert not agrees(second_moments(run), 1.0 / (1.0 - self.step / 2.0))

    @pytest.mark.parametrize("preconditioner", [None, "diagonal", "dense"])
    @pytest.mark.parametrize("structure", ["isotropic", "diagonal", "full"])
    def test_each_structure_in_each_metric(self, draw, agrees, structure, preconditioner):
        precision = np.linalg.inv(CORRELATED)
        noise = GradientNoise(known(), structure)
        run = self.run(draw, noisy(0.0, 0.8), noise, gaussian(precision), preconditioner=preconditioner)
        assert agrees(second_moments(run), upper(sgld_covariance(precision, run, self.step)))

    def test_correlated_noise_of_a_minibatch(self, draw, agrees):
        target, precision, noise = bivariate_mean()
        step = 0.4 / np.linalg.eigvalsh(precision).max()

        def moments(variance, structure):
            budget = GradientNoise(variance, structure)
            run = draw(
                target, sgld(step, estimator=minibatch(50), gradient_noise=budget), draws=100, thin=2, warmup=100
            )
            truth = upper(sgld_covariance(precision, run, step))
            return second_moments(run) / truth, run.report["clipped_noise"]

        full, clipped = moments(known(noise), "full")
        assert clipped == [0.0]
        assert agrees(full, np.ones(3))
        stated, _ = moments(known(), "full")  # each batch's own covariance: its error is noise of second order
        assert agrees(stated, np.ones(3), 0.02)
        # the same total noise without its correlation
        isotropic, _ = moments(known(np.trace(noise) / 2.0), "isotropic")
        assert not agrees(isotropic, np.ones(3), 0.02)

    def test_state_dependent_noise_needs_a_state_dependent_variance(self, draw, agrees):
        def gradient_sd(position, energy):
            return 1.8 / (1.0 + np.exp(-2.0 * position[:, 0]))

        runs = {
            model: self.run(draw, noisy(0.0, gradient_sd), GradientNoise(model), gaussian(1.0))
            for model in (known(), kernel_ridge(), running_average())
        }
        right = np.array([1.0 / (1.0 - self.step / 2.0), 0.0])
        # an average keeps the variance whatever the noise depends on; the third moment shows the difference
        moments = {m: np.stack([(r.theta[..., 0] ** k).mean(axis=1) for k in (2, 3)], axis=1) for m, r in runs.items()}
        assert agrees(moments[known()], right)
        # the regression is right to about 2% on the target
        assert agrees(moments[kernel_ridge()], right, self.step / 2.0 * 0.02 * 1.8**2)
        assert not agrees(moments[running_average()], right, self.step / 2.0 * 0.02 * 1.8**2)

    def test_overspent_budget_is_counted(self, draw, agrees):
        # 2 tau / eta = 4 < 5: no noise may be injected, and the distribution is that of the gradient's noise
        noise = GradientNoise(on_noise_overflow="clip")
        # no warm-up, which would refuse
        run = self.run(draw, noisy(0.0, math.sqrt(5.0)), noise, gaussian(1.0), warmup=0)
        assert run.report["clipped_noise"] == [1.0]
        assert agrees(second_moments(run), self.step * 5.0 / 2.0 / (1.0 - self.step / 2.0))

    def run(self, draw, estimator, noise, potential, preconditioner=None, warmup=500):
        sampler = sgld(self.step, estimator=estimator, gradient_noise=noise, preconditioner=preconditioner)
        (rung,) = sampler.rungs
        sampler = type(sampler)((type(rung)(**{**rung.__dict__, "probes": 1000}),), sampler.swap, preconditioner)
        return draw(Target(potential), sampler, draws=500, thin=2, warmup=warmup)


def bivariate_mean():
    """Posterior of a bivariate mean, 200 data: target centered on its mean, precision, covariance of batches of 50."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((200, 2)) @ np.linalg.cholesky(CORRELATED).T
    data -= data.mean(axis=0)
    precision = np.linalg.inv(CORRELATED)

    def term(position, batch):
        away = position[:, None] - batch
        pull = away @ precision
        return 0.5 * (pull * away).sum(axis=2), pull

    spread = precision @ np.cov(data.T) @ precision
    covariance = 200**2 / 50 * (1.0 - 50 / 200) * spread
    target = Target(SumPotential(data, term, 2), start=lambda rng, n: 0.1 * rng.standard_normal((n, 2)))
    return target, 200 * precision, covariance


class TestMinibatch:
    """Posterior of a Gaussian mean: variance (1 + eps r/2) / (1 - eps/2) in its own units, r = (N/n)(1 - n/N)."""

    size, batch, eps = 100, 50, 0.5
    ratio = size / batch * (1.0 - batch / size)
    #: Standard error of the variance from warm-up: 5 batches of each of 256 chains, 49 degrees of freedom.
    learned = math.sqrt(2.0 / (5 * 256 * 49)) * eps * ratio / 2.0

    @pytest.fixture
    def target(self):
        data = np.random.default_rng(0).standard_normal(self.size)
        data = (data - data.mean()) / data.std(ddof=1)

        def term(position, batch):
            away = position - batch
            return 0.5 * away**2, away[:, :, None]

        start = lambda rng, n: rng.standard_normal((n, 1)) / math.sqrt(self.size)  # noqa: E731
        return Target(SumPotential(data, term, 1), start=start)

    def moments(self, run):
        return self.size * second_moments(run)

    def test_plain_sgld(self, draw, agrees, target):
        run = draw(target, sgld(self.eps / self.size, estimator=minibatch(self.batch)), draws=400, thin=2)
        truth = (1.0 + self.eps * self.ratio / 2.0) / (1.0 - self.eps / 2.0)
        assert agrees(self.moments(run), truth)
        without_replacement_forgotten = (1.0 + self.eps * self.size / self.batch / 2.0) / (1.0 - self.eps / 2.0)
        assert not agrees(self.moments(run), without_replacement_forgotten)

    def test_corrected_by_what_batches_show(self, draw, agrees, target):
        sampler = sgld(
            self.eps / self.size, estimator=minibatch(self.batch), gradient_noise=GradientNoise(running_average())
        )
        run = draw(target, sampler, draws=400, thin=2)
        assert agrees(self.moments(run), 1.0 / (1.0 - self.eps / 2.0), self.learned)

    def test_fast_resgld_corrects_and_resgld_does_not(self, draw, agrees, target):
        eps = 0.2
        # hardly hotter: the energies of these batches have sd 7
        settings = {"temperatures": (1.0, 1.2), "step_size": eps / self.size, "estimator": minibatch(self.batch)}
        # swaps pull towards 1, steps towards 1 / (1 - eps/2): anything in between
        low, high = 1.0, 1.0 / (1.0 - eps / 2.0)
        corrected = draw(target, fast_resgld(**settings, variance=running_average()), draws=200, thin=2, warmup=300)
        plain = draw(target, resgld(**settings), draws=200, thin=2, warmup=300)
        assert corrected.report["swap_accepts"][0] > 0.1 * corrected.report["swap_attempts"][0]
        for run, right in ((corrected, True), (plain, False)):
            found = self.moments(run)
            assert bool(agrees(found, np.clip(found.mean(), low, high), self.learned)) is right


def test_budget_of_zero_variance_is_plain_sgld(draw):
    """Limit case: the same draws, bit for bit."""
    target = Target(gaussian(np.eye(2)), Unbounded())
    plain = draw(target, sgld(0.3, estimator=noisy(0.0, 0.0)), draws=50, warmup=0)
    budgeted = draw(
        target, sgld(0.3, estimator=noisy(0.0, 0.0), gradient_noise=GradientNoise(known(0.0))), draws=50, warmup=0
    )
    np.testing.assert_array_equal(plain.theta, budgeted.theta)
