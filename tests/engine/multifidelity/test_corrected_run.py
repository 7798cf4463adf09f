"""Runs whose warm-up corrects a coarse model: their distribution, their choices, and bit-identical resuming."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from field_cases import Coarse, moments, truth, two_fidelities
from scipy.stats import norm
from stopping import stopping
from two_levels import DATA, FINE, MAP, NOISE, SHIFT, Line, exact, posed

import invsamp as iv
from invsamp.domains import Unbounded
from invsamp.engine.multifidelity import corrected_run
from invsamp.engine.multifidelity.support_check import LOST, check_support
from invsamp.errors import ModelError
from invsamp.evaluate.requests import Estimate, answered
from invsamp.ladder.corrected_exchange import CorrectedExchange
from invsamp.results.run import Run
from invsamp.surrogates.chain import OFTEN, CoarseSide, acceptance, chosen
from invsamp.surrogates.costs import Costs
from invsamp.surrogates.enhanced import Enhanced
from invsamp.surrogates.learning import LevelCorrection

QUICK = {"draws": 20, "warmup": 100, "chains": 4, "seed": 3, "progress": False}
#: Sees one of three directions.
ONE = FINE * [1.0, 0.0, 0.0]


class Rippled(Line):
    """Has ripples beside, which neither a map of its observations nor a polynomial takes away."""

    def __call__(self, theta):
        return super().__call__(theta) + np.sin(15.0 * theta.sum(axis=1, keepdims=True))

    def linearize(self, theta):
        slope, (_, product) = 15.0 * np.cos(15.0 * theta.sum(axis=1, keepdims=True)), super().linearize(theta)
        return self(theta), lambda cotangent: product(cotangent) + slope * cotangent.sum(axis=1, keepdims=True)


LEARNING = iv.samplers.surrogate_exchange(correct="auto", pairs=30, exchange_interval=2, local_move_interval=3)


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(Run, "warnings", lambda self: [])


class TestChosen:
    def test_where_it_pays(self, quiet):
        run = iv.sample(posed(), **QUICK)
        assert run.report["fidelities"] == ["fine", "coarse"]
        found = run.report["correction"]
        assert found["kind"] == "polynomial" and found["pays"] and found["relative_cost"] == 20.0
        # what bends is beyond a map of the observations
        assert found["sd"]["polynomial"] < 0.5 * found["sd"]["affine"] < 0.05 * found["sd"]["none"]
        assert any("'fine' decides" in line for line in run.report["decisions"])
        # an energy of each draw, one now and then for the local move, and nothing else
        drawn = run.report["evaluations"]["fine"] - run.report["warmup_evaluations"]["fine"]
        assert drawn == 4 * (20 + 1) and run.report["swap_attempts"][0] == 4 * 20

    def test_warm_up_takes_no_more_exchanges_than_it_needs(self, quiet, monkeypatch):
        """Step sizes want a hundred steps, which would be fifty exchanges of every second one."""

        def known(*of):
            return None
            yield

        monkeypatch.setattr(corrected_run, "missed_mode", known)
        run = iv.sample(posed(), LEARNING, **QUICK)
        begun, pairs, exchanges, local = 4, 30, 4 * 20, 4 * (100 // (2 * 3))
        assert run.report["warmup_evaluations"]["fine"] == begun + pairs + exchanges + local
        assert run.report["swap_attempts"][0] == 4 * 20  # of the draws: one each

    @pytest.mark.parametrize(
        ("problem", "words"),
        [
            (
                posed(cost=2.7),
                "'fine' (counted): they save evaluations if it is 5 times cheaper",
            ),
            (posed(coarse=Rippled(ONE), fine=Line(cost=20.0)), "expensive for exchanges: the sd is above 1"),
        ],
    )
    def test_declines_in_words(self, quiet, problem, words):
        run = iv.sample(problem, **QUICK)
        assert any(words in line for line in run.report["decisions"]), run.report["decisions"]
        assert run.report["correction"] is None and run.report["fidelities"] == ["fine"]

    def test_a_seed_fixes_the_draws_whatever_solves_take(self, quiet):
        """Costs that are not stated are assumed, never measured: models that sleep have the same draws."""
        models = {"coarse": Line(MAP @ FINE, SHIFT), "fine": Line()}
        for model in models.values():
            model.work = None
        quick = iv.sample(posed(**models), **QUICK)
        models["coarse"].seconds = 2e-4
        slow = iv.sample(posed(**models), **QUICK)
        np.testing.assert_array_equal(quick.theta, slow.theta)
        assert quick.report["decisions"] == slow.report["decisions"]
        assert quick.report["correction"]["source"] == "assumed" and slow.report["correction"]["relative_cost"] == 10.0

    def test_costs_that_are_stated_are_taken(self, quiet):
        coarse, fine = Line(MAP @ FINE, SHIFT, 0.02), Line()
        prior, noise = iv.Prior(x=iv.Normal(0, 1, shape=3)), iv.GaussianNoise(NOISE)
        posterior = iv.Posterior(prior, {"coarse": coarse, "fine": fine}, DATA, noise, costs={"coarse": 1, "fine": 2})
        run = iv.sample(posterior, **QUICK)
        assert any("'coarse' is 2 times cheaper than 'fine' (stated)" in line for line in run.report["decisions"])

    def test_a_level_that_does_not_pay_is_dropped_for_the_next(self, quiet):
        models = {"rough": Rippled(ONE), "coarse": Line(MAP @ FINE, SHIFT, 0.02, 2.0)}
        run = iv.sample(posed(**models, fine=Line(cost=40.0)), **QUICK)
        assert run.report["fidelities"] == ["fine", "coarse"]
        assert any(line.startswith("'rough': ") and "too inaccurate or" in line for line in run.report["decisions"])

    def test_modes_are_crossed_by_the_coarse_model(self, quiet):
        run = iv.sample(two_humps(), **QUICK | {"draws": 200, "warmup": 500, "chains": 8})
        assert run.report["fidelities"][0] == "fine" and set(run.report["fidelities"][1:]) == {"coarse"}
        jumps, ladder = "jump" in run.report["sampler"], len(run.report["fidelities"]) > 3
        assert jumps or ladder, run.report["decisions"]
        # jumps lead to the modes of the corrected posterior, two sds from those of the coarse one
        assert (np.diff(np.sign(run.theta[..., 0]), axis=1) != 0).mean() > 0.25
        assert 0.2 < (run.theta > 0).mean() < 0.8


def two_humps():
    """x^2 is seen: two modes of equal weight, far apart."""
    prior = iv.Prior(x=iv.Normal(0, 2))
    return iv.Posterior(
        prior, {"coarse": Squared(0.9, cost=1.0), "fine": Squared(1.0, cost=30.0)}, [4.0], iv.GaussianNoise(0.2)
    )


class Squared:
    def __init__(self, scale, cost):
        self.scale, self.work = scale, cost

    def __call__(self, theta):
        return self.scale * theta**2

    def linearize(self, theta):
        return self(theta), lambda cotangent: 2.0 * self.scale * theta * cotangent


class Split(Squared):
    """Has its left mode far from where the fine model has it."""

    def __call__(self, theta):
        return super().__call__(theta) + np.where(theta < 0.0, 1.0, 0.0)


class TestChainsThatDoNotAgree:
    def test_coarse_ones_are_dropped_after_some_time_and_fine_ones_still_reported(self):
        """Warm-up stops waiting; the fine chains come from whichever mode their coarse chain had."""
        with pytest.warns(UserWarning, match=r"R-hat is above 1.01: x"):
            run = iv.sample(two_humps(), LEARNING, **QUICK | {"chains": 8})
        assert any(
            "12,000 draws" in line and "do not agree yet, R-hat" in line for line in run.report["decisions"]
        )  # 5 times 300 of each
        signs = np.sign(run.theta[..., 0])
        assert (signs == signs[:, :1]).all() and len(np.unique(signs)) == 2

    def test_those_that_hardly_exchange_are_named(self):
        problem = two_humps().with_forward({"coarse": Split(1.0, 1.0), "fine": Squared(1.0, 30.0)})
        sampler, starts = (
            iv.samplers.surrogate_exchange(exchange_interval=3, local_move_interval=10**6),
            [[2.0], [2.0], [-2.0], [-2.0]],
        )
        with pytest.warns(UserWarning, match=r"chains [23] \(0.0%\), [23] \(0.0%\) exchanged with the coarse model in"):
            iv.sample(problem, sampler, start=starts, thin=3, **QUICK | {"draws": 100})


class TestTarget:
    def test_is_that_of_the_fine_model(self, draw, agrees):
        mean, covariance = exact()
        truth = np.r_[np.zeros(3), np.ones(3)]

        def moments(problem, sampler):
            run = draw(problem, sampler, draws=120, warmup=200, chains=128)
            off = run.theta - mean
            return np.concatenate([off.mean(axis=1), np.square(off).mean(axis=1) / np.diag(covariance)], axis=1)

        sampler = iv.samplers.surrogate_exchange(correct="offset", pairs=20, exchange_interval=2, local_move_interval=3)
        assert agrees(moments(posed(), sampler), truth)
        assert not agrees(moments(alone(), iv.mala()), truth)  # the coarse model's own

    def test_holds_where_the_coarse_model_is_wrong_on_purpose(self, draw, agrees):
        mean, _ = exact()
        problem = posed(shift=SHIFT + 3.0 * NOISE, bend=0.05)
        sampler = iv.samplers.surrogate_exchange(correct="none", pairs=10, exchange_interval=2, local_move_interval=1)
        run = draw(problem, sampler, draws=400, warmup=200, chains=128)
        # so many chains, each for so long, that where they began is forgotten by the second half
        assert agrees(run.theta[:, 200:].mean(axis=1), mean)
        assert not agrees(run.rung_theta(1)[:, 200:].mean(axis=1), mean)  # the coarse model's own

    def test_is_kept_by_noisy_energies_of_the_fine_model(self, draw, agrees):
        """Both energies are drawn anew, with a penalty; treated as exact they bias the draws to the coarse one's."""
        mean, _ = exact()
        problem = posed(coarse=Line(FINE, 0.3), fine=Line(cost=20.0))

        def means(**options):
            sampler = iv.samplers.surrogate_exchange(
                correct="none", pairs=10, exchange_interval=2, local_move_interval=2, **options
            )
            run = draw(problem, sampler, draws=150, warmup=200, chains=128)
            return run.theta[:, 50:].mean(axis=1)

        assert agrees(means(estimator=iv.estimators.noisy(1.5)), mean)
        assert not agrees(means(estimator=iv.estimators.noisy(1.5), energy_variance=iv.variances.known(0.0)), mean)


