"""What is observed of a state with several functions: components at points, and functionals beside them."""

from __future__ import annotations

import numpy as np
import pytest

dolfinx = pytest.importorskip("dolfinx")

import pde_cases  # noqa: E402
from mpi4py import MPI  # noqa: E402

from invsamp.solvers.pde import point_sensors  # noqa: E402

pytestmark = pytest.mark.dolfinx
TAYLOR_STEPS = 0.3 * 10.0 ** -np.arange(6.0)


@pytest.fixture(scope="module")
def model():
    problem = pde_cases.channel(MPI.COMM_SELF)
    return problem.observe(pde_cases.channel_sensors(problem))


def test_flow_in_a_channel_is_seen_exactly(model) -> None:
    x, y = pde_cases.SENSORS.T
    viscosity = 0.7
    found, vjp = model.linearize(np.array([[viscosity, 0.0, 0.0]]))
    velocity, pressure, energy, second = np.split(found[0], np.cumsum([10, 3, 1]))
    np.testing.assert_allclose(velocity.reshape(5, 2), np.stack([y * (1 - y), 0 * y], axis=1), atol=1e-13)
    np.testing.assert_allclose(pressure, 2 * viscosity * (1 - x[:3]), atol=1e-12)
    # integrals of (y (1 - y))^2 and (2 nu (1 - x))^2
    np.testing.assert_allclose(energy, 1 / 30 + 4 * viscosity**2 / 3, rtol=1e-12)
    np.testing.assert_allclose(second, 0.0, atol=1e-13)
    jacobian = np.stack([vjp(unit[None])[0] for unit in np.eye(model.n_observations)])
    np.testing.assert_allclose(jacobian[10:13, 0], 2 * (1 - x[:3]), atol=1e-12)
    np.testing.assert_allclose(jacobian[13, 0], 8 * viscosity / 3, rtol=1e-12)
    np.testing.assert_allclose(jacobian[:10, 0], 0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["nu", "f"])
def test_taylor_remainders_fall_at_second_order(model, name) -> None:
    orders, last = pde_cases.taylor_orders(model, name, seed=1, steps=TAYLOR_STEPS)
    assert np.abs(orders[1:] - 2.0).max() < 0.1 or last < 3e-15, orders


def test_an_entry_of_a_vector(model) -> None:
    theta = np.array([[0.8, 0.3, -0.2]])
    second = model.problem.observe(point_sensors(pde_cases.SENSORS, (0, 1)))(theta)
    np.testing.assert_array_equal(second[0], model(theta)[0, 1:10:2])
    assert np.abs(second).max() > 1e-3
