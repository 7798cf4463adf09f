"""Divergences with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from invsamp.diagnostics.divergences import divergence_on_grid, iid_floor

EDGES = np.linspace(0.0, 1.0, 5)
QUARTERS = np.full(4, 0.25)


def test_divergence_by_hand():
    draws = np.array([0.1, 0.1, 0.3, 0.6])
    # counts 2, 1, 1, 0 and a half more each, out of 4 + 2
    wanted = sum(0.25 * np.log(0.25 * 6.0 / (count + 0.5)) for count in (2, 1, 1, 0))
    assert divergence_on_grid(draws, QUARTERS, EDGES) == pytest.approx(wanted, rel=1e-14)
    assert divergence_on_grid(draws[:, None], QUARTERS, [EDGES]) == pytest.approx(wanted, rel=1e-14)
    # a cell that the truth never reaches has no pseudo-count, and its draws are missed elsewhere
    truth = np.array([0.5, 0.25, 0.25, 0.0])
    away = np.array([0.1, 0.3, 0.6, 0.9])
    wanted = sum(p * np.log(p * 5.5 / 1.5) for p in truth[:3])
    assert divergence_on_grid(away, truth, EDGES) == pytest.approx(wanted, rel=1e-14)
    # as do draws that left the grid
    away[-1] = 7.0
    assert divergence_on_grid(away, truth, EDGES) == pytest.approx(wanted, rel=1e-14)


def test_divergence_keeps_leading_axes_and_orders_dimensions():
    rng = np.random.default_rng(0)
    truth = np.outer([0.1, 0.2, 0.7], [0.6**0.5, 1.0 - 0.6**0.5])
    edges = [np.array([0.0, 0.1, 0.3, 1.0]), np.array([0.0, 0.6, 1.0])]
    draws = rng.random((3, 2, 5000, 2))
    draws[..., 1] **= 2
    found = divergence_on_grid(draws, truth, edges)
    assert found.shape == (3, 2)
    assert found[1, 1] == divergence_on_grid(draws[1, 1], truth, edges)
    # these draws fit: about (K - 1) / 2n = 5e-4 each; with their coordinates swapped they do not
    assert found.max() < 5e-3
    assert divergence_on_grid(draws[..., ::-1], truth, edges).min() > 0.05


def test_floor_is_that_of_independent_draws(within):
    truth = np.full(400, 1.0 / 400)
    floor = iid_floor(truth, 40_000, repeats=200, rng=1)
    assert floor.shape == (200,)
    # chi-square with 399 degrees over 2n: relative sd sqrt(2 / 399) each, so four standard errors of the mean are 2%,
    # and the next term of the expansion is 1% at 100 draws per cell
    assert within(floor.mean() / (399 / 80_000) - 1.0, 0.03)
    draws = np.random.default_rng(2).random((20, 40_000))
    measured = divergence_on_grid(draws, truth, np.linspace(0.0, 1.0, 401))
    assert within(measured.mean() / floor.mean() - 1.0, 0.08)
    # control: draws that repeat themselves, an effective number of half
    repeated = np.repeat(draws[:, :20_000], 2, axis=1)
    assert not within(divergence_on_grid(repeated, truth, np.linspace(0.0, 1.0, 401)).mean() / floor.mean() - 1.0, 0.08)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0.5], [0.5, 0.4], np.arange(3.0)), "must sum to one: the grid must hold the whole distribution, got 0.9"),
        (([0.5], [1.5, -0.5], np.arange(3.0)), "probabilities must be finite numbers >= 0"),
        (([0.5], [0.5, 0.5], np.arange(4.0)), r"got \(3,\) cells for probabilities of shape \(2,\)"),
        (([], [0.5, 0.5], np.arange(3.0)), r"draws must have shape \(\.\.\., n, 1\) with n > 0, got \(0,\)"),
        ((np.zeros((5, 3)), np.full((2, 2), 0.25), np.arange(3.0)), r"\(\.\.\., n, 2\) with n > 0, got \(5, 3\)"),
        (([0.5], [0.5, 0.5], np.arange(3.0), 0.0), "pseudo_count must be a positive finite number, got 0"),
    ],
)
def test_divergence_refuses(arguments, match):
    with pytest.raises(ValueError, match=match):
        divergence_on_grid(*arguments)


@pytest.mark.parametrize(("name", "arguments"), [("n", (0, 10)), ("repeats", (10, 0))])
def test_floor_refuses_no_draws(name, arguments):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got 0"):
        iid_floor(QUARTERS, *arguments)


class TestWeights:
    """A draw of weight k counts as k draws of the same value."""

    rng = np.random.default_rng(4)
    draws, counts = rng.standard_normal((200, 2)), rng.integers(0, 4, 200)
    again = np.repeat(draws, counts, axis=0)

    @property
    def log_weight(self):
        with np.errstate(divide="ignore"):
            return np.log(self.counts) + 3.0

    def test_divergence_is_that_of_counts_of_weights(self):
        edges, cells = np.array([-9.0, -1.0, 0.0, 1.0, 9.0]), np.diff(norm.cdf([-9.0, -1.0, 0.0, 1.0, 9.0]))
        rows = np.stack([self.draws[:, 0], self.draws[:, 1]])[..., None]
        found = divergence_on_grid(rows, cells, edges, 1e-9, np.stack([self.log_weight] * 2))
        wanted = [divergence_on_grid(column[:, None], cells, edges, 1e-9) for column in self.again.T]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        with pytest.raises(ValueError, match="log_weight must have shape"):
            divergence_on_grid(rows, cells, edges, log_weight=self.log_weight)
