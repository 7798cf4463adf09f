"""The discretisation: orders of convergence, exactness in time, and the transpose."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from invsamp.solvers.heat_stepper import HeatStepper

SCHEMES = {"backward_euler": 1, "crank_nicolson": 2}
ROOT_MEAN_SQUARE = 0.5  # of sin(pi x) sin(pi y), and of cos(pi x) cos(pi y)


def eigenmode(boundary, nodes):
    wave = np.sin if boundary == "dirichlet" else np.cos
    return np.prod(wave(np.pi * nodes), axis=1)[:, None]


def slope(sizes, errors):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_second_order_in_space(boundary):
    # u = exp(-2 kappa pi^2 t) times an eigenmode; the time step is so fine that its error does not show
    cells, end, kappa = np.array([8, 16, 32]), 0.05, 0.7
    errors = []
    for n in cells:
        stepper = HeatStepper(int(n), 200, end, kappa, "crank_nicolson", boundary)
        mode = eigenmode(boundary, stepper.nodes)
        exact = np.exp(-2 * kappa * np.pi**2 * end) * mode
        errors.append(np.sqrt(np.mean((stepper.forward(mode)[0] - exact) ** 2)))
    assert abs(slope(1 / cells, errors) - 2) < 0.1
    # the semi-discrete eigenvalue is too large by at most the fraction pi^2 h^2 / 4 or so
    rate = 2 * kappa * np.pi**2 * end
    assert (errors < ROOT_MEAN_SQUARE * rate * np.exp(-rate) * np.pi**2 / cells**2 / 2).all()


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
@pytest.mark.parametrize(("scheme", "order"), SCHEMES.items())
def test_order_in_time_against_the_matrix_exponential(boundary, scheme, order):
    # the exact solution of the system in space, so that no error of space shows
    end, steps = 0.05, np.array([16, 32, 64])
    make = [HeatStepper(6, int(n), end, 1.0, scheme, boundary) for n in steps]
    system = make[0]._system
    start = np.exp(-10 * np.sum((make[0].nodes - 0.4) ** 2, axis=1))[:, None]
    start[system.edge] = 0.0
    rate = generator(boundary)
    exact = start.copy()
    exact[system.inner] = expm(end * rate) @ start[system.inner]
    errors = [np.abs(stepper.forward(start)[0] - exact).max() for stepper in make]
    assert abs(slope(1 / steps, errors) - order) < 0.1
    assert errors[-1] < {1: 5e-3, 2: 1e-4}[order]


def generator(boundary):
    """-M^-1 K of the linear elements on 6 x 6 squares, from element matrices written out by hand."""
    n, h = 6, 1 / 6
    local_mass = h * h / 24 * np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2]])
    # right angle at the first corner: gradients (-1, -1), (1, 0), (0, 1), area 1/2
    local_stiffness = 0.5 * np.array([[2, -1, -1], [-1, 1, 0], [-1, 0, 1]])
    size = (n + 1) ** 2
    mass, stiffness = np.zeros((size, size)), np.zeros((size, size))
    for i in range(n):
        for j in range(n):
            a, b, c, d = (i * (n + 1) + j, (i + 1) * (n + 1) + j, i * (n + 1) + j + 1, (i + 1) * (n + 1) + j + 1)
            for corners in triangles(a, b, c, d):
                mass[np.ix_(corners, corners)] += local_mass
                stiffness[np.ix_(corners, corners)] += local_stiffness
    inner = HeatStepper(n, 1, 1.0, boundary=boundary)._system.inner
    return -np.linalg.solve(mass[np.ix_(inner, inner)], stiffness[np.ix_(inner, inner)])


def triangles(a, b, c, d):
    """Corners of one square, a (0, 0), b (1, 0), c (0, 1), d (1, 1), cut along a-d; the right angle first."""
    return ((b, a, d), (c, a, d))


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "exact"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_adjoint_is_the_transpose(boundary, scheme):
    rng = np.random.default_rng(3)
    stepper = HeatStepper(5, 7, 0.1, 1.3, scheme, boundary)
    n = len(stepper.nodes)
    initial, source, profile = rng.normal(size=(n, 1)), rng.normal(size=(n, 1)), rng.normal(size=8)
    seeds = {step: rng.normal(size=(n, 1)) for step in (0, 3, 7)}
    states = stepper.forward(initial, source, profile, (0, 3, 7))
    functional = sum(np.sum(seeds[step] * state) for step, state in zip((0, 3, 7), states, strict=True))
    initial_weights, source_weights = stepper.adjoint(seeds, profile)
    by_weights = np.sum(initial_weights * initial) + np.sum(source_weights * source)
    assert abs(by_weights - functional) < 1e-12 * np.linalg.norm(initial_weights) * np.linalg.norm(initial)


def test_neumann_keeps_the_heat_and_dirichlet_does_not():
    stepper = HeatStepper(8, 5, 0.1, boundary="neumann")
    start = np.random.default_rng(0).uniform(size=(81, 1))
    ones = np.ones(81)
    mass = stepper._system.mass_inner
    np.testing.assert_allclose(ones @ (mass @ stepper.forward(start)[0]), ones @ (mass @ start), rtol=1e-13)
    cold = HeatStepper(8, 5, 0.1, boundary="dirichlet").forward(start)[0]
    assert ones @ (mass @ cold) < 0.5 * (ones @ (mass @ start))


def test_point_values_reproduce_linear_fields():
    stepper = HeatStepper(7, 1, 1.0)
    points = np.random.default_rng(1).uniform(size=(20, 2))
    field = 1 + 2 * stepper.nodes[:, 0] - 3 * stepper.nodes[:, 1]
    np.testing.assert_allclose(
        stepper.point_values(points) @ field, 1 + 2 * points[:, 0] - 3 * points[:, 1], atol=1e-13
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cells": 1}, "cells must be an integer of at least 2, got 1"),
        ({"cells": 4.0}, "cells must be an integer of at least 2, got 4.0"),
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"end_time": 0.0}, "end_time must be positive and finite, got 0.0"),
        ({"conductivity": np.nan}, "conductivity must be positive and finite, got nan"),
        ({"scheme": "euler"}, "scheme must be one of .* got 'euler'"),
        ({"boundary": "open"}, "boundary must be one of .* got 'open'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        HeatStepper(**{"cells": 4, "steps": 4, "end_time": 1.0, **settings})