class TestFields:
    """Where the prior is Gaussian in many unknowns, the coarse rung rotates about the coarse mode's Gaussian."""

    def test_the_draws_are_those_of_the_fine_model(self, draw, agrees):
        run = draw(two_fidelities(), None, draws=150, chains=128)
        assert run.report["kernels"] == ["pcn", "infinity_hmc"] and run.report["fidelities"] == ["fine", "coarse"]
        assert agrees(moments(run), truth())
        assert not agrees(moments(HotRung(run)), truth())  # the coarse model's own
        # the fine rung's own moves keep the same Gaussian
        assert len(run.report["reference_eigenvalues"]) == 2 and run.report["reference_eigenvalues"][0]

    def test_a_coarse_mesh_that_is_too_far_off_is_not_used_and_the_run_says_so(self, quiet):
        class Off(Coarse):
            def __call__(self, theta):
                return super().__call__(theta) + 0.6 * np.sin(7.0 * theta[:, 2:4])

            def jacobian(self, theta):
                jacobian = super().jacobian(theta)[1]
                jacobian[:, [0, 1], [2, 3]] += 4.2 * np.cos(7.0 * theta[:, 2:4])
                return self(theta), jacobian

        run = iv.sample(two_fidelities(coarse=Off()), draws=20, seed=1, progress=False)
        assert run.report["fidelities"] == ["fine"] and run.report["kernels"] == ["infinity_hmc"]
        assert any("expensive for exchanges: the sd is above 1" in line for line in run.report["decisions"])


