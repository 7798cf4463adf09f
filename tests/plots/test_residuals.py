"""Residuals of data that the model made are standard normal; of others they are not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from invsamp.plots import plot_residuals
from invsamp.plots.residuals import residuals
from invsamp.results.run import Run


@pytest.mark.parametrize("kind", ["normal", "poisson", "exponential"])
def test_residuals_of_data_of_the_model_are_standard_normal(kind, within):
    rng = np.random.default_rng(1)
    draw = {
        "normal": lambda size: rng.normal(3.0, 0.2, size),
        "poisson": lambda size: rng.poisson(4.0, size),
        "exponential": lambda size: rng.exponential(2.0, size),
    }[kind]
    predicted, data = draw((400, 2000, 1)).astype(float), draw((2000, 1)).astype(float)
    bound = 4.5 / np.sqrt(2000)
    found, wrong = residuals(predicted, data).ravel(), residuals(predicted, 1.3 * data).ravel()
    # mid-ranks of counts spread a little less: at a mean of 4 by 3%
    spread = found.std() / (0.97 if kind == "poisson" else 1.0)
    assert within(np.abs([found.mean(), spread - 1.0]), bound)
    assert not within(abs(wrong.mean()), bound)


def test_ties_failures_and_missing_data():
    predicted = np.array([[[0.0], [1.0], [5.0]], [[2.0], [1.0], [np.nan]], [[4.0], [1.0], [np.nan]]])
    found = residuals(predicted, np.array([[3.0], [1.0], [np.nan]]))
    assert found[0, 0] == pytest.approx(0.3186393639643752)  # Phi of it is (2 + 1/2) / 4
    assert found[1, 0] == 0.0 and np.isnan(found[2, 0])
    assert np.isnan(residuals(np.full((3, 1, 1), np.nan), np.zeros((1, 1)))).all()


def test_the_figure_shows_them():
    theta = np.random.default_rng(0).normal(size=(1, 2, 50, 1))
    problem = SimpleNamespace(data=np.array([0.0, 1.0, 5.0]))
    run = Run.from_arrays(problem, {"x": ()}, theta, {}, {})
    with pytest.raises(ValueError, match="posterior must be given"):
        plot_residuals(run)

    class Model:
        shapes = {"x": ()}  # noqa: RUF012

        def predict(self, theta, fidelity=None):
            return np.tile(np.arange(3.0), (len(theta), 1))

        def sample_noise(self, rng, y, theta):
            return y + rng.standard_normal(y.shape)

    run.posterior_predictive(Model())
    figure = run.plot_residuals(x=[0.0, 1.0, 2.0], x_label="t")
    over = figure.axes[0]
    shown = over.lines[-1].get_ydata()
    assert abs(shown[0]) < 0.5 and abs(shown[1]) < 0.5 and shown[2] > 1.5
    assert over.get_xlabel() == "t"
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="x must have an entry for each of the 3 along the first axis"):
        run.plot_residuals(x=[0.0])
    with pytest.raises(ValueError, match="observed data"):
        plot_residuals(Run.from_arrays(None, {"x": ()}, theta, {}, {}))
