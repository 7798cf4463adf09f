"""A run in a directory is read like one in memory, and only what is asked for."""

from __future__ import annotations

import pickle

import arviz
import launch
import numpy as np
import pytest
from functions import squares, squares_slope

import invsamp as iv
from invsamp.results import run_summary
from invsamp.results.run import Run
from invsamp.storage import segments
from invsamp.storage.arviz_data import dataset

SETTINGS = {"draws": 200, "warmup": 500, "chains": 2, "seed": 5, "progress": False}
SAMPLER = iv.samplers.fast_resgld(temperatures=(1.0, 3.0))


def posed():
    prior = iv.Prior(a=iv.Uniform(-2, 2), k=iv.LogNormal(0, 1, shape=2))
    return iv.Posterior(prior, iv.with_jacobian(squares, squares_slope), [1.0, 2.0, 0.5], iv.GaussianNoise(0.5))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "warnings", lambda self: [])
        in_memory = iv.sample(posed(), SAMPLER, **SETTINGS)
        iv.sample(posed(), SAMPLER, **SETTINGS, directory=folder, segment=33)
    return in_memory, folder


@pytest.fixture
def stored(both):
    return iv.load(both[1])


def test_it_is_the_run_in_memory(both, stored):
    in_memory, folder = both
    assert isinstance(stored, Run)
    assert len(list(folder.glob("segment-*.nc"))) == 7
    assert set(stored.data) == set(in_memory.data)
    for group in in_memory.data:
        assert stored.data[group].identical(in_memory.data[group]), group
    assert stored.rungs == in_memory.rungs and stored.shapes == in_memory.shapes
    assert stored.domain == in_memory.domain
    np.testing.assert_array_equal(stored.theta, in_memory.theta)
    np.testing.assert_array_equal(stored.rung_theta(1), in_memory.rung_theta(1))
    np.testing.assert_array_equal(stored.draws("k"), in_memory.draws("k"))
    assert stored.summary().equals(in_memory.summary())
    assert stored.warnings() == in_memory.warnings()
    with pytest.raises(ValueError, match=r"rung must be an integer in \[0, 1\]"):
        stored.rung_theta(2)


def test_arviz_takes_it(both, stored):
    in_memory, _ = both
    assert arviz.summary(stored.data).equals(arviz.summary(in_memory.data))
    lazy, eager = stored.data.posterior["k"], in_memory.data.posterior["k"]
    for chosen in (
        {"draw": 40},
        {"draw": -1},
        {"draw": slice(None, None, 7)},
        {"draw": slice(50, 20, -3)},
        {"draw": [3, 199, 70], "chain": 1},
        {"k_dim_0": 1, "chain": [0]},
    ):
        assert lazy.isel(chosen).identical(eager.isel(chosen)), chosen
    assert lazy.sel(draw=slice(30, 35)).identical(eager.sel(draw=slice(30, 35)))
    assert lazy.mean("draw").identical(eager.mean("draw"))


def test_plots_predictions_and_files_work(both, stored, tmp_path):
    in_memory, _ = both
    for plot in ("plot_trace", "plot_marginals", "plot_pairs", "plot_swaps", "plot_ladder"):
        assert getattr(stored, plot)() is not None
    predicted = stored.posterior_predictive(posed(), draws=20)
    assert predicted.identical(in_memory.posterior_predictive(posed(), draws=20))
    assert predicted.identical(dataset(stored.data, "posterior_predictive"))
    stored.save(tmp_path / "one.nc")
    assert Run.load(tmp_path / "one.nc").data.posterior.identical(in_memory.data.posterior)


def test_only_what_is_asked_for_is_read(stored, monkeypatch):
    read = []
    real = segments.Draws.read

    def noted(self, group, name, *rest):
        read.append((group, name))
        return real(self, group, name, *rest)

    monkeypatch.setattr(segments.Draws, "read", noted)
    stored.data  # noqa: B018
    assert read == []
    stored.data.posterior["a"].to_numpy()
    assert read == [("posterior", "a")]
    stored.draws("k")
    assert read == [("posterior", "a"), ("posterior", "k")]


def test_loading_and_its_warnings_do_without_arviz(both):
    code = f"""
        import sys
        import invsamp as iv
        run = iv.load({str(both[1])!r})
        run.theta, run.report, run.rungs, run.domain, run.warnings()
        print(*[name for name in ("arviz", "xarray", "matplotlib") if name in sys.modules], "none")
    """
    assert launch.python(code).stdout.split() == ["none"]


def test_it_travels_as_its_path(both, stored):
    other = pickle.loads(pickle.dumps(stored))
    np.testing.assert_array_equal(other.theta, stored.theta)
    assert len(pickle.dumps(stored)) < 1000


def test_many_draws_are_judged_from_some_of_them(monkeypatch):
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((1, 2, 9000, 1))
    theta[0, 1] += 0.4  # chains that do not agree
    run = Run.from_arrays(None, {"x": ()}, theta, {}, {"chains": 2, "draws": 9000})
    whole = run.warnings()
    monkeypatch.setattr("invsamp.results.run_summary._JUDGED", 4000)
    some = run.warnings()
    assert "R-hat is above" in whole[0] and "R-hat is above" in some[0]
    assert whole != some
    monkeypatch.setattr("invsamp.results.run_summary._JUDGED_OF_CHAIN", 9000)
    assert run.warnings() == whole


def test_a_summary_reads_many_scalars_at_a_time_but_not_more_than_fit(both, stored, monkeypatch):
    in_memory, _ = both
    calls = []
    real = segments.Draws.read

    def counted(self, *arguments):
        calls.append(arguments)
        return real(self, *arguments)

    monkeypatch.setattr(segments.Draws, "read", counted)
    assert stored.summary().equals(in_memory.summary())
    assert len(calls) == 2  # a and the two of k
    calls.clear()
    monkeypatch.setattr(run_summary, "_AT_ONCE", 1)
    stored._summary.clear()
    assert stored.summary().equals(in_memory.summary())
    assert len(calls) == 3
