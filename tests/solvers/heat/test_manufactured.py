"""The manufactured solution solves the equation, and its fields have the derivatives that they say."""

from __future__ import annotations

import numpy as np

from invsamp.solvers.heat.manufactured import DecayingGaussian, gaussian_derivatives

POINTS = np.random.default_rng(0).uniform(size=(7, 2))
CENTER = np.array([[0.4, 0.55]])


def test_derivatives_of_a_gaussian():
    def gaussian(c):
        return np.exp(-((0.3 - c) ** 2) / (2 * 0.04))

    h = gaussian_derivatives(np.array([0.3 - 0.42]), 25.0, 4)[:, 0]
    assert h[0] == gaussian(0.42)
    for k in range(4):
        near = [gaussian_derivatives(np.array([0.3 - 0.42 - s]), 25.0, 4)[k, 0] for s in (1e-5, -1e-5)]
        np.testing.assert_allclose(h[k + 1], (near[0] - near[1]) / 2e-5, rtol=1e-7)


def test_the_source_is_what_the_equation_lacks():
    solution, kappa, step = DecayingGaussian(0.3), 1.7, 1e-3

    def u(points, when):
        return solution.value(np.linalg.norm(points - CENTER, axis=1), when)

    moves = step * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    laplacian = (sum(u(POINTS + move, 0.0) for move in moves) - 4 * u(POINTS, 0.0)) / step**2
    change = (u(POINTS, step) - u(POINTS, -step)) / (2 * step)
    source = solution.source(kappa).at(POINTS).values(CENTER)[0]
    np.testing.assert_allclose(source, change - kappa * laplacian, rtol=0, atol=1e-4 * np.abs(source).max())
    np.testing.assert_allclose(solution.initial().at(POINTS).values(CENTER)[0], u(POINTS, 0.0), rtol=1e-12)
    np.testing.assert_allclose(solution.profile(np.array([0.0, 0.5])), [1.0, np.exp(-0.5)])


def test_pullbacks_agree_with_differences_also_with_one_coordinate_known():
    rng = np.random.default_rng(1)
    for center, theta in ((("x", "y"), CENTER), ((0.4, "y"), CENTER[:, 1:]), (("d", "d"), CENTER[:, :1])):
        field = DecayingGaussian(0.3, center).source(1.7)
        placed, cotangents = field.at(POINTS), rng.normal(size=(1, 7))
        assert len(field.parameters) == theta.shape[1] == sum(field.sizes)
        pulled = placed.pullback(theta, cotangents)[0]
        for column, move in enumerate(1e-5 * np.eye(theta.shape[1])):
            change = (placed.values(theta + move) - placed.values(theta - move)) / 2e-5
            np.testing.assert_allclose(pulled[column], np.sum(cotangents * change), rtol=1e-7)
