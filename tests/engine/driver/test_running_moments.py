"""Blocks whose draws would not fit into memory: running moments, and some of their numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from field_cases import bent_field

import invsamp as iv
from invsamp.engine.driver import running_moments
from invsamp.engine.driver.running_moments import RunningMoments

SETTINGS = {"draws": 30, "seed": 3, "progress": False}


def sampled(d, **settings):
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        run = iv.sample(bent_field(d), **(SETTINGS | settings))
    return run, [str(one.message) for one in messages]


def test_moments_are_those_of_all_values():
    values = 1e6 + np.random.default_rng(0).standard_normal((40, 4, 7))
    moments = RunningMoments(7)
    moments.add(np.full((4, 7), 3.0))
    moments.begin()
    for each in values:
        moments.add(each)
    np.testing.assert_allclose(moments.mean, values.mean(axis=(0, 1)), rtol=1e-14)
    np.testing.assert_allclose(moments.sd, values.std(axis=(0, 1), ddof=1), rtol=1e-9)


def test_large_blocks_have_moments_in_place_of_draws(monkeypatch):
    whole, _ = sampled(2500)
    monkeypatch.setattr(running_moments, "MOST_BYTES", 10**6)
    run, messages = sampled(2500)
    assert any("draws of x would take" in line and "run.moments" in line for line in messages)
    mean, sd = run.moments("x")
    np.testing.assert_allclose(mean, whole.theta.mean(axis=(0, 1)), atol=1e-12)
    np.testing.assert_allclose(sd, whole.theta.std(axis=(0, 1), ddof=1), rtol=1e-9)
    np.testing.assert_allclose(whole.moments("x")[1], sd, rtol=1e-9)
    np.testing.assert_array_equal(run.thinned("x"), whole.theta.astype(np.float32))  # there is room for all of these
    some = run.draws("x_some")
    assert some.shape == (4, 30, running_moments.KEPT)
    np.testing.assert_array_equal(some[..., [0, -1]], whole.theta[..., [0, -1]])
    assert "x_some[0]" in run.summary().index and "x_some" in repr(run)


def test_every_kth_draw_is_kept_in_single_precision(monkeypatch, tmp_path):
    whole, _ = sampled(2500)
    monkeypatch.setattr(running_moments, "MOST_BYTES", 10**6)
    monkeypatch.setattr(running_moments, "THINNED_BYTES", 4 * 2500 * 4 * 8)  # 8 draws of each of 4 chains
    run, messages = sampled(2500)
    assert any("one draw in 4 in single precision (run.field, run.thinned)" in line for line in messages)
    thinned = run.thinned("x")
    assert thinned.dtype == np.float32
    np.testing.assert_array_equal(thinned, whole.theta[:, ::4].astype(np.float32))
    run.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(iv.Run.load(tmp_path / "run.nc").thinned("x"), thinned)
    assert len(run.summary()) == 52  # 50 numbers and two informed directions
    np.testing.assert_array_equal(whole.thinned("x"), whole.theta.astype(np.float32))


def test_weighted_draws_are_kept_whole(monkeypatch):
    """Moments of all draws alike are not theirs."""
    monkeypatch.setattr(running_moments, "MOST_BYTES", 10**5)
    sampler = iv.samplers.csgld(0.01, ends=[2300.0, 2500.0, 2700.0])
    run, messages = sampled(2500, sampler=sampler, warmup=200)
    assert run.theta.shape == (4, 30, 2500) and not any("would take" in line for line in messages)


@pytest.mark.parametrize("settings", [{"keep": False, "record": {"first": lambda x: x[:, 0]}}, {"d": 100}])
def test_what_is_asked_for_is_kept(settings, monkeypatch):
    monkeypatch.setattr(running_moments, "MOST_BYTES", 10**5)
    settings = {"d": 2500} | settings
    run, messages = sampled(**settings)
    assert not any("would take" in line for line in messages)
    assert "x_some" not in run.recorded


def test_some_of_a_large_block_are_judged_and_summaries_are_made_once(monkeypatch):
    from invsamp.results import run_summary as results

    run, _ = sampled(2500)
    made, original = [], results.table

    def table(values, *more):
        made.append(values.shape[-1])
        return original(values, *more)

    monkeypatch.setattr(results, "table", table)
    judged = run._summary.table(few=True)
    # 50 nodes, two informed directions, the energy
    assert len(judged) == 53 and judged.index[-1] == "energy"
    run.warnings(), repr(run)
    assert not made  # the run has judged itself before
    assert len(run.summary()) == 2502 and sum(made) == 2502
    run.summary()
    assert sum(made) == 2502
    assert ": 5 of 50 entries, evenly spread over 2,500, from the smallest mean" in repr(run)


@pytest.mark.slow
def test_a_hundred_thousand_unknowns_within_two_gigabytes():
    resource = pytest.importorskip("resource")
    run, _ = sampled(100_000, draws=200)
    assert 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2e9
    assert run.moments("x")[0].shape == (100_000,)
