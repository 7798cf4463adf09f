"""Ladders that warm-up finds: their targets, their start, and that they resume from any state."""

from __future__ import annotations

import layout_runs
import numpy as np
import pytest
from bent_line import POSTERIOR
from tempering import LINE, two_modes_posterior

import invsamp as iv
from invsamp.engine.adaptation.temperature_schedule import between
from invsamp.engine.driver import serialization
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.rungs.initial_points import given_start
from invsamp.kernels.metric import DenseMetric, DiagonalMetric
from invsamp.results.run import Run

PLAN = Plan(draws=10, warmup=310, thin=1, chains=3, seed=7)


def begun(sampler):
    engine = Engine(POSTERIOR, sampler, PLAN)
    engine.begin()
    return engine


def walk(engine, count):
    path = []
    for _ in range(count):
        engine.step()
        path.append([(str(r.target), r.fidelity, r.position, r.estimate.energy, r.step_size) for r in engine.rungs])
    return path


@pytest.mark.parametrize("name", layout_runs.FOUND)
def test_goes_on_bit_for_bit(name):
    """Within either round, where one ends, where warm-up ends, and after: all, or what comes next."""
    sampler = layout_runs.FOUND[name]
    until = {0: 103, 60: PLAN.steps, 99: 103, 100: PLAN.steps, 101: 120} | dict.fromkeys((250, 310, 313), PLAN.steps)
    whole, kept, expected = begun(sampler), {}, []
    for k in range(PLAN.steps):
        if k in until:
            kept[k] = serialization.encode(whole.state())
        expected += walk(whole, 1)
    for k, data in kept.items():
        again = Engine(POSTERIOR, sampler, PLAN)
        again.restore(serialization.decode(data))
        np.testing.assert_equal(walk(again, until[k] - k), expected[k : until[k]])
        if until[k] == PLAN.steps:
            assert again.report()["ladder"] == whole.report()["ladder"]


def test_a_stored_run_is_resumed(tmp_path, monkeypatch):
    settings = {"draws": 30, "warmup": 310, "chains": 3, "seed": 7, "progress": False}
    sampler = layout_runs.FOUND["found"]
    monkeypatch.setattr(Run, "warnings", lambda self: [])
    whole = iv.sample(POSTERIOR, sampler, **settings)
    iv.sample(POSTERIOR, sampler, **(settings | {"draws": 12}), directory=tmp_path / "run", segment=5)
    run = iv.resume(tmp_path / "run", POSTERIOR, draws=30, progress=False)
    for rung in range(whole.rungs):
        np.testing.assert_array_equal(run.rung_theta(rung), whole.rung_theta(rung))
    assert run.report["ladder"] == whole.report["ladder"]


class TestTargets:
    def run(self, draw, **settings):
        return draw(
            two_modes_posterior(),
            iv.samplers.parallel_tempering(ladder="auto"),
            **({"draws": 400, "thin": 2} | settings),
        )

    def test_are_right_from_prior_to_posterior_though_all_chains_start_in_one_mode(self, draw, agrees):
        run = self.run(draw, warmup=700, start=np.array([1.5]))
        found = run.report["ladder"]
        targets = [iv.tempering.tempered_likelihood(beta) for beta in found["betas"]]
        assert found["hottest_is_prior"] and run.report["kernels"][-1] == "prior draws"
        truth = LINE.truth(two_modes_posterior().potential(), targets)
        assert agrees(LINE.shares(run), truth)
        # of other betas they are others
        wrong = [iv.tempering.tempered_likelihood(beta**0.7) for beta in found["betas"]]
        assert not agrees(LINE.shares(run), LINE.truth(two_modes_posterior().potential(), wrong))

    def test_rejections_are_equal_and_near_a_half(self, draw):
        """From a first ladder of which one pair rejects hardly at all."""
        run = self.run(draw, warmup=700, draws=100)
        first, *_, last = (np.array(one["rejections"]) for one in run.report["ladder"]["rounds"])
        assert np.ptp(first) > 0.3
        assert np.ptp(last) < 0.1
        np.testing.assert_allclose(run.report["swap_rejection"], last, atol=0.05)
        assert 0.3 < last.mean() < 0.6
        assert run.rungs == len(last) + 1 == len(run.report["ladder"]["betas"])

    def test_swaps_cost_no_solve(self, draw):
        run = self.run(draw, draws=50, chains=4)
        assert run.report["swap_solves"] == {"model": 0}
        assert run.report["swap_parities"] == 3


def test_noise_of_energies_makes_more_rungs(draw):
    """The noise adds to the distance of neighbors."""
    identity = iv.with_jacobian(lambda theta: theta, lambda theta: np.tile(np.eye(2), (len(theta), 1, 1)))
    prior = iv.Prior(x=iv.Normal(0.0, 1.0), y=iv.Normal(0.0, 1.0))
    posterior = iv.Posterior(prior, identity, [1.0, -1.0], iv.GaussianNoise(0.3))
    settings = {"draws": 10, "chains": 64, "warmup": 700}
    quiet = draw(posterior, iv.resgld(ladder="auto"), **settings)
    noisy = draw(posterior, iv.resgld(ladder="auto", estimator=iv.estimators.noisy(6.0, 0.0)), **settings)
    barriers = [run.report["ladder"]["rounds"][-1]["barrier"] for run in (quiet, noisy)]
    assert barriers[1] > 1.3 * barriers[0]
    assert noisy.rungs > quiet.rungs


