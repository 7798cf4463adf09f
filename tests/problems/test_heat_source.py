"""The heat-source problems have the posteriors that they are there for."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.problems.heat_source import (
    RING_DATUM,
    SENSOR_LINE,
    TEMPERATURES,
    TRUE_CENTER,
    is_upper,
    quadrature,
    ring,
    two_modes,
)
from invsamp.problems.lotka_volterra import hare_lynx
from invsamp.solvers.heat import DecayingGaussian


@pytest.fixture(scope="module")
def posterior():
    return two_modes()


@pytest.fixture(scope="module")
def truth(posterior):
    return {fidelity: quadrature(posterior, fidelity, points=200) for fidelity in posterior.fidelities}


def energy(quadrature):
    return -np.log(quadrature.density + 1e-300)


def test_two_unequal_modes_far_apart_and_away_from_the_boundary(truth):
    fine = truth["fine"]
    lower, upper = fine.modes
    assert lower.weight + upper.weight == pytest.approx(1.0, abs=1e-12)
    assert 0.6 < upper.weight < 0.85
    assert (upper.mean[1] - lower.mean[1]) > 8 * (lower.sd[1] + upper.sd[1])
    for mode in (lower, upper):
        assert (np.minimum(mode.mean, 1 - mode.mean) > 10 * mode.sd).all()
    row = np.searchsorted(fine.points, SENSOR_LINE)
    barrier = energy(fine)[:, row - 1 : row + 1].min() - energy(fine).min()
    # exp(-15) is 3e-7: a single chain of 1e5 steps stays where it is
    assert barrier > 15


def test_quadrature_has_converged(posterior, truth):
    finer = quadrature(posterior, "fine", points=331)
    for mode, reference in zip(truth["fine"].modes, finer.modes, strict=True):
        np.testing.assert_allclose(mode.weight, reference.weight, rtol=1e-8)
        np.testing.assert_allclose(mode.mean, reference.mean, rtol=1e-8)
        np.testing.assert_allclose(mode.sd, reference.sd, rtol=2e-6)
    assert truth["fine"].density.mean() == pytest.approx(1.0)


def test_coarse_model_is_biased_but_overlaps(truth):
    shifts, spreads = [], []
    probability = truth["fine"].density / truth["fine"].density.sum()
    difference = energy(truth["fine"]) - energy(truth["coarse"])
    upper = truth["fine"].points > SENSOR_LINE
    for coarse, fine, side in zip(truth["coarse"].modes, truth["fine"].modes, (~upper, upper), strict=True):
        shifts.append(np.abs(coarse.mean - fine.mean) / fine.sd)
        weights = probability[:, side] / probability[:, side].sum()
        mean = (weights * difference[:, side]).sum()
        spreads.append(np.sqrt((weights * (difference[:, side] - mean) ** 2).sum()))
    assert 0.5 < np.max(shifts) < 1.5
    # the second stage of delayed acceptance sees these energies
    assert min(spreads) > 0.3
    assert max(spreads) < 1.5


def test_the_data_are_the_fine_models_at_the_true_center(posterior):
    np.testing.assert_allclose(posterior.predict(np.array([TRUE_CENTER]))[0], TEMPERATURES, atol=5e-4)
    assert is_upper(np.array([TRUE_CENTER, (0.5, 0.2)])).tolist() == [True, False]


def test_gradients(posterior):
    for fidelity in posterior.fidelities:
        assert posterior.check_gradient(np.array([0.55, 0.5]), fidelity).passed
        assert ring().check_gradient(np.array([0.55, 0.6]), fidelity).passed


def test_ring_energy_is_the_squared_misfit():
    posterior = ring()
    angles = np.linspace(0.1, 6, 5)
    radius = np.array([0.05, 0.1, 0.15, 0.2, 0.25])
    centers = 0.5 + radius[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    values = DecayingGaussian(0.1).value(radius, 0.03)
    expected = (values - RING_DATUM) ** 2 / 50
    energies = posterior.potential("fine").energy(posterior.to_position(centers))
    # 1% is the error of 64 squares in the temperature
    np.testing.assert_allclose(energies - 0.5 * np.log(2 * np.pi * 25), expected, atol=0.01)


def test_ring_has_one_mode_whose_ridge_is_at_the_published_radius():
    grid = quadrature(ring(noise_sd=1.0), "fine", points=200)
    assert len(grid.modes) == 1 and grid.modes[0].weight == pytest.approx(1.0)
    np.testing.assert_allclose(grid.modes[0].mean, 0.5, atol=1e-3)
    distance = np.hypot(grid.points[:, None] - 0.5, grid.points - 0.5)
    probability = grid.density / grid.density.sum()
    assert abs((probability * distance).sum() - 0.1) < 0.003
    assert probability[np.abs(distance - 0.1) > 0.05].sum() < 1e-4


def test_bad_input(posterior):
    with pytest.raises(ValueError, match="points must be an integer >= 2, got 1"):
        quadrature(posterior, points=1)
    with pytest.raises(ValueError, match="fidelity must be one of"):
        quadrature(posterior, "finest", points=2)
    with pytest.raises(ValueError, match="posterior must be of a heat source's center"):
        quadrature(hare_lynx())
