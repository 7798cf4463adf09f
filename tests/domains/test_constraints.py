"""Constraints by name: what is understood, what is refused, and how it reaches a problem's columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from invsamp.domains import Ball, Box, LevelSet, Product, Unbounded, constraint
from invsamp.domains.constraints import Constraint, bound_domain, named_columns
from invsamp.domains.contract import Domain
from invsamp.domains.saved import from_dict

COLUMNS = named_columns({"sigma": (), "beta": (), "k": (2,), "m": (2, 2)})
D = 8


def half_spaces(text: str) -> Domain:
    return constraint(text).bind(COLUMNS, D)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("sigma > 1 + beta", lambda sigma, beta, k, m: sigma > 1 + beta),
        ("sigma>=1+beta", lambda sigma, beta, k, m: sigma > 1 + beta),
        ("-sigma < 1", lambda sigma, beta, k, m: sigma > -1),
        ("0 < sigma < 1", lambda sigma, beta, k, m: (sigma > 0) & (sigma < 1)),
        ("1 > sigma >= beta > -1", lambda sigma, beta, k, m: (sigma < 1) & (sigma > beta) & (beta > -1)),
        ("2 * sigma - (beta - 1) / 4 <= 3 - sigma * 0.5", lambda sigma, beta, k, m: 2.5 * sigma - beta / 4 < 2.75),
        ("k[0] > k[1]", lambda sigma, beta, k, m: k[0] > k[1]),
        ("m[0, 1] + m[1, 0] < +sigma", lambda sigma, beta, k, m: m[1] + m[2] < sigma),
        ("-(2 - 3 * (sigma + beta)) < 1e-1", lambda sigma, beta, k, m: 3 * (sigma + beta) < 2.1),
        ("sigma * beta > 1", lambda sigma, beta, k, m: sigma * beta > 1),
        ("0 < sigma**2 - k[1] < 2 * beta", lambda sigma, beta, k, m: (sigma**2 > k[1]) & (sigma**2 - k[1] < 2 * beta)),
        ("beta < 1 > exp(m[1, 0] / 2) - sigma", lambda sigma, beta, k, m: (beta < 1) & (np.exp(m[2] / 2) < 1 + sigma)),
    ],
)
def test_holds_where_it_says(text: str, holds: object) -> None:
    points = np.random.default_rng(0).uniform(-3, 3, (500, D))
    sigma, beta, k, m = points[:, 0], points[:, 1], points[:, 2:4].T, points[:, 4:].T
    expected = holds(sigma, beta, k, m)  # type: ignore[operator]
    assert 0 < expected.sum() < len(points)
    np.testing.assert_array_equal(half_spaces(text).contains(points), expected)


def test_combined() -> None:
    both = constraint("sigma > 1 + beta") & constraint("beta > 0")
    assert isinstance(both, Constraint)
    assert both == constraint("sigma > 1 + beta") & constraint("beta > 0")
    assert repr(both) == "Constraint('sigma > 1 + beta' & 'beta > 0')"
    assert both.bind(COLUMNS, D) == half_spaces("sigma > 1 + beta") & half_spaces("beta > 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gamma(sigma) < 1", r"made of names, .* got 'gamma\(sigma\)'"),
        ("sigma / 0 < 1", "must not divide by zero, got 'sigma / 0'"),
        ("k[i] < 1", r"got 'k\[i\]': .* is none of these"),
        ("k[:] < 1", r"got 'k\[:\]': .* is none of these"),
        ("__import__('os').getcwd() < 1", "is none of these"),
        ("sigma < True", "got 'True'"),
        ("exp(1) < 2", "must depend on a parameter"),
        ("sigma == 1", "must be an inequality, .* no volume"),
        ("sigma != 1", "must be an inequality"),
        ("sigma in beta", "must compare by"),
        ("sigma + beta", "must be a comparison such as"),
        ("sigma >", "must be a comparison such as .* got 'sigma >'"),
        ("", "text must be a string that is not empty"),
        ("sigma > 0 and beta > 0", "must be a comparison"),
        ("1 < 2", "must depend on a parameter"),
        ("sigma < sigma + 1", "must depend on a parameter"),
        ("sigma < 1e999", "finite coefficients"),
    ],
)
def test_what_is_no_inequality_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        constraint(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rho > 1", r"names 'rho', which is none of \['sigma', 'beta', 'k'"),
        ("k[2] > 1", r"names 'k\[2\]', which is none of"),
        ("k > 1", r"'k' has 2 entries: write k\[0\]"),
        ("sigma > beta > sigma", "'sigma > beta > sigma' must allow some parameters"),
        ("0 < sigma < -1", "no parameters satisfy it"),
        ("rho * beta > 1", r"names 'rho', which is none of \['sigma', 'beta', 'k'"),
        ("k * beta > 1", r"'k' has 2 entries: write k\[0\]"),
    ],
)
def test_what_does_not_fit_the_parameters_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        half_spaces(text)


def test_a_formula_is_the_level_set_of_its_function() -> None:
    """Paths are those of a level set by hand, before and after it was stored; other columns stay free."""
    rng = np.random.default_rng(1)
    by_text = constraint("sigma * exp(beta) < 1").bind(COLUMNS, D)
    by_hand = LevelSet(
        lambda x: x[:, 0] * np.exp(x[:, 1]) - 1,
        lambda x: np.stack([np.exp(x[:, 1]), x[:, 0] * np.exp(x[:, 1])], axis=1),
        2,
    )
    start = rng.normal(0, 1, (400, D))
    start = start[by_text.contains(start)]
    move = rng.normal(0, 2, start.shape)
    expected = Product({(0, 1): by_hand}).reflect(start, move)
    assert np.mean(expected.bounces > 0) > 0.2
    for domain in (by_text, from_dict(by_text.to_dict()), pickle.loads(pickle.dumps(by_text))):
        found = domain.reflect(start, move)
        np.testing.assert_allclose(found.position, expected.position, atol=1e-9)
        assert domain.contains(found.position).all()
        np.testing.assert_array_equal(domain.constrains(D), np.arange(D) < 2)


def test_domain_arguments() -> None:
    assert bound_domain(None, COLUMNS, D) == Unbounded()
    assert bound_domain([], COLUMNS, D) == Unbounded()
    assert bound_domain(constraint("beta > 0"), COLUMNS, D) == half_spaces("beta > 0")
    assert bound_domain("beta > 0", COLUMNS, D) == half_spaces("beta > 0")
    several = bound_domain([constraint("beta > 0"), Box(-1.0, 1.0), Product({"k": Ball([0.0, 0.0], 0.5)})], COLUMNS, D)
    assert several == half_spaces("beta > 0") & Box(-1.0, 1.0) & Product({(2, 3): Ball([0.0, 0.0], 0.5)})
    assert bound_domain(Product({"k": Ball([0.0, 0.0], 0.5)}) & Box(-1.0, 1.0), COLUMNS, D).check_dimension(D) is None
    for wrong in ("sigma", "", 5, Box):
        with pytest.raises(ValueError, match="domain must be a Domain, a constraint"):
            bound_domain(wrong, COLUMNS, D)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="constraint 'beta > 1' & 'beta < 0' must allow some parameters"):
        bound_domain(["beta > 1", Box(-1.0, 1.0), constraint("beta < 0")], COLUMNS, D)
    with pytest.raises(ValueError, match="Box has 3 coordinates, but positions have 8"):
        bound_domain([Box([0] * 3, 1)], COLUMNS, D)
    for wrong in (lambda: constraint("beta > 0") & Box(0, 1), lambda: Box(0, 1) & constraint("beta > 0")):
        with pytest.raises(ValueError, match=r"as a list, domain=\[|only domains of invsamp.domains"):
            wrong()
