"""The 25-mode target: energy, domains, exact cell probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.diagnostics.divergences import iid_floor
from invsamp.domains import Polygon
from invsamp.posing.posterior.target import Target
from invsamp.problems import constrained_mixtures as problem
from invsamp.protocols import Potential


def shoelace(corners):
    x, y = corners.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def test_energy_and_gradient_by_hand():
    potential = problem.TwentyFiveModes()
    assert isinstance(potential, Potential)
    at = np.array([[0.0, 0.0], [1.0, -1.0], [0.5, 0.25], [3.0, 4.0]])
    energy, gradient = potential.energy_and_gradient(at)
    # at (1/2, 1/4) the cosines are -1 and 0; at (3, 4) the square is 25, which is 5 beyond
    np.testing.assert_allclose(energy, [-4.0, 0.4 - 4.0, 0.2 * 0.3125 + 2.0, 5.0 - 4.0 + 5.0], rtol=1e-14)
    wanted = [[0.0, 0.0], [0.4, -0.4], [0.2, 0.1 + 4.0 * np.pi], [1.2 + 6.0, 1.6 + 8.0]]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(potential.energy(at), energy)


def test_gradient_by_taylor_remainder():
    potential = problem.TwentyFiveModes()
    rng = np.random.default_rng(0)
    points, along = rng.uniform(-6.0, 6.0, (40, 2)), rng.standard_normal((40, 2))
    energy, gradient = potential.energy_and_gradient(points)
    steps = np.geomspace(1e-3, 1e-5, 3)
    remainders = np.array(
        [np.abs(potential.energy(points + h * along) - energy - h * (gradient * along).sum(axis=1)) for h in steps]
    )
    assert np.median(-np.diff(np.log10(remainders), axis=0)) == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize("name", problem.RADII)
def test_domains(within, name):
    corners = problem.vertices(name)
    assert shoelace(corners) > 0.0  # counter-clockwise
    assert len(corners) == {"octagon": 8, "cross": 12}.get(name, problem.CURVE_EDGES)
    np.testing.assert_allclose(problem.vertices(name, 0.5 * problem.RADII[name]), 0.5 * corners, rtol=1e-14)
    target = problem.target(name)
    assert isinstance(target, Target)
    assert isinstance(target.domain, Polygon)
    starts = target.sample_start(np.random.default_rng(0), 5000)
    assert target.domain.contains(starts).all()
    # uniform: the share right of a line is that of the area, within 4.4 standard errors; not so right of another
    probabilities, _ = problem.cell_probabilities(target.domain, 2, temperature=np.inf)
    right = probabilities[1].sum()
    assert within((starts[:, 0] > 0.0).mean() - right, 4.4 * np.sqrt(0.25 / 5000))
    assert not within((starts[:, 0] > 0.3).mean() - right, 4.4 * np.sqrt(0.25 / 5000))


def test_shapes_of_the_domains():
    flower, heart, octagon, cross = (problem.vertices(name) for name in problem.RADII)
    # extremes of sin + 3, and five petals
    assert np.hypot(*flower.T).max() == pytest.approx(2.0 * 4.0 / 3.5, rel=1e-3)
    assert np.hypot(*flower.T).min() == pytest.approx(2.0 * 2.0 / 3.5, rel=1e-3)
    fifth = 2.0 * np.pi / 5.0
    turn = np.array([[np.cos(fifth), np.sin(fifth)], [-np.sin(fifth), np.cos(fifth)]])
    np.testing.assert_allclose(np.roll(flower, -problem.CURVE_EDGES // 5, axis=0), flower @ turn, atol=1e-12)
    assert heart[0] == pytest.approx([0.0, 1.4 * 0.5])
    assert heart[:, 1].min() == pytest.approx(-1.4 * 1.7)
    assert shoelace(octagon) == pytest.approx(2.0 * np.sqrt(2.0) * 2.5**2)
    assert shoelace(cross) == pytest.approx(2.5**2 * 4.0 * (2.0 * 0.951 * 0.309 - 0.309**2))


@pytest.mark.parametrize("name", problem.RADII)
def test_cell_probabilities_against_a_fine_grid(name):
    region, bins, fine = problem.domain(name), 10, 60
    probabilities, _ = problem.cell_probabilities(region, bins)
    assert probabilities.sum() == pytest.approx(1.0, rel=1e-14)
    centers = -2.5 + 5.0 * (np.arange(bins * fine) + 0.5) / (bins * fine)
    at = np.stack(np.meshgrid(centers, centers, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(-problem.TwentyFiveModes().energy(at)) * region.contains(at)
    wanted = mass.reshape(bins, fine, bins, fine).sum(axis=(1, 3)) / mass.sum()
    # the fine grid's own error: its cells on the boundary
    np.testing.assert_allclose(probabilities, wanted, atol=2e-4)
    # and the wrong domain is rejected
    other, _ = problem.cell_probabilities(problem.domain("octagon", 2.0), bins)
    assert np.abs(other - wanted).max() > 2e-3


@pytest.mark.parametrize("name", problem.RADII)
def test_finer_cells_add_up_to_coarser_ones(name):
    """The pieces are exact, and the rule's error on cells of a third of a period falls away below them."""
    region = problem.domain(name)
    coarse, _ = problem.cell_probabilities(region, 15)
    fine, _ = problem.cell_probabilities(region, 30)
    np.testing.assert_allclose(fine.reshape(15, 2, 15, 2).sum(axis=(1, 3)), coarse, atol=1e-8)
    # at infinite temperature they are areas
    area, _ = problem.cell_probabilities(region, 2, temperature=np.inf)
    left = shoelace(problem._cut(region.vertices, 0, 0.0, -1.0)) / shoelace(region.vertices)
    assert area[0].sum() == pytest.approx(left, rel=1e-12)


def test_cells_in_a_hole_have_no_mass():
    square = np.array([[-2.0, -2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, 2.0]])
    probabilities, _ = problem.cell_probabilities(Polygon(square, holes=[0.5 * square]), 5, temperature=np.inf)
    assert probabilities[2, 2] == 0.0
    # of the area 16 - 4; the inner cells at the sides of the hole reach over it by a half of their unit
    np.testing.assert_allclose(probabilities[2], np.array([0.5, 0.5, 0.0, 0.5, 0.5]) / 12.0, atol=1e-15)


def test_floors_of_the_published_length(within):
    """(K - 1) / 2n and a little more for K reached cells: the number of cells is the polygon's area over theirs."""
    for name, least in {"flower": 0.0119, "cross": 0.0141}.items():
        probabilities, _ = problem.cell_probabilities(problem.domain(name))
        assert within(iid_floor(probabilities, 40_000, 20, rng=0).mean() / least - 1.0, 0.04)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: problem.domain("star"), "name must be one of 'flower', 'heart', 'octagon', 'cross', got 'star'"),
        (lambda: problem.domain("cross", 0.0), "radius must be a positive finite number, got 0"),
        (lambda: problem.cell_probabilities(problem.domain("octagon", 3.0)), "whose corners reach 3, got 2.5"),
        (
            lambda: problem.cell_probabilities(problem.domain("octagon"), extent=4.0),
            r"extent must be a number in \(0, 3.16228\]",
        ),
        (lambda: problem.cell_probabilities(problem.domain("octagon"), bins=0), "bins must be an integer >= 1"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_noise():
    estimator = problem.noise()
    assert (estimator.energy_sd, estimator.gradient_sd) == (0.05, 0.05)
