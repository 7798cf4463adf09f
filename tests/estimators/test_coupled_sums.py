"""Coupled sums: unbiased for the finest level, with the variance that they say, at the solves that they promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from asking import Asked

from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators import coupled_sums as module
from invsamp.estimators import exact
from invsamp.estimators.coupled_sums import DECAY, SCHEMES, CoupledSum, coupled_sum
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered
from invsamp.kernels import Langevin
from invsamp.ladder import GradientNoise, Rung, Sampler
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import fast_resgld, sgld
from invsamp.swaps.rules import delayed_acceptance, metropolis
from invsamp.variances.models import known, running_average

PROBABILITIES = (1.0, 0.5, 0.3, 0.2)
PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])


def level(k):
    """Gaussian whose mean and precision tend to 0 and `PRECISION` with the level k = 0..3."""
    off = 0.5**k - 0.5**3
    mean, precision = np.array([0.8, -0.5]) * off, PRECISION * (1.0 + 0.4 * off)

    def function(position):
        away = position - mean
        return 0.5 * np.einsum("ci,ij,cj->c", away, precision, away), away @ precision

    return FunctionPotential(function, 2)


TARGET = Target({name: level(k) for k, name in enumerate("abcd")})


def potentials(fidelities="abcd"):
    made = {}
    for name in fidelities:
        made[name] = CountedPotential(TARGET.potential(name), name, made)
    return made


def patterns(scheme):
    """Every pattern of indicators (n, levels) with its probability."""
    p = np.array(PROBABILITIES)
    if scheme == "coupled":
        shown = np.tri(4, dtype=bool)
        return shown, p - np.append(p[1:], 0.0)
    if scheme == "single":
        # no term above the first with probability 0 here: 0.5 + 0.3 + 0.2 = 1
        shown = np.eye(4, dtype=bool)[1:]
        shown[:, 0] = True
        return shown, p[1:]
    shown = np.array([(True, *rest) for rest in itertools.product([False, True], repeat=3)])
    return shown, np.prod(np.where(shown[:, 1:], p[1:], 1.0 - p[1:]), axis=1)


class TestMoments:
    """Over all patterns, by their probabilities: without Monte Carlo."""

    point = np.array([[0.7, -0.4]])

    @pytest.mark.parametrize("structure", ["isotropic", "diagonal", "full"])
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_unbiased_with_the_reported_variance(self, scheme, structure, monkeypatch):
        shown, weight = patterns(scheme)
        monkeypatch.setattr(module, "_indicators", lambda *_: shown)
        bound = Asked(coupled_sum(probabilities=PROBABILITIES, scheme=scheme), potentials()["d"], structure)
        energy, gradient = bound.estimate(np.random.default_rng(0), np.repeat(self.point, len(shown), axis=0))[:2]
        finest = TARGET.potential("d").energy_and_gradient(self.point)
        np.testing.assert_allclose(weight @ energy, finest[0][0], rtol=1e-12)
        np.testing.assert_allclose(weight @ gradient, finest[1][0], rtol=1e-12)
        reported_energy, reported, freedom = bound.probe(np.random.default_rng(0), self.point, 1)
        away = gradient - finest[1]
        covariance = (weight[:, None] * away).T @ away
        wanted = {"full": covariance, "diagonal": np.diag(covariance), "isotropic": np.trace(covariance) / 2.0}
        np.testing.assert_allclose(reported[0], wanted[structure], rtol=1e-12)
        np.testing.assert_allclose(reported_energy[0], weight @ (energy - finest[0]) ** 2, rtol=1e-12)
        assert freedom > 1000

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_indicators_have_their_probabilities(self, scheme, agrees):
        n = 40_000
        drawn = module._indicators(np.random.default_rng(1), n, np.array(PROBABILITIES), scheme)
        shown, weight = patterns(scheme)
        seen = np.column_stack([(drawn == pattern).all(axis=1) for pattern in shown])
        assert seen.sum(axis=1).all()
        assert agrees(seen, weight)
        assert not agrees(seen, np.roll(weight, 1))

    def test_estimates_agree_with_the_finest_level(self, agrees):
        """The draws themselves; a sum without its 1 / p is off."""
        bound = Asked(coupled_sum(probabilities=PROBABILITIES), potentials()["d"], "full")
        position = np.repeat(self.point, 20_000, axis=0)
        estimate = bound.estimate(np.random.default_rng(2), position)
        away = estimate.gradient - TARGET.potential("d").energy_and_gradient(self.point)[1]
        assert agrees(away, np.zeros(2))
        covariance = bound.probe(np.random.default_rng(0), self.point, 1)[1][0]
        assert agrees(np.einsum("ci,cj->cij", away, away).reshape(-1, 4), covariance.ravel())
        assert not agrees(np.einsum("ci,cj->cij", away, away).reshape(-1, 4), 1.1 * covariance.ravel())
        drawn = module._indicators(np.random.default_rng(2), len(position), np.array(PROBABILITIES), "coupled")
        top = drawn.sum(axis=1) - 1
        truncated = np.stack([TARGET.potential(name).energy_and_gradient(self.point)[1][0] for name in "abcd"])[top]
        assert not agrees(truncated - TARGET.potential("d").energy_and_gradient(self.point)[1], np.zeros(2))


class TestSolves:
    def test_a_level_is_solved_by_the_chains_that_need_it(self, agrees):
        made = potentials()
        bound = Asked(coupled_sum(probabilities=PROBABILITIES), made["d"], "full")
        rng, counts = np.random.default_rng(3), []
        for _ in range(200):
            before = [e.evaluations for e in made.values()]
            bound.estimate(rng, np.zeros((50, 2)))
            counts.append([e.evaluations - b for e, b in zip(made.values(), before, strict=True)])
        assert agrees(np.array(counts)[:, 1:] / 50.0, PROBABILITIES[1:])
        assert not agrees(np.array(counts)[:, 1:] / 50.0, [0.5, 0.3, 0.25])
        np.testing.assert_array_equal(np.array(counts)[:, 0], 50)

    def test_certain_levels_are_the_finest_alone(self):
        made = potentials()
        bound = Asked(coupled_sum(probabilities=(1.0, 1.0, 1.0, 1.0)), made["d"], "full")
        position = np.random.default_rng(0).standard_normal((5, 2))
        estimate, wanted = bound.estimate(np.random.default_rng(0), position), level(3).energy_and_gradient(position)
        np.testing.assert_array_equal(estimate.energy, wanted[0])
        np.testing.assert_array_equal(estimate.gradient, wanted[1])
        assert [e.evaluations for e in made.values()] == [0, 0, 0, 5]
        np.testing.assert_array_equal(bound.probe(np.random.default_rng(0), position, 1)[1], np.zeros((5, 2, 2)))

    def test_default_levels_and_probabilities(self):
        made = potentials()
        bound = Asked(coupled_sum(), made["c"], "full")
        assert list(bound.levels) == ["a", "b", "c"]
        np.testing.assert_allclose(bound._probabilities, [1.0, DECAY, DECAY**2])
        chosen = Asked(coupled_sum(levels=("a", "d")), made["d"], "full")
        assert list(chosen.levels) == ["a", "d"]

    def test_a_run_solves_the_levels_of_its_estimator_alone(self, draw):
        sampler = sgld(0.1, estimator=coupled_sum(levels=("b", "d"), probabilities=(1.0, 0.25)))
        run = draw(TARGET, sampler, draws=200, warmup=0, chains=64)
        solves = run.report["evaluations"]
        assert set(solves) == {"b", "d"}
        steps = 64 * 201  # and the start
        assert solves["b"] == steps
        # binomial: four standard deviations
        assert abs(solves["d"] - 0.25 * steps) < 4.0 * np.sqrt(0.25 * 0.75 * steps)

    def test_failed_levels_refuse_the_move_and_are_counted(self):
        made = potentials("ab")

        def failing(position):
            return np.where(position[:, 0] > 0.0, np.nan, 0.0), np.zeros_like(position)

        made["d"] = CountedPotential(FunctionPotential(failing, 2), "d", made)
        bound = Asked(coupled_sum(probabilities=(1.0, 1.0, 0.5)), made["d"], "full")
        position = np.column_stack([np.tile([1.0, -1.0], 100), np.zeros(200)])
        estimate = bound.estimate(np.random.default_rng(0), position)
        failed = ~np.isfinite(estimate.energy)
        assert 0 < failed.sum() == made["d"].failed < 100
        assert not failed[1::2].any()
        np.testing.assert_array_equal(estimate.gradient[failed], 0.0)
        # coarser levels count their own, and the rung notices those too
        made = {"d": CountedPotential(level(3), "d")}
        levels = {"a": CountedPotential(FunctionPotential(failing, 2), "a")} | made
        made["d"].fidelities = levels
        rung = Rung(estimator=coupled_sum(), step_size=0.5)
        rung = RungChains(rung, made["d"], TARGET.sampling_domain, np.random.SeedSequence(0))
        rung.start(np.tile([[-1e-3, 0.0]], (50, 1)))
        rung.step_size = 0.5
        for _ in range(5):
            rung.step()
        assert levels["a"].failed > 0
        assert (rung.position[:, 0] <= 0.0).all()


class TestNoiseInTheBudget:
    """On a Gaussian of curvature 1 in whitened coordinates, SGLD of step h has variance 1 / (1 - h / 2)."""

    step = 0.2

    def variances(self, draw, gradient_noise):
        estimator = coupled_sum(probabilities=PROBABILITIES)
        rung = Rung(1.0, 0, estimator, Langevin(), self.step, gradient_noise=gradient_noise)
        run = draw(TARGET, Sampler((rung,)), draws=400, warmup=300, thin=3)
        theta = run.draws("theta")
        return run, np.einsum("cdi,cdj->cij", theta, theta).reshape(256, 4) / 400.0

    def test_is_taken_out_of_the_injected_noise(self, draw, agrees):
        wanted = np.linalg.inv(PRECISION @ (np.eye(2) - 0.5 * self.step * PRECISION)).ravel()
        run, taken = self.variances(draw, GradientNoise(running_average(), "full"))
        assert agrees(taken, wanted)
        assert run.report["clipped_noise"] == [0.0]
        _, left = self.variances(draw, None)
        assert not agrees(left, wanted)


class TestSwaps:
    def test_get_the_finest_energy_and_no_penalty(self):
        made = potentials()
        bound = Asked(coupled_sum(), made["d"], "full")
        position = np.random.default_rng(0).standard_normal((6, 2))
        energy, variance = bound.energy(np.random.default_rng(0), position)
        np.testing.assert_array_equal(energy, level(3).energy(position))
        assert variance is None
        assert bound.exact_energy
        assert not bound.exact
        assert [e.evaluations for e in made.values()] == [0, 0, 0, 6]

    # one fidelity on both rungs, and two; the finest is solved for swaps whatever the rule
    @pytest.mark.parametrize(("hot", "rule"), [("d", metropolis()), ("a", delayed_acceptance())])
    def test_a_ladder_samples_the_target(self, draw, agrees, hot, rule):
        sampler = fast_resgld(
            (1.0, 3.0), (0.1, 0.3), estimator=[coupled_sum(probabilities=PROBABILITIES), exact()],
            structure="full", fidelities=("d", hot), swap=rule, swap_fraction=0.3,
        )  # fmt: skip
        assert sampler.rungs[0].gradient_noise.variance == running_average()
        run = draw(TARGET, sampler, draws=400, warmup=300, thin=2)
        theta = run.draws("theta")
        wanted = np.linalg.inv(PRECISION @ (np.eye(2) - 0.05 * PRECISION))
        squares = np.einsum("cdi,cdj->cij", theta, theta).reshape(256, 4) / 400.0
        assert agrees(theta.mean(axis=1), np.zeros(2))
        # the hot rung's steps have another bias, which swaps carry over
        np.testing.assert_allclose(squares.mean(axis=0), wanted.ravel(), rtol=0.06)
        assert run.report["swap_noise_sd"] == [0.0]
        assert run.report["swap_accepts"][0] > 0.15 * run.report["swap_attempts"][0]

    def test_variances_of_energies_are_not_learned(self):
        rung = Rung(estimator=coupled_sum(), energy_variance=running_average())
        assert not rung.learns_variance
        noise = GradientNoise(running_average(), "full")
        rung = RungChains(
            Rung(estimator=coupled_sum(), energy_variance=running_average(), gradient_noise=noise),
            potentials()["d"],
            TARGET.sampling_domain,
            np.random.SeedSequence(0),
        )
        rung.start(np.zeros((5, 2)))
        rung.noise.learn(answered(rung.sample_variances(), rung.answer))
        assert rung.variance_ready
        assert rung.energy_variance(rung.position, None) is None
        asked = Asked(coupled_sum(), potentials()["d"], "full")
        reported = asked.probe(np.random.default_rng(0), np.zeros((1, 2)), 7)[1]
        np.testing.assert_allclose(rung.gradient_variance(), np.repeat(reported, 5, axis=0), rtol=1e-12)


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"scheme": "nested"}, "scheme must be one of"),
            ({"levels": ["a"]}, "levels must name at least two distinct fidelities"),
            ({"levels": ["a", "a"]}, "levels must be a sequence of distinct names"),
            ({"probabilities": (0.9, 0.5)}, "must lie in .0, 1. and start with 1"),
            ({"probabilities": (1.0, 0.0)}, r"probabilities must be numbers in \(0, 1\], got 0.0 at index 1"),
            ({"probabilities": (1.0, 0.2, 0.3)}, "must not increase"),
            ({"probabilities": (1.0, 0.6, 0.5), "scheme": "single"}, "sum to at most 1"),
            ({"levels": ("a", "b"), "probabilities": (1.0, 0.6, 0.5)}, "one entry for each of the 2 levels, got 3"),
        ],
    )
    def test_of_settings(self, settings, message):
        with pytest.raises(ValueError, match=message):
            coupled_sum(**settings)

    def test_independent_terms_may_have_any_probabilities(self):
        assert coupled_sum(probabilities=(1.0, 0.2, 0.9), scheme="independent").probabilities == (1.0, 0.2, 0.9)

    @pytest.mark.parametrize(
        ("estimator", "fidelity", "message"),
        [
            (coupled_sum(), "a", "needs a coarser fidelity than the rung's own 'a'"),
            (coupled_sum(levels=("a", "c")), "d", "end with the rung's own fidelity 'd'"),
            (coupled_sum(levels=("c", "a", "d")), "d", "from coarse to fine"),
            (coupled_sum(levels=("x", "d")), "d", "from coarse to fine"),
            (coupled_sum(probabilities=(1.0, 0.5)), "d", "one entry for each of the 4 levels"),
        ],
    )
    def test_of_levels(self, estimator, fidelity, message, draw):
        with pytest.raises(ValueError, match=message):
            draw(TARGET, sgld(0.1, estimator=estimator, fidelity=fidelity), draws=10, warmup=0)

    def test_of_what_is_not_a_hierarchy(self):
        with pytest.raises(ValueError, match="needs a coarser fidelity than the rung's own"):
            Asked(CoupledSum(), level(0), "full")

    def test_of_adjusted_kernels_and_variances_that_are_not_stated(self):
        with pytest.raises(ValueError, match="needs exact energies"):
            Rung(estimator=coupled_sum(), kernel=Langevin(adjusted=True))
        with pytest.raises(ValueError, match="variance that is learned or given, got known"):
            Rung(estimator=coupled_sum(), gradient_noise=GradientNoise(known(), "full"))
        Rung(estimator=coupled_sum(), gradient_noise=GradientNoise(known(0.3)))
