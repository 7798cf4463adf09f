"""Whittle-Matern fields: covariances, densities and derivatives against dense computations, and against theory."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from invsamp.solvers import fields
from invsamp.solvers.fem.box import box
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.random_fields import Matern
from invsamp.solvers.fields.rational import fractional_power, inverse_power_sum

SETTINGS = {
    "plain": {"range": 0.3},
    "fractional": {"range": 0.3, "smoothness": 0.5},
    "smooth, of another mean and sd": {"range": 0.4, "smoothness": 2.6, "sd": 2.0, "mean": lambda x: x[:, 0]},
    "anisotropic": {"range": 0.3, "anisotropy": [[2.0, 0.5], [0.5, 1.0]], "boundary": "neumann"},
    "unknown sd of a known range": {"range": 0.3, "sd": "s"},
    "unknown": {"range": "r", "sd": "s", "sd_": 1.0},
    "unknown, fractional": {"range": "r", "smoothness": 1.7},
}


def made(name, cells=6):
    settings = {key: value for key, value in SETTINGS[name].items() if not key.endswith("_")}
    field = fields.matern(unit_square(cells), **settings)
    return field, {key: {"range": 0.35, "sd": 1.5}[key] for key in field.unknown}


def covariance(field, **values):
    coloring = field.at(**values)
    factor = coloring.color(np.eye(field.size)) - field.mean
    return factor.T @ factor


@pytest.mark.parametrize("name", SETTINGS)
class TestAgainstDense:
    def test_the_log_density_is_that_of_the_samples_covariance(self, name):
        field, values = made(name)
        draws = field.sample(np.random.default_rng(1), 4, **values)
        dense = multivariate_normal(field.mean, covariance(field, **values)).logpdf(draws)
        np.testing.assert_allclose(field.log_density(draws, **values), dense, rtol=1e-9)

    def test_whitening_undoes_coloring(self, name):
        field, values = made(name)
        white = np.random.default_rng(2).standard_normal((3, field.size))
        coloring = field.at(**values)
        np.testing.assert_allclose(coloring.whiten(coloring.color(white)), white, atol=1e-10)

    def test_the_pointwise_sd_is_the_covariances(self, name):
        field, values = made(name)
        exact = np.sqrt(np.diag(covariance(field, **values)))
        np.testing.assert_allclose(field.pointwise_sd(**values), exact, rtol=1e-3)
        if "range" not in field.unknown:
            np.testing.assert_allclose(exact, field.sd * values.get("sd", 1.0), rtol=1e-3)

    def test_derivatives_are_those_of_differences(self, name):
        field, values = made(name)
        rng = np.random.default_rng(3)
        given = np.array(list(values.values()))
        white, moved = rng.standard_normal((2, 3, field.size))
        cotangents = rng.standard_normal((3, 2, field.size))
        by_white, by_unknown = field.coloring(given).pullback(white, cotangents)
        colored = field.coloring(given).color

        def product(change):
            return (change[:, None] * cotangents).sum(axis=2)

        np.testing.assert_allclose(
            (by_white * moved[:, None]).sum(axis=2), product(colored(white + moved) - colored(white)), rtol=1e-9
        )
        at = colored(white)
        density, slope, slope_unknown = field.coloring(given).log_density(at)
        step = 1e-5
        up, down = (field.coloring(given).log_density(at + sign * step * moved)[0] for sign in (1, -1))
        np.testing.assert_allclose((slope * moved).sum(axis=1), (up - down) / (2 * step), rtol=1e-6)
        for k, value in enumerate(given):
            change = step * value * np.eye(len(given))[k]
            up, down = field.coloring(given + change), field.coloring(given - change)
            by_differences = product(up.color(white) - down.color(white)) / (2 * step * value)
            np.testing.assert_allclose(by_unknown[:, :, k], by_differences, rtol=1e-6)
            by_differences = (up.log_density(at)[0] - down.log_density(at)[0]) / (2 * step * value)
            np.testing.assert_allclose(slope_unknown[:, k], by_differences, rtol=1e-6)
        assert np.isfinite(density).all()


def error_inside(cells, smoothness):
    """Of the correlations with the center of the square, at the nodes within 0.25 of it, for a range of 0.3."""
    mesh = unit_square(cells)
    field = fields.matern(mesh, range=0.3, smoothness=smoothness)
    center = int(np.argmin(((mesh.points - 0.5) ** 2).sum(axis=1)))
    unit = np.zeros((1, 1, field.size))
    unit[0, 0, center] = 1.0
    found = field.at().color(field.at().pullback(np.zeros((1, field.size)), unit)[0][0])[0]
    inside = (np.abs(mesh.points - 0.5) < 0.2501).all(axis=1)
    exact = Matern(smoothness, 0.15)(mesh.points[[center]], mesh.points)[0]
    return np.abs(found - exact)[inside].max()


def test_the_covariance_inside_converges_to_materns_at_second_order():
    """A rough field, whose covariance has a kink at distance 0, at less."""
    errors = [error_inside(cells, 2.0) for cells in (32, 64, 128)]
    assert errors[-1] < 0.001
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.1)
    assert error_inside(64, 1.0) < 0.011 and error_inside(64, 0.5) < 0.008


def test_robin_keeps_the_variance_at_the_boundary_where_neumann_multiplies_it():
    """Of an unknown range nothing is scaled."""
    mesh = unit_square(32)
    corner, edge = 0, int(np.argmin(((mesh.points - [0.0, 0.5]) ** 2).sum(axis=1)))
    center = int(np.argmin(((mesh.points - 0.5) ** 2).sum(axis=1)))
    sd = {kind: fields.matern(mesh, "r", boundary=kind).pointwise_sd(range=0.4) for kind in ("robin", "neumann")}
    assert (np.abs(sd["robin"] ** 2 - 1) < 0.16).all()
    ratios = sd["neumann"][[edge, corner]] ** 2 / sd["neumann"][center] ** 2
    np.testing.assert_allclose(ratios, [2.0, 4.0], rtol=0.05)


def test_draws_have_the_covariance(agrees):
    """Squares and products of 256 draws at some nodes; a field of a range longer by a quarter is rejected."""
    field = fields.matern(unit_square(12), range=0.3)
    nodes = [0, 40, 84, 85, 100, 168]
    pairs = np.triu_indices(len(nodes))
    draws = field.sample(np.random.default_rng(4), 4000)[:, nodes]
    products = (draws[:, :, None] * draws[:, None])[:, *pairs]
    assert agrees(products, covariance(field)[np.ix_(nodes, nodes)][pairs])
    wrong = fields.matern(unit_square(12), range=0.375)
    assert not agrees(products, covariance(wrong)[np.ix_(nodes, nodes)][pairs])


def test_rows_have_the_same_bits_alone_and_in_a_batch():
    field = fields.matern(unit_square(6), range=0.3, smoothness=0.5)
    white = np.random.default_rng(5).standard_normal((5, field.size))
    np.testing.assert_array_equal(field.at().color(white)[3], field.at().color(white[3:4])[0])


def test_equal_fields_are_equal_and_travel():
    field, other = (fields.matern(unit_square(4), range=0.5, sd=sd) for sd in (1.0, 2.0))
    assert pickle.loads(pickle.dumps(field)) == field == fields.matern(unit_square(4), range=0.5)
    assert field != other and hash(field) != hash(other)
    assert repr(field) == f"matern(25 nodes, range=0.5, sd=1, smoothness=1; {field.digest[:8]})"


def test_a_range_below_the_mesh_width_warns():
    with pytest.warns(UserWarning, match=r"range 0.02 is below the mesh width, 0.177"):
        fields.matern(unit_square(4), range=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"range": -1.0}, "range must be a positive finite number, or the name of an unknown, got -1.0"),
        (
            {"range": 1e9, "boundary": "neumann"},
            "range must give a precision matrix that is positive definite, got a singular one",
        ),
        (
            {"range": 1e200},
            "range must give a precision matrix that is positive definite, got a singular",
        ),
        ({"range": 1.0, "sd": [1.0, 2.0]}, r"sd must be a number or have shape \(25,\), got shape \(2,\)"),
        ({"range": 1.0, "sd": 0.0}, "sd must be positive, got 0"),
        ({"range": 1.0, "smoothness": 0.0}, "smoothness must be"),
        ({"range": 1.0, "anisotropy": [[1.0, 0.0], [0.5, 1.0]]}, "anisotropy must be symmetric"),
        ({"range": 1.0, "anisotropy": [[1.0, 2.0], [2.0, 1.0]]}, "anisotropy must be positive definite, got the eigen"),
        ({"range": 1.0, "anisotropy": [1.0, 2.0]}, r"anisotropy must have shape \(2, 2\)"),
        ({"range": 1.0, "boundary": "dirichlet"}, "boundary must be one of 'robin', 'neumann'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        fields.matern(unit_square(4), **settings)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_an_unknown_range_whose_square_overflows_has_no_density(dimension):
    """A chain may propose one."""
    field = fields.matern(box((3,) * dimension), "r")
    assert field.log_density(np.zeros((1, field.size)), range=1e250) == -np.inf


def test_values_of_unknowns_are_asked_for():
    with pytest.raises(ValueError, match=r"values must be given for \['range'\], got \[\]"):
        fields.matern(unit_square(4), "r").sample(np.random.default_rng(0), 1)


def test_a_mesh_of_parallelograms_has_the_same_field():
    triangles, squares = (
        covariance(fields.matern(unit_square(16, kind), range=0.6, smoothness=3.0)) for kind in ("triangles", "squares")
    )
    np.testing.assert_allclose(triangles, squares, atol=0.03)


class TestNodal:
    def test_values_at_the_nodes_are_the_unknowns(self):
        mesh = unit_square(4)
        theta = np.random.default_rng(6).standard_normal((2, 25))
        np.testing.assert_array_equal(fields.Nodal("u", mesh).at(mesh.points).values(theta), theta)

    def test_linear_functions_are_met_everywhere(self):
        mesh, plane = unit_square(5), lambda x: 1.0 + x @ [2.0, -3.0]
        points = np.random.default_rng(7).random((50, 2))
        for at in (points, mesh.midpoints, unit_square(7).midpoints):
            values = fields.Nodal("u", mesh).at(at).values(plane(mesh.points)[None])[0]
            np.testing.assert_allclose(values, plane(at), rtol=1e-12)

    def test_points_outside_are_another_meshs(self):
        half = Mesh([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1, 2]])
        with pytest.raises(
            ValueError, match="'u' must be on a mesh that covers all points of its use: points must lie"
        ):
            fields.Nodal("u", half).at(unit_square(2).points)


@pytest.mark.parametrize(("smoothness", "bound"), [(0.5, 0.012), (1.5, 0.004)])
def test_on_a_line_the_covariance_is_materns(smoothness, bound):
    """Between the node in the middle and those within a quarter of the line."""
    mesh = box(160)
    found = covariance(fields.matern(mesh, range=0.3, smoothness=smoothness))[80, 40:121]
    exact = Matern(smoothness, 0.15)(mesh.points[[80]], mesh.points[40:121])[0]
    assert np.abs(found - exact).max() < bound


def test_around_a_mesh_the_variance_is_the_same_everywhere():
    """Of an unknown range, which is not scaled; Robin's condition on the mesh itself is off by more than 0.1."""
    mesh = unit_square(24)
    spread = {}
    for name, on in (("around", fields.extended(mesh, 0.4)), ("itself", mesh)):
        variance = fields.matern(on, "r").pointwise_sd(range=0.4) ** 2
        inside = ((on.points > -1e-9) & (on.points < 1 + 1e-9)).all(axis=1)
        spread[name] = np.ptp(variance[inside])
    assert spread["around"] < 0.01 and spread["itself"] > 0.1


def test_in_space_the_sd_is_that_given():
    field = fields.matern(box((5, 5, 5)), range=0.7, sd=1.5)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance(field))), 1.5, rtol=1e-3)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.5, 8.0])
def test_powers_are_sums_of_resolvents(alpha):
    """Of diagonals: relative to the largest eigenvalue's inverse, for the eigenvalues of an operator in the plane."""
    x = np.geomspace(1.0, 1e4, 500)
    shifts, weights = inverse_power_sum(alpha, 1e4, 2)
    assert np.abs(((weights / (x[:, None] + shifts)).sum(axis=1) - x**-alpha) * x).max() < 1e-3
    assert (shifts > -1.0).all()


@pytest.mark.parametrize("s", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_fractional_powers_have_their_relative_error_and_zeros(s):
    x = np.geomspace(1.0, 1e5, 777)
    power = fractional_power(s, 1e5)
    assert np.abs(power(x) * x**s - 1).max() < 1.1e-3
    product = power.constant * ((x[:, None] + power.zeros) / (x[:, None] + power.poles)).prod(axis=1)
    np.testing.assert_allclose(product, power(x), rtol=1e-12)
