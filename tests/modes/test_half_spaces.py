"""Masses of Gaussians that bounds cut, against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from invsamp.domains import Ball, Box, HalfSpaces, Polygon, Unbounded
from invsamp.modes.half_spaces import cut_gaussian


def mass(precision, gradient, domain, *, scale=1.0, bounded=True) -> float:
    """Of exp(-g u - u H u / 2) around the origin."""
    d = len(gradient)
    found = cut_gaussian(precision, np.array(gradient), np.zeros(d), np.full(d, scale), domain, bounded=bounded)
    return np.nan if found is None else float(np.sqrt(np.linalg.det(2.0 * np.pi * found)))


@pytest.mark.parametrize(
    ("slope", "curvature", "low", "high"),
    [
        (3.0, 1.0, 0.0, np.inf),
        (1e3, 1e-8, 0.0, np.inf),  # the exponential distribution's
        (2.0, 0.0, 0.0, np.inf),
        (-2.0, 1.0, -np.inf, 0.0),
        (0.0, 2.0, -0.3, np.inf),  # an interior minimum, whose Gaussian reaches beyond
        (1e-3, 1.0, -0.1, 0.2),
        (5.0, -1.0, 0.0, 2.0),
        (45.0, -150.0, 0.0, 0.3),  # no farther than to where it turns
        (0.0, 0.0, -1.0, 2.0),  # nothing but the bounds
        (1e-6, -1e-2, -2.0, 3.0),  # nor where it bends down by less than a unit of energy
    ],
)
def test_one_dimension(slope, curvature, low, high):
    decay = 60.0 / (abs(slope) + np.sqrt(abs(curvature)) or 1.0)
    ends = max(low, -decay), min(high, decay)
    exact = integrate.quad(lambda u: np.exp(-slope * u - 0.5 * curvature * u * u), *ends, limit=400)[0]
    found = mass(np.array([[curvature]]), [slope], Box([low], [np.inf if curvature < -10.0 else high]))
    assert found == pytest.approx(exact, rel=1e-8)


def test_one_bound_beside_what_it_depends_on():
    """Exact, whatever the correlations: of a normal distribution with its mean beyond the bound, seen from there."""
    covariance = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.5], [-0.3, 0.5, 0.7]])
    precision = np.linalg.inv(covariance)
    # the highest point within x[0] >= 0 of one whose mean is at -1.5 there
    mean = np.array([-1.5, 0.0, 0.0])
    at = np.linalg.solve(precision[1:, 1:], precision[1:, :1] @ mean[:1])
    gradient = precision @ (np.concatenate([[0.0], at]) - mean)
    assert np.allclose(gradient[1:], 0.0) and gradient[0] > 0.0
    found = mass(precision, gradient, Box([0.0, -np.inf, -np.inf], [np.inf] * 3))
    highest = 0.5 * 1.5**2  # energy there: that of the marginal distribution of x[0]
    whole = np.sqrt(np.linalg.det(2.0 * np.pi * covariance))
    assert found * np.exp(-highest) == pytest.approx(whole * stats.norm.sf(1.5), rel=1e-8)


def test_a_corner():
    """Of two bounds that cut: right to a few percent where coordinates are correlated by a half."""
    precision, gradient = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([2.0, 3.0])
    exact = integrate.dblquad(
        lambda y, x: np.exp(-gradient @ [x, y] - 0.5 * np.array([x, y]) @ precision @ [x, y]), 0, 12, 0, 12
    )[0]
    assert mass(precision, gradient, Box([0.0, 0.0], [np.inf, np.inf])) == pytest.approx(exact, rel=0.08)


@pytest.mark.parametrize("beyond", [-3.0, -0.7, 0.0, 0.4, 2.0])
def test_an_oblique_bound(beyond):
    """Exact: of a normal distribution whose mean is so far beyond the bound, or so far within, in its sds."""
    covariance = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.5], [-0.3, 0.5, 0.7]])
    precision, normal = np.linalg.inv(covariance), np.array([1.0, -2.0, 0.5])
    sd = np.sqrt(normal @ covariance @ normal)
    # from the mean, or the highest point within
    away = max(beyond, 0.0) * covariance @ normal / sd
    bound = HalfSpaces(normal[None], [-min(beyond, 0.0) * sd])
    found = mass(precision, -precision @ away, bound)
    exact = np.exp(0.5 * max(beyond, 0.0) ** 2) * stats.norm.sf(beyond)
    assert found == pytest.approx(np.sqrt(np.linalg.det(2.0 * np.pi * covariance)) * exact, rel=1e-6)


@pytest.mark.parametrize(
    ("domain", "share"),
    [
        (HalfSpaces([[1.0, 1.0], [-1.0, -1.0]], [0.2, 0.5]), stats.norm.cdf([0.2, -0.5], 0.0, np.sqrt(2.0)) @ [1, -1]),
        (HalfSpaces([[1.0, 1.0], [-1.0, 1.0]], [0.0, 0.0]), 0.25),  # a corner with its diagonal along an axis
        (Polygon([[0.0, 0.0], [30.0, 30.0], [-30.0, 30.0]]), 0.25),
        (Polygon([[-0.5, -30.0], [30.0, -30.0], [30.0, 30.0], [-0.5, 30.0]]), stats.norm.sf(-0.5)),
    ],
)
def test_bounds_that_are_not_along_axes(domain, share):
    assert mass(np.eye(2), [0.0, 0.0], domain) == pytest.approx(2.0 * np.pi * share, rel=1e-6)


def test_at_a_curved_bound():
    """Right to some percent, where the curvature is small beside the sds."""
    center = 20.0 / np.sqrt(2.0) * np.ones(2)
    assert mass(np.eye(2), [1.0, 1.0], Ball(center, 20.0)) == pytest.approx(
        2.0 * np.pi * np.exp(1.0) * stats.norm.sf(np.sqrt(2.0)), rel=0.05
    )


def test_numbers_in_order():
    """Of three that are equal at the minimum: bounds at an angle of 60 degrees, right to half."""
    ordered = HalfSpaces([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], [0.0, 0.0])
    assert mass(np.eye(3), np.zeros(3), ordered) == pytest.approx((2.0 * np.pi) ** 1.5 / 6.0, rel=0.6)


def test_unbounded_minima_are_unknown():
    assert np.isnan(mass(np.zeros((1, 1)), [0.0], Unbounded(), bounded=False))
    assert np.isnan(mass(np.diag([1.0, -1.0]), [0.0, 0.0], Box([0.0, -np.inf], [np.inf, np.inf])))
    assert np.isnan(mass(-np.eye(1), [1.0], Box([0.0], [np.inf])))
    assert np.isnan(mass(-np.eye(1), [0.0], Box([-3.0], [3.0])))  # a saddle, with its minima at the bounds
    # beside a discontinuity that is not in the domain
    assert np.isnan(mass(np.eye(1), [0.0], Unbounded()))


def test_without_bounds_it_is_the_gaussian():
    precision = np.array([[2.0, 0.3], [0.3, 1.0]])
    for domain in (Unbounded(), Box([-50.0, -50.0], [50.0, 50.0])):
        found = cut_gaussian(precision, np.zeros(2), np.zeros(2), np.ones(2), domain, bounded=False)
        np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-12)