class HotRung:
    """The draws of the second rung in the place of the first one's."""

    def __init__(self, run):
        self.theta = run.rung_theta(1)


def alone():
    whole = posed(shift=0.3 + np.zeros(6))
    return whole.with_forward({"coarse": whole.forward["coarse"]})


def stopped_at(folder, step, problem, sampler):
    """A run that was killed after the first checkpoint from that step on."""
    with pytest.MonkeyPatch.context() as patch, stopping(lambda _, done: done >= step):
        patch.setattr("invsamp.engine.driver.checkpoint_loop._Checkpoints._chosen", lambda self: (step, 4))
        iv.sample(problem, sampler, **QUICK, directory=folder)


@cache
def left_alone():
    return iv.sample(posed(), LEARNING, **QUICK)


#: Warm-up of the coarse chains, their draws, the pairs, the exchange's warm-up, its draws.
@pytest.mark.parametrize("step", [50, 300, 401, 402, 430, 505, 510])
def test_goes_on_to_the_bit_from_any_moment(tmp_path, quiet, step):
    whole = left_alone()
    stopped_at(tmp_path / "run", step, posed(), LEARNING)
    run = iv.resume(tmp_path / "run", progress=False)
    np.testing.assert_array_equal(run.theta, whole.theta)
    np.testing.assert_array_equal(run.data["coarse"]["x"].values, whole.data["coarse"]["x"].values)
    same = set(whole.report) - {"seconds", "evaluation_seconds"}
    assert {key: run.report[key] for key in same} == {key: whole.report[key] for key in same}


