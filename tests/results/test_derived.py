"""Functions of draws and of predictions that are added to a run afterwards are as good as those recorded on the way."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import invsamp as iv

TIMES = np.array([1.0, 2.0, 4.0])


def decay(theta: np.ndarray) -> np.ndarray:
    """Predictions (n, 3)."""
    return theta[:, :1] * np.exp(-theta[:, 1:] * TIMES)


def half_life(theta: np.ndarray) -> np.ndarray:
    return np.log(2) / theta[:, 1]


def both(theta: np.ndarray) -> np.ndarray:
    return np.stack([theta, theta**2], axis=1)


def posed(model=decay) -> iv.Posterior:
    prior = iv.Prior(dose=iv.LogNormal(2, 1), rate=iv.LogNormal(-1, 1))
    return iv.Posterior(prior, iv.finite_differences(model), [5.9, 4.1, 1.7], iv.GaussianNoise(0.3))


LENGTH = {"draws": 300, "warmup": 200, "chains": 3, "seed": 1, "progress": False}


def sampled(**settings) -> iv.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return iv.sample(posed(), iv.mala(), **LENGTH | settings)


@pytest.fixture(scope="module")
def recorded() -> iv.Run:
    return sampled(record={"half_life": half_life, "both": both})


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("derived") / "run"
    sampled(directory=path)
    return path


@pytest.fixture
def run(saved) -> iv.Run:
    return iv.load(saved)


def test_it_is_what_record_gives(run, recorded, tmp_path):
    found = run.derive("half_life", half_life)
    run.derive("both", both)
    np.testing.assert_array_equal(found, run.draws("half_life"))
    for name in ("half_life", "both"):
        np.testing.assert_array_equal(run.draws(name), recorded.draws(name))
    assert run.recorded == recorded.recorded == {"half_life": (), "both": (2, 2)}
    pd.testing.assert_frame_equal(run.summary(), recorded.summary())
    assert {"mcse_mean", "ess_bulk"} <= set(run.summary()) and run.summary()["ess_bulk"]["half_life"] > 0
    table = run.to_dataframe()
    assert list(table) == list(run.summary().index)
    np.testing.assert_array_equal(table["both[1, 0]"], run.draws("dose").ravel() ** 2)
    assert run.data.posterior.equals(recorded.data.posterior)
    run.save(tmp_path / "run.nc")
    loaded = iv.load(tmp_path / "run.nc")
    assert loaded.recorded == run.recorded
    np.testing.assert_array_equal(loaded.draws("both"), run.draws("both"))
    loaded.derive("twice", lambda theta: 2 * theta[:, 0])
    loaded.save(tmp_path / "run.nc")
    assert iv.load(tmp_path / "run.nc").recorded["twice"] == ()


def test_a_run_in_a_directory_stays_as_it_is(run, saved, recorded):
    before = {path: path.read_bytes() for path in saved.iterdir() if path.is_file()}
    run.derive("half_life", half_life)
    run.derive("both", both)
    assert run.warnings() == recorded.warnings()
    assert before == {path: path.read_bytes() for path in saved.iterdir() if path.is_file()}


def test_in_memory(recorded):
    run = sampled()
    run.derive("half_life", half_life)
    np.testing.assert_array_equal(run.data.posterior["half_life"], recorded.draws("half_life"))


def test_one_of_the_same_name_takes_its_place(run):
    run.derive("half_life", both)
    run.data  # noqa: B018 (made with the first)
    run.derive("half_life", lambda theta: np.float32(half_life(theta)))
    assert run.recorded == {"half_life": ()} and run.draws("half_life").dtype == np.float32
    assert run.data.posterior["half_life"].dims == ("chain", "draw")
    assert not any(dim.startswith("half_life") for dim in run.data.posterior.dims)


def test_predictions_are_those_of_the_model_and_equal_draws_are_solved_once(run):
    solved = []

    def counted(theta: np.ndarray) -> np.ndarray:
        solved.extend(theta)
        return decay(theta)

    peak = run.derive("last", lambda y: y[:, -1], posed(counted))
    rows = run.theta.reshape(-1, 2)
    np.testing.assert_allclose(peak.ravel(), decay(rows)[:, -1])
    assert len(solved) == len(np.unique(rows, axis=0)) < len(rows)
    finer = iv.finite_differences(lambda theta: theta[:, :1] * np.exp(-theta[:, 1:] * np.arange(9.0)))
    later = posed().for_prediction(finer, shape=9)
    drop = run.derive("drop", lambda y: y[:, 0] - y[:, 8], later)
    np.testing.assert_allclose(drop, run.draws("dose") * (1 - np.exp(-8 * run.draws("rate"))))
    assert list(run.summary().index) == ["dose", "rate", "last", "drop"]


def test_weights_count():
    rng = np.random.default_rng(1)
    theta, log_weight = rng.normal(size=(1, 2, 200, 1)), rng.normal(size=(2, 200))
    run = iv.Run.from_arrays(None, {"x": ()}, theta, {}, {}, log_weight=log_weight)
    run.derive("square", lambda theta: theta[:, 0] ** 2)
    row = run.summary().loc["square"]
    np.testing.assert_allclose(row["mean"], np.average(theta[0, :, :, 0] ** 2, weights=np.exp(log_weight)))
    equal = iv.Run.from_arrays(None, {"x": ()}, theta, {}, {})
    equal.derive("square", lambda theta: theta[:, 0] ** 2)
    assert row["mcse_mean"] > equal.summary()["mcse_mean"]["square"]
    assert list(run.to_dataframe()) == ["x", "square", "weight"]


def test_figures_and_the_report_show_it(run, tmp_path):
    run.derive("half_life", half_life)
    assert [axes.get_title("left") for axes in run.plot_trace(["half_life", "dose"]).axes[::2]] == ["half_life", "dose"]
    shown = run.plot_marginals(truth={"half_life": 2.0})
    assert [axes.get_title("left") for axes in shown.axes if axes.get_visible()] == ["dose", "rate", "half_life"]
    pairs = run.plot_pairs(["rate", "half_life"]).axes[2]  # the second row's first
    assert np.sum(np.ma.filled(pairs.collections[0].get_array(), 0.0) ** 2) == pytest.approx(900)
    run.report_html(tmp_path / "report.html")
    assert "<td>half_life</td>" in (tmp_path / "report.html").read_text()


def test_the_mean_of_what_is_true_or_not_is_a_probability(run):
    found = run.derive("fast", lambda theta: half_life(theta) < 2.0)
    assert run.summary().loc["fast", "mean"] == pytest.approx(np.mean(run.derive("half_life", half_life) < 2.0))
    assert set(np.unique(found)) == {0.0, 1.0}
    same = sampled(record={"fast": lambda theta: half_life(theta) < 2.0})
    assert same.recorded == {"fast": ()} and same.draws("fast").dtype == float


def test_where_no_parameter_is_kept_figures_show_the_quantities():
    run = sampled(record={"half_life": half_life}, keep=False, draws=20)
    assert run.plot_marginals().axes[0].get_title("left") == "half_life"
    with pytest.raises(ValueError, match="keeps no parameters"):
        run.derive("more", half_life)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dose", half_life), "name must have names that nothing else in a run has, got 'dose'"),
        (("energy", half_life), "got 'energy'"),
        (("a/b", half_life), "cannot be called 'a/b'"),
        (("rate[0", 1.0), r"function must be a function \(batch, ...\)"),
        (("x", lambda theta: 1.0), "the result of 'x' must have a row for each of the"),
        (("x", lambda theta: "one"), "the result of 'x' must be"),
        (
            ("x", lambda theta: np.ones((len(theta), int(theta[0, 0] * 1e6) % 7 + 1))),
            "must have one shape for all theta",
        ),
        (("x", half_life, None, "fine"), "fidelity must be None without a posterior"),
        (
            ("x", half_life, iv.Target(iv.LogDensity(lambda x: -(x[:, 0] ** 2), lambda x: -2 * x, dimension=1))),
            "posterior must",
        ),
    ],
)
def test_refused(run, arguments, message):
    with pytest.raises(ValueError, match=message):
        run.derive(*arguments)
    assert run.recorded == {}
