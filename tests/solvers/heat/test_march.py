"""The scheme in time: orders of convergence, exactness in time, boundary values, and the transpose."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space
from invsamp.solvers.heat.march import IMPLICITNESS, March, NodalData

SCHEMES = {"backward_euler": 1, "crank_nicolson": 2}
ROOT_MEAN_SQUARE = 0.5  # of sin(pi x) sin(pi y), and of cos(pi x) cos(pi y)


def march(cells, steps, end, scheme="backward_euler", boundary="neumann", source_factor=None, edge_factor=None):
    space = Space(unit_square(cells))
    fixed = space.on_boundary() & (boundary == "dirichlet")
    times = np.linspace(0.0, end, steps + 1)
    ones = np.ones(steps + 1)
    return March(
        space, fixed, times, IMPLICITNESS[scheme], ones if source_factor is None else source_factor, edge_factor
    )


def uniform(scheme, conductivity=1.0):
    return scheme.system(np.full(len(scheme.space.areas), conductivity))


def at_the_end(scheme, initial, conductivity=1.0):
    last = len(scheme.times) - 1
    return scheme.forward(uniform(scheme, conductivity), NodalData(initial), [last])[0]


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
        scheme = march(int(n), 200, end, "crank_nicolson", boundary)
        mode = eigenmode(boundary, scheme.space.nodes)
        away = at_the_end(scheme, mode, kappa) - np.exp(-2 * kappa * np.pi**2 * end) * mode
        errors.append(np.sqrt(np.sum(away * (scheme.space.mass @ away))))
    assert abs(slope(1 / cells, errors) - 2) < 0.1
    # the semi-discrete eigenvalue is too large by at most the fraction pi^2 h^2 / 4 or so
    rate = 2 * kappa * np.pi**2 * end
    assert (errors < ROOT_MEAN_SQUARE * rate * np.exp(-rate) * np.pi**2 / cells**2 / 2).all()


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
@pytest.mark.parametrize(("scheme", "order"), SCHEMES.items())
def test_order_in_time_against_the_matrix_exponential(boundary, scheme, order):
    # the exact solution of the system in space, so that no error of space shows
    end, steps = 0.05, np.array([16, 32, 64])
    make = [march(6, int(n), end, scheme, boundary) for n in steps]
    fixed, nodes = make[0].fixed, make[0].space.nodes
    start = np.exp(-10 * np.sum((nodes - 0.4) ** 2, axis=1))[:, None]
    start[fixed] = 0.0
    exact = start.copy()
    exact[~fixed] = expm(end * generator(~fixed)) @ start[~fixed]
    errors = [np.abs(at_the_end(scheme, start) - exact).max() for scheme in make]
    assert abs(slope(1 / steps, errors) - order) < 0.1
    assert errors[-1] < {1: 5e-3, 2: 1e-4}[order]


def generator(inner):
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
    return -np.linalg.solve(mass[np.ix_(inner, inner)], stiffness[np.ix_(inner, inner)])


def triangles(a, b, c, d):
    """Corners of one square, a (0, 0), b (1, 0), c (0, 1), d (1, 1), cut along a-d; the right angle first."""
    return ((b, a, d), (c, a, d))


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_adjoint_is_the_transpose(boundary, scheme):
    rng = np.random.default_rng(3)
    stepper = march(5, 7, 0.1, scheme, boundary, rng.normal(size=8), rng.normal(size=8))
    n, system = len(stepper.space.nodes), stepper.system(rng.uniform(0.5, 2.0, len(stepper.space.areas)))
    data = NodalData(*rng.normal(size=(4, n, 1)))
    data = data._replace(edge=data.edge * stepper.fixed[:, None])
    seeds = {step: rng.normal(size=(n, 1)) for step in (0, 3, 7)}
    states = stepper.forward(system, data, (0, 3, 7))
    functional = sum(np.sum(seeds[step] * state) for step, state in zip((0, 3, 7), states, strict=True))
    weights, sensitivity = stepper.adjoint(system, seeds)
    assert sensitivity is None
    by_weights = sum(np.sum(weight * given) for weight, given in zip(weights, data, strict=True))
    scale = sum(np.linalg.norm(weight) * np.linalg.norm(given) for weight, given in zip(weights, data, strict=True))
    assert abs(by_weights - functional) < 1e-13 * scale
    # each kind of data makes a difference, so that a weight of the wrong sign would have shown
    kinds = [k for k, given in enumerate(data) if given.any()]
    assert all(abs(np.sum(weights[k] * data[k])) > 1e-8 * scale for k in kinds)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_sensitivity_to_the_conductivity_agrees_with_differences(scheme):
    rng = np.random.default_rng(4)
    stepper = march(4, 6, 0.1, scheme, "dirichlet", edge_factor=np.linspace(1.0, 2.0, 7))
    n, kappa = len(stepper.space.nodes), rng.uniform(0.5, 2.0, len(stepper.space.areas))
    initial, source, flux, edge = rng.normal(size=(4, n, 1))
    data = NodalData(initial, source, flux, edge * stepper.fixed[:, None])
    seeds = {step: rng.normal(size=(n, 1)) for step in (2, 6)}

    def functional(values):
        states = stepper.forward(stepper.system(values), data, range(7))
        return sum(np.sum(seeds[step] * states[step]) for step in seeds), states

    states = functional(kappa)[1]
    sensitivity = stepper.adjoint(stepper.system(kappa), seeds, states)[1][:, 0]
    direction = rng.normal(size=len(kappa))
    difference = (functional(kappa + 1e-5 * direction)[0] - functional(kappa - 1e-5 * direction)[0]) / 2e-5
    assert abs(sensitivity @ direction - difference) < 1e-7 * np.linalg.norm(sensitivity) * np.linalg.norm(direction)
    # one state serves several functionals
    both = {step: np.hstack([seed, 2 * seed]) for step, seed in seeds.items()}
    twice = stepper.adjoint(stepper.system(kappa), both, states)[1]
    np.testing.assert_allclose(twice, sensitivity[:, None] * [1.0, 2.0], rtol=1e-10, atol=1e-12)


def test_neumann_keeps_the_heat_and_dirichlet_does_not():
    stepper = march(8, 5, 0.1)
    start = np.random.default_rng(0).uniform(size=(81, 1))
    heat = np.sum(stepper.space.mass @ start)
    np.testing.assert_allclose(np.sum(stepper.space.mass @ at_the_end(stepper, start)), heat, rtol=1e-13)
    cold = at_the_end(march(8, 5, 0.1, boundary="dirichlet"), start)
    assert np.sum(stepper.space.mass @ cold) < 0.5 * heat


def test_what_flows_in_through_the_boundary_is_found_inside():
    stepper = march(6, 4, 0.2, "crank_nicolson")
    load = stepper.space.edge_load("left")[:, None]
    states = stepper.forward(uniform(stepper), NodalData(flux=3.0 * load), (0, 4))
    np.testing.assert_allclose(np.sum(stepper.space.mass @ states[1]), 3.0 * 1.0 * 0.2, rtol=1e-12)
    assert not states[0].any()


def test_a_bad_conductivity_gives_nan():
    stepper = march(4, 2, 0.1)
    with np.errstate(invalid="ignore"):
        broken = stepper.system(np.where(np.arange(32) == 3, np.inf, 1.0))
        assert np.isnan(stepper.forward(broken, NodalData(np.ones((25, 2))), [2])).all()
        assert np.isnan(stepper.forward(broken, NodalData(np.ones((25, 1))), [2])).all()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shared", [True, False])
def test_many_columns_are_taken_some_after_the_others(scheme, shared, monkeypatch):
    rng = np.random.default_rng(5)
    stepper = march(4, 6, 0.1, scheme, "dirichlet", edge_factor=np.linspace(1.0, 2.0, 7))
    n, columns = len(stepper.space.nodes), 5
    system = stepper.system(rng.uniform(0.5, 2.0, len(stepper.space.areas)))
    states = rng.normal(size=(7, n, 1 if shared else columns))
    seeds = {step: rng.normal(size=(n, columns)) for step in (0, 2, 5)}
    weights, sensitivity = stepper.adjoint(system, seeds, states)
    monkeypatch.setattr("invsamp.solvers.heat.march.ROOM", 2 * n * 5)
    parts, by_parts = stepper.adjoint(system, seeds, states)
    np.testing.assert_allclose(by_parts, sensitivity, rtol=1e-13, atol=1e-14)
    for part, whole in zip(parts, weights, strict=True):
        np.testing.assert_allclose(part, whole, rtol=1e-13, atol=1e-14)


def test_a_functional_of_the_start_alone():
    stepper = march(4, 6, 0.1)
    seed = np.random.default_rng(6).normal(size=(25, 2))
    weights, sensitivity = stepper.adjoint(uniform(stepper), {0: seed}, np.ones((7, 25, 1)))
    np.testing.assert_array_equal(weights.initial, seed)
    assert not weights.source.any() and not sensitivity.any()
