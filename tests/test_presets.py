"""The presets are the compositions that the literature describes."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.domains.boundary import Ignore, Reflect, penalized
from invsamp.estimators import exact, minibatch, noisy
from invsamp.estimators.exact_energies import Exact
from invsamp.kernels import Langevin, Momentum
from invsamp.kernels.schedules import constant, cyclic_cosine
from invsamp.ladder import GradientNoise, Sampler
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import (
    cyclic_sgld,
    fast_resgld,
    ghmc,
    hmc,
    mala,
    mams,
    multi_variance_resgld,
    parallel_tempering,
    r2sgld,
    resgld,
    sghmc,
    sgld,
)
from invsamp.swaps.rules import delayed_acceptance, metropolis, multi_variance, noise_penalty, state_dependent_penalty
from invsamp.swaps.schemes import deo, seo
from invsamp.tempering import tempered
from invsamp.variances.models import kernel_ridge, known, running_average

LADDERS = {f.__name__: f for f in (parallel_tempering, resgld, r2sgld, multi_variance_resgld, fast_resgld)}
SINGLES = {f.__name__: f for f in (sgld, sghmc, mala, ghmc, hmc, mams)}


def test_sgld():
    (rung,) = sgld(0.1, estimator=minibatch(5)).rungs
    assert (rung.target, rung.kernel, rung.step_size) == (tempered(1.0), Langevin(False), 0.1)
    assert rung.estimator == minibatch(5)
    assert rung.gradient_noise is None


def test_mala():
    (rung,) = mala().rungs
    assert (rung.kernel, rung.estimator, rung.step_size) == (Langevin(True), Exact(), None)


def test_ghmc():
    (rung,) = ghmc(0.1, friction=0.3).rungs
    assert (rung.kernel, rung.estimator, rung.step_size) == (Momentum(0.3, adjusted=True), Exact(), 0.1)
    assert ghmc().rungs[0].kernel == Momentum(0.05, adjusted=True)


def test_sghmc():
    sampler = sghmc(0.1, friction=0.3, estimator=minibatch(5), gradient_noise=GradientNoise())
    (rung,) = sampler.rungs
    assert (rung.kernel, rung.step_size, rung.estimator) == (Momentum(0.3), 0.1, minibatch(5))
    assert rung.gradient_noise == GradientNoise()
    assert sghmc().rungs[0].kernel == Momentum(0.1)
    assert "momentum (friction 0.3)" in str(sampler)
    with pytest.raises(ValueError, match=r"friction must be a number in \(0, 1\], got 2.0"):
        sghmc(friction=2.0)


def test_cyclic_sgld():
    (rung,) = cyclic_sgld(0.1).rungs
    assert rung == sgld(cyclic_cosine(0.1, cycles=5)).rungs[0]
    assert cyclic_sgld(0.1, cycles=3, boundary="ignore") == sgld(cyclic_cosine(0.1, cycles=3), boundary="ignore")


def test_r2sgld_is_resgld_with_reflection():
    settings = {"step_size": (0.01, 0.02), "estimator": noisy(1.0, 2.0), "swap_fraction": 1.0}
    assert r2sgld(**settings) == resgld((1.0, 10.0), **settings, boundary="reflect")
    assert r2sgld((1.0, 3.0), swap=metropolis()) == resgld((1.0, 3.0), swap=metropolis())
    assert r2sgld().boundary == Reflect()


@pytest.mark.parametrize("name", [name for name in {**LADDERS, **SINGLES} if name != "r2sgld"])
def test_boundary(name):
    make = {**LADDERS, **SINGLES}[name]
    assert make().boundary == Reflect()
    assert make(boundary="ignore").boundary == Ignore()
    assert make(boundary=penalized(2.0)).boundary == penalized(2.0)


def test_parallel_tempering_is_exact_by_default():
    sampler = parallel_tempering((1.0, 3.0, 9.0))
    assert all(rung.kernel.adjusted and rung.estimator == exact() for rung in sampler.rungs)
    assert sampler.swap.rule is None
    assert [rung.fidelity for rung in sampler.rungs] == [0, 1, 2]
    assert not any(rung.kernel.adjusted for rung in parallel_tempering((1.0, 3.0), adjusted=False).rungs)


def test_resgld_leaves_the_gradients_noise_and_corrects_swaps():
    sampler = resgld((1.0, 10.0), 0.03, estimator=noisy(1.0, 2.0))
    assert all(rung.gradient_noise is None for rung in sampler.rungs)
    assert all(rung.energy_variance == running_average() for rung in sampler.rungs)
    assert [rung.fidelity for rung in sampler.rungs] == [0, 0]
    assert sampler.swap.rule == noise_penalty()
    assert resgld(swap=metropolis()).swap.rule == metropolis()


def test_multi_variance_takes_its_weight():
    assert multi_variance_resgld().swap.rule == multi_variance()
    sampler = multi_variance_resgld(weight=0.3, assume_unbiased=True)
    assert sampler.swap.rule == multi_variance(0.3, assume_unbiased=True)


def test_fast_takes_both_noises_out():
    sampler = fast_resgld(variance=kernel_ridge(), structure="full", probes=5)
    for rung in sampler.rungs:
        assert rung.gradient_noise == GradientNoise(kernel_ridge(), "full")
        assert rung.energy_variance == kernel_ridge()
        assert rung.probes == 5
    # a given gradient variance says nothing about the energy's
    (cold, _) = fast_resgld(variance=known(2.0)).rungs
    assert cold.energy_variance == known()
    (cold, _) = fast_resgld(variance=kernel_ridge(), energy_variance=running_average()).rungs
    assert cold.energy_variance == running_average()


@pytest.mark.parametrize("name", LADDERS)
class TestEveryLadder:
    def test_is_a_sampler_with_unbiased_swaps_where_they_cost_nothing_at_every_step(self, name):
        sampler = LADDERS[name]()
        assert isinstance(sampler, Sampler)
        assert sampler.swap.scheme == deo()
        assert sampler.swap.fraction is None

    def test_parts_per_rung(self, name):
        estimators = {} if name == "parallel_tempering" else {"estimator": (noisy(1.0), noisy(3.0))}
        for steps in ((0.1, 0.2), [0.1, constant(0.2)], np.array([0.1, 0.2])):
            sampler = LADDERS[name]((1.0, 4.0), steps, fidelities=("a", "b"), **estimators)
            assert [rung.fidelity for rung in sampler.rungs] == ["a", "b"]
            assert sampler.rungs[0].step_size == 0.1
            assert len({rung.step_size for rung in sampler.rungs}) == 2
            if estimators:
                assert [rung.estimator for rung in sampler.rungs] == [noisy(1.0), noisy(3.0)]
        sampler = LADDERS[name](np.array([1.0, 4.0]), 0.1, scheme=seo(), swap_fraction=0.5)
        assert [rung.target for rung in sampler.rungs] == [tempered(1.0), tempered(4.0)]
        assert [rung.step_size for rung in sampler.rungs] == [0.1, 0.1]
        assert sampler.swap.scheme == seo()
        assert sampler.swap.fraction == 0.5

    def test_wrong_numbers_of_parts(self, name):
        with pytest.raises(ValueError, match="step_size must have one entry for each of the 3 temperatures, got 2"):
            LADDERS[name]((1.0, 2.0, 4.0), (0.1, 0.2))
        with pytest.raises(ValueError, match="fidelities must have one entry for each of the 2 temperatures, got 1"):
            LADDERS[name](fidelities=("fine",))

    def test_temperatures(self, name):
        with pytest.raises(ValueError, match="temperatures must start at 1"):
            LADDERS[name]((2.0, 4.0))
        with pytest.raises(ValueError, match="temperatures must increase"):
            LADDERS[name]((1.0, 4.0, 4.0))

    def test_preconditioner_comes_with_steps_from_warm_up(self, name):
        assert LADDERS[name]().preconditioner == "auto"
        assert LADDERS[name](step_size=0.1).preconditioner is None
        assert LADDERS[name](step_size=0.1, preconditioner="diagonal").preconditioner == "diagonal"


@pytest.mark.parametrize("name", LADDERS)
def test_runs_with_exact_energies_and_swaps(name, draw):
    """One fidelity without noise is the common limit of all."""
    target = Target(FunctionPotential(lambda p: (0.5 * (p**2).sum(axis=1), p.copy()), 2))
    run = draw(target, LADDERS[name]((1.0, 4.0), 0.1), draws=50, warmup=0, chains=8)
    assert run.report["swap_accepts"][0] > 0


def test_one_ladder_whatever_the_rule_calls_itself(draw):
    """Limit case: without noise resgld, m-reSGLD, f-reSGLD and plain reLD make the same draws, bit for bit."""
    target = Target(FunctionPotential(lambda p: (0.5 * (p**2).sum(axis=1), p.copy()), 2))
    samplers = [
        parallel_tempering((1.0, 4.0), 0.1, adjusted=False),
        resgld((1.0, 4.0), 0.1),
        fast_resgld((1.0, 4.0), 0.1),
        parallel_tempering((1.0, 4.0), 0.1, adjusted=False, swap=delayed_acceptance(), fidelities=(0, 0)),
    ]
    runs = [draw(target, sampler, draws=50, warmup=10, chains=8) for sampler in samplers]
    for run in runs[1:3]:
        np.testing.assert_array_equal(run.theta, runs[0].theta)
    assert runs[0].report["swap_rules"] == [str(state_dependent_penalty())]
    # the first stage decides alone, the second always agrees: only its uniform numbers differ
    assert runs[3].report["swap_accepts"][0] > 0