def test_goes_on_to_the_bit_with_noisy_energies(tmp_path, quiet):
    noisy = iv.samplers.surrogate_exchange(
        correct="auto", pairs=30, exchange_interval=2, local_move_interval=3, estimator=iv.estimators.noisy(0.5)
    )
    whole = iv.sample(posed(), noisy, **QUICK)
    stopped_at(tmp_path / "run", 505, posed(), noisy)
    np.testing.assert_array_equal(iv.resume(tmp_path / "run", progress=False).theta, whole.theta)


def test_goes_on_to_the_bit_where_it_was_chosen(tmp_path, quiet):
    whole = iv.sample(posed(), **QUICK)
    for step in (200, 610):
        stopped_at(tmp_path / str(step), step, posed(), None)
        np.testing.assert_array_equal(iv.resume(tmp_path / str(step), progress=False).theta, whole.theta)


def test_goes_on_to_the_bit_where_jumps_were_led_to_other_modes(tmp_path, quiet):
    whole = iv.sample(two_humps(), **QUICK)
    assert "jumps between 2 modes" in whole.report["sampler"]
    for step in (710, 740):  # the exchange's warm-up, its draws
        stopped_at(tmp_path / str(step), step, two_humps(), None)
        run = iv.resume(tmp_path / str(step), progress=False)
        np.testing.assert_array_equal(run.theta, whole.theta)
        assert run.report["sampler"] == whole.report["sampler"]


def test_a_coarse_model_that_has_changed_is_noticed(tmp_path, quiet):
    stopped_at(tmp_path / "run", 505, posed(), LEARNING)
    with pytest.raises(ValueError, match=r"it has other values .*coarse"):
        iv.resume(tmp_path / "run", posed(bend=0.021), progress=False)


def three_levels():
    """A coarse model too far off to pass to the fine one, and one between them that is near to the fine one."""
    rough, between = Line(FINE, 0.6), Line(FINE, 0.1, 0.02, 2.0)
    return posed(coarse=rough, middle=between, fine=Line(cost=600.0))


#: Which has to pass on what is not corrected.
PASSING = iv.samplers.surrogate_exchange(correct="none", pairs=30, exchange_interval=2, local_move_interval=3)


