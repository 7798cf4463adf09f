"""Exchanging positions: what is solved for it, what moves and what stays, and the counts."""

from __future__ import annotations

import numpy as np
import pytest
from swapping import RULES, accept_seed, coarse, fine, ladder, swap, where

from invsamp.diagnostics import round_trips
from invsamp.estimators import noisy
from invsamp.evaluate.requests import answered
from invsamp.ladder import GradientNoise
from invsamp.swaps.rules import delayed_acceptance, multi_variance, state_dependent_penalty
from invsamp.swaps.schemes import adjacent, deo, seo
from invsamp.variances.models import running_average


class TestSolves:
    """What an attempt costs: (cold solves, hot solves)."""

    def attempt(self, functions, rule, **settings):
        rungs, exchange = ladder(functions, rule=rule, **settings)
        before = [rung.potential.evaluations for rung in rungs]
        swap(exchange)
        spent = [rung.potential.evaluations - b for rung, b in zip(rungs, before, strict=True)]
        for rung in rungs:
            assert exchange.solves[rung.potential.fidelity] == spent[rungs.index(rung)]
        return spent, int(exchange.accepts[0]), rungs

    @pytest.mark.parametrize("name", RULES)
    def test_one_fidelity_makes_none(self, name):
        spent, accepts, _ = self.attempt((fine, fine), RULES[name])
        assert spent == [0, 0]
        assert accepts > 0

    @pytest.mark.parametrize("name", ["product_target", "multi_variance"])
    def test_crossed_solves_are_made_once(self, name):
        spent, accepts, _ = self.attempt((fine, coarse), RULES[name])
        assert spent == [64, 64]
        assert accepts > 0

    def test_delayed_acceptance_solves_the_fine_model_only_where_the_coarse_agrees(self):
        spent, accepts, _ = self.attempt((fine, coarse), delayed_acceptance())
        # the first stage, recomputed with the same uniform numbers
        rng = np.random.default_rng(accept_seed(np.random.SeedSequence(0).spawn(1)[0]))
        positions = [r.position for r in ladder((fine, coarse))[0]]
        passed = np.log1p(-rng.random(64)) < 0.75 * (coarse(positions[0])[0] - coarse(positions[1])[0])
        assert spent == [passed.sum(), 64]
        assert 0 < accepts < passed.sum() < 64

    def test_own_energies_of_two_fidelities_are_solved_after_the_swap(self):
        spent, accepts, _ = self.attempt((fine, coarse), RULES["state_dependent_penalty"])
        assert spent == [accepts, accepts]

    def test_noisy_energies_are_drawn_afresh(self):
        settings = [{"estimator": noisy(1.0, 1.0)}] * 2
        spent, accepts, rungs = self.attempt((fine, fine), state_dependent_penalty(), settings=settings)
        assert rungs[0].potential is rungs[1].potential
        assert spent == [128, 128]
        assert accepts > 0


class TestExchanged:
    @pytest.mark.parametrize("functions", [(fine, fine), (fine, coarse)])
    @pytest.mark.parametrize("name", RULES)
    def test_estimates_belong_to_the_new_positions(self, name, functions):
        rungs, exchange = ladder(functions, rule=RULES[name])
        for _ in range(5):
            swap(exchange)
            for rung, function in zip(rungs, functions, strict=True):
                energy, gradient = function(rung.position)
                np.testing.assert_allclose(rung.estimate.energy, energy, rtol=1e-14)
                np.testing.assert_allclose(rung.estimate.gradient, gradient, rtol=1e-14)

    def test_positions_are_permuted_within_each_chain(self):
        rungs, exchange = ladder((fine, coarse, coarse, coarse), (1.0, 2.0, 4.0, 8.0))
        before = np.stack([r.position for r in rungs])
        for _ in range(10):
            swap(exchange)
        after = np.stack([r.position for r in rungs])
        np.testing.assert_array_equal(np.sort(before, axis=0), np.sort(after, axis=0))
        chains = np.arange(64)
        np.testing.assert_array_equal(after, before[where(exchange), chains])

    def test_swapping_twice_restores(self):
        """At equal energies every swap is accepted, so two of them undo each other."""

        def flat(position):
            return np.zeros(len(position)), np.zeros_like(position)

        rungs, exchange = ladder((flat, flat))
        before = [r.position for r in rungs]
        swap(exchange)
        assert not (rungs[0].position == before[0]).any()
        swap(exchange)
        for rung, position in zip(rungs, before, strict=True):
            np.testing.assert_array_equal(rung.position, position)
        assert exchange.accepts.tolist() == [128]
        assert (where(exchange) == [[0], [1]]).all()

    def test_noise_in_different_forms_is_not_passed_on(self):
        """A rung that wants a full covariance must not be given the other's isotropic variance."""
        settings = [
            {"estimator": noisy(0.1, 1.0), "gradient_noise": GradientNoise(structure=form)}
            for form in ("full", "isotropic")
        ]
        rungs, exchange = ladder((fine, fine), settings=settings)
        for _ in range(3):
            swap(exchange)
            for rung in rungs:
                rung.step()
        assert rungs[0].estimate.gradient_variance.shape == (64, 2, 2)
        assert rungs[1].estimate.gradient_variance.shape == (64,)

    def test_arrays_of_the_potential_are_left_alone(self):
        returned = []

        def remembering(position):
            energy, gradient = fine(position)
            returned.append((energy, energy.copy(), gradient, gradient.copy()))
            return energy, gradient

        _, exchange = ladder((remembering, coarse))
        swap(exchange)
        for energy, energy_then, gradient, gradient_then in returned:
            np.testing.assert_array_equal(energy, energy_then)
            np.testing.assert_array_equal(gradient, gradient_then)


