from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import eval_hermite

from invsamp.solvers.fem.fields import LogField, Modes
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.random_fields import KarhunenLoeve, Matern, SquaredExponential, karhunen_loeve, square_rule

FAMILIES = [Matern(0.5, 0.3), Matern(1.5, 0.3, 2.0), Matern(2.5, (0.2, 0.5)), Matern(0.8, 0.3), SquaredExponential(0.3)]


def on_interval(order, half=1.0):
    points, weights = np.polynomial.legendre.leggauss(order)
    return half * points[:, None], half * weights


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_closed_forms_are_the_bessel_form(smoothness):
    at = np.linspace(0, 3, 40)[:, None]
    closed = Matern(smoothness, 0.4)(at[:1], at)
    np.testing.assert_allclose(Matern(smoothness + 1e-9, 0.4)(at[:1], at), closed, rtol=1e-7)


@pytest.mark.parametrize("covariance", FAMILIES)
def test_covariances_are_variances_at_distance_zero_and_fall(covariance):
    at = np.stack([np.linspace(0, 1, 30)] * 2, axis=1)
    values = covariance(at[:1], at)[0]
    assert values[0] == pytest.approx(covariance.sd**2, rel=1e-12)
    assert (np.diff(values) < 0).all() and (values > 0).all()


def test_smooth_matern_tends_to_the_squared_exponential():
    at = np.linspace(0, 1, 20)[:, None]
    limit = SquaredExponential(0.3)(at[:1], at)
    errors = [np.abs(Matern(smoothness, 0.3)(at[:1], at) - limit).max() for smoothness in (12.0, 24.0, 48.0)]
    # the difference falls as 1 / smoothness
    assert errors[-1] < 1e-2
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2.0, atol=0.1)


def test_eigenvalues_of_the_exponential_covariance_on_an_interval_converge_to_the_closed_form():
    # exp(-|x - y| / l) on [-1, 1]: lambda = 2 c / (w^2 + c^2), c = 1/l, with c = w tan w or w = -c tan w
    c = 2.0
    even = [brentq(lambda w: c - w * math.tan(w), k * math.pi + 1e-9, (k + 0.5) * math.pi - 1e-9) for k in range(3)]
    odd = [brentq(lambda w: w + c * math.tan(w), (k + 0.5) * math.pi + 1e-9, (k + 1) * math.pi) for k in range(3)]
    truth = np.sort(2 * c / (np.square(even + odd) + c**2))[::-1]
    errors = []
    for order in (20, 40, 80):
        modes = karhunen_loeve(Matern(0.5, 1 / c), *on_interval(order), count=6)
        errors.append(np.abs(modes.eigenvalues - truth).max())
    assert errors[-1] < 1e-3
    # the kink of the covariance on the diagonal: second order
    slopes = np.diff(np.log(errors)) / math.log(0.5)
    assert (np.abs(slopes - 2) < 0.1).all()


def test_squared_exponential_under_a_gaussian_weight_has_its_closed_form():
    # Rasmussen and Williams (2006), (4.40) and (4.41), for a weight N(0, s^2): a = 1/(4 s^2), b = 1/(2 l^2)
    s, length = 1.0, 1.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    modes = karhunen_loeve(SquaredExponential(length), nodes[:, None], weights / weights.sum(), count=5)
    a, b = 1 / (4 * s**2), 1 / (2 * length**2)
    c = math.sqrt(a**2 + 2 * a * b)
    k = np.arange(5)
    np.testing.assert_allclose(modes.eigenvalues, math.sqrt(2 * a / (a + b + c)) * (b / (a + b + c)) ** k, rtol=1e-10)
    at = np.linspace(-2, 2, 8)
    shapes = np.stack([np.exp(-(c - a) * at**2) * eval_hermite(n, math.sqrt(2 * c) * at) for n in k], axis=1)
    ratio = modes(at[:, None]) / shapes
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape), rtol=1e-6)


@pytest.mark.parametrize("covariance", FAMILIES)
def test_modes_are_orthogonal_and_all_of_them_give_the_covariance(covariance):
    points, weights = square_rule(9)
    modes = karhunen_loeve(covariance, points, weights, count=30)
    values = modes(points)
    np.testing.assert_allclose(values.T @ (weights[:, None] * values), np.diag(modes.eigenvalues), atol=1e-12)
    rough = karhunen_loeve(Matern(0.5, 0.3, 2.0), points, weights, count=len(points))
    np.testing.assert_allclose(rough(points) @ rough(points).T, Matern(0.5, 0.3, 2.0)(points, points), atol=1e-10)
    assert rough.share == pytest.approx(1.0)


def test_meshes_share_the_modes():
    # values on a mesh follow the same functions: integrals over two meshes agree with each other and with the rule
    modes = karhunen_loeve(Matern(1.5, 0.4), *square_rule(16), count=8)
    sums = []
    for cells in (32, 64):
        mesh = unit_square(cells)
        values = modes(mesh.midpoints)
        sums.append(values.T @ (mesh.areas[:, None] * values))
    np.testing.assert_allclose(sums[1], np.diag(modes.eigenvalues), atol=2e-4 * modes.eigenvalues[0])
    assert np.abs(sums[1] - np.diag(modes.eigenvalues)).max() < 0.3 * np.abs(sums[0] - np.diag(modes.eigenvalues)).max()


