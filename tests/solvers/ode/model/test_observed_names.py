"""Names of observed states: in reports and in figures."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.solvers.ode import OdeModel

VALUES = np.array([[0.4, 0.6], [0.1, 0.9], [0.05, 0.95]])


@pytest.mark.filterwarnings("ignore")
def test_states_that_are_observed_have_names_in_the_report_and_figures() -> None:
    model = OdeModel(lambda t, x, p: (-p[0] * x[0], p[0] * x[0]), ["fuel", "ash"], ["rate"])
    burning = model.observe([1.0, 2.0, 3.0], initial=[1.0, 0.0])
    assert model.observe([1.0], initial=[1.0, 0.0], states=["ash"]).series == ("ash",)
    assert model.observe([1.0], initial=[1.0, 0.0], of=lambda t, x, p: (x[0] + x[1],)).series is None
    posterior = iv.Posterior(iv.Prior(rate=iv.LogNormal(0, 1)), burning, VALUES, iv.GaussianNoise(0.1))
    run = iv.sample(posterior, iv.mala(), draws=100, warmup=100, seed=1, progress=False)
    assert run.report["posed"]["series"] == ["fuel", "ash"]
    assert [axes.get_title("left") for axes in run.plot_predictive(posterior).axes] == ["fuel", "ash"]
    titles = [axes.get_title("left") for axes in run.plot_residuals().axes]
    assert titles[::3] == ["residuals of fuel", "residuals of ash"]
    assert run.plot_phase().axes[0].get_xlabel() == "fuel"
    assert run.plot_residuals(series=["u", "v"]).axes[0].get_title("left") == "residuals of u"
    with pytest.raises(ValueError, match="series must name 2 columns"):
        run.plot_residuals(series=["u"])
    assert posterior.with_data(VALUES).series == ("fuel", "ash")