class TestChain:
    def test_a_level_between_passes_on_where_it_saves_solves(self, quiet):
        run = iv.sample(three_levels(), PASSING, **QUICK)
        assert run.report["fidelities"] == ["fine", "middle", "coarse"]
        (between,) = run.report["correction"]["between"]
        assert between["fidelity"] == "middle" and between["sd"]["none"] < run.report["correction"]["sd"]["none"]
        assert any("'middle' between them" in line and "instead of" in line for line in run.report["decisions"])
        drawn = run.report["evaluations"]["fine"] - run.report["warmup_evaluations"]["fine"]
        passed, below = run.report["swap_attempts"]
        assert passed == 4 * 20 and below % passed == 0 and below > passed and passed < drawn < 1.5 * passed

    def test_a_level_that_adds_nothing_is_left_out(self, quiet):
        near = posed(coarse=Line(MAP @ FINE, SHIFT), middle=Line(MAP @ FINE, SHIFT, 0.01, 2.0), fine=Line(cost=40.0))
        run = iv.sample(near, **QUICK)
        assert run.report["fidelities"] == ["fine", "coarse"] and run.report["correction"]["between"] == []
        assert "'middle' between them would add nothing, and is left out" in run.report["decisions"]

    def test_samples_the_target(self, draw, agrees):
        mean, covariance = exact()
        run = draw(three_levels(), PASSING, draws=120, warmup=200, chains=128)
        assert run.report["fidelities"] == ["fine", "middle", "coarse"]

        def moments(rung):
            off = run.rung_theta(rung) - mean
            return np.concatenate([off.mean(axis=1), np.square(off).mean(axis=1) / np.diag(covariance)], axis=1)

        assert agrees(moments(0), np.r_[np.zeros(3), np.ones(3)])
        assert not agrees(moments(2), np.r_[np.zeros(3), np.ones(3)])  # the coarse posterior

    def test_goes_on_to_the_bit(self, tmp_path, quiet):
        whole = iv.sample(three_levels(), PASSING, **QUICK)
        assert len(whole.report["fidelities"]) == 3
        for step in (401, 505):
            stopped_at(tmp_path / str(step), step, three_levels(), PASSING)
            np.testing.assert_array_equal(iv.resume(tmp_path / str(step), progress=False).theta, whole.theta)

    def test_a_ladder_above_the_coarse_rung_goes_on(self, quiet):
        sampler = iv.samplers.surrogate_exchange(
            (1.0, 2.0, 4.0), correct="none", pairs=30, exchange_interval=2, local_move_interval=3
        )
        run = iv.sample(three_levels(), sampler, **QUICK)
        assert run.report["fidelities"] == ["fine", "middle", "coarse", "coarse", "coarse"]
        assert all(accepts > 0 for accepts in run.report["swap_accepts"])

    def test_acceptances_are_those_of_normal_errors(self):
        rng = np.random.default_rng(0)
        for sd in (0.1, 0.5, 1.0, 2.0):
            log_ratio = sd * (rng.normal(size=200_000) - rng.normal(size=200_000)) - sd**2
            assert acceptance(sd) == pytest.approx(np.exp(np.minimum(log_ratio, 0.0)).mean(), abs=0.01)


#: When solves of `Timed` began and ended.
SPANS: list[tuple[float, float]] = []


class Timed(Line):
    def __call__(self, theta):
        began = time.perf_counter()
        found = super().__call__(theta)
        SPANS.append((began, time.perf_counter()))
        return found


