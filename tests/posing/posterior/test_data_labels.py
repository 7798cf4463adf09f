"""Labels of data: from tables, labeled arrays and models to draws, predictions, tables of bands, figures and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import invsamp as iv
from invsamp.posing.posterior.data_labels import data_labels

HOURS = [0.5, 1.0, 2.0]


class Falls:
    """Two outputs at three times that the model knows."""

    parameters = ("height", "rate")
    output_shape, n_observations, series = (3, 2), 6, ("blood", "urine")

    def __init__(self, times: tuple[float, ...] = tuple(HOURS)) -> None:
        self.times = np.array(times)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        y = theta[:, :1] * np.exp(-theta[:, 1:] * self.times)
        return np.stack([y, theta[:, :1] - y], axis=2).reshape(len(theta), -1)

    def jacobian(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return iv.finite_differences(self).jacobian(theta)

    def linearize(self, theta: np.ndarray) -> tuple:
        return iv.finite_differences(self).linearize(theta)


def table(**changes: object) -> pd.DataFrame:
    values = Falls()(np.array([[2.0, 0.7]]))[0].reshape(3, 2)
    return pd.DataFrame(values, **({"index": pd.Index(HOURS, name="hour"), "columns": ["blood", "urine"]} | changes))


def posterior_of(data: object, model: object = None) -> iv.Posterior:
    prior = iv.Prior(height=iv.LogNormal(0, 1), rate=iv.LogNormal(0, 1))
    return iv.Posterior(prior, model or Falls(), data, iv.GaussianNoise(0.1))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (table(), {"hour": HOURS, "output": ["blood", "urine"]}),
        (table(index=range(3)), {"time": HOURS, "output": ["blood", "urine"]}),
        (table().to_numpy(), {"time": HOURS, "output": ["blood", "urine"]}),
        (table(columns=pd.Index(["a", "b"], name="species")), {"hour": HOURS, "species": ["a", "b"]}),
        (
            xr.DataArray(table().to_numpy(), dims=("t", "organ"), coords={"organ": ["blood", "urine"]}),
            {"t": HOURS, "organ": ["blood", "urine"]},
        ),
        (table(index=pd.Index(HOURS, name="rate")), {"data_dim_0": HOURS, "output": ["blood", "urine"]}),
        (
            table(index=pd.DatetimeIndex(["2026-01-01", "2026-01-02", "2026-01-04"], name="day")),
            {"day": ["2026-01-01", "2026-01-02", "2026-01-04"], "output": ["blood", "urine"]},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*series")
def test_who_says_what_the_axes_are(data: object, expected: dict) -> None:
    series = ("blood", "urine")
    assert data_labels(data, Falls(), series, (3, 2), ("height", "rate")) == expected


def test_no_part_has_labels() -> None:
    assert data_labels([1.0, 2.0], lambda theta: theta, None, (2,)) == {}
    posterior = posterior_of([1.0, 2.0], lambda theta: theta)
    assert posterior.axis_labels == {}


def test_other_times_than_the_model_are_said() -> None:
    with pytest.warns(UserWarning, match="data has time 3 in row 2, where the forward model observes at time 2"):
        posterior_of(table(index=pd.Index([0.5, 1.0, 3.0], name="time")))


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
@pytest.mark.parametrize("name", ["time", "hour", None])
def test_rows_in_another_order_than_the_times_of_the_model_are_refused(name: str | None) -> None:
    given = table().rename_axis(name).iloc[[2, 0, 1]]
    with pytest.raises(ValueError, match=r"data has .* 2 in row 0, where .* observes at time 0\.5: sort the data"):
        data_labels(given, Falls(), None, (3, 2))


def test_numbers_of_rows_that_nobody_names_are_compared_with_the_times() -> None:
    with pytest.warns(UserWarning, match="data has the index 7 in row 2"):
        data_labels(table(index=[0.5, 1.0, 7.0]), Falls(), None, (3, 2))


def test_labels_reach_draws_predictions_files_and_figures(tmp_path: Path) -> None:
    posterior = posterior_of(table())
    settings = {"draws": 50, "warmup": 20, "seed": 1, "progress": False, "check_gradient": False}
    runs = [iv.sample(posterior, iv.mala(0.05), directory=place, **settings) for place in (None, tmp_path / "run")]
    runs.append(iv.load(tmp_path / "run"))
    for run in runs:
        assert run.data.observed_data["data"].dims == ("hour", "output")
        predictions = run.predict(posterior)
        bands = predictions.to_dataframe((0.1, 0.9))
        assert list(bands) == ["observed", "data 10%", "data 90%", "mean 10%", "mean 90%"]
        assert bands.index.names == ["hour", "output"] and bands.attrs["draws"] == 200
        assert "200 of 200 draws; 3 of hour, 2 of output" in repr(predictions)
        np.testing.assert_array_equal(bands["observed"].to_xarray(), table())
        found = predictions.dataset["mean"].sel(hour=2.0, output="urine").quantile(0.9)
        np.testing.assert_allclose(bands["mean 90%"][2.0, "urine"], found)
        assert run.log_likelihood(posterior)["data"].dims == ("chain", "draw", "hour", "output")
        assert run.plot_predictive().axes[-1].get_xlabel() == "hour"
    runs[0].save(tmp_path / "run.nc")
    again = iv.load(tmp_path / "run.nc").data
    for group in ("observed_data", "posterior_predictive", "log_likelihood"):
        assert again[group]["hour"].to_numpy().tolist() == HOURS
        assert again[group]["output"].to_numpy().tolist() == ["blood", "urine"]


def test_members_of_a_population() -> None:
    one = iv.with_jacobian(
        lambda t: t[:, :1] * np.exp(-t[:, 1:] * HOURS),
        lambda t: np.stack([np.exp(-t[:, 1:] * HOURS), -t[:, :1] * HOURS * np.exp(-t[:, 1:] * HOURS)], axis=2),
        parameters=["height", "rate"],
    )
    prior = iv.Prior(height=iv.LogNormal(0, 1, shape=2), rate=iv.LogNormal(0, 1))
    data = pd.DataFrame([[1.0, 0.8, 0.5], [2.0, 1.5, 1.1]], pd.Index(["Ann", "Bob"], name="patient"))
    data.columns = pd.Index(HOURS, name="hour")
    model = iv.Population(one, 2, individual=["height"])
    posterior = iv.Posterior(prior, model, data, iv.GaussianNoise(0.1))
    patients = {"patient": ["Ann", "Bob"]}
    assert posterior.axis_labels == {"data": patients | {"hour": HOURS}, "height": patients}
    settings = {"draws": 5, "warmup": 5, "chains": 1, "seed": 1, "progress": False, "check_gradient": False}
    with pytest.warns(UserWarning):
        run = iv.sample(posterior, iv.mala(0.05), **settings)
    assert run.data.posterior["height"].dims == ("chain", "draw", "patient")
    names = ["height[Ann]", "height[Bob]", "rate"]
    assert list(posterior.labels) == run.labels == names
    assert list(run.summary().index) == list(run.to_dataframe().columns) == names
    assert "height[Ann]" in repr(run) and "height[Ann]" in repr(posterior)
    shown = run.plot_marginals(names=["height[Bob]"], truth={"height": [1.0, 2.0]})
    assert shown.axes[0].get_title(loc="left") == names[1]
    modes = iv.maximize(posterior, seed=1)
    profiles = iv.profile(posterior, ["height[Bob]"], modes=modes, max_evaluations=40)
    assert list(modes.labels) == names and list(profiles.profiles) == names[1:2]
    assert run.plot_profiles(profiles) is not None
    with pytest.raises(ValueError, match=r"names must be .*height\[Ann\]"):
        iv.profile(posterior, ["height[0]"])
    figure = run.plot_predictive(posterior)
    assert {"patient Ann", "patient Bob"} <= {axes.get_title(loc="left") for axes in figure.axes}
    assert figure.axes[-1].get_xlabel() == "hour"


class Grows:
    """One output at some times, as an ODE observed in one state has."""

    parameters = ("rate", "start")

    def __init__(self, times: list[float]) -> None:
        self.times, self.n_observations, self.output_shape = np.array(times), len(times), (len(times), 1)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return theta[:, 1:] + theta[:, :1] * self.times

    def linearize(self, theta: np.ndarray) -> tuple:
        raise NotImplementedError


@pytest.mark.parametrize("days", [[0.0, 5.0, 9.0], [0.0, 9.0]])  # as many as in the data, and fewer
def test_a_population_elsewhere_keeps_its_members_and_the_name_of_its_times(days: list[float]) -> None:
    regions, before = pd.Index(["north", "south"], name="region"), pd.Index([1, 2, 3], name="day")
    measured = pd.DataFrame(np.ones((2, 3)), regions, before)
    prior = iv.Prior(rate=iv.Normal(0, 1, shape=2), start=iv.Normal(0, 1))
    known = iv.Population(Grows([1.0, 2.0, 3.0]), 2, individual=["rate"])
    posterior = iv.Posterior(prior, known, measured, iv.GaussianNoise(0.1))
    later = posterior.for_prediction(iv.Population(Grows(days), 2, individual=["rate"]))
    assert later.data.shape == (2, len(days))
    assert later.axis_labels["data"] == {"region": ["north", "south"], "day": days}
    by_function = posterior.for_prediction(iv.finite_differences(lambda theta: theta[:, :2]), shape=(2, 1))
    assert by_function.axis_labels == {}  # a function of which no one knows what its outputs are


def test_one_series_elsewhere_is_arranged_as_the_data() -> None:
    prior = iv.Prior(rate=iv.Normal(0, 1), start=iv.Normal(0, 1))
    measured = pd.Series([1.0, 2.0, 3.0], pd.Index([1.0, 2.0, 3.0], name="day"))
    posterior = iv.Posterior(prior, Grows([1.0, 2.0, 3.0]), measured, iv.GaussianNoise(0.1))
    assert posterior.for_prediction(Grows([7.0])).axis_labels == {"data": {"day": [7.0]}}
    columns = iv.Posterior(prior, Grows([1.0, 2.0, 3.0]), np.ones((3, 1)), iv.GaussianNoise(0.1))
    assert columns.for_prediction(Grows([7.0, 8.0])).data.shape == (2, 1)
