from __future__ import annotations

import json
import sys
import warnings
from types import SimpleNamespace

import arviz
import arviz_versions
import h5py
import numpy as np
import pytest
import xarray as xr

import invsamp as iv
from invsamp.domains import Box, HalfSpaces
from invsamp.results.run import Run
from invsamp.storage import arviz_data
from invsamp.storage.contents import versions

SHAPES = {"x": (), "k": (3,), "m": (2, 2)}
LABELS = ["x", "k[0]", "k[1]", "k[2]", "m[0, 0]", "m[0, 1]", "m[1, 0]", "m[1, 1]"]
REPORT = {
    "sampler": "fast_resgld(temperatures=(1.0, 4.0))",
    "seed": 7,
    "chains": 4,
    "draws": 500,
    "warmup": 100,
    "thin": 2,
    "seconds": 1.5,
    "temperatures": [1.0, 4.0],
    "fidelities": ["fine", "coarse"],
    "swap_attempts": [100],
    "swap_accepts": [25],
    "round_trips": 4,
    "evaluations": {"coarse": 4000, "fine": 4100},
    "evaluation_seconds": {"coarse": 0.25, "fine": 1.0},
}


def make(rungs=2, chains=4, draws=500, report=REPORT, domain=None, data=None, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((rungs, chains, draws, 8))
    stats = {
        "energy": rng.chisquare(8, (rungs, chains, draws)) / 2,
        "replica": rng.permuted(np.tile(np.arange(rungs)[:, None, None], (1, chains, draws)), axis=0),
        "accepted": rng.random((chains, draws)) < 0.5,
    }
    problem = SimpleNamespace() if data is None else SimpleNamespace(data=data)
    return theta, Run.from_arrays(problem, SHAPES, theta, stats, report, domain)


class Line:
    """Data y = x + k, with noise of sd 0.5; the solve fails for x > 2."""

    shapes = SHAPES
    data = np.arange(6.0).reshape(3, 2)

    def __init__(self):
        self.rows = []

    def predict(self, theta, fidelity=None):
        self.rows.append(len(theta))
        mean = theta[:, :1] + theta[:, 1:4] + (10.0 if fidelity == "coarse" else 0.0)
        mean[theta[:, 0] > 2] = np.nan
        return np.stack([mean, -mean], axis=-1)

    def sample_noise(self, rng, y, theta):
        return y + 0.5 * rng.standard_normal(y.shape)


def test_draws_come_back_as_they_went_in():
    theta, run = make()
    np.testing.assert_array_equal(run.theta, theta[0])
    np.testing.assert_array_equal(run.rung_theta(1), theta[1])
    np.testing.assert_array_equal(run.draws("x"), theta[0, ..., 0])
    np.testing.assert_array_equal(run.draws("k"), theta[0, ..., 1:4])
    np.testing.assert_array_equal(run.draws("m"), theta[0, ..., 4:].reshape(4, 500, 2, 2))
    assert run.rungs == 2
    assert run.shapes == SHAPES
    assert run.labels == LABELS


def test_groups_follow_arviz():
    _, run = make(data=np.arange(6.0).reshape(3, 2))
    data = run.data
    assert isinstance(data, arviz_versions.CONTAINER)
    assert data.posterior["k"].dims == ("chain", "draw", "k_dim_0")
    assert data.hot["k"].dims == ("chain", "draw", "rung", "k_dim_0")
    assert data.hot.coords["temperature"].to_numpy().tolist() == [4.0]
    assert data.sample_stats["energy"].dims == ("chain", "draw")
    assert data.hot_stats["energy"].dims == ("chain", "draw", "rung")
    assert "accepted" not in data.hot_stats
    assert data.observed_data["data"].shape == (3, 2)


def test_a_density_without_data_has_no_observed_data_and_one_rung_no_hot_group():
    _, run = make(rungs=1)
    assert set(run.data) == {"posterior", "sample_stats"}
    assert run.rungs == 1
    assert run.domain is None


@pytest.mark.parametrize(
    ("shapes", "theta", "stats", "match"),
    [
        ({"x": ()}, (1, 4, 10, 2), {}, r"theta must have shape \(rungs, chains, draws, 1\).*got \(1, 4, 10, 2\)"),
        ({"x": ()}, (4, 10, 1), {}, "theta must have shape"),
        ({"x": ()}, (1, 4, 0, 1), {}, "none of them 0"),
        ({"draw": ()}, (1, 4, 10, 1), {}, "cannot be called 'draw'"),
        ({"x": ()}, (1, 4, 10, 1), {"energy": (4, 9)}, r"sample_stats\['energy'\] must have shape \(4, 10\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(shapes, theta, stats, match):
    with pytest.raises(ValueError, match=match):
        Run.from_arrays(None, shapes, np.zeros(theta), {k: np.zeros(v) for k, v in stats.items()}, {})


def test_names_that_do_not_exist_are_refused():
    _, run = make()
    with pytest.raises(ValueError, match="name must be one of 'x', 'k', 'm', got 'z'"):
        run.draws("z")
    with pytest.raises(ValueError, match=r"rung must be an integer in \[0, 1\], got 2"):
        run.rung_theta(2)


def test_report_takes_numpy_values_and_gives_plain_ones():
    report = {"swap_attempts": np.array([3]), "seconds": np.float32(0.5), "round_trips": np.int64(2), "none": None}
    _, run = make(report=report)
    assert run.report == {"swap_attempts": [3], "seconds": 0.5, "round_trips": 2, "none": None}
    with pytest.raises(TypeError, match="JSON-able"):
        make(report={"bad": object()})


def test_summary_equals_arviz_and_numpy_row_by_row():
    theta, run = make()
    summary = run.summary()
    assert summary.index.tolist() == LABELS
    assert summary.columns.tolist() == (
        ["mean", "sd", "5%", "50%", "95%", "mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat"]
    )
    reference = arviz_versions.summary(run.data.posterior)
    for column in ("mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"):
        np.testing.assert_allclose(summary[column], reference[column].to_numpy(), rtol=1e-12)
    flat = theta[0].reshape(-1, 8)
    np.testing.assert_allclose(summary["5%"], np.quantile(flat, 0.05, axis=0))
    np.testing.assert_allclose(summary["50%"], np.median(flat, axis=0))


@pytest.mark.parametrize("draws", [1, 3])
def test_summary_of_hardly_any_draws_is_nan_and_silent(draws, caplog, monkeypatch):
    monkeypatch.setattr(arviz._log, "handlers", [caplog.handler])  # a logger that getLogger does not know
    _, run = make(draws=draws, report={"draws": draws, "chains": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.summary()["ess_bulk"].isna().all()
        make(chains=1)[1].summary()
    assert not caplog.records
    assert any("too few" in message for message in run.warnings())


def test_warnings_of_stuck_and_broken_draws_come_from_the_draws():
    theta, _ = make()
    theta[0, ..., 0] = 0.1  # its sd by floating point is 1e-17, not 0
    theta[0, 0, 0, 1] = np.nan
    run = Run.from_arrays(None, SHAPES, theta, {}, REPORT)
    text = " ".join(run.warnings())
    assert "x: every draw has the same value" in text
    assert "k[0]: some draws are NaN or infinite" in text
    theta, good = make()
    assert good.warnings() == []


@pytest.mark.parametrize("method", ["warnings", "summary", "__repr__"])
def test_many_parameters_are_summarized_together(method):
    """By calls of functions, which no other work on the machine changes: one by one there were thousands for each."""

    def calls(parameters):
        theta = np.random.default_rng(0).standard_normal((1, 4, 100, parameters))
        run = Run.from_arrays(None, {"theta": (parameters,)}, theta, {}, {"chains": 4, "draws": 100})
        getattr(run, method)()  # what is imported on the way
        counted = []
        sys.setprofile(lambda frame, event, argument: counted.append(1) if event.endswith("call") else None)
        try:
            getattr(run, method)()
        finally:
            sys.setprofile(None)
        return len(counted)

    assert calls(300) - calls(100) < 60 * 200


@pytest.mark.parametrize(
    "domain",
    [None, pytest.param(Box(-5.0, [np.inf] * 8), marks=pytest.mark.slow), HalfSpaces([[1.0] + 7 * [0.0]], [9.0])],
)
def test_saved_and_loaded_runs_are_equal(tmp_path, domain):
    _, run = make(data=np.arange(6.0).reshape(3, 2), domain=domain)
    run.posterior_predictive(Line(), draws=40)
    run.save(tmp_path / "run.nc")
    assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]
    loaded = Run.load(str(tmp_path / "run.nc"))
    assert set(loaded.data) == set(run.data)
    for group in run.data:
        assert loaded.data[group].identical(run.data[group]), group
        for name, variable in run.data[group].items():
            assert loaded.data[group][name].dtype == variable.dtype
    assert loaded.report == run.report
    assert loaded.shapes == run.shapes
    assert loaded.domain == domain
    assert loaded.summary().equals(run.summary())
    assert repr(loaded) == repr(run)
    np.testing.assert_array_equal(loaded.theta, run.theta)
    # the file is not held open: it can be replaced, and read by ArviZ alone
    loaded.save(tmp_path / "run.nc")
    theirs = arviz.from_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    assert theirs.posterior.identical(run.data.posterior)
    theirs.close()


def test_a_large_report_survives(tmp_path):
    _, run = make(report=REPORT | {"preconditioner_matrices": [np.eye(200)], "failure_message": "bad µ\n" * 1000})
    assert len(run.data.attrs["report"]) > 100_000  # HDF5 keeps attributes above 64 KiB in another place
    run.save(tmp_path / "run.nc")
    assert Run.load(tmp_path / "run.nc").report == run.report


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    _, run = make()
    run.save(tmp_path / "run.nc")
    before = (tmp_path / "run.nc").read_bytes()

    def half(self, filename, **kwargs):
        with open(filename, "wb") as file:
            file.write(before[:1000])
        raise OSError("no space left on device")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", half)
    with pytest.raises(OSError, match="no space left"):
        run.save(tmp_path / "run.nc")
    assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]
    assert (tmp_path / "run.nc").read_bytes() == before


def test_save_names_a_folder_that_does_not_exist(tmp_path):
    _, run = make()
    with pytest.raises(FileNotFoundError, match=r"nowhere.run\.nc.*nowhere does not exist"):
        run.save(tmp_path / "nowhere" / "run.nc")


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.99])
def test_load_names_a_truncated_file(tmp_path, kept):
    _, run = make()
    path = tmp_path / "run.nc"
    run.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match=r"run\.nc is truncated or damaged"):
        Run.load(path)


def test_load_names_a_damaged_file(tmp_path):
    _, run = make()
    path = tmp_path / "run.nc"
    run.save(path)
    with h5py.File(path) as file:
        where = file["posterior/x"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[where : where + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.nc is truncated or damaged"):
        Run.load(path)


def test_load_names_any_change_of_a_file(tmp_path):
    """A digit of a draw, of the report, or of unused data: HDF5 has no checksums of its own."""
    theta, path = np.random.default_rng(1).standard_normal((1, 4, 50, 1)), tmp_path / "run.nc"
    Run.from_arrays(None, {"x": ()}, theta, {}, {"warnings": ["as it was written"]}).save(path)
    whole = path.read_bytes()
    with h5py.File(path) as file:
        places = file["posterior/x"].id.get_chunk_info(0).byte_offset, whole.index(b"as it was")
    for at in (*np.linspace(8, len(whole) - 1, 40).astype(int), *places):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"run\.nc is |run\.nc was written by a newer"):
            Run.load(path)
    path.write_bytes(whole)
    np.testing.assert_array_equal(Run.load(path).theta, theta[0])
    with h5py.File(path, "r+") as file:
        file.attrs["note"] = "by another program"
    with pytest.raises(ValueError, match=r"does not end in its checksum, or another program has written to it"):
        Run.load(path)


def test_load_reads_files_of_version_0_2_0_which_have_no_checksum(tmp_path):
    theta, run = make()
    path = tmp_path / "run.nc"
    run.save(path)
    path.write_bytes(path.read_bytes()[:-24])
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = 1
    np.testing.assert_array_equal(Run.load(path).theta, theta[0])


def test_load_says_what_a_file_is_if_it_is_no_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no run at .*missing\.nc"):
        Run.load(tmp_path / "missing.nc")
    with pytest.raises(FileNotFoundError, match=r"no run at .*: it has no state\.bin"):
        Run.load(tmp_path)
    (tmp_path / "empty.nc").touch()
    with pytest.raises(ValueError, match=r"empty\.nc is no saved run: it is empty"):
        Run.load(tmp_path / "empty.nc")
    (tmp_path / "text.nc").write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match=r"text\.nc is no saved run: it is not a netCDF"):
        Run.load(tmp_path / "text.nc")
    make()[1].data.posterior.to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"other\.nc is no saved run: .* not one that Run\.save wrote"):
        Run.load(tmp_path / "other.nc")