def test_two_workers_solve_fine_ones_at_the_same_time(quiet):
    """Those of 4 chains, or 20 pairs, are asked at a time; the coarse model is too cheap to be sent."""
    problem = posed(coarse=Line(MAP @ FINE, SHIFT, 0.02), fine=Timed(cost=20.0, seconds=0.02))
    sampler = iv.samplers.surrogate_exchange(correct="auto", pairs=20, exchange_interval=5, local_move_interval=100)
    alone = iv.sample(posed(coarse=problem.forward["coarse"], fine=Timed(cost=20.0)), sampler, **QUICK)
    SPANS.clear()
    with ThreadPoolExecutor(2) as executor:
        both = iv.sample(problem, sampler, executor=executor, **QUICK)
    np.testing.assert_array_equal(alone.theta, both.theta)
    tried = 3  # alone, as it is found out whether rows have bits of their own: here pairs, and a chain at a time
    spans, busy, end = sorted(SPANS[tried:]), 0.0, 0.0
    for began, ended in spans:
        busy += max(0.0, ended - max(began, end))
        end = max(end, ended)
    assert busy < 0.85 * sum(ended - began for began, ended in spans)


class TestEnhanced:
    def test_adds_the_residuals_covariance_to_the_noise(self):
        rng = np.random.default_rng(1)
        posterior, theta = posed(coarse=Line(FINE, 0.3, 0.1), fine=Line()), rng.normal(size=(40, 3))
        fine, coarse = (posterior.predict(theta, name) for name in ("fine", "coarse"))
        wider = Enhanced.of(posterior, fine, coarse, np.ones(6, dtype=bool))
        covariance = NOISE**2 * np.eye(6) + np.cov(fine - coarse, rowvar=False)
        found = posterior.misfit(theta, wider.of_map(None)(coarse))
        known = [0.5 * (DATA - y) @ np.linalg.solve(covariance, DATA - y) for y in coarse]
        assert np.ptp(found - known) < 1e-9  # but for a constant

    def test_is_a_part_of_the_run(self, quiet):
        sampler = iv.samplers.surrogate_exchange(
            correct="affine", enhanced=True, pairs=30, exchange_interval=2, local_move_interval=3
        )
        run = iv.sample(posed(), sampler, **QUICK)
        assert run.report["correction"]["enhanced"] and run.report["swap_accepts"][0] > 0
        with pytest.raises(ValueError, match="enhanced must be False where correct is None"):
            iv.samplers.surrogate_exchange(enhanced=True)

    @pytest.mark.parametrize("noise", [iv.StudentTNoise(4.0, 0.5), iv.GaussianNoise("s")], ids=str)
    def test_needs_a_covariance(self, noise):
        scale = {"s": iv.HalfNormal(1.0)} if isinstance(noise, iv.GaussianNoise) else {}
        prior = iv.Prior(x=iv.Normal(0, 1, shape=3), **scale)
        posterior = iv.Posterior(prior, {"coarse": Line(MAP @ FINE), "fine": Line()}, DATA, noise)
        states = np.random.default_rng(0).normal(size=(20, 3 + len(scale))) ** 2
        with pytest.raises(ValueError, match="enhanced needs a GaussianNoise of known scale"):
            iv.correct(posterior, states, enhanced=True)


class TestOtherProblems:
    def test_log_normal_data_and_a_model_that_sees_a_part_of_them(self, quiet):
        """What an output map makes sense for: here the map of positive observations, and a part of the data alone."""

        class Growth:
            def __init__(self, scale, part=None, work=1.0):
                self.scale, self.data_indices, self.work = scale, part, work
                self.times = np.arange(1.0, 7.0) if part is None else np.arange(1.0, 7.0)[part]

            def __call__(self, theta):
                return self.scale * np.exp(np.outer(theta[:, 0], self.times / 6.0) + theta[:, 1:])

            def linearize(self, theta):
                y = self(theta)
                return y, lambda c: np.stack([(c * y * self.times / 6.0).sum(axis=1), (c * y).sum(axis=1)], axis=1)

        models = {"coarse": Growth(0.8, np.array([0, 2, 5])), "fine": Growth(1.0, None, 20.0)}
        data = models["fine"](np.array([[1.0, 0.2]]))[0]
        prior = iv.Prior(rate=iv.Normal(0, 1), start=iv.Normal(0, 1))
        run = iv.sample(iv.Posterior(prior, models, data, iv.LogNormalNoise(0.1)), **QUICK)
        assert run.report["fidelities"] == ["fine", "coarse"] and run.report["correction"]["kind"] == "affine"
        assert run.report["swap_accepts"][0] > 0.5 * run.report["swap_attempts"][0]