class TestInfiniteEnergies:
    def bounded(self, position):
        energy, gradient = fine(position)
        return np.where(position[:, 0] > 0.5, np.nan, energy), gradient

    @pytest.mark.parametrize("name", ["multi_variance", "product_target", "delayed_acceptance"])
    @pytest.mark.filterwarnings("error")
    def test_never_swap_and_never_warn(self, name):
        def bounded(position):
            return self.bounded(position)

        rungs, exchange = ladder((bounded, coarse), rule=RULES[name], chains=500)
        cold = rungs[0]
        start = cold.position.copy()
        start[:, 0] = -np.abs(start[:, 0])
        cold.start(start)
        for _ in range(4):
            swap(exchange)
            assert np.isfinite(cold.estimate.energy).all()
            assert (cold.position[:, 0] <= 0.5).all()
        assert exchange.accepts[0] > 0

    @pytest.mark.parametrize("name", RULES)
    @pytest.mark.filterwarnings("error")
    def test_on_both_sides(self, name):
        """inf - inf is no swap, not nan."""

        def hopeless(position):
            return np.full(len(position), np.nan), np.zeros_like(position)

        rungs, exchange = ladder((hopeless, hopeless), rule=RULES[name])
        before = rungs[0].position.copy()
        swap(exchange)
        np.testing.assert_array_equal(rungs[0].position, before)
        assert exchange.accepts.tolist() == [0]


class TestAttempts:
    def test_fraction(self):
        _, exchange = ladder((fine, coarse), fraction=0.2, chains=1)
        for _ in range(5000):
            swap(exchange)
        # 4.4 standard deviations of 28
        assert abs(exchange.attempts[0] - 1000) < 125

    def test_waits_for_the_variances_of_both_rungs(self):
        settings = [{}, {"estimator": noisy(0.5, 0.0), "energy_variance": running_average()}]
        rungs, exchange = ladder((fine, fine), settings=settings)
        swap(exchange)
        assert exchange.attempts.tolist() == [0]
        rungs[1].noise.learn(answered(rungs[1].sample_variances(), rungs[1].answer))
        swap(exchange)
        assert exchange.attempts.tolist() == [64]

    def test_reset_clears_the_counts_but_not_the_replicas(self):
        _, exchange = ladder((fine, coarse, coarse), (1.0, 2.0, 4.0))
        for _ in range(20):
            swap(exchange)
        before = where(exchange)
        assert exchange.round_trips > 0
        exchange.reset()
        assert exchange.round_trips == exchange.attempts.sum() == exchange.accepts.sum() == 0
        assert set(exchange.solves.values()) == {0}
        np.testing.assert_array_equal(where(exchange), before)

    def test_weight_of_multi_variance_comes_from_the_learned_variances(self):
        settings = [{"estimator": noisy(sd, 0.0)} for sd in (1.0, 3.0)]
        _, exchange = ladder((fine, coarse), settings=settings, rule=multi_variance(assume_unbiased=True))
        exchange.resolve()
        assert exchange.rules[0].weight == pytest.approx(0.9)


@pytest.mark.parametrize("scheme", [deo(), seo(), adjacent()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_round_trips_agree_with_the_stored_path(scheme, count):
    rungs, exchange = ladder(
        [fine] * count, tuple(1.3**k for k in range(count)), chains=20, scheme=scheme, fraction=0.7
    )
    path = [np.argsort(where(exchange), axis=0)]
    for k in range(400):
        if k == 100:
            exchange.reset()
            path = path[-1:]
        swap(exchange)
        path.append(np.argsort(where(exchange), axis=0))
        for rung in rungs:
            rung.step()
    assert exchange.round_trips == round_trips(np.array(path), count)
    assert exchange.round_trips > 50