def test_load_refuses_half_a_run_and_a_newer_format(tmp_path):
    path = tmp_path / "run.nc"
    make()[1].save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = 99
    with pytest.raises(ValueError, match=r"run\.nc was written by a newer invsamp, in format 99"):
        Run.load(path)
    make()[1].save(path)
    with h5py.File(path, "r+") as file:
        del file["posterior"]
    with pytest.raises(ValueError, match=r"run\.nc is no complete run: it has no group 'posterior'"):
        Run.load(path)


def test_printing_shows_counts_table_and_warnings():
    _, run = make()
    text = repr(run)
    for part in ("fast_resgld", "4 chains, 500 draws, 100 warmup, thin 2, seed 7", "swap rate 25.0%", "4 round trips"):
        assert part in text
    assert "4,000 of 'coarse' (0.25 s)" in text
    assert all(label in text for label in LABELS)
    assert text.endswith("no warnings")
    _, bad = make(report=REPORT | {"swap_accepts": [0], "chains": 1})
    assert "2 warnings:\n  - IV-CHAINS: there is one chain only" in repr(bad)
    assert "Run of a sampler" in repr(make(report={})[1])


def test_printing_stays_short():
    rng = np.random.default_rng(0)
    shapes = {f"k{number}": () for number in range(30)}
    scalars = Run.from_arrays(None, shapes, rng.standard_normal((1, 4, 500, 30)), {}, {})
    assert "k19 " in repr(scalars) and "k20 " not in repr(scalars)
    assert "... and 10 more parameters" in repr(scalars)
    theta = rng.standard_normal((1, 4, 500, 31))
    theta[..., 1:] += np.roll(np.arange(30.0), 7)  # the means of the entries are 7 places farther on
    field = repr(Run.from_arrays(None, {"a": (), "k": (30,)}, theta, {}, {}))
    shown = [line.split()[0] for line in field.splitlines() if line.startswith(("a ", "k["))]
    assert shown == ["a", "k[7]", "k[14]", "k[21]", "k[29]", "k[6]"]
    assert "k: 5 of 30 entries, from the smallest mean to the largest" in field and "more parameters" not in field


