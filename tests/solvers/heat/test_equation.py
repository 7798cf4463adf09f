"""Heat equation with an unknown center: manufactured solution, gradients, and precomputed weights."""

from __future__ import annotations

import pickle

import meshio
import numpy as np
import pytest

from invsamp.solvers.fem.fields import LogField, Modes, Sum
from invsamp.solvers.fem.mesh import read_mesh, unit_square
from invsamp.solvers.fem.piecewise import PerRegion
from invsamp.solvers.heat import DecayingGaussian, Disc, GaussianBump, HeatEquation, dirichlet, neumann

SENSORS = [[0.3, 0.41], [0.5, 0.5], [0.77, 0.2]]
CENTERS = np.random.default_rng(5).uniform(0.2, 0.8, (4, 2))
CASES = [(GaussianBump(0.15, 3.0), "dirichlet"), (GaussianBump(0.15), "neumann"), (DecayingGaussian(0.15), "exact")]
SCHEMES = ("backward_euler", "crank_nicolson")


def equation(case=CASES[0], scheme="backward_euler", cells=12, steps=6):
    return HeatEquation(cells, steps, 0.03, *case, scheme, conductivity=1.3)


def slope(sizes, errors):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


BACKENDS = ["skfem", pytest.param("dolfinx", marks=pytest.mark.dolfinx)]


def manufactured(cells, steps, end, scheme="crank_nicolson", backend="skfem", kind="triangles"):
    if backend == "dolfinx":
        pytest.importorskip("dolfinx")
    mesh = unit_square(cells, kind)
    return HeatEquation(None, steps, end, DecayingGaussian(0.2), "exact", scheme, mesh=mesh, backend=backend)


def l2_norm(model, field):
    """Of the interpolant of nodal values."""
    return np.sqrt(np.sum(field[:, None] * (model.discretization.space.mass @ field[:, None])))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("scheme", "order", "bound"), [("backward_euler", 1, 3e-4), ("crank_nicolson", 2, 3e-6)])
def test_manufactured_solution_order_in_time(scheme, order, bound, backend):
    # the same mesh with a step 32 times finer than the finest is the limit in time
    center, steps = np.array([[0.55, 0.48]]), np.array([8, 16, 32])
    limit = manufactured(10, 1024, 0.03, backend=backend).solve(center)[0, 0]
    models = [manufactured(10, int(n), 0.03, scheme, backend) for n in steps]
    errors = [l2_norm(model, model.solve(center)[0, 0] - limit) for model in models]
    assert abs(slope(1 / steps, errors) - order) < 0.1
    assert errors[-1] < bound * DecayingGaussian(0.2).value(0.0, 0.0)


