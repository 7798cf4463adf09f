"""Runs whose warm-up corrects a coarse model: their law, what they choose, and that they go on to the bit."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from two_levels import DATA, FINE, MAP, NOISE, SHIFT, Line, exact, posed

import invsamp as iv
from invsamp.corrected_exchange import OFTEN, CorrectedExchange, how_often
from invsamp.results.run import Run
from invsamp.storage.directory import RunDirectory

QUICK = {"draws": 20, "warmup": 100, "chains": 4, "seed": 3, "progress": False}
#: Sees one of three directions.
ONE = FINE * [1.0, 0.0, 0.0]
LEARNING = iv.surrogate_exchange(correct="auto", pairs=30, every=2, local=3)


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(Run, "warnings", lambda self: [])


class TestChosen:
    def test_where_it_pays(self, quiet):
        run = iv.sample(posed(), **QUICK)
        assert run.report["fidelities"] == ["fine", "coarse"]
        found = run.report["correction"]
        assert found["kind"] == "affine" and found["pays"] and found["relative_cost"] == 20.0
        assert found["sd"]["affine"] < 0.1 * found["sd"]["none"]
        assert any("'fine' decides" in line for line in run.report["decisions"])
        # an energy of each draw, one now and then for the local move, and nothing else
        drawn = run.report["evaluations"]["fine"] - run.report["warmup_evaluations"]["fine"]
        assert drawn == 4 * (20 + 1) and run.report["swap_attempts"][0] == 4 * 20

    @pytest.mark.parametrize(
        ("problem", "words"),
        [
            (posed(cost=2.7), "'coarse' is 2.7 times cheaper than 'fine': it pays from 5 times on"),
            (posed(coarse=Line(ONE), fine=Line(cost=20.0)), "not worth an exchange: the sd is above 1"),
        ],
    )
    def test_declines_in_words(self, quiet, problem, words):
        run = iv.sample(problem, **QUICK)
        assert any(words in line for line in run.report["decisions"]), run.report["decisions"]
        assert run.report["correction"] is None and run.report["fidelities"] == ["fine"]

    def test_nothing_is_said_of_models_that_take_no_time(self, quiet):
        models = {"coarse": Line(MAP @ FINE), "fine": Line()}
        for model in models.values():
            del model.cost
        run = iv.sample(posed(**models), **QUICK)
        assert run.report["correction"] is None and not any("cheaper" in line for line in run.report["decisions"])

    def test_a_level_that_does_not_pay_is_dropped_for_the_next(self, quiet):
        models = {"rough": Line(ONE), "coarse": Line(MAP @ FINE, SHIFT, 0.02, 2.0)}
        run = iv.sample(posed(**models, fine=Line(cost=40.0)), **QUICK)
        assert run.report["fidelities"] == ["fine", "coarse"]
        assert any(line.startswith("'rough': ") and "not worth" in line for line in run.report["decisions"])

    def test_modes_are_crossed_by_the_coarse_model(self, quiet):
        run = iv.sample(two_humps(), **QUICK | {"draws": 200, "warmup": 500, "chains": 8})
        assert run.report["fidelities"][0] == "fine" and set(run.report["fidelities"][1:]) == {"coarse"}
        jumps, ladder = "jump" in run.report["sampler"], len(run.report["fidelities"]) > 3
        assert jumps or ladder, run.report["decisions"]
        assert (np.diff(np.sign(run.theta[..., 0]), axis=1) != 0).sum() > 20
        assert 0.2 < (run.theta > 0).mean() < 0.8


def two_humps():
    """x^2 is seen: two modes of equal weight, far apart."""
    prior = iv.Prior(x=iv.Normal(0, 2))
    return iv.Posterior(
        prior, {"coarse": Squared(0.9, cost=1.0), "fine": Squared(1.0, cost=30.0)}, [4.0], iv.GaussianNoise(0.2)
    )


class Squared:
    def __init__(self, scale, cost):
        self.scale, self.cost = scale, cost

    def __call__(self, theta):
        return self.scale * theta**2

    def linearize(self, theta):
        return self(theta), lambda cotangent: 2.0 * self.scale * theta * cotangent


class TestLaw:
    def test_is_that_of_the_fine_model(self, draw, agrees):
        mean, covariance = exact()
        truth = np.r_[np.zeros(3), np.ones(3)]

        def moments(problem, sampler):
            run = draw(problem, sampler, draws=120, warmup=200, chains=128)
            off = run.theta - mean
            return np.concatenate([off.mean(axis=1), np.square(off).mean(axis=1) / np.diag(covariance)], axis=1)

        sampler = iv.surrogate_exchange(correct="offset", pairs=20, every=2, local=3)
        assert agrees(moments(posed(), sampler), truth)
        assert not agrees(moments(alone(), iv.mala()), truth)  # the coarse model's own

    def test_holds_where_the_coarse_model_is_wrong_on_purpose(self, draw, agrees):
        mean, _ = exact()
        problem = posed(shift=SHIFT + 3.0 * NOISE, bend=0.05)
        sampler = iv.surrogate_exchange(correct="none", pairs=10, every=2, local=1)
        run = draw(problem, sampler, draws=400, warmup=200, chains=128)
        # so many chains, each for so long, that where they began is forgotten by the second half
        assert agrees(run.theta[:, 200:].mean(axis=1), mean)


def alone():
    whole = posed(shift=0.3 + np.zeros(6))
    return whole.with_forward({"coarse": whole.forward["coarse"]})


def stopped_at(folder, step, problem, sampler):
    """A run that was killed after the first checkpoint from that step on."""
    real = RunDirectory.checkpoint

    class Stop(Exception):
        pass

    def checkpoint(self, done, *args, **kwargs):
        real(self, done, *args, **kwargs)
        if done >= step:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDirectory, "checkpoint", checkpoint)
        patch.setattr("invsamp.engine.recording._Checkpoints._chosen", lambda self: (step, 4))
        with pytest.raises(Stop):
            iv.sample(problem, sampler, **QUICK, directory=folder)


#: Warm-up of the coarse chains, their draws, the pairs, the exchange's warm-up, its draws.
@pytest.mark.parametrize("step", [50, 300, 401, 402, 430, 505, 510])
def test_goes_on_to_the_bit_from_any_moment(tmp_path, quiet, step):
    whole = iv.sample(posed(), LEARNING, **QUICK)
    stopped_at(tmp_path / "run", step, posed(), LEARNING)
    run = iv.resume(tmp_path / "run", progress=False)
    np.testing.assert_array_equal(run.theta, whole.theta)
    np.testing.assert_array_equal(run.data["coarse"]["x"].values, whole.data["coarse"]["x"].values)
    same = set(whole.report) - {"seconds", "evaluation_seconds"}
    assert {key: run.report[key] for key in same} == {key: whole.report[key] for key in same}


def test_goes_on_to_the_bit_where_it_was_chosen(tmp_path, quiet):
    whole = iv.sample(posed(), **QUICK)
    for step in (200, 610):
        stopped_at(tmp_path / str(step), step, posed(), None)
        np.testing.assert_array_equal(iv.resume(tmp_path / str(step), progress=False).theta, whole.theta)


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
    sampler = iv.surrogate_exchange(correct="auto", pairs=20, every=5, local=100)
    alone = iv.sample(problem, sampler, **QUICK)
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


class TestHowOften:
    def test_rises_with_the_autocorrelation_and_with_the_ratio_of_costs(self):
        by_time = [how_often(steps, 1.0, 50.0) for steps in (1.0, 3.0, 10.0, 100.0)]
        by_ratio = [how_often(20.0, 1.0, ratio) for ratio in (5.0, 50.0, 500.0)]
        assert by_time == sorted(by_time) and by_ratio == sorted(by_ratio)
        assert by_time[0] == 1 and by_time[-1] > 5 and by_ratio[0] < by_ratio[-1]
        assert how_often(np.inf, 1.0, 10.0) == OFTEN[-1]


class TestBadInput:
    def test_is_told_by_name(self):
        with pytest.raises(ValueError, match="problem must be a Posterior with forward models of several fidelities"):
            iv.sample(posed(fine=Line()), LEARNING, **QUICK)
        with pytest.raises(ValueError, match="correct must be"):
            iv.surrogate_exchange(correct="all")
        with pytest.raises(ValueError, match="temperatures must be given where correct is None"):
            iv.surrogate_exchange(None)
        with pytest.raises(ValueError, match="pairs must be"):
            iv.surrogate_exchange(correct="auto", pairs=3)
        with pytest.raises(ValueError, match="kernel must be None"):
            iv.surrogate_exchange(None, correct="auto", kernel=iv.Langevin(adjusted=True))

    def test_a_fine_model_that_hardly_ever_solves(self, quiet):
        class Failing(Line):
            def __call__(self, theta):
                return np.where(theta[:, :1] > -5.0, np.nan, super().__call__(theta))

        problem = posed(coarse=Line(MAP @ FINE), fine=Failing(cost=20.0))
        with pytest.raises(ValueError, match="states must hold at least 10 states that 'coarse' and 'fine' solve"):
            iv.sample(problem, LEARNING, **QUICK)

    def test_a_sampler_that_corrects_prints_and_compares(self):
        assert isinstance(LEARNING, CorrectedExchange) and "corrected by 30 pairs" in str(LEARNING)
        assert iv.surrogate_exchange(correct="auto", pairs=30, every=2, local=3) == LEARNING


def test_data_are_those_of_all_models():
    assert len(DATA) == posed().predict(np.zeros(3), "coarse").shape[1]
