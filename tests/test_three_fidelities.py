"""Ladders of three and four rungs on three fidelities, each rung its own: the cold one samples the finest posterior."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.kernels import Langevin
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.posing.distributions.univariate import Normal
from invsamp.posing.forward_models.adapters import with_jacobian
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.samplers import parallel_tempering
from invsamp.swaps.discrepancy import Discrepancy
from invsamp.swaps.rules import delayed_acceptance, multi_variance, product_target, state_dependent_penalty

DATA = (1.6, 2.4, 2.2)
SLOPES = np.array([0.6, 1.0, 1.4])
#: Fidelity -> (shift, tilt) of its predictions: a tilt moves mass between the modes.
BIASES = {"coarse": (0.3, -0.6), "medium": (0.1, -0.3), "fine": (0.0, 0.0)}
NOISE_SD = 1.0


def model(shift, tilt):
    """Two modes, as the data see the square of x."""

    def predict(theta):
        return SLOPES * (theta**2 + tilt * theta + shift)

    return with_jacobian(predict, lambda theta: (SLOPES * (2.0 * theta + tilt))[:, :, None])


POSTERIOR = Posterior(
    Prior(x=Normal(0.4, 1.0)), {name: model(*bias) for name, bias in BIASES.items()}, DATA, GaussianNoise(NOISE_SD)
)


def truth(fidelity):
    """Weight of the positive mode, mean and mean square, by quadrature."""
    x = np.linspace(-5.0, 5.0, 20_001)[:, None]
    log_density = POSTERIOR.log_likelihood(x, fidelity).sum(axis=1) + POSTERIOR.log_prior(x)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    return np.array([weight @ (x[:, 0] > 0.0), weight @ x[:, 0], weight @ x[:, 0] ** 2])


def seen(run, rung=0):
    """The same of each chain, after its first quarter."""
    x = run.rung_theta(rung)[:, run.report["draws"] // 4 :, 0]
    return np.column_stack([(x > 0.0).mean(axis=1), x.mean(axis=1), (x**2).mean(axis=1)])


LADDERS = {3: ((1.0, 3.0, 9.0), (0.05, 0.15, 0.4)), 4: ((1.0, 2.0, 4.0, 9.0), (0.05, 0.1, 0.2, 0.4))}
#: By default each rung takes a fidelity one coarser than the one before, down to the coarsest.
GRADED = {3: ["fine", "medium", "coarse"], 4: ["fine", "medium", "coarse", "coarse"]}


@pytest.mark.parametrize("rungs", [3, pytest.param(4, marks=pytest.mark.slow)])
class TestLadders:
    def run(self, draw, rungs, draws=800, **settings):
        temperatures, steps = LADDERS[rungs]
        sampler = parallel_tempering(temperatures, steps, swap_fraction=0.3, **settings)
        return draw(POSTERIOR, sampler, draws=draws, warmup=0)

    def test_default_samples_the_finest_posterior(self, draw, agrees, rungs):
        run = self.run(draw, rungs, draws=2400)
        report = run.report
        assert report["fidelities"] == GRADED[rungs]
        learned = str(delayed_acceptance(Discrepancy()))
        between = [learned, learned, str(state_dependent_penalty())][: rungs - 1]
        assert report["swap_rules"] == between
        assert agrees(seen(run), truth("fine"))
        # the levels differ enough for the test
        assert not agrees(seen(run), truth("medium"))
        assert not agrees(seen(run), truth("coarse"))
        assert min(a / b for a, b in zip(report["swap_accepts"], report["swap_attempts"], strict=True)) > 0.1
        assert report["round_trips"] > 256

    def test_one_stage_samples_the_finest_posterior(self, draw, agrees, rungs):
        assert agrees(seen(self.run(draw, rungs, swap=product_target())), truth("fine"))

    @pytest.mark.parametrize(
        "rule",
        [state_dependent_penalty(assume_unbiased=True), multi_variance(0.25, assume_unbiased=True)],
        ids=["eq 18", "eq 11, mostly coarse"],
    )
    def test_rules_for_unbiased_fidelities_miss_it(self, draw, agrees, rungs, rule):
        assert not agrees(seen(self.run(draw, rungs, draws=2400, swap=rule)), truth("fine"))

    def test_solves_are_reported_by_fidelity(self, draw, rungs):
        report = self.run(draw, rungs).report
        steps = {name: GRADED[rungs].count(name) * 801 * 256 for name in BIASES}  # and the start
        for name, count in steps.items():
            assert report["evaluations"][name] == count + report["swap_solves"][name]
        # the fine model is solved for attempts that pass the first stage alone
        assert 0 < report["swap_solves"]["fine"] < report["swap_attempts"][0]
        attempts = sum(report["swap_attempts"])
        assert report["swap_solves_per_attempt"]["fine"] == pytest.approx(report["swap_solves"]["fine"] / attempts)


def test_coupled_sums_on_the_cold_rung_of_three(draw):
    """Gradients of the cold rung from all three, swaps from its own: the levels are solved at their probabilities."""
    temperatures, steps = LADDERS[3]
    estimators = (coupled_sum(probabilities=(1.0, 0.4, 0.2)), None, None)
    rungs = tuple(
        Rung(t, k, kernel=Langevin(adjusted=True), step_size=h) if e is None else Rung(t, k, e, Langevin(), 1e-4)
        for k, (t, h, e) in enumerate(zip(temperatures, steps, estimators, strict=True))
    )
    report = draw(POSTERIOR, Sampler(rungs, Swap(fraction=0.1)), draws=200, warmup=0, start={"x": 1.2}).report
    n = 201 * 256
    # what swaps do not explain is the cold rung's share; 3% is three standard deviations of the rarest
    shares = {name: report["evaluations"][name] - report["swap_solves"][name] for name in BIASES}
    assert shares["fine"] == pytest.approx(0.2 * n, rel=0.03)
    assert shares["medium"] == pytest.approx((1.0 + 0.4) * n, rel=0.03)
    assert shares["coarse"] == pytest.approx((1.0 + 1.0) * n, rel=0.03)