def test_share_takes_as_few_modes_as_hold_it():
    rule = square_rule(12)
    by_share = karhunen_loeve(Matern(1.5, 0.4), *rule, share=0.9)
    one_less = karhunen_loeve(Matern(1.5, 0.4), *rule, count=by_share.count - 1)
    assert one_less.share < 0.9 <= by_share.share < 1


def test_equal_eigenvalues_of_the_square_have_a_basis_that_rounding_does_not_turn():
    points, weights = square_rule(12)
    modes = karhunen_loeve(Matern(1.5, 0.4), points, weights, count=6)
    assert modes.eigenvalues[1] == pytest.approx(modes.eigenvalues[2], rel=1e-12)
    order = np.random.default_rng(0).permutation(len(points))
    shuffled = karhunen_loeve(Matern(1.5, 0.4), points[order], weights[order], count=6)
    at = np.random.default_rng(1).random((20, 2))
    np.testing.assert_allclose(shuffled(at), modes(at), atol=1e-10)

    # the eigensolver alone would not do: its basis depends on the order of the points
    def raw(points, weights):
        scaled = np.sqrt(weights)[:, None] * Matern(1.5, 0.4)(points, points) * np.sqrt(weights)
        return np.linalg.eigh(scaled)[1][:, -2]

    assert np.abs(np.abs(raw(points, weights)[order]) - np.abs(raw(points[order], weights[order]))).max() > 1e-3


def test_field_of_standard_normal_coefficients_has_the_covariance():
    modes = karhunen_loeve(SquaredExponential(0.5, sd=0.7), *square_rule(10), count=20)
    at = np.array([[0.2, 0.3], [0.8, 0.6]])
    z = np.random.default_rng(3).standard_normal((40_000, 20))
    field = Modes("z", modes, mean=1.0).at(at).values(z)
    np.testing.assert_allclose(np.cov(field.T), SquaredExponential(0.5, sd=0.7)(at, at), atol=0.02)
    assert np.all(LogField(Modes("z", modes, mean=1.0)).at(at).values(z) == np.exp(field))


def test_rule_integrates_polynomials_and_prints():
    points, weights = square_rule(4, (0.0, 1.0), (2.0, 2.0))
    assert weights @ (points[:, 0] ** 7 * points[:, 1]) == pytest.approx(2**8 / 8 * 1.5)
    modes = karhunen_loeve(Matern(1.5, 0.4), points, weights, count=2)
    assert isinstance(modes, KarhunenLoeve) and "0x" not in repr(modes) and "2 modes" in repr(modes)


RULE = square_rule(4)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Matern(0.0, 1.0), r"smoothness must be a number in \(0, 50\]"),
        (lambda: Matern("rough", 1.0), r"smoothness must be a number in \(0, 50\], got 'rough'"),
        (lambda: Matern(1.5, "far"), "length must be positive finite numbers, got 'far'"),
        (lambda: karhunen_loeve(None, *RULE, count=2), r"covariance must be .* such as Matern\(...\), got None"),
        (lambda: Matern(1.5, -1.0), "length must be positive"),
        (lambda: SquaredExponential((1.0, 0.0)), "length must be positive"),
        (lambda: SquaredExponential(1.0, math.inf), "sd must be a positive finite number"),
        (lambda: karhunen_loeve(Matern(1.5, 1.0), *RULE), "either count or share"),
        (lambda: karhunen_loeve(Matern(1.5, 1.0), *RULE, count=3, share=0.5), "either count or share"),
        (lambda: karhunen_loeve(Matern(1.5, 1.0), *RULE, count=17), r"count must be an integer in \[1, 16\]"),
        (lambda: karhunen_loeve(Matern(1.5, 1.0), *RULE, share=1.0), r"share must be a number in \(0, 1\)"),
        (
            lambda: karhunen_loeve(Matern(1.5, 1.0), RULE[0], -RULE[1], count=2),
            "weights must be positive finite numbers",
        ),
        (lambda: karhunen_loeve(Matern(1.5, 1.0), RULE[0][:, 0], RULE[1], count=2), r"points must have shape \(n, d\)"),
        (lambda: karhunen_loeve(lambda a, b: a @ b.T, *RULE, count=5), "fewer modes"),
        (lambda: karhunen_loeve(lambda a, b: a[:, :1] - b[:, 0], *RULE, count=2), "symmetric"),
        (lambda: karhunen_loeve(Matern(1.5, (1.0, 1.0, 1.0)), *RULE, count=2), "length must have 2"),
        (lambda: karhunen_loeve(Matern(1.5, 1.0), *RULE, count=2)(np.zeros((3, 1))), r"shape \(m, 2\)"),
        (lambda: square_rule(0), "order"),
        (lambda: square_rule(2, (0.0, 0.0), (1.0, 0.0)), "lower must be below"),
    ],
)
def test_bad_settings_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
