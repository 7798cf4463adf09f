"""Blocks whose draws would not fit into memory: running moments, and some of their numbers."""

from __future__ import annotations

import os
import signal
import warnings

import numpy as np
import pytest
from field_cases import Bent, bent_field
from forks import in_a_fork

import invsamp as iv
from invsamp.engine.driver import running_moments
from invsamp.engine.driver.running_moments import RunningMoments
from invsamp.storage.contents import mean_and_sd
from invsamp.storage.directory import RunDirectory

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
    mean, sd = mean_and_sd(moments.sums, moments.count)
    np.testing.assert_array_equal(mean, moments.mean)
    np.testing.assert_allclose(sd, values.std(axis=(0, 1), ddof=1), rtol=1e-9)


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


@pytest.fixture
def every_fourth(monkeypatch):
    """Room for 8 draws of each of 4 chains, in memory and in a directory."""
    monkeypatch.setattr(running_moments, "MOST_BYTES", 10**6)
    for name in ("THINNED_BYTES", "STORED_BYTES"):
        monkeypatch.setattr(running_moments, name, 4 * 2500 * 4 * 8)


def beside():
    """As `bent_field`, with an unknown beside the field."""
    prior = iv.Prior(x=iv.Normal(0.0, np.ones(2500)), c=iv.Normal(0.0, 1.0))
    return iv.Posterior(prior, Bent(), [0.8, 0.4], iv.GaussianNoise(0.35))


CHEAP = {"sampler": iv.pcn(0.5), "warmup": 10}


def assert_same(run, reference):
    assert run.recorded == reference.recorded and run.shapes == reference.shapes
    for name in ("x_some", "c"):
        np.testing.assert_array_equal(run.draws(name), reference.draws(name))
    for of in (iv.Run.thinned, iv.Run.moments):
        np.testing.assert_array_equal(of(run, "x"), of(reference, "x"))


def stopped_after(stored, *arguments, **settings):
    """Kill the process in a checkpoint, before anything of it is written, once so many draws are stored."""
    original = RunDirectory.checkpoint

    def mortal(directory, *given, **more):
        if directory.header.draws >= stored:
            os.kill(os.getpid(), signal.SIGKILL)
        original(directory, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDirectory, "checkpoint", mortal)
        iv.sample(*arguments, **settings)


def test_a_directory_has_what_memory_has(every_fourth, tmp_path):
    settings = SETTINGS | CHEAP
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = iv.sample(beside(), **settings)
        run = iv.sample(beside(), **settings, directory=tmp_path / "run", segment=7)
    assert len(list((tmp_path / "run").glob("segment-*.nc"))) == 5
    assert run.thinned("x").shape == (4, 8, 2500) and run.thinned("x").dtype == np.float32
    assert_same(run, reference)
    assert run.summary().equals(reference.summary())
    assert set(run.data) == set(reference.data)
    for group in ("thinned", "moments", "prior", "posterior"):
        assert run.data[group].identical(reference.data[group]), group
    np.testing.assert_array_equal(run.data["thinned"]["draw"], np.arange(0, 30, 4))
    run.save(tmp_path / "run.nc")
    assert_same(iv.load(tmp_path / "run.nc"), reference)
    # a segment's size is that of its draws: 2 of 7, in single precision, and two numbers of each node
    assert (tmp_path / "run" / "segment-000001.nc").stat().st_size < 4 * 2500 * (2 * 4 + 4) + 150_000
    (tmp_path / "run" / "segment-000001.nc").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rest = iv.load(tmp_path / "run")
    np.testing.assert_array_equal(rest.thinned("x"), reference.thinned("x")[:, [0, 1, 4, 5, 6, 7]])
    (tmp_path / "run" / "state.bin").unlink()
    rest = iv.load(tmp_path / "run")
    np.testing.assert_array_equal(rest.thinned("x"), reference.thinned("x")[:, [0, 1, 4, 5, 6, 7]])


def test_functions_of_theta_are_refused_where_it_lacks_a_large_block(every_fourth):
    """Its first column would be another parameter's."""
    with pytest.warns(UserWarning, match=r"run.theta has c alone"):
        run = iv.sample(beside(), **SETTINGS | CHEAP)
    for call in (lambda: run.derive("first", lambda theta: theta[:, 0]), lambda: run.expectation(lambda theta: theta)):
        with pytest.raises(ValueError, match=r"those of x are too large to keep. Give the function by record="):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = iv.sample(beside(), **SETTINGS | CHEAP, record={"first": lambda theta: theta[:, 0]})
    np.testing.assert_array_equal(run.draws("first")[:, ::4].astype(np.float32), run.thinned("x")[..., 0])


@pytest.mark.parametrize("segment", [7, 1])
def test_killed_and_resumed_it_has_the_same_draws(every_fourth, tmp_path, segment):
    settings = SETTINGS | CHEAP | {"segment": segment}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = iv.sample(beside(), **settings, directory=tmp_path / "whole")
        killed = tmp_path / "killed"
        assert in_a_fork(lambda: stopped_after(14, beside(), **settings, directory=killed)) == -signal.SIGKILL
        assert iv.load(killed).report["draws"] == 14
        assert_same(iv.resume(killed, progress=False), reference)
        # from the posterior, and to more draws
        other = tmp_path / "other"
        assert in_a_fork(lambda: stopped_after(7, beside(), **settings, directory=other)) == -signal.SIGKILL
        assert_same(iv.resume(other, beside(), progress=False), reference)
        longer = iv.resume(other, beside(), draws=41, progress=False)
    assert longer.thinned("x").shape == (4, 11, 2500)
    np.testing.assert_array_equal(longer.thinned("x")[:, :8], reference.thinned("x"))


def test_what_reads_draws_reads_those_that_are_kept(every_fourth, tmp_path):
    settings = SETTINGS | CHEAP
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = iv.sample(beside(), **settings, directory=tmp_path / "run")
        posterior = beside()
        found = run.predict(posterior, draws=8)
    numbers = found.dataset["draw"].to_numpy()
    np.testing.assert_array_equal(numbers, [8, 24])
    theta = np.dstack([run.thinned("x")[:, numbers // 4], run.draws("c")[:, numbers]])
    expected = posterior.predict(theta.reshape(8, -1)).reshape(4, 2, 2)
    np.testing.assert_allclose(found.dataset["mean"], expected, rtol=1e-12)
    assert run.predict(posterior).dataset.sizes["draw"] == 8
    run.report_html(tmp_path / "page.html", posterior)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    wrong = bent_field(2500)
    with pytest.raises(ValueError, match="posterior must have the parameters of the run"):
        run.predict(wrong)


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
