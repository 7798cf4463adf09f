"""Gaussian mixtures: density, gradient, draws, cell probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from invsamp.problems.mixtures import (
    GaussianMixture,
    close_modes,
    far_modes,
    gaussian_grid,
    sigmoid_noise_energy,
    sigmoid_noise_gradient,
    two_modes,
)
from invsamp.protocols import Potential


@pytest.fixture
def mixture():
    """Three Gaussians in the plane, weights not normalized."""
    return GaussianMixture((1.0, 2.0, 1.0), ((0.0, 0.0), (3.0, 1.0), (-2.0, 2.0)), (1.0, 0.5, 2.0))


def test_density_is_the_weighted_sum(mixture):
    points = np.random.default_rng(0).normal(0.0, 3.0, (20, 2))
    parts = zip((0.25, 0.5, 0.25), ((0.0, 0.0), (3.0, 1.0), (-2.0, 2.0)), (1.0, 0.5, 2.0), strict=True)
    wanted = sum(w * multivariate_normal.pdf(points, m, s**2) for w, m, s in parts)
    np.testing.assert_allclose(mixture.density(points), wanted, rtol=1e-12)
    np.testing.assert_allclose(mixture.energy(points), -np.log(wanted), rtol=1e-12)
    assert isinstance(mixture, Potential)
    assert mixture.dimension == 2


def test_gradient_by_taylor_remainder(mixture):
    rng = np.random.default_rng(0)
    points, along = rng.normal(0.0, 2.0, (2, 10, 2))
    energy, gradient = mixture.energy_and_gradient(points)
    steps = np.geomspace(1e-2, 1e-4, 3)
    remainders = [
        np.abs(mixture.energy(points + h * along) - energy - h * (gradient * along).sum(axis=1)) for h in steps
    ]
    orders = -np.diff(np.log10(np.maximum(remainders, 1e-15)), axis=0)
    assert np.median(orders) == pytest.approx(2.0, abs=0.05)
    assert np.max(remainders[-1]) < 1e-6


def test_far_away_nothing_overflows(mixture):
    energy, gradient = mixture.energy_and_gradient(np.array([[1e8, -1e8]]))
    assert np.isfinite(energy).all()
    assert np.isfinite(gradient).all()


def test_draws_have_its_moments(mixture, agrees):
    draws = mixture.sample(np.random.default_rng(0), 50_000)
    mean = np.array([0.25 * 0.0 + 0.5 * 3.0 - 0.25 * 2.0, 0.5 * 1.0 + 0.25 * 2.0])
    squares = 0.25 * (1.0 + 0.0) + 0.5 * (0.25 + 9.0) + 0.25 * (4.0 + 4.0)
    assert agrees(np.column_stack([draws, draws[:, 0] ** 2]), [*mean, squares])
    assert not agrees(draws, mean + 0.05)


@pytest.mark.parametrize(
    ("mixture", "means", "sds"),
    [
        (two_modes(), (-4.0, 3.0), (0.7, 0.5)),
        (close_modes(), (-3.0, 2.0), (0.7, 0.5)),
        (far_modes(), (-6.0, 4.0), (1.0, 1.0)),
    ],
)
def test_two_modes(mixture, means, sds):
    x = np.linspace(-8.0, 7.0, 50)[:, None]
    wanted = 0.4 * norm.pdf(x[:, 0], means[0], sds[0]) + 0.6 * norm.pdf(x[:, 0], means[1], sds[1])
    np.testing.assert_allclose(mixture.density(x), wanted, rtol=1e-12)
    np.testing.assert_allclose(np.diff(mixture.cdf(x[:, 0])), mixture.probabilities(x[:, 0]), rtol=1e-9, atol=1e-15)


def test_barrier_between_the_far_modes():
    x = np.linspace(-6.0, 4.0, 2001)[:, None]
    # where both parts are equally dense the density is twice that of the lower mode, which is this far away
    away = 5.0 + np.log(0.4 / 0.6) / 10.0
    barrier = far_modes().energy(x).max() - far_modes().energy(np.array([[-6.0]]))[0]
    assert barrier == pytest.approx(0.5 * away**2 - np.log(2.0), abs=1e-3)


def test_grid_of_gaussians():
    grid = gaussian_grid(0.05)
    assert grid.dimension == 2
    # far narrower than their distance 1 the modes' heights are their weights: 1/325 at (0, 0), 7/325 at (1, 1)
    at = np.array([[0.0, 0.0], [1.0, 1.0], [4.0, 4.0]])
    wanted = np.array([1, 7, 25]) / 325 / (2 * np.pi * 0.05)
    np.testing.assert_allclose(grid.density(at), wanted, rtol=2e-3)
    edges = np.array([-np.inf, 0.5, 1.5, 2.5, 3.5, np.inf])
    cells = grid.probabilities(edges, edges)
    assert cells.sum() == pytest.approx(1.0, rel=1e-14)
    # 2.5% of each mode's mass is beyond half the spacing: the order can be seen in the cells
    np.testing.assert_allclose(cells, np.arange(1, 26).reshape(5, 5) / 325, atol=3e-3)
    with pytest.raises(ValueError, match="variance must be a positive finite number, got 0"):
        gaussian_grid(0.0)


def test_cell_probabilities():
    edges = np.array([-np.inf, -4.0, -0.5, 3.0, np.inf])
    np.testing.assert_allclose(two_modes().probabilities(edges), [0.2, 0.2, 0.3, 0.3], atol=1e-6)


def test_cell_probabilities_in_the_plane(mixture):
    x, y = np.linspace(-3.0, 4.0, 15), np.linspace(-2.0, 3.0, 21)
    cells = mixture.probabilities(x, y)
    assert cells.shape == (14, 20)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    at = [0.5 * (g[:-1] + g[1:])[:, None] + 0.5 * np.diff(g)[:, None] * nodes for g in (x, y)]
    points = np.stack(np.meshgrid(at[0].ravel(), at[1].ravel(), indexing="ij"), axis=-1)
    density = mixture.density(points.reshape(-1, 2)).reshape(14, 10, 20, 10)
    area = 0.25 * np.diff(x)[:, None] * np.diff(y)
    np.testing.assert_allclose(cells, np.einsum("iajb,a,b->ij", density, weights, weights) * area, rtol=1e-8)
    with pytest.raises(ValueError, match="one array of edges for each of the 2 dimensions, got 1"):
        mixture.probabilities(x)
    with pytest.raises(ValueError, match="cdf needs a mixture in one dimension, got 2"):
        mixture.cdf(x)


def test_noises_of_the_paper():
    position, energy = np.array([[0.0], [-800.0], [800.0]]), np.array([0.0, np.log(2.0), np.inf])
    np.testing.assert_allclose(sigmoid_noise_gradient(position, energy), [2.5, 0.0, 5.0], atol=1e-12)
    np.testing.assert_allclose(sigmoid_noise_energy(position, energy), [0.75, 1.0, 1.5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0.5, 0.5), (0.0,), (1.0,)), "must be equally long, got 2, 1, 1"),
        (((0.5, -0.5), (0.0, 1.0), (1.0, 1.0)), r"weights must be positive finite numbers"),
        (((0.5, 0.5), (0.0, 1.0), (1.0, 0.0)), r"sds must be positive finite numbers"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(*arguments)