def test_posterior_predictive_has_noise_around_the_mean(within):
    theta, run = make()
    dataset = run.posterior_predictive(Line())
    assert dataset["data"].dims == ("chain", "draw", "data_dim_0", "data_dim_1")
    assert dataset["data"].shape == (4, 250, 3, 2)
    where = dataset.coords["draw"].to_numpy()
    expected = theta[0][:, where, :1] + theta[0][:, where, 1:4]
    expected[theta[0][:, where, 0] > 2] = np.nan
    np.testing.assert_array_equal(dataset["mean"][..., 0], expected)
    failed = np.isnan(expected)
    assert 0 < failed.mean() < 0.1  # x > 2 in 2.3% of the draws
    residual = (dataset["data"] - dataset["mean"]).to_numpy()
    np.testing.assert_array_equal(np.isnan(residual[..., 0]), failed)
    # 5,860 normal numbers: the sd of their sd is 0.5 / sqrt(2 * 5860) = 0.0046; four and a half of them
    assert within(np.nanstd(residual) - 0.5, 0.0207)
    assert dataset.identical(arviz_data.dataset(run.data, "posterior_predictive"))


def test_posterior_predictive_is_repeatable_replaceable_and_solves_in_blocks():
    _, run = make()
    model = Line()
    first = run.posterior_predictive(model, seed=1)
    assert max(model.rows) <= 256
    assert sum(model.rows) == 1000
    assert run.posterior_predictive(Line(), seed=1).identical(first)
    assert not run.posterior_predictive(Line(), seed=2).identical(first)
    coarse = run.posterior_predictive(Line(), draws=9, fidelity="coarse")
    assert coarse["mean"].shape[:2] == (4, 3)  # rounded up to whole chains
    assert np.nanmean(coarse["mean"][..., 0]) > 5
    assert coarse.identical(arviz_data.dataset(run.data, "posterior_predictive"))
    assert run.posterior_predictive(Line(), draws=10**6)["mean"].shape[:2] == (4, 500)


