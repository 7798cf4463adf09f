"""What a posterior knows of the axes of its data."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.posing.forward_models.population import Population
from invsamp.posing.posterior.data_axes import axes_of


class Decay:
    """Decay at some times, seen by one or more sensors."""

    parameters = ("rate",)
    times = np.array([0.5, 1.0, 2.0])

    def __init__(self, sensors: int = 1) -> None:
        self.output_shape = (3, sensors) if sensors > 1 else (3,)
        self.n_observations = 3 * sensors
        self.sensors = sensors if sensors > 1 else None

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return np.repeat(np.exp(-theta[:, :1] * self.times), self.n_observations // 3, axis=1)

    def linearize(self, theta):
        raise NotImplementedError


TIMES = [0.5, 1.0, 2.0]


def test_times_and_sensors_come_from_the_model() -> None:
    assert axes_of(Decay(), (3,)) == {"times": TIMES}
    assert axes_of(Decay(2), (3, 2)) == {"times": TIMES, "sensors": True}
    assert axes_of(lambda theta: theta, (3,)) == {}
    other = Decay()
    other.times = lambda: TIMES  # of another meaning
    assert axes_of(other, (3,)) == {}
    masked = Decay()
    masked.output_shape = None  # some of the times were left out: as many data are not these
    assert axes_of(masked, (3,)) == {}


def test_a_population_has_members_first() -> None:
    assert axes_of(Population(Decay(), 4, ["rate"]), (4, 3)) == {"members": 4, "times": TIMES}
    assert axes_of(Population(Decay(), 4, ["rate"]), (12,)) == {}


@pytest.mark.filterwarnings("ignore")  # twenty draws are few
def test_a_posterior_and_its_run_have_them() -> None:
    posterior = iv.Posterior(iv.Prior(rate=iv.LogNormal(0, 1)), Decay(), np.ones(3), iv.GaussianNoise(0.1))
    assert posterior.axes == {"times": TIMES}
    assert posterior.for_prediction(iv.finite_differences(lambda theta: theta), shape=1).axes == {}
    fidelities = iv.Posterior(posterior.prior, {"coarse": Decay(), "fine": Decay()}, np.ones(3), iv.GaussianNoise(0.1))
    assert fidelities.for_prediction(Decay()).axes == {"times": TIMES}
    run = iv.sample(posterior, iv.pcn(), draws=20, progress=False)
    assert run.report["posed"]["axes"] == {"times": TIMES}
    assert run.plot_predictive(posterior).axes[0].get_xlabel() == "time"


@pytest.mark.parametrize("data", [np.ones(3), np.ones((3, 1))])
def test_data_of_one_sensor_may_have_an_axis_for_it(data: np.ndarray) -> None:
    assert axes_of(Decay(), data.shape) == {"times": TIMES}
