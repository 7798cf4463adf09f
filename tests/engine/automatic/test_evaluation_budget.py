"""The budget of evaluations: reported, limiting warm-up, and sampling where the user set it."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.automatic import evaluation_budget as evaluation_budget
from invsamp.engine.automatic.evaluation_budget import ALLOWED, EvaluationBudget
from invsamp.engine.ensemble.run_settings import Plan

D = 5
#: Largest number of evaluations beyond a limit: paths of 64 steps in warm-up, of four chains.
STEP = 4 * 64


def normal(x):
    return 0.5 * (x**2).sum(axis=1), x


def sampled(sampler=None, **settings):
    """A run of a normal distribution of four chains, and what it warned of."""
    target = iv.Target(iv.extending.FunctionPotential(normal, D))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = iv.sample(target, sampler, **({"draws": 400, "seed": 1, "progress": False} | settings))
    return run, [str(warning.message) for warning in caught]


def evaluations(run):
    return sum(run.report["evaluations"].values())


def test_the_default_is_for_the_steps_of_the_plan(caplog):
    with caplog.at_level(logging.INFO, "invsamp"):
        run, messages = sampled()
    assert run.report["budget"] == {"evaluations": ALLOWED * 4 * (1500 + 400), "given": False, "stopped": None}
    assert "budget of 243,200 evaluations" in caplog.text
    assert "of a budget of 243,200" in repr(run)
    assert evaluations(run) < 0.1 * 243_200
    assert not any("budget" in text for text in messages)
    two_rungs = sampled(iv.samplers.parallel_tempering((1.0, 3.0)), warmup=200)[0].report["budget"]
    assert two_rungs["evaluations"] == ALLOWED * 4 * 2 * (200 + 400)


def test_what_is_slow_is_reported_once_half_is_spent(monkeypatch):
    """Also without a bar; the draws are made all the same."""
    monkeypatch.setattr(evaluation_budget, "ALLOWED", 1)
    run, messages = sampled(iv.mams(length=4.0), warmup=200)
    (notice,) = [
        one for one in messages if one.startswith("IV-BUDGET: half of the budget of 2,400 evaluations is spent at step")
    ]
    assert "most of it on warm-up" in notice and "evaluations= sets a limit" in notice
    assert run.report["budget"]["stopped"] is None  # the settings of a named sampler say what its warm-up costs
    assert run.report["draws"] == 400


def test_the_default_budget_ends_the_warm_up_of_runs_without_a_chosen_sampler(monkeypatch):
    monkeypatch.setattr(evaluation_budget, "ALLOWED", 1)
    run, _ = sampled(None, warmup=1000)
    assert run.report["budget"]["stopped"] is not None
    assert run.report["draws"] == 400


def test_a_run_within_its_budget_gives_no_notice(caplog):
    needed = evaluations(sampled(iv.mams())[0])
    with caplog.at_level(logging.INFO, "invsamp"):
        run, messages = sampled(iv.mams(), evaluations=int(1.5 * needed))
    assert evaluations(run) == needed
    assert not any("budget" in text for text in messages)
    assert "half of the budget" in caplog.text


@pytest.mark.parametrize(
    "sampler", [None, iv.mams(), iv.samplers.parallel_tempering(ladder="auto")], ids=["chosen", "mams", "ladder"]
)
def test_warm_up_ends_within_the_budget(sampler):
    run, _ = sampled(sampler, warmup=1500, draws=2000, evaluations=2400)
    report, chains = run.report, len(run.report["targets"])
    assert report["budget"]["stopped"] < 1800 + chains * STEP
    assert sum(report["warmup_evaluations"].values()) == report["budget"]["stopped"]
    assert evaluations(run) < 2400 + chains * STEP
    assert 0 < report["draws"] < 2000 and run.theta.shape[1] == report["draws"]
    assert any(text.startswith("IV-BUDGET: warm-up was stopped after") for text in run.warnings())
    assert f"sampling stopped after {report['draws']} of 2000 draws" in repr(run)


def test_a_search_for_modes_keeps_to_a_quarter_of_it():
    plan = Plan(1000, 500, 1, 4, 1, evaluations=4000)
    account = EvaluationBudget(plan, {})
    assert (account.descents_most, account.points_most) == (1000, 500)


def test_a_warm_up_that_learns_the_target_is_completed():
    run, _ = sampled(iv.samplers.sgld(0.1), warmup=200, draws=400, evaluations=800)
    assert run.report["warmup"] == 200 and run.report["budget"]["stopped"] is None
    assert run.report["draws"] == 1


@pytest.mark.parametrize("segment", [7, None])
def test_a_stopped_run_resumes_with_a_larger_budget(tmp_path, segment):
    """To the same draws as if it had been unlimited."""
    whole, _ = sampled(iv.mams(), warmup=200)
    before, all_ = sum(whole.report["warmup_evaluations"].values()), evaluations(whole)
    limit = max(2 * before, (before + all_) // 2)
    path = tmp_path / "run"
    stopped, _ = sampled(iv.mams(), warmup=200, evaluations=limit, directory=path, segment=segment)
    made = stopped.report["draws"]
    assert 0 < made < 400
    np.testing.assert_array_equal(stopped.theta, whole.theta[:, :made])
    in_memory, _ = sampled(iv.mams(), warmup=200, evaluations=limit)
    np.testing.assert_array_equal(in_memory.theta, stopped.theta)
    assert in_memory.report["repeated"] == stopped.report["repeated"] != {}
    target = iv.Target(iv.extending.FunctionPotential(normal, D))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = iv.resume(path, target, progress=False)
        assert again.report["draws"] == made
        with pytest.raises(ValueError, match=f"evaluations must be an integer >= {limit}"):
            iv.resume(path, target, progress=False, evaluations=limit - 1)
        again = iv.resume(path, target, progress=False, evaluations=10 * all_)
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert not any("budget" in text for text in again.warnings())


def test_a_budget_is_not_added_later(tmp_path):
    sampled(iv.mams(), draws=10, warmup=100, directory=tmp_path / "run")
    with pytest.raises(ValueError, match="evaluations must be None for a run that was given no budget, got 5000"):
        iv.resume(
            tmp_path / "run", iv.Target(iv.extending.FunctionPotential(normal, D)), progress=False, evaluations=5000
        )


def test_an_account_is_restored():
    account = EvaluationBudget(Plan(10, 100, 1, 4, 1), {})
    account.stopped = 7
    account.allow(50)
    again = EvaluationBudget(Plan(10, 100, 1, 4, 1), {})
    again.restore(account.state())
    assert again.limits() == account.limits() == {"evaluations": ALLOWED * 4 * 50, "given": False, "stopped": 7}
    given = EvaluationBudget(Plan(10, 100, 1, 4, 1, evaluations=9), {})
    given.restore(account.state())
    assert given.budget == 9