def test_posterior_predictive_refuses_the_wrong_posterior():
    _, run = make()
    with pytest.raises(ValueError, match="posterior must have a forward model, data and noise, got SimpleNamespace"):
        run.posterior_predictive(SimpleNamespace())
    with pytest.raises(
        ValueError, match=r"got function\. A forward model of other times .* posterior\.for_prediction\(model\)"
    ):
        run.posterior_predictive(lambda theta: theta)
    with pytest.raises(ValueError, match="draws must be an integer >= 1, got 0"):
        run.posterior_predictive(Line(), draws=0)
    other = Line()
    other.shapes = {"z": ()}
    with pytest.raises(ValueError, match=r"parameters of the run.*got \{'z': \(\)\}"):
        run.posterior_predictive(other)


def test_versions_are_plain_text():
    found = versions()
    assert found["numpy"] == np.__version__
    assert json.loads(json.dumps(found)) == found


def test_log_likelihood_and_prior_of_a_posterior_sampled_for_real(within):
    def double(theta):
        return 2.0 * theta

    posterior = iv.Posterior(
        iv.Prior(a=iv.Normal(0, 1, shape=2)),
        iv.with_jacobian(double, lambda theta: np.broadcast_to(2.0 * np.eye(2), (len(theta), 2, 2))),
        [1.0, -1.0],
        iv.GaussianNoise(0.5),
    )
    run = iv.sample(posterior, draws=300, warmup=200, seed=3, progress=False)
    values = run.log_likelihood(posterior)["data"]
    wanted = -0.5 * ((2.0 * run.draws("a") - [1.0, -1.0]) / 0.5) ** 2 - np.log(0.5 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(values, wanted)
    assert np.isfinite(arviz_versions.elpd(arviz.loo(run.data)))
    prior = run.data.prior["a"]
    # mean and sd of 2,000 standard normal draws, at 4.5 standard errors
    bounds = 4.5 / np.sqrt([2000, 4000])
    assert within([float(prior.mean()), float(prior.std()) - 1.0], bounds)
    assert not within([0.0, run.draws("a").std(axis=(0, 1)).mean() - 1.0], bounds)  # the posterior's
    with pytest.raises(ValueError, match="parameters of the run"):
        make()[1].log_likelihood(posterior)


def test_draws_as_a_table() -> None:
    theta = np.arange(2 * 3 * 4.0).reshape(1, 2, 3, 4)
    shapes = {"a": (), "k": (3,)}
    table = Run.from_arrays(None, shapes, theta, {}, {}).to_dataframe()
    assert list(table.columns) == ["a", "k[0]", "k[1]", "k[2]"] and table.index.names == ["chain", "draw"]
    np.testing.assert_array_equal(table.loc[(1, 2)], theta[0, 1, 2])
    weighted = Run.from_arrays(None, shapes, theta, {}, {}, log_weight=np.log([[1.0, 2, 3], [1, 2, 3]])).to_dataframe()
    np.testing.assert_allclose(weighted["weight"], np.tile([0.5, 1.0, 1.5], 2))
