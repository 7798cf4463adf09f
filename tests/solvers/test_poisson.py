from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from invsamp.solvers.fem.boundary import dirichlet, neumann
from invsamp.solvers.fem.fields import Constant, GaussianBump, LogField, Modes, PerBlock, PerRegion
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.random_fields import Matern, karhunen_loeve, square_rule
from invsamp.solvers.fem.sensors import Disc, point_sensors, region_averages
from invsamp.solvers.fem.space import Space
from invsamp.solvers.poisson import PoissonEquation

SENSORS = np.random.default_rng(0).random((5, 2))
MODES = karhunen_loeve(Matern(1.5, 0.4), *square_rule(8), count=4)
MIXED = {"left": dirichlet("g"), "top": dirichlet(1.0), "right": neumann("q")}

PROBLEMS = {
    "modes": {"conductivity": LogField(Modes("z", MODES))},
    "blocks": {"conductivity": LogField(PerBlock("b", (3, 2))), "boundary": MIXED},
    "squares": {"conductivity": LogField(PerBlock("b", (4, 2))), "source": GaussianBump("w", "h"), "boundary": MIXED},
    "constant": {"conductivity": Constant("k")},
    "everything": {"conductivity": LogField(Modes("z", MODES)), "source": GaussianBump("w", "h"), "boundary": MIXED},
    "source": {"source": GaussianBump("w", "h")},
    "boundary": {"boundary": MIXED, "conductivity": PerRegion({Disc((0.3, 0.3), 0.2): 5.0}, elsewhere=1.0)},
}
BACKENDS = ["skfem", pytest.param("dolfinx", marks=pytest.mark.dolfinx)]


def model(name, cells=8, **settings):
    sensors = [point_sensors(SENSORS), region_averages([Disc((0.5, 0.5), 0.3)])]
    keywords = {key: settings.pop(key) for key in ("precompute",) if key in settings}
    if settings.get("backend") == "dolfinx":
        pytest.importorskip("dolfinx")
    mesh = unit_square(cells, "squares" if name == "squares" else "triangles")
    return PoissonEquation(mesh=mesh, **PROBLEMS[name], **settings).observe(sensors, **keywords)


def parameters(observation, rows=3):
    return 0.3 + 0.5 * np.random.default_rng(1).random((rows, sum(observation.sizes)))


