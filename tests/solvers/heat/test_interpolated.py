"""Sensors that read between time steps."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.fem.fields import LogField
from invsamp.solvers.heat import HeatEquation

SENSORS, TIMES = [[0.3, 0.4], [0.6, 0.6]], [0.02, 0.033, 0.05, 0.0871]


def equation(conductivity="k", **settings):
    return HeatEquation(cells=6, steps=10, end_time=0.1, conductivity=LogField(conductivity), **settings)


@pytest.mark.parametrize("known", [False, True], ids=["solves", "weights"])
class TestBetweenSteps:
    def model(self, known):
        given = HeatEquation(cells=6, steps=10, end_time=0.1) if known else equation()
        return given.observe(SENSORS, TIMES), given.observe(SENSORS, np.linspace(0.02, 0.1, 9))

    def theta(self, model):
        return 0.3 + 0.4 * np.random.default_rng(0).random((3, len(model.parameters)))

    def test_values_lie_on_the_line_between_the_steps(self, known):
        model, steps = self.model(known)
        found = model(self.theta(model)).reshape(3, 4, 2)
        at_steps = steps(self.theta(model)).reshape(3, 9, 2)
        np.testing.assert_allclose(found[:, 0], at_steps[:, 0], rtol=1e-12)
        np.testing.assert_allclose(found[:, 1], 0.7 * at_steps[:, 1] + 0.3 * at_steps[:, 2], rtol=1e-12)
        np.testing.assert_allclose(found[:, 3], 0.29 * at_steps[:, 6] + 0.71 * at_steps[:, 7], rtol=1e-11)
        np.testing.assert_allclose(model.times, TIMES)
        assert model.output_shape == (4, 2) and model.n_observations == 8

    def test_all_derivatives_are_those_of_differences(self, known):
        model, _ = self.model(known)
        theta, step = self.theta(model), 1e-6
        y, jacobian = model.jacobian(theta)
        for k in range(theta.shape[1]):
            change = step * np.eye(theta.shape[1])[k]
            differences = (model(theta + change) - model(theta - change)) / (2 * step)
            np.testing.assert_allclose(jacobian[:, :, k], differences, rtol=1e-5, atol=1e-8)
        cotangent = np.random.default_rng(1).standard_normal(y.shape)
        np.testing.assert_allclose(
            model.linearize(theta)[1](cotangent), np.einsum("bm,bmp->bp", cotangent, jacobian), rtol=1e-10
        )
        indices = np.array([[0, 3, 7], [1, 2, 6], [5, 5, 0]])
        some, slopes = model.rows(theta, indices)
        np.testing.assert_allclose(some, np.take_along_axis(y, indices, axis=1), rtol=1e-12)
        np.testing.assert_allclose(slopes, np.take_along_axis(jacobian, indices[:, :, None], axis=1), rtol=1e-9)
        value, along, back = model.tangent(theta)
        directions = np.random.default_rng(2).standard_normal((3, 2, theta.shape[1]))
        np.testing.assert_allclose(
            along(directions), np.einsum("bmp,bkp->bkm", jacobian, directions), rtol=1e-8, atol=1e-12
        )
        np.testing.assert_allclose(back(cotangent[:, None])[:, 0], model.linearize(theta)[1](cotangent), rtol=1e-8)
        np.testing.assert_allclose(value, y, rtol=1e-12)


def test_rows_have_the_same_bits_alone_and_in_a_batch():
    model = equation().observe(SENSORS, TIMES)
    theta = np.random.default_rng(3).random((4, 3))
    np.testing.assert_array_equal(model(theta)[2], model(theta[2:3])[0])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.05, 0.11], "times must lie between 0 and the end time 0.1, got 0.11"),
        ([-0.01], "times must lie between 0 and the end time 0.1, got -0.01"),
        ([0.05, 0.05], "times must be an increasing sequence"),
    ],
)
def test_other_times_are_refused(times, message):
    with pytest.raises(ValueError, match=message):
        equation().observe(SENSORS, times)