def how_often(side, ratio):
    """Coarse steps between two exchanges with a model whose cost is multiplied, and a good correction."""
    errors = {"coarse": np.zeros(50)}
    return chosen(["coarse"], "fine", errors, Costs({"coarse": 1.0, "fine": ratio}, "stated"), side)[0].every


class TestHowOften:
    def test_rises_with_the_autocorrelation_and_with_the_ratio_of_costs(self):
        by_time = [how_often(CoarseSide(steps, 1.0), 50.0) for steps in (1.0, 3.0, 10.0, 100.0)]
        by_ratio = [how_often(CoarseSide(20.0, 1.0), ratio) for ratio in (5.0, 50.0, 500.0)]
        assert by_time == sorted(by_time) and by_ratio == sorted(by_ratio)
        assert by_time[0] == 1 and by_time[-1] > 5 and by_ratio[0] < by_ratio[-1]
        assert how_often(CoarseSide(np.inf, 1.0), 10.0) == OFTEN[-1]


class Stops(Line):
    """No answer where the first unknown is above a limit."""

    def __init__(self, limit, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.limit = limit

    def __call__(self, theta):
        return np.where(theta[:, :1] > self.limit, np.nan, super().__call__(theta))


def fails(share, *, fine=False):
    """A posterior of which the coarse model fails in the upper ``share``; with ``fine`` both do."""
    mean, covariance = exact()
    limit = mean[0] + norm.isf(share) * np.sqrt(covariance[0, 0])
    both = Stops(limit, cost=20.0) if fine else Line(cost=20.0)
    return posed(coarse=Stops(limit, FINE, 0.1), fine=both)


class TestFailingModels:
    def test_a_requested_one_warns_and_the_fine_rung_moves_at_each_exchange(self):
        with pytest.warns(UserWarning, match="'coarse' fails where 'fine' does not: .* visit it rarely"):
            run = iv.sample(fails(0.1), LEARNING, **QUICK | {"draws": 40})
        drawn = run.report["evaluations"]["fine"] - run.report["warmup_evaluations"]["fine"]
        assert drawn == 2 * 4 * 40
        assert not run.report["correction"]["pays"]  # so that it is declined by default

    def test_if_both_fail_the_exchange_continues(self, quiet):
        run = iv.sample(fails(0.1, fine=True), LEARNING, **QUICK)
        assert run.report["correction"]["pays"] and run.report["failed_solves"]["coarse"] > 0

    def test_where_the_fine_one_fails_no_draw_lies(self, quiet):
        limit = exact()[0][0]
        problem = posed(coarse=Line(FINE, 0.1), fine=Stops(limit, cost=20.0))
        run = iv.sample(problem, LEARNING, **QUICK | {"draws": 40})
        assert (run.theta[..., 0] <= limit).all() and run.report["failed_solves"]["fine"] > 0
        assert 10 <= run.report["correction"]["pairs"] < 30 and run.report["correction"]["failed"] > 0

    @pytest.mark.parametrize("limit", [0.5, 1.5, 8.0])
    def test_most_of_what_is_lost_is_found(self, limit):
        """Of normal states cut off at some sds: as much of the rest as a move reaches."""
        states = np.random.default_rng(0).normal(size=(1000, 3))
        states = states[states[:, 0] < limit]
        lost = []
        for seed in range(20):
            asking = check_support(states, "coarse", "fine", Unbounded(), np.random.default_rng(seed))
            lost.append(answered(asking, normal_but_above(limit)).lost)
        share = norm.sf(limit)
        assert 0.4 * share - 1e-6 <= np.mean(lost) <= share
        assert (np.array(lost) > LOST).all() if limit < 2.0 else max(lost) == 0.0

    def test_goes_on_to_the_bit_from_before_the_look(self, tmp_path, quiet):
        whole = iv.sample(fails(0.1), LEARNING, **QUICK)
        stopped_at(tmp_path / "run", 402, fails(0.1), LEARNING)
        run = iv.resume(tmp_path / "run", progress=False)
        np.testing.assert_array_equal(run.theta, whole.theta)
        assert run.report["evaluations"] == whole.report["evaluations"]


def normal_but_above(limit):
    """Energies of two standard normal distributions; the coarse one fails above a limit of the first coordinate."""

    def answer(requests):
        found = []
        for request in requests:
            energy = 0.5 * np.square(request.position).sum(axis=1)
            lost = (request.fidelity == "coarse") & (request.position[:, 0] > limit)
            found.append(Estimate(np.where(lost, np.inf, energy), None))
        return tuple(found)

    return answer


class TestBadInput:
    def test_is_named(self):
        with pytest.raises(ValueError, match="problem must be a Posterior with forward models of several fidelities"):
            iv.sample(posed(fine=Line()), LEARNING, **QUICK)
        with pytest.raises(ValueError, match="correct must be"):
            iv.samplers.surrogate_exchange(correct="all")
        with pytest.raises(ValueError, match="temperatures must be given where correct is None"):
            iv.samplers.surrogate_exchange(None)
        with pytest.raises(ValueError, match="pairs must be"):
            iv.samplers.surrogate_exchange(correct="auto", pairs=3)

        class Part(Line):
            def __call__(self, theta):
                return super().__call__(theta)[:, :4]

        fewer = posed(coarse=Part(), fine=Line(cost=20.0))
        with pytest.raises(ValueError, match=r"'coarse' must have shape \(4, 6\), got \(4, 4\); .* as data_indices"):
            iv.sample(fewer, LEARNING, **QUICK)
        with pytest.raises(ValueError, match="kernel must be None"):
            iv.samplers.surrogate_exchange(None, correct="auto", kernel=iv.kernels.Langevin(adjusted=True))

    def test_why_a_coarse_model_has_no_answer_is_reported(self):
        class Raises(Line):
            def __call__(self, theta):
                raise ZeroDivisionError("no mesh")

            linearize = __call__

        with pytest.raises(
            ModelError, match=r"'coarse' raised ZeroDivisionError wherever it was called.*no mesh"
        ) as caught:
            iv.sample(posed(coarse=Raises(), fine=Line(cost=20.0)), LEARNING, **QUICK)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_an_expensive_coarse_model_and_fewer_pairs_than_outputs_are_reported(self, quiet):
        wide = posed(coarse=Line(MAP @ FINE, SHIFT, 0.02, 50.0), fine=Line(cost=20.0))
        run = iv.sample(wide, **QUICK)
        assert any(
            "'coarse' is 2.5 times more expensive than 'fine' (counted)" in line for line in run.report["decisions"]
        )
        learned = LevelCorrection("coarse", "affine", {"affine": 0.1}, 0.9, 20, 0, 30.0, "counted", 25)
        assert "fewer pairs than its 25 outputs need: the map is shrunk toward an offset" in str(learned)

    def test_a_fine_model_that_hardly_ever_solves(self, quiet):
        class Failing(Line):
            def __call__(self, theta):
                return np.where(theta[:, :1] > -5.0, np.nan, super().__call__(theta))

        problem = posed(coarse=Line(MAP @ FINE), fine=Failing(cost=20.0))
        with pytest.raises(ValueError, match="states must hold at least 10 states that 'coarse' and 'fine' solve"):
            iv.sample(problem, LEARNING, **QUICK)

    def test_a_sampler_that_corrects_prints_and_compares(self):
        assert isinstance(LEARNING, CorrectedExchange) and "corrected by 30 pairs" in str(LEARNING)
        assert (
            iv.samplers.surrogate_exchange(correct="auto", pairs=30, exchange_interval=2, local_move_interval=3)
            == LEARNING
        )


def test_data_are_those_of_all_models():
    assert len(DATA) == posed().predict(np.zeros(3), "coarse").shape[1]
