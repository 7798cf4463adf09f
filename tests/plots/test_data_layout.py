"""Panels of a population, times on the axes, and what is not shown."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from invsamp.results.run import Run

TIMES = [0.0, 0.5, 2.0]


class Echo:
    """Predicts the data, with noise of sd 0.01."""

    def __init__(self, data: np.ndarray) -> None:
        self.shapes, self.data = {"x": ()}, data

    def predict(self, theta: np.ndarray, fidelity: str | None = None) -> np.ndarray:
        return np.broadcast_to(self.data, (len(theta), *self.data.shape))

    def sample_noise(self, rng: np.random.Generator, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return y + 0.01 * rng.standard_normal(y.shape)


def predicted(shape: tuple[int, ...], **posed: object) -> Run:
    data = np.arange(float(np.prod(shape))).reshape(shape)
    theta = np.random.default_rng(0).normal(size=(1, 2, 50, 1))
    run = Run.from_arrays(SimpleNamespace(data=data), {"x": ()}, theta, {}, {"posed": posed})
    run.posterior_predictive(Echo(data))
    return run


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_a_population_has_a_panel_for_each_member_over_time(outputs: tuple[int, ...]) -> None:
    run = predicted((5, 3, *outputs), axes={"members": 5, "times": TIMES}, series=["u", "v"])
    figure = run.plot_predictive()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    data = run.data.observed_data["data"].to_numpy().reshape(5, 3, -1)
    names = [f"member {k}{output}" for k in range(5) for output in ([": u", ": v"] if outputs else [""])]
    assert [axes.get_title("left") for axes in panels] == names
    for k, axes in enumerate(panels):
        median, points = axes.lines
        wanted = data[k // data.shape[2], :, k % data.shape[2]]
        np.testing.assert_array_equal(points.get_xydata(), np.stack([TIMES, wanted], axis=1))
        np.testing.assert_allclose(median.get_ydata(), wanted, atol=0.01)
    assert panels[-1].get_xlabel() == "time"
    shown = run.plot_residuals().axes[::3]
    assert [axes.get_title("left") for axes in shown] == [f"residuals of {name}" for name in names[:8]]


def test_times_and_sensors_are_those_of_the_model() -> None:
    run = predicted((3, 2), axes={"times": TIMES, "sensors": True})
    for axes, name in zip(run.plot_predictive().axes, ("sensor 0", "sensor 1"), strict=True):
        assert axes.get_title("left") == name
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), TIMES)
    assert run.plot_predictive(x=[1.0, 2.0, 3.0]).axes[1].get_xlabel() == "x"
    assert predicted((4,), axes={"sensors": True}).plot_predictive().axes[0].get_xlabel() == "sensor"
    # times of other data than these are not taken
    assert predicted((4,), axes={"times": TIMES}).plot_predictive().axes[0].get_xlabel() == "datum"


def test_what_is_not_shown_is_said() -> None:
    figure = predicted((3, 30), axes={"times": TIMES}).plot_predictive()
    assert sum(axes.get_visible() for axes in figure.axes) == 24
    assert figure.get_supxlabel() == "the first 24 of 30 columns of the data"


def test_one_column_is_drawn_where_the_caller_says() -> None:
    figure, ax = plt.subplots()
    run = predicted((3,), axes={"times": TIMES})
    assert run.plot_predictive(ax=ax) is figure and run.plot_residuals(ax=ax) is figure
    with pytest.raises(ValueError, match="got an Axes for 2 panels"):
        predicted((3, 2)).plot_predictive(ax=ax)


def test_series_of_a_population_name_outputs_or_panels() -> None:
    run = predicted((2, 3), axes={"members": 2})
    assert run.plot_predictive(series=["Ann", "Bob"]).axes[1].get_title("left") == "Bob"
    with pytest.raises(ValueError, match="series must name 2 columns of the data, got 3"):
        run.plot_predictive(series=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"3 along the second axis of the data, of shape \(2, 3\), got 2"):
        run.plot_predictive(x=[1.0, 2.0])