class TestBeginning:
    def test_each_rung_at_its_given_start(self):
        sampler = iv.samplers.parallel_tempering(ladder="auto", step_size=0.01)
        rungs = len(sampler.rungs)
        start = np.linspace(-0.5, 0.5, rungs * 6).reshape(rungs, 3, 2)
        engine = Engine(POSTERIOR, sampler, PLAN)
        engine.begin(given_start(engine.bound, start, 3, rungs))
        for rung, own in zip(engine.rungs, start, strict=True):
            np.testing.assert_allclose(POSTERIOR.to_theta(rung.position), own)
        message = r"start must have shape \(2,\) or \(4, 2\), or \(8, 4, 2\) for each rung, got \(7, 4, 2\)"
        with pytest.raises(ValueError, match=message):
            iv.sample(POSTERIOR, sampler, start=np.zeros((7, 4, 2)), progress=False)

    def test_a_target_is_tempered_up_to_where_energies_are_as_high_as_at_the_starts(self, draw):
        def energy(x):
            return 0.5 * (x**2).sum(axis=1), x

        target = iv.Target(
            iv.extending.FunctionPotential(energy, 4), start=lambda rng, n: rng.normal(0.0, 20.0, (n, 4))
        )
        run = draw(target, iv.samplers.parallel_tempering(ladder="auto"), draws=50, chains=64)
        found = run.report["ladder"]
        assert (found["path"], found["hottest_is_prior"]) == ("temperature", False)
        # of a Gaussian of variance 400 in energies of variance 1
        assert run.report["temperatures"][-1] == pytest.approx(400.0, rel=0.3)

    def test_coarse_models_on_hot_rungs(self, draw):
        run = draw(POSTERIOR, iv.samplers.parallel_tempering(ladder="auto"), draws=20, chains=8)
        names = run.report["fidelities"]
        assert names[0] == "fine" and names[-1] != "fine"  # which of the coarse ones, is near enough to be chance
        assert sorted(names, reverse=False, key=["fine", "medium", "coarse"].index) == names

    def test_one_fidelity_where_it_is_asked_for(self, draw):
        run = draw(POSTERIOR, iv.samplers.parallel_tempering(ladder="auto", fidelities=["medium"]), draws=20, chains=8)
        assert set(run.report["fidelities"]) == {"medium"}

    def test_limits(self, draw):
        run = draw(
            two_modes_posterior(),
            iv.samplers.parallel_tempering(ladder=iv.ladder.auto_ladder(max_rungs=3)),
            draws=20,
            chains=8,
        )
        assert run.rungs == 3 and run.report["ladder"]["limited"]


class TestRefused:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"temperatures": (1.0, 2.0)}, r"temperatures must be None where warm-up finds the ladder .* got \(1.0, 2"),
            ({"step_size": [0.1, 0.2]}, "step_size must be one for all rungs where warm-up finds the ladder"),
            (
                {"step_size": iv.kernels.schedules.constant(0.1)},
                "step_size must be a number or None where warm-up finds the ladder",
            ),
            ({"ladder": "automatic"}, "ladder must be"),
        ],
    )
    def test_by_name(self, settings, message):
        with pytest.raises(ValueError, match=message):
            iv.samplers.parallel_tempering(**({"ladder": "auto"} | settings))

    def test_a_warm_up_that_is_too_short(self):
        with pytest.raises(ValueError, match="warmup must be at least 300 steps to find a ladder, in two rounds"):
            iv.sample(two_modes_posterior(), iv.samplers.parallel_tempering(ladder="auto"), warmup=200, progress=False)

    def test_two_kernels(self):
        with pytest.raises(ValueError, match="kernel must be None where adjusted or friction say which"):
            iv.samplers.parallel_tempering(friction=0.1, kernel=iv.kernels.Microcanonical())


class TestBetween:
    rng = np.random.default_rng(0)

    def dense(self):
        return DenseMetric(np.tril(self.rng.standard_normal((4, 4))) + 3.0 * np.eye(4))

    @pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
    def test_precisions(self, share):
        first, second = self.dense(), DiagonalMetric(np.array([1.0, 2.0, 1e-3, 5.0]))
        found = between(first, second, share)
        precision = [np.linalg.inv(np.diag(m.matrix) if m.matrix.ndim == 1 else m.matrix) for m in (first, second)]
        wanted = (1.0 - share) * precision[0] + share * precision[1]
        matrix = np.diag(found.matrix) if found.matrix.ndim == 1 else found.matrix
        np.testing.assert_allclose(np.linalg.inv(matrix), wanted, rtol=1e-8, atol=1e-8)
        if isinstance(found, DenseMetric):
            np.testing.assert_array_equal(found.factor, np.tril(found.factor))

    def test_diagonals(self):
        found = between(DiagonalMetric(np.array([1.0, 3.0])), DiagonalMetric(np.array([2.0, 3.0])), 0.5)
        np.testing.assert_allclose(found.scale**-2, [0.625, 1.0 / 9.0])
