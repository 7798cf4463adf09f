"""One running rung: streams, counts, steps with failed solves and boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from functions import square

from invsamp.domains import Box, Unbounded
from invsamp.domains.contract import Reflection
from invsamp.engine.rungs.rung_chains import FAILING_STEPS, RungChains, SolvesFailed
from invsamp.estimators import minibatch, noisy
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Estimate, Request, answered
from invsamp.kernels import Langevin
from invsamp.ladder import GradientNoise, Rung
from invsamp.posing.posterior.function_potential import FunctionPotential, SumPotential
from invsamp.variances.models import kernel_ridge, running_average


def at_work(function=square, domain=None, start=None, chains=4, **settings):
    potential = CountedPotential(FunctionPotential(function, 2), "model")
    made = RungChains(Rung(**settings), potential, domain or Unbounded(), np.random.SeedSequence(0))
    made.start(np.zeros((chains, 2)) if start is None else np.array(start, dtype=float))
    made.step_size = settings.get("step_size") or 0.1
    return made


class Doubled(Exact):
    """Reports twice the energy."""

    exact = exact_energy = True
    degrees_of_freedom = None

    def bind(self, source, structure):
        return self

    def estimate(self, rng, position, gradient=True):
        (found,) = yield (Request("model", position, gradient),)
        return found._replace(energy=2.0 * found.energy, gradient=2.0 * found.gradient)


class TestStep:
    def test_unadjusted_moves_by_gradient_and_noise(self):
        made = at_work(start=[[1.0, 2.0]], target=2.0)
        noise = np.random.default_rng(made.streams["move"].bit_generator.seed_seq).standard_normal((1, 2))
        made.step()
        np.testing.assert_allclose(made.position, [[1.0, 2.0]] - 0.1 * np.array([[1.0, 2.0]]) + np.sqrt(0.4) * noise)
        np.testing.assert_allclose(made.estimate.gradient, made.position)

    def test_an_estimator_derived_from_the_exact_one_is_asked(self):
        made = at_work(estimator=Doubled(), start=[[1.0, 2.0]])
        made.step()
        np.testing.assert_allclose(made.estimate.energy, (made.position**2).sum(axis=1))
        np.testing.assert_allclose(made.estimate.gradient, 2.0 * made.position)

    def test_schedule_counts_iterations_from_zero(self):
        asked = []
        made = at_work(step_size=lambda k: asked.append(k) or 0.1)
        for _ in range(3):
            made.step()
        assert asked == [0, 1, 2]

    @pytest.mark.parametrize(("given", "every_eighth"), [(None, 0.1), (0.1, 1.0)])
    def test_step_sizes_that_warm_up_found_are_short_now_and_then(self, given, every_eighth):
        made = at_work(lambda p: (np.zeros(len(p)), np.zeros_like(p)), kernel=Langevin(adjusted=True), step_size=given)
        rng = np.random.default_rng(made.streams["move"].bit_generator.seed_seq)
        for k in range(1, 129):
            before, share = made.position, 1.0 if k % 8 else every_eighth if k % 64 else every_eighth**2
            made.step()
            move = np.sqrt(2.0 * 0.1 * share) * rng.standard_normal((4, 2))
            np.testing.assert_allclose(made.position - before, move, rtol=1e-9)
        assert made.counts.full_steps == (112 if given is None else 128)

    def test_wrong_shapes_are_named_at_the_start(self):
        with pytest.raises(ValueError, match=r"energy of shape \(4,\) and a gradient of shape \(4, 2\), got \(4, 1\)"):
            at_work(lambda p: ((p**2).sum(axis=1, keepdims=True), p))

    @pytest.mark.parametrize("adjusted", [False, True])
    def test_failed_solves_are_refused(self, adjusted):
        def function(position):
            energy, gradient = square(position)
            energy[position[:, 0] > 0.2] = np.nan
            return energy, gradient

        made = at_work(function, chains=50, kernel=Langevin(adjusted))
        for _ in range(200):
            before, estimate = made.position, made.estimate
            made.step()
            stayed = (made.position == before).all(axis=1)
            np.testing.assert_array_equal(made.estimate.energy[stayed], estimate.energy[stayed])
            assert (made.position[:, 0] <= 0.2).all()
            np.testing.assert_allclose(made.estimate.gradient, made.position)
        assert made.potential.failed > 100

    def test_stops_when_nothing_can_be_solved(self):
        calls = []

        def function(position):
            calls.append(len(position))
            energy, gradient = square(position)
            return (energy if len(calls) <= 10 else np.full(len(position), np.nan)), gradient

        made = at_work(function)
        with pytest.raises(
            SolvesFailed, match="every solve of fidelity 'model' failed for 200 steps in a row"
        ) as caught:
            for _ in range(1000):
                made.step()
        assert len(calls) == 10 + FAILING_STEPS
        np.testing.assert_array_equal(caught.value.position, made.position)
        assert not caught.value.cause

    def test_says_that_chains_ran_away_where_they_did(self):
        """Steps on sums of fourth powers are stable near 0 alone; where the energy overflows nothing is solved."""

        def function(position):
            with np.errstate(over="ignore"):
                return (position**4).sum(axis=1), 4.0 * position**3

        made = at_work(function, start=[[30.0, 0.0]] * 4)
        with pytest.raises(SolvesFailed) as caught:
            for _ in range(1000):
                made.step()
        assert "sgld refuses no step" in caught.value.cause
        assert "The chains diverged: the step size 0.1 is too long" in caught.value.cause

    def test_one_working_chain_is_enough_to_continue(self):
        def function(position):
            energy, gradient = square(position)
            energy[np.arange(len(energy)) > 0] = np.nan
            return energy, gradient

        made = at_work(function)
        for _ in range(2 * FAILING_STEPS):
            made.step()
        assert (made.position[0] != 0.0).all()
        assert (made.position[1:] == 0.0).all()

    def test_moves_across_boundaries_are_counted(self):
        made = at_work(domain=Box(-0.3, 0.3), chains=10)
        for _ in range(50):
            made.step()
        assert 50 < made.counts.reflected <= 500
        assert made.counts.fallbacks == 0
        assert (np.abs(made.position) <= 0.3).all()

    @pytest.mark.parametrize("adjusted", [False, True])
    def test_moves_that_the_domain_gives_up_on_are_counted(self, adjusted):
        class Hopeless(Box):
            def reflect(self, position, move, metric=None):
                n = len(position)
                return Reflection(position.copy(), move, np.zeros(n, dtype=int), np.ones(n, dtype=bool))

        made = at_work(domain=Hopeless(-1.0, 1.0), chains=3, kernel=Langevin(adjusted))
        for _ in range(5):
            made.step()
        assert made.counts.fallbacks == 15
        assert made.counts.accepted == 0
        assert (made.position == 0.0).all()

    def test_overspent_noise_is_counted_per_chain_and_step(self):
        made = at_work(estimator=noisy(0.0, 10.0), gradient_noise=GradientNoise(), chains=3)
        for _ in range(5):
            made.step()
        assert made.counts.clipped == 15


class TestVariances:
    def test_no_budget_before_the_model_has_learned(self):
        made = at_work(estimator=noisy(1.0, 2.0), gradient_noise=GradientNoise(running_average()))
        assert not made.variance_ready
        assert made.gradient_variance() is None
        made.noise.learn(answered(made.sample_variances(), made.answer))
        assert made.variance_ready
        assert made.gradient_variance().shape == (4,)

    def test_exact_energies_have_nothing_to_learn(self):
        made = at_work(energy_variance=running_average(), gradient_noise=GradientNoise(running_average()))
        assert made.variance_ready
        assert made.gradient_variance() is None
        assert made.energy_variance(made.position, None) is None

    def test_probes_are_not_asked_for_once_a_pilot_is_complete(self):
        model = kernel_ridge(states=8, max_states=8)
        settings = {"estimator": noisy(1.0, 2.0), "energy_variance": model, "gradient_noise": GradientNoise(model)}
        made = at_work(start=np.arange(8.0).reshape(4, 2), probes=5, **settings)
        before = made.potential.evaluations
        for _ in range(6):
            if (samples := answered(made.sample_variances(), made.answer)) is not None:
                made.noise.learn(samples)
            made.step()
        assert made.potential.evaluations - before == 6 * 4 + 2 * 4 * 5

    def test_minibatches_teach_by_themselves(self):
        def term(position, data):
            away = position - data[..., 0]
            return 0.5 * away**2, away[:, :, None]

        data = np.random.default_rng(0).standard_normal((40, 1))
        potential = CountedPotential(SumPotential(data, term, 1), "model")
        settings = Rung(estimator=minibatch(5), gradient_noise=GradientNoise(running_average()), step_size=1e-3)
        made = RungChains(settings, potential, Unbounded(), np.random.SeedSequence(0))
        made.start(np.zeros((3, 1)))
        before = potential.evaluations
        made.noise.learn(answered(made.sample_variances(), made.answer))
        assert potential.evaluations == before
        learned = made.gradient_variance()
        np.testing.assert_allclose(learned, made.estimate.gradient_variance.mean())


def test_set_estimate_leaves_what_the_model_returned_alone():
    made = at_work(chains=3)
    returned = made.estimate.energy
    made.set_estimate(np.array([1]), Estimate(np.array([7.0]), np.array([[1.0, 2.0]])))
    np.testing.assert_array_equal(returned, 0.0)
    np.testing.assert_array_equal(made.estimate.energy, [0.0, 7.0, 0.0])
    np.testing.assert_array_equal(made.estimate.gradient[1], [1.0, 2.0])