@pytest.mark.parametrize("kind", ["triangles", "squares"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_manufactured_solution_converges_with_order_two(backend, kind):
    if backend == "dolfinx":
        pytest.importorskip("dolfinx")

    # u = sin(pi x) sin(pi y) for a = 1 + x
    def source(points):
        x, y = np.pi * points.T
        return np.pi * (2 * np.pi * (1 + points[:, 0]) * np.sin(x) - np.cos(x)) * np.sin(y)

    errors = []
    for cells in (8, 16, 32, 64):
        mesh = unit_square(cells, kind)
        equation = PoissonEquation(
            conductivity=lambda points: 1 + points[:, 0], source=source, mesh=mesh, backend=backend
        )
        found = equation.observe([[0.5, 0.5]], precompute=False).solve(np.empty((1, 0)))[0]
        nodes = equation.space.nodes
        error = (found - np.sin(np.pi * nodes[:, 0]) * np.sin(np.pi * nodes[:, 1]))[:, None]
        errors.append(math.sqrt((error.T @ (equation.space.mass @ error)).item()))
    slopes = np.diff(np.log(errors)) / math.log(0.5)
    assert (np.abs(slopes - 2) < 0.1).all() and errors[-1] < 1e-3


def test_linear_solution_is_exact_with_values_and_fluxes_by_part():
    # u = 2 + 3 x for a = 2: the flux through the right side is 6, through top and bottom zero
    observation = PoissonEquation(6, 2.0, 0.0, {"left": dirichlet("g"), "right": neumann("q")}).observe(SENSORS)
    assert observation.parameters == ("q", "g")
    np.testing.assert_allclose(observation(np.array([[6.0, 2.0]]))[0], 2 + 3 * SENSORS[:, 0], rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_remainder_of_the_linearization_is_of_second_order(name, backend):
    observation = model(name, backend=backend)
    rng = np.random.default_rng(2)
    theta = parameters(observation)
    direction = rng.standard_normal(theta.shape)
    direction /= np.linalg.norm(direction)
    y, vjp = observation.linearize(theta)
    rows = [np.broadcast_to(row, y.shape) for row in np.eye(y.shape[1])]
    slopes = np.stack([(vjp(row) * direction).sum(axis=1) for row in rows], axis=1)
    steps = 10.0 ** -np.arange(1.0, 6.5, 0.5)
    remainders = np.array([np.linalg.norm(observation(theta + h * direction) - y - h * slopes) for h in steps])
    # what rounding leaves of a difference of numbers of this size
    floor = 1e-15 * np.linalg.norm(y)
    if name == "boundary":  # linear
        assert remainders.max() < 10 * floor
        return
    seen = remainders[1:] > 100 * floor
    orders = -2 * np.diff(np.log10(remainders))[seen]
    # the term of third order is seen at the larger steps
    assert len(orders) >= 7 and (np.abs(orders - 2) < 0.02 + 5 * steps[:-1][seen]).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradient_is_that_of_central_differences_and_of_the_jacobian(name):
    observation = model(name)
    theta = parameters(observation)
    y, vjp = observation.linearize(theta)
    weights = np.random.default_rng(3).standard_normal(y.shape)
    step = 1e-4
    moves = [(observation(theta + step * e) - observation(theta - step * e)) for e in np.eye(theta.shape[1])]
    differences = np.stack([(weights * move).sum(axis=1) / (2 * step) for move in moves], axis=1)
    gradient = vjp(weights)
    np.testing.assert_allclose(gradient, differences, atol=1e-6 * np.abs(gradient).max())
    same, jacobian = observation.jacobian(theta)
    np.testing.assert_allclose(same, y, rtol=1e-13)
    np.testing.assert_allclose(np.einsum("bm,bmp->bp", weights, jacobian), gradient, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["source", "boundary"])
def test_known_conductivity_needs_no_solve_after_construction(name, monkeypatch):
    prepared, solving = model(name), model(name, precompute=False)
    assert prepared.precomputed and "solve" not in prepared.method
    assert not solving.precomputed and solving.method == "solves, factored once"
    theta = parameters(prepared, 4)
    np.testing.assert_allclose(prepared(theta), solving(theta), rtol=1e-12)
    weights = np.ones((4, 6))
    found = prepared.linearize(theta)[1](weights)
    np.testing.assert_allclose(found, solving.linearize(theta)[1](weights), rtol=1e-11)
    monkeypatch.setattr(type(solving.equation.discretization.system.factors), "solve", None)
    np.testing.assert_array_equal(prepared.linearize(theta)[1](weights), found)
    with pytest.raises(TypeError):
        solving(theta)


def test_factors_that_do_not_fit_in_memory_are_made_again(monkeypatch):
    observation = model("everything")
    theta = parameters(observation)
    weights = np.ones((3, 6))
    kept = observation.linearize(theta)[1](weights)
    monkeypatch.setattr("invsamp.solvers.heat.solving.KEPT_NODES", 0)
    np.testing.assert_array_equal(observation.linearize(theta)[1](weights), kept)


def test_factors_of_a_single_row_are_kept_on_any_mesh(monkeypatch):
    """The adjoint would take their memory anyway."""
    observation = model("everything")
    monkeypatch.setattr("invsamp.solvers.heat.solving.KEPT_NODES", 0)
    made, factor = [], Space.factor
    monkeypatch.setattr(Space, "factor", lambda *given, **how: made.append(1) or factor(*given, **how))
    observation.linearize(parameters(observation)[:1])[1](np.ones((1, 6)))
    assert len(made) == 1
    observation.linearize(parameters(observation)[:2])[1](np.ones((2, 6)))
    assert len(made) == 5


@pytest.mark.parametrize("precompute", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_row_does_not_depend_on_the_rest_of_the_batch(name, precompute):
    observation = model(name, precompute=precompute)
    theta = parameters(observation, 5)
    y, vjp = observation.linearize(theta)
    gradient = vjp(np.ones_like(y))
    for row in range(5):
        alone, pull = observation.linearize(theta[row : row + 1])
        np.testing.assert_array_equal(alone[0], y[row])
        np.testing.assert_array_equal(pull(np.ones_like(alone))[0], gradient[row])


def test_the_object_says_what_it_takes():
    assert model("source").method == "weights at the nodes"
    assert PoissonEquation(8, source=GaussianBump("w", "h")).observe(SENSORS).method == "weights on the grid"
    assert model("boundary").method == "a matrix"
    assert model("source", precompute=False).method == "solves, factored once"
    assert model("modes").method == "a factorization, and solves"


def test_an_island_without_given_values_is_a_failed_row():
    # two squares that do not touch, of which one is held
    square = unit_square(3)
    points = np.concatenate([square.points, square.points + np.array([2.0, 0.0])])
    mesh = Mesh(points, np.concatenate([square.cells, square.cells + 16]))
    held = {(lambda p: p[:, 0] == 0): dirichlet(0.0)}
    island = PoissonEquation(mesh=mesh, boundary=held, conductivity="k").observe([[0.5, 0.5], [2.5, 0.5]])
    assert np.isnan(island(np.array([[1.3]]))).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_conductivity_that_is_not_positive_is_a_failed_row(backend):
    observation = model("constant", backend=backend)
    theta = np.array([[1.0], [0.0], [-2.0], [np.nan], [np.inf], [2.0]])
    y, vjp = observation.linearize(theta)
    failed = [False, True, True, True, True, False]
    assert np.isnan(y).all(axis=1).tolist() == failed
    assert np.isnan(vjp(np.ones_like(y))).all(axis=1).tolist() == failed
    np.testing.assert_array_equal(np.isnan(observation.jacobian(theta)[1]).all(axis=(1, 2)), failed)
    # the solution is proportional to 1 / k
    np.testing.assert_allclose(y[0], 2 * y[5], rtol=1e-12)


def test_pickle_and_print():
    observation = model("everything")
    assert observation.parameters == ("x", "y", "w", "h", "z", "q", "g")
    again = pickle.loads(pickle.dumps(observation))
    theta = parameters(observation)
    np.testing.assert_array_equal(again(theta), observation(theta))
    assert repr(again) == repr(observation)
    partly = PoissonEquation(4, boundary={(lambda points: points[:, 0] == 0): dirichlet(0.0)})
    assert "0x" not in repr(partly)
    assert observation.cost > 0


@pytest.mark.dolfinx
@pytest.mark.parametrize("name", PROBLEMS)
def test_backends_agree(name):
    first, second = model(name), model(name, backend="dolfinx")
    theta = parameters(first)
    assert second.parameters == first.parameters
    (y, vjp), (y2, vjp2) = first.linearize(theta), second.linearize(theta)
    weights = np.random.default_rng(4).standard_normal(y.shape)
    np.testing.assert_allclose(y2, y, rtol=1e-10)
    np.testing.assert_allclose(vjp2(weights), vjp(weights), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: PoissonEquation(), "either cells or mesh"),
        (lambda: PoissonEquation(4, mesh=unit_square(4)), "either cells or mesh"),
        (lambda: PoissonEquation(1), "cells must be"),
        (lambda: PoissonEquation(4, backend="abaqus"), "backend must be"),
        (lambda: PoissonEquation(4, comm=object()), "comm must be left out"),
        (lambda: PoissonEquation(4, boundary="neumann"), r"boundary must be one of \['dirichlet'\]"),
        (lambda: PoissonEquation(4, boundary={"left": neumann(1.0)}), "must give values somewhere"),
        (lambda: PoissonEquation(4, boundary={"left": 0.0}), r"must be dirichlet\(...\)"),
        (lambda: PoissonEquation(4, boundary={"west": dirichlet()}), "a part of the boundary must be one of .* 'west'"),
        (lambda: PoissonEquation(4, -1.0).observe(SENSORS), "conductivity must be a positive"),
        (lambda: PoissonEquation(4, np.zeros(32)).observe(SENSORS), "conductivity must be positive"),
        (
            lambda: PoissonEquation(4, np.ones(3)).observe(SENSORS),
            "conductivity does not fit the mesh: .* must have shape",
        ),
        (
            lambda: PoissonEquation(4, PerRegion({Disc((0.3, 0.3), 0.2): -1.0}, "k")).observe(SENSORS),
            "conductivity must be positive and finite, got -1.0",
        ),
        (lambda: PoissonEquation(4, source=np.ones(3)).observe(SENSORS), "source does not fit the mesh"),
        (lambda: PoissonEquation(mesh="plate.msh"), r"mesh must be a Mesh, such as read_mesh\(path\) gives"),
        (lambda: PoissonEquation(4, None), "conductivity must be a field"),
        (lambda: PoissonEquation(4).observe([[1.5, 0.5]]), "must lie in the mesh"),
        (lambda: PoissonEquation(4).observe(SENSORS)(np.zeros((2, 1))), "theta must have shape"),
        (lambda: model("modes").linearize(np.zeros((2, 4)))[1](np.ones(6)), r"cotangent must have shape \(2, 6\)"),
    ],
)
def test_bad_settings_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
