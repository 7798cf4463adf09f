"""Plumes: the equation that they solve, their derivatives, and how much noise batches of days leave."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.problems import plumes
from invsamp.problems.plumes import DAYS, SENSORS, TRUTH, WIND, Concentration

AT = np.array([list(TRUTH.values()), [0.7, 0.1, 2.0, 0.4]])


@pytest.mark.parametrize("theta", AT)
def test_they_solve_their_equation(theta, monkeypatch):
    """Away from the source nothing is gained, and what flows through a circle around it is its rate."""
    (x, y, rate, diffusivity), wind = theta, WIND[9 * SENSORS]

    def at(places):
        monkeypatch.setattr(plumes, "PLACES", places)
        monkeypatch.setattr(plumes, "WIND", np.broadcast_to(wind, places.shape))
        return Concentration().rows(theta[None], np.arange(len(places))[None])[0][0]

    turn, h = 2.0 * np.pi * np.arange(200) / 200, 1e-3
    out = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    circle = np.array([x, y]) + 0.3 * out
    here, (east, north, west, south) = (
        at(circle),
        (at(circle + h * s) for s in np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])),
    )
    slope = np.stack([east - west, north - south], axis=1) / (2.0 * h)
    gained = slope @ wind - diffusivity * (east + north + west + south - 4.0 * here) / h**2
    assert np.abs(gained).max() < 1e-3 * np.abs(slope @ wind).max()
    flow = here * (out @ wind) - diffusivity * (slope * out).sum(axis=1)
    np.testing.assert_allclose(2.0 * np.pi * 0.3 * flow.mean(), rate, rtol=1e-4)


def test_derivatives_are_those_of_the_readings():
    for theta in AT:
        moves = 1e-6 * np.eye(4)
        differences = (Concentration()(theta + moves) - Concentration()(theta - moves)) / 2e-6
        np.testing.assert_allclose(Concentration().jacobian(theta[None])[1][0], differences.T, rtol=1e-5, atol=1e-7)


def test_a_batch_solves_what_it_reads():
    indices, model, rows = np.array([[3, 50], [7, DAYS * SENSORS - 1]]), Concentration(), np.arange(2)[:, None]
    for part, whole in zip(model.rows(AT, indices), model.jacobian(AT), strict=True):
        np.testing.assert_array_equal(part, whole[rows, indices])


def test_a_source_at_a_sensor_is_not_finite():
    theta = np.array([[*plumes.PLACES[0], 1.0, 0.15]])
    assert not np.isfinite(Concentration()(theta)[0, 0]) and np.isfinite(Concentration()(theta)[0, 1])
