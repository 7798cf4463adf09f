"""Beyond the noise budget: the invariant distribution of each option, by the operator of one rung and the code."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from functions import square
from scipy.special import expit

from invsamp.diagnostics.checks import diagnose
from invsamp.estimators import noisy
from invsamp.kernels import Langevin
from invsamp.kernels.schedules import exponential
from invsamp.ladder import GradientNoise, Rung, Sampler, Swap
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import fast_resgld, sghmc, sgld
from invsamp.sampling import sample
from invsamp.swaps.rules import metropolis
from invsamp.variances.models import known, running_average

STEP = 0.03
GRID = np.linspace(-6.0, 6.0, 401)
#: exp(-x^2 / 2) on the grid.
TARGET = np.exp(-0.5 * GRID**2) / np.exp(-0.5 * GRID**2).sum()


def gaussian(dimension=1):
    return Target(FunctionPotential(square, dimension), start=lambda rng, n: rng.standard_normal((n, dimension)))


def loud(position, energy):
    """Sd of the gradient from 6 on the left to 14 on the right; the budget of a step of 0.03 is 8.2."""
    return 6.0 + 8.0 * expit(position[:, 0])


def constant(position, energy):
    return np.full(len(position), 10.0)


def target(gradient_sd, step_size, clip=False):
    """Invariant distribution on the grid of x' = x - h x + noise, the step a number or one for each state.

    The noise has variance 2 h in all, or that of the gradient alone where it exceeds that and is clipped.
    """
    step = np.broadcast_to(step_size, GRID.shape)
    variance = 2.0 * step
    if clip:
        variance = np.maximum(variance, (step * gradient_sd(GRID[:, None], None)) ** 2)
    away = GRID - ((1.0 - step) * GRID)[:, None]
    matrix = np.exp(-(away**2) / (2.0 * variance[:, None]))
    matrix /= matrix.sum(axis=1, keepdims=True)
    system = matrix.T - np.eye(len(GRID))
    system[-1] = 1.0  # one equation is redundant: probabilities sum to one instead
    return np.linalg.solve(system, np.eye(len(GRID))[-1])


def divergence(truth, found):
    return float((truth * np.log(truth / found)).sum())


def moments(target):
    return [float((target * GRID).sum()), float((target * GRID**2).sum())]


class TestOperator:
    def test_noise_of_one_size_clipped_is_wrong_and_shrunk_is_right(self):
        largest = 2.0 / 100.0
        assert divergence(TARGET, target(constant, STEP, clip=True)) > 0.03
        assert divergence(TARGET, target(constant, largest)) < 1e-4

    def test_shrunk_state_by_state_the_distribution_is_that_over_the_step(self):
        """The reason for one step size for the whole rung."""
        by_state = np.minimum(STEP, 2.0 / loud(GRID[:, None], None) ** 2)
        rested = TARGET / by_state
        found = target(loud, by_state)
        assert divergence(rested / rested.sum(), found) < 1e-4
        assert divergence(TARGET, found) > 0.03
        assert divergence(TARGET, target(loud, STEP, clip=True)) > 0.03
        assert divergence(TARGET, target(loud, by_state.min())) < 1e-4


@pytest.mark.parametrize("gradient_sd", [constant, loud], ids=["constant", "by state"])
class TestCodeIsTheOperator:
    def run(self, draw, gradient_sd, beyond, warmup):
        sampler = sgld(
            STEP, estimator=noisy(0.0, gradient_sd), gradient_noise=GradientNoise(known(), on_noise_overflow=beyond)
        )
        return draw(gaussian(), sampler, draws=600, thin=3, warmup=warmup)

    def statistics(self, run):
        x = run.theta[..., 0]
        return np.column_stack([x.mean(axis=1), (x**2).mean(axis=1)])

    def test_shrink(self, draw, agrees, within, gradient_sd):
        # what is beyond the budget later is rarer than anything in warm-up
        run = self.run(draw, gradient_sd, "shrink", 1000)
        (step,) = run.report["step_sizes"]
        assert 2.0 / 14.0**2 <= step <= 2.0 / 10.0**2 * (1.0 + 1e-12)
        assert within(run.report["clipped_noise"][0], 1e-2)
        assert "shrunk to the noise budget" in run.report["step_size_source"][0]
        statistics = self.statistics(run)
        assert agrees(statistics, moments(target(gradient_sd, step)))
        assert not agrees(statistics, moments(target(gradient_sd, STEP, clip=True)))

    def test_clip(self, draw, agrees, gradient_sd):
        """No warm-up, nothing is rejected: a control whose distribution is wrong as predicted."""
        run = self.run(draw, gradient_sd, "clip", 0)
        assert run.report["step_sizes"] == [STEP]
        statistics = self.statistics(run)[:, 1]
        assert agrees(statistics, moments(target(gradient_sd, STEP, clip=True))[1])
        assert not agrees(statistics, 1.0 / (1.0 - STEP / 2.0))
        assert any("too wide: do not use them" in message for message in diagnose(run.summary(), run.report))


class TestRefusal:
    @pytest.mark.parametrize(("beyond", "limit"), [("refuse", "1%"), ("clip", "10%")])
    def test_before_the_draws_begin(self, draw, beyond, limit):
        sampler = sgld(
            STEP, estimator=noisy(0.0, 10.0), gradient_noise=GradientNoise(known(), on_noise_overflow=beyond)
        )
        message = rf"a step injects in 100.0% .*, above {limit}. Take a step_size of at most 0.02 \(now 0.03"
        with pytest.raises(RuntimeError, match=message):
            draw(gaussian(), sampler, draws=10, warmup=100, chains=4)

    @pytest.mark.parametrize("beyond", ["refuse", "clip"])
    def test_not_within_the_budget(self, draw, beyond):
        sampler = sgld(
            0.01, estimator=noisy(0.0, 10.0), gradient_noise=GradientNoise(known(), on_noise_overflow=beyond)
        )
        assert draw(gaussian(), sampler, draws=10, warmup=100, chains=4).report["clipped_noise"] == [0.0]

    def test_between_the_limits_clip_warns_and_refuse_does_not_go_on(self):
        """Noise beyond the budget right of 2, which is 2.5% of the states."""

        def rare(position, energy):
            return np.where(position[:, 0] > 2.0, 10.0, 1.0)

        settings = {"draws": 500, "warmup": 1000, "chains": 16, "seed": 1, "progress": False}
        made = {
            beyond: sgld(
                STEP, estimator=noisy(0.0, rare), gradient_noise=GradientNoise(known(), on_noise_overflow=beyond)
            )
            for beyond in ("clip", "refuse")
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            run = sample(gaussian(), made["clip"], **settings)
            with pytest.raises(RuntimeError, match="above 1%"):
                sample(gaussian(), made["refuse"], **settings)
        assert 0.01 < run.report["clipped_noise"][0] < 0.1
        (warning,) = (message for message in run.warnings() if "too wide" in message)
        assert "above 1%" in warning and "do not use" not in warning


class TestShrink:
    def test_schedule_is_held_back(self, draw):
        sampler = sgld(
            exponential(STEP, 0.999), estimator=noisy(0.0, 10.0), gradient_noise=GradientNoise(running_average())
        )
        run = draw(gaussian(), sampler, draws=1000, warmup=200, chains=16, thin=1)
        steps = run.data.sample_stats["step_size"].to_numpy()[0]
        # 160 sample variances of nine degrees of freedom: 0.04 is their relative error, four of them
        assert steps[0] == pytest.approx(0.02, rel=0.16)
        assert steps[0] == steps[50] > steps[-1]

    def test_every_form_and_friction_has_its_budget(self, draw):
        friction, step = 0.5, 0.1
        covariance = np.array([[40.0, 15.0], [15.0, 10.0]])
        largest = float(np.linalg.eigvalsh(covariance)[-1])
        noise = GradientNoise(known(covariance), "full")
        sampler = sghmc(step, friction=friction, gradient_noise=noise, estimator=noisy(0.0, 1.0))
        run = draw(gaussian(2), sampler, draws=2, warmup=100, chains=4)
        assert run.report["step_sizes"] == pytest.approx([2.0 * friction / largest])

    def test_warm_up_without_steps_looks_at_the_starts(self, draw):
        sampler = sgld(STEP, estimator=noisy(0.0, 10.0), gradient_noise=GradientNoise(known()))
        run = draw(gaussian(), sampler, draws=10, warmup=0, chains=4)
        assert run.report["step_sizes"] == pytest.approx([0.02])

    def test_within_the_budget_nothing_changes(self, draw):
        sampler = sgld(STEP, estimator=noisy(0.0, 5.0), gradient_noise=GradientNoise(known()))
        run = draw(gaussian(), sampler, draws=10, warmup=100, chains=4)
        assert run.report["step_sizes"] == [STEP]
        assert run.report["step_size_source"] == ["given"]


class TestEffectiveTemperature:
    HOT, TAKEN, HOT_STEP = 2.0, 10.0, 0.01

    def run(self, draw, beyond, warmup):
        sd = float(np.sqrt(2.0 * self.TAKEN / self.HOT_STEP))
        noise = GradientNoise(known(), on_noise_overflow=beyond)
        cold = Rung(kernel=Langevin(adjusted=True), step_size=0.5)
        hot = Rung(self.HOT, estimator=noisy(0.0, sd), step_size=self.HOT_STEP, gradient_noise=noise)
        sampler = Sampler((cold, hot), Swap(metropolis(), fraction=0.5))
        return draw(gaussian(), sampler, draws=400, thin=3, warmup=warmup)

    def test_in_moves_and_in_swaps(self, draw, agrees):
        """Variances are the temperatures, but for the 0.5% of the hot step."""
        run = self.run(draw, "effective_temperature", 300)
        assert run.report["temperatures"] == pytest.approx([1.0, self.TAKEN])
        assert run.report["step_sizes"] == [0.5, self.HOT_STEP]
        cold, hot = ((run.rung_theta(k)[..., 0] ** 2).mean(axis=1) for k in (0, 1))
        assert agrees(cold, 1.0)
        assert agrees(hot, self.TAKEN / (1.0 - self.HOT_STEP / 2.0))
        # as hot, but swapped as if it were not: the cold rung's distribution is wrong
        clipped = self.run(draw, "clip", 0)
        assert not agrees((clipped.theta[..., 0] ** 2).mean(axis=1), 1.0)

    def test_within_the_budget_it_is_its_own(self, draw):
        sampler = fast_resgld((1.0, 4.0), 0.01, estimator=noisy(0.0, 2.0), on_noise_overflow="effective_temperature")
        run = draw(gaussian(), sampler, draws=10, warmup=100, chains=4)
        assert run.report["temperatures"] == [1.0, 4.0]

    def test_never_on_the_cold_rung(self):
        noise = GradientNoise(on_noise_overflow="effective_temperature")
        with pytest.raises(ValueError, match="must not be 'effective_temperature' on the cold rung"):
            sgld(0.1, gradient_noise=noise)
        sampler = fast_resgld((1.0, 4.0), 0.1, on_noise_overflow="effective_temperature")
        assert [rung.gradient_noise.on_noise_overflow for rung in sampler.rungs] == ["shrink", "effective_temperature"]

    def test_needs_one_step_size(self):
        with pytest.raises(ValueError, match=r"step_size of a rung .* must be one number, got"):
            Rung(
                4.0,
                step_size=exponential(0.1, 0.9),
                gradient_noise=GradientNoise(on_noise_overflow="effective_temperature"),
            )


def test_unknown_answers_are_named():
    with pytest.raises(ValueError, match=r"on_noise_overflow must be one of .*, got 'ignore'"):
        GradientNoise(on_noise_overflow="ignore")