@pytest.mark.parametrize("kind", ["triangles", "squares"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_manufactured_solution_order_in_space(backend, kind):
    center, cells, errors = np.array([[0.55, 0.48]]), np.array([12, 24, 48]), []
    for n in cells:
        model = manufactured(int(n), 40, 0.1, backend=backend, kind=kind)
        exact = DecayingGaussian(0.2).value(np.linalg.norm(model.nodes - center, axis=1), 0.1)
        errors.append(l2_norm(model, model.solve(center)[0, 0] - exact))
    assert abs(slope(1 / cells, errors) - 2) < 0.1
    # a tenth of the interpolation error's scale h^2 max|u''| = h^2 height / s^2
    assert errors[-1] < 0.1 * DecayingGaussian(0.2).value(0.0, 0.1) / (48 * 0.2) ** 2


def test_the_published_datum():
    # at distance 0.1 from the center; 64 squares leave an error of 0.3% in the peak's flank
    manufactured = DecayingGaussian(0.1)
    assert round(float(manufactured.value(0.1, 0.03)), 3) == 9.368
    ring = HeatEquation(64, 64, 0.03, manufactured, "exact").observe([[0.5, 0.5]])
    np.testing.assert_allclose(ring(np.array([[0.6, 0.5], [0.5, 0.4], [0.43, 0.57071]])), 9.368, rtol=5e-3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_precomputed_weights_equal_the_solve(case, scheme):
    model = equation(case, scheme)
    quick = model.observe(SENSORS, times=[0.015, 0.03])
    honest = model.observe(SENSORS, times=[0.015, 0.03], precompute=False)
    np.testing.assert_allclose(quick.times, [0.015, 0.03])
    assert quick.precomputed and not honest.precomputed
    y, jacobian = honest.jacobian(CENTERS)
    assert y.shape == (4, 6) and jacobian.shape == (4, 6, 2)
    for observed in (quick(CENTERS), quick.jacobian(CENTERS)[0], honest(CENTERS)):
        np.testing.assert_allclose(observed, y, atol=1e-14 * np.abs(y).max())
    # a derivative to the center brings in 1/width, and the source three of them
    np.testing.assert_allclose(quick.jacobian(CENTERS)[1], jacobian, atol=1e-12 * np.abs(jacobian).max())
    cotangent = np.random.default_rng(0).normal(size=y.shape)
    for forward in (quick, honest):
        product = forward.linearize(CENTERS)[1](cotangent)
        np.testing.assert_allclose(
            product, np.einsum("bm,bmp->bp", cotangent, jacobian), atol=1e-12 * np.abs(y).max() / 0.01
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_the_observation_is_the_field_at_the_sensor(case):
    model = equation(case)
    at_nodes = model.observe(model.nodes[[30, 70, 100]], times=[0.0, 0.005, 0.03])
    fields = model.solve(CENTERS, [0.0, 0.005, 0.03])
    np.testing.assert_allclose(at_nodes(CENTERS).reshape(4, 3, 3), fields[:, :, [30, 70, 100]], atol=1e-12)


@pytest.mark.parametrize("precompute", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_adjoint_agrees_with_central_differences(case, precompute):
    forward = equation(case).observe(SENSORS, precompute=precompute)
    _, jacobian = forward.jacobian(CENTERS)
    for column, step in enumerate(1e-5 * np.eye(2)):
        difference = (forward(CENTERS + step) - forward(CENTERS - step)) / 2e-5
        np.testing.assert_allclose(jacobian[:, :, column], difference, atol=1e-6 * np.abs(jacobian).max())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_taylor_remainder_is_of_second_order_over_decades(case):
    forward = equation(case, "crank_nicolson").observe(SENSORS, precompute=False)
    y, jacobian = forward.jacobian(CENTERS)
    direction = np.array([0.6, -0.8])
    steps = np.logspace(-1.5, -4.5, 7)
    remainders = [np.abs(forward(CENTERS + h * direction) - y - h * jacobian @ direction).max() for h in steps]
    assert abs(slope(steps, remainders) - 2) < 0.1
    # control: the remainder of a gradient that is off by a thousandth is of first order
    wrong = [np.abs(forward(CENTERS + h * direction) - y - 1.001 * h * jacobian @ direction).max() for h in steps]
    assert slope(steps[3:], wrong[3:]) < 1.5


@pytest.mark.parametrize("precompute", [True, False])
def test_a_batch_equals_its_rows(precompute):
    forward = equation().observe(SENSORS, precompute=precompute)
    batch = forward.jacobian(CENTERS)
    for row in range(len(CENTERS)):
        single = forward.jacobian(CENTERS[row : row + 1])
        for whole, part in zip(batch, single, strict=True):
            np.testing.assert_allclose(whole[row], part[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("precompute", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_chosen_observations_are_those_of_all(case, precompute):
    model = equation(case).observe([(0.4, 0.5), (0.7, 0.3)], [0.015, 0.03], precompute=precompute)
    rng = np.random.default_rng(0)
    theta, indices = rng.uniform(0.2, 0.8, (3, 2)), rng.integers(4, size=(3, 2))
    y, jacobian = model.jacobian(theta)
    chosen, slopes = model.rows(theta, indices)
    row = np.arange(3)[:, None]
    np.testing.assert_allclose(chosen, y[row, indices], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slopes, jacobian[row, indices], rtol=1e-10, atol=1e-12)


def test_centers_outside_the_square_still_have_a_field():
    y = equation().observe(SENSORS)(np.array([[-0.2, 1.3], [40.0, 0.5]]))
    assert np.isfinite(y).all() and (np.abs(y) < 1e-3).all()


def test_names_cost_and_repr():
    forward = equation((GaussianBump(center=("east", "north")), "dirichlet")).observe(SENSORS)
    assert forward.parameters == ("east", "north")
    assert forward.cost > 0
    assert "precomputed=True" in repr(forward)
    assert forward.method == "weights on the grid"
    assert equation() == equation() != equation(steps=5)


def test_a_pickle_holds_the_settings_and_gives_the_same_numbers():
    for precompute in (True, False):
        forward = equation().observe(SENSORS, precompute=precompute)
        content = pickle.dumps(forward)
        assert len(content) < 2000
        copy = pickle.loads(content)
        assert copy.equation == forward.equation and repr(copy) == repr(forward)
        for found, expected in zip(copy.jacobian(CENTERS), forward.jacobian(CENTERS), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_mesh_of_ones_own_gives_what_the_unit_square_gives(tmp_path):
    """The square's triangles from a file, in another order and with names, by weights at the nodes."""
    square, rng = unit_square(12), np.random.default_rng(6)
    order = rng.permutation(len(square.points))
    renumbered = np.argsort(order)
    lines = np.vstack(list(square.edges.values()))
    content = meshio.Mesh(square.points[order], [("triangle", renumbered[square.cells]), ("line", renumbered[lines])])
    content.cell_data["gmsh:physical"] = [np.full(288, 1), np.full(48, 2)]
    content.cell_data["gmsh:geometrical"] = content.cell_data["gmsh:physical"]
    content.field_data["wall"] = np.array([2, 1])
    meshio.write(tmp_path / "square.msh", content, file_format="gmsh22")
    settings = {"steps": 6, "end_time": 0.03, "initial": GaussianBump(0.15, 3.0), "conductivity": 1.3}
    mine = HeatEquation(mesh=read_mesh(tmp_path / "square.msh"), boundary={"wall": dirichlet()}, **settings)
    forward = mine.observe(SENSORS)
    assert forward.method == "weights at the nodes"
    expected = equation(CASES[0]).observe(SENSORS).jacobian(CENTERS)
    for found, right in zip(forward.jacobian(CENTERS), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-12 * np.abs(right).max())


def test_a_known_conductivity_by_cell():
    # two halves in series: at rest the flux through both is that of the harmonic mean
    mesh = unit_square(8)
    halves = np.where(mesh.midpoints[:, 0] < 0.5, 1.0, 4.0)
    sides = {"left": dirichlet(0.0), "right": dirichlet("warm")}
    model = HeatEquation(8, 400, 20.0, 0.0, sides, conductivity=halves).observe([[0.5, 0.3], [0.25, 0.9]])
    assert model.precomputed and model.method == "a matrix"
    middle = 2.0 * 4.0 / (1.0 + 4.0)
    np.testing.assert_allclose(model(np.array([[2.0]])), [[middle, middle / 2]], rtol=1e-9)
    by_function = HeatEquation(8, 400, 20.0, 0.0, sides, conductivity=lambda p: np.where(p[:, 0] < 0.5, 1.0, 4.0))
    np.testing.assert_allclose(by_function.observe([[0.5, 0.3]])(np.array([[2.0]])), [[middle]], rtol=1e-9)


def test_nothing_unknown_is_a_model_without_columns():
    model = equation((GaussianBump(center=(0.4, 0.5)), "neumann")).observe(SENSORS)
    assert model.parameters == () and model(np.empty((2, 0))).shape == (2, 3)


def test_one_condition_may_hold_everywhere():
    warm = HeatEquation(6, 4, 0.1, 0.0, dirichlet("warm"))
    by_part = HeatEquation(6, 4, 0.1, 0.0, dict.fromkeys(("left", "right", "bottom", "top"), dirichlet("warm")))
    np.testing.assert_array_equal(warm.solve([[2.0]]), by_part.solve([[2.0]]))
    assert "boundary={everywhere: Dirichlet(value='warm')}" in repr(warm)
    assert pickle.loads(pickle.dumps(warm)) == warm


def test_what_nothing_drives_stays_zero():
    model = HeatEquation(4, 3, 0.1, None, conductivity="k").observe(SENSORS)
    y, vjp = model.linearize(np.array([[1.0], [2.0]]))
    assert y.shape == (2, 3) and not y.any() and not vjp(np.ones((2, 3))).any()


@pytest.mark.parametrize("precompute", [True, False])
@pytest.mark.parametrize("conductivity", [1.0, "k"])
def test_no_rows(precompute, conductivity):
    model = HeatEquation(4, 3, 0.1, conductivity=conductivity).observe(SENSORS, precompute=precompute)
    none = np.empty((0, len(model.parameters)))
    y, vjp = model.linearize(none)
    assert y.shape == model(none).shape == (0, 3) and vjp(y).shape == none.shape
    assert model.jacobian(none)[1].shape == (0, 3, none.shape[1])


@pytest.mark.parametrize(
    ("initial", "source", "boundary"),
    [
        (GaussianBump("w", "h"), None, "dirichlet"),
        (Sum(GaussianBump("w", "h"), GaussianBump(0.2, "h", ("a", "b"))), "q", {"left": dirichlet("g")}),
        (DecayingGaussian(0.2), None, "exact"),
    ],
)
@pytest.mark.parametrize("precompute", [True, False])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(initial, source, boundary, precompute):
    equation = HeatEquation(8, 4, 0.03, initial, boundary, source=source)
    model = equation.observe(SENSORS, [0.015, 0.03], precompute=precompute)
    rng = np.random.default_rng(7)
    theta = rng.uniform(0.2, 0.8, (9, sum(equation.sizes)))
    cotangent, indices = rng.normal(size=(9, 6)), rng.integers(0, 6, (9, 4))

    def everything(rows):
        y, vjp = model.linearize(theta[rows])
        chosen = model.rows(theta[rows], indices[rows])
        return y, vjp(cotangent[rows]), model(theta[rows]), *model.jacobian(theta[rows]), *chosen

    whole = everything(slice(None))
    for rows in (slice(0, 1), slice(2, 5), slice(1, 9)):
        for part, values in zip(everything(rows), whole, strict=True):
            np.testing.assert_array_equal(part, values[rows])


HALF_KNOWN = PerRegion({lambda p: p[:, 0] < 0.5: -1.0}, "k")


def lone(**settings):
    return HeatEquation(**{"cells": 4, "steps": 3, "end_time": 1.0, **settings})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: equation().observe([[0.5, 1.2]]), r"sensors must lie in the mesh, got \[0.5, 1.2\]"),
        (lambda: equation().observe([[0.5, np.nan]]), "sensors must be finite numbers"),
        (lambda: equation().observe([0.5, 0.5]), r"sensors must have shape \(n_sensors, d\), got \(2,\)"),
        (lambda: equation().observe(SENSORS, times=[0.06]), "times must lie between 0 and the end time 0.03, got 0.06"),
        (lambda: equation().observe(SENSORS, times=[]), "times must have at least one entry"),
        (lambda: equation().observe(SENSORS)(np.ones((3, 3))), r"theta must have shape \(batch, 2\), got \(3, 3\)"),
        (lambda: equation().observe(SENSORS).rows(CENTERS, [[0], [1], [2], [3]]), "indices must lie between 0 and 2"),
        (lambda: equation().observe(SENSORS).rows(CENTERS, [0, 1]), r"indices must be integers of shape \(4, k\)"),
        (
            lambda: equation().observe(SENSORS).linearize(CENTERS)[1](np.ones((2, 3))),
            r"cotangent must have shape \(4, 3\), got \(2, 3\)",
        ),
        (lambda: equation(steps=0), "steps must be an integer >= 1, got 0"),
        (lambda: HeatEquation(4), "steps must be an integer >= 1, got 0"),
        (lambda: HeatEquation(4, 3), "end_time must be a positive finite number, got nan"),
        (lambda: lone(end_time=0.0), "end_time must be a positive finite number, got 0.0"),
        (lambda: lone(cells=1), "cells must be an integer >= 2, got 1"),
        (lambda: lone(cells=None), "either cells or mesh must be given, got cells=None and mesh=None"),
        (lambda: lone(mesh=unit_square(4)), "either cells or mesh must be given, got cells=4"),
        (lambda: lone(cells=None, mesh="square.msh"), r"mesh must be a Mesh, such as read_mesh\(path\) gives"),
        (lambda: lone(scheme="euler"), "scheme must be one of .* got 'euler'"),
        (lambda: lone(backend="fenics"), "backend must be one of .* got 'fenics'"),
        (lambda: lone(conductivity=-1.0), r"conductivity must be .*positive.*, got -1.0"),
        (lambda: lone(conductivity=np.nan), "conductivity must be a positive finite number, got nan"),
        (lambda: lone(conductivity=np.linspace(0, 1, 32)), "conductivity must be positive and finite, got 0.0"),
        (lambda: lone(conductivity=np.ones(31)), r"conductivity does not fit the mesh: .* got \(31,\)"),
        (
            lambda: lone(conductivity=LogField(PerRegion({"iron": "k"}, 0.0))),
            "conductivity does not fit the mesh: .*iron",
        ),
        (lambda: lone(initial=np.ones(24)), r"initial does not fit the mesh: .* got \(24,\)"),
        (lambda: lone(source=lambda p: np.full(len(p), np.inf)), "source does not fit the mesh: .* finite"),
        (lambda: lone(conductivity=None), "conductivity must be a field .*, a number, .* got None"),
        (lambda: lone(conductivity=HALF_KNOWN), r"conductivity must be .*positive.*, got -1.0"),
        (lambda: lone(end_time="1"), "end_time must be a positive finite number, got '1'"),
        (lambda: equation().observe(Disc((0.5, 0.5), 0.2)), r"or region_averages\(\[...\]\), got Disc"),
        (lambda: equation().observe([["a", "b"]]), "sensors must be finite numbers"),
        (lambda: equation().observe(SENSORS, times="a"), "times must be finite numbers, got 'a'"),
        (lambda: equation().observe(SENSORS, times=[[0.03]]), "times must be an increasing sequence"),
        (lambda: lone(initial=object()), "initial must be a field .*, a number, a name"),
        (lambda: lone(boundary="open"), "boundary must be one of .* or a mapping .*, got 'open'"),
        (lambda: lone(boundary={"left": 0.0}), r"boundary\['left'\] must be dirichlet\(...\) or neumann\(...\)"),
        (lambda: lone(boundary={"side": dirichlet()}), "a part of the boundary must be one of .* got 'side'"),
        (lambda: lone(boundary={"left": dirichlet(np.inf)}), "value must be a finite number, or a name"),
        (lambda: lone(boundary={"left": neumann(None)}), "flux must be a finite number, or a name .* got None"),
        (
            lambda: lone(initial=Modes("z", np.ones((25, 3))), source=Modes("z", np.ones((25, 2)))),
            "unknown 'z' must have one size, got 3 and 2",
        ),
        (
            lambda: equation((GaussianBump(), "exact")),
            "boundary must be 'exact' for DecayingGaussian alone, got 'exact'",
        ),
        (lambda: equation((DecayingGaussian(), "neumann")), "boundary must be 'exact' for DecayingGaussian alone"),
        (lambda: lone(initial=DecayingGaussian(), boundary="exact", source=1.0), "source must be left out"),
        (lambda: DecayingGaussian(0.0), "width must be a positive finite number, got 0.0"),
        (lambda: DecayingGaussian(0.1, "x"), "center must be a pair of numbers or names"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
