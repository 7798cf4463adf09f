"""Divergences and distances with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import norm, wasserstein_distance

from invsamp import diagnostics
from invsamp.diagnostics.divergences import (
    divergence_on_grid,
    iid_floor,
    quantile_function,
    sliced_wasserstein,
    wasserstein,
)

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
        (([0.5], [0.5, 0.4], np.arange(3.0)), "must sum to one: the grid must hold the whole law, got 0.9"),
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


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0])
def test_wasserstein_of_shifted_and_scaled_draws(order):
    draws = np.random.default_rng(0).standard_normal(500)
    assert wasserstein(draws, draws + 3.0, order) == pytest.approx(3.0, rel=1e-12)
    assert wasserstein(draws, draws[::-1], order) == 0.0
    wanted = np.mean(np.abs(draws) ** order) ** (1.0 / order)
    assert wasserstein(draws, 2.0 * draws, order) == pytest.approx(wanted, rel=1e-12)


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=15),
    st.lists(st.floats(-100, 100), min_size=1, max_size=15),
)
def test_wasserstein_between_samples_of_any_sizes(ours, theirs):
    # SciPy integrates the distance of the distribution functions instead
    assert wasserstein(ours, theirs) == pytest.approx(wasserstein_distance(ours, theirs), rel=1e-9, abs=1e-9)
    assert wasserstein(ours, theirs) == pytest.approx(wasserstein(theirs, ours), rel=1e-9, abs=1e-12)
    # the same values, each twice, are the same law
    assert wasserstein(np.repeat(ours, 2), theirs, 2.0) == pytest.approx(wasserstein(ours, theirs, 2.0), abs=1e-9)


def test_wasserstein_to_a_quantile_function():
    # one atom at c against a uniform law on (0, 1): ((c^2 + (1 - c)^2) / 2
    assert wasserstein([0.3], lambda u: u) == pytest.approx((0.09 + 0.49) / 2, rel=1e-9)
    # at p = 2: variance and squared bias, 1/12 + 0.04
    assert wasserstein([0.3], lambda u: u, 2.0) == pytest.approx(np.sqrt(1 / 12 + 0.04), rel=1e-9)
    draws = np.random.default_rng(0).standard_normal(200)
    # a large regular sample in the place of the Gaussian
    fine = ndtri((np.arange(400_000) + 0.5) / 400_000)
    assert wasserstein(draws, ndtri) == pytest.approx(wasserstein(draws, fine), abs=1e-4)


def test_quantiles_from_a_grid():
    grid = np.linspace(-8.0, 8.0, 4001)
    quantiles = quantile_function(grid, ndtr(grid))
    u = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(quantiles(u), ndtri(u), atol=1e-5)
    draws = np.random.default_rng(0).standard_normal(1000)
    assert wasserstein(draws, quantiles) == pytest.approx(wasserstein(draws, ndtri), abs=1e-4)


def test_sliced_distance_of_a_shift(within):
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((300, 2))
    shift = np.array([3.0, 4.0])
    # mean |cos| = 2 / pi with sd .31 over the directions: 4 standard errors of 4,000 are 3%
    found = sliced_wasserstein(draws, draws + shift, directions=4000)
    assert within(found / (5.0 * 2.0 / np.pi) - 1.0, 0.035)
    draws = rng.standard_normal((300, 5))
    found = sliced_wasserstein(draws, draws + np.eye(5)[0], directions=4000, order=2.0)
    assert within(found / np.sqrt(1 / 5) - 1.0, 0.04)
    assert sliced_wasserstein(draws, rng.permuted(draws, axis=0)) > 0.0  # the same margins, another law
    assert sliced_wasserstein(draws, rng.permutation(draws)) == pytest.approx(0.0, abs=1e-15)


def test_sliced_distance_in_one_dimension_is_the_plain_one():
    ours, theirs = np.random.default_rng(0).standard_normal((2, 50))
    assert sliced_wasserstein(ours[:, None], theirs[:20, None] * 2.0) == pytest.approx(
        wasserstein(ours, theirs[:20] * 2.0)
    )


def test_sliced_distance_by_seed():
    ours, theirs = np.random.default_rng(0).standard_normal((2, 50, 3))
    assert sliced_wasserstein(ours, theirs, rng=1) == sliced_wasserstein(ours, theirs, rng=1)
    assert sliced_wasserstein(ours, theirs, rng=1) != sliced_wasserstein(ours, theirs, rng=2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: wasserstein([], [1.0]), r"draws must have at least one entry"),
        (lambda: wasserstein([1.0], [np.inf]), "reference must be finite numbers"),
        (lambda: wasserstein([1.0], [1.0], 0.5), "order must be a finite number >= 1, got 0.5"),
        (lambda: quantile_function([0.0, 1.0], [1.0, 0.0]), "cdf must not decrease and not be constant"),
        (lambda: quantile_function([0.0, 0.0], [0.0, 1.0]), "grid must increase"),
        (lambda: quantile_function([0.0], [1.0]), "vectors of one length >= 2"),
        (lambda: sliced_wasserstein(np.zeros((2, 2)), np.zeros((2, 3))), r"reference must have shape \(m, 2\)"),
        (
            lambda: sliced_wasserstein(np.zeros((2, 2)), np.full((2, 2), np.nan)),
            "reference must be finite numbers",
        ),
        (
            lambda: sliced_wasserstein(np.zeros((2, 2)), np.zeros((2, 2)), 0),
            "directions must be an integer >= 1, got 0",
        ),
        (
            lambda: sliced_wasserstein(np.zeros((2, 2)), np.zeros((2, 2)), order=0.0),
            "order must be a finite number >= 1",
        ),
    ],
)
def test_distances_refuse(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_diagnostics_has_them():
    assert diagnostics.divergence_on_grid is divergence_on_grid
    assert diagnostics.wasserstein is wasserstein
    assert set(diagnostics.__all__) <= set(vars(diagnostics))


class TestWeights:
    """A draw of weight k counts as k draws of the same value."""

    rng = np.random.default_rng(4)
    draws, other, counts = rng.standard_normal((200, 2)), rng.standard_normal((70, 2)), rng.integers(0, 4, 200)
    again = np.repeat(draws, counts, axis=0)

    @property
    def log_weight(self):
        with np.errstate(divide="ignore"):
            return np.log(self.counts) + 3.0

    @pytest.mark.parametrize("order", [1.0, 2.0])
    def test_distances_are_those_of_repeated_draws(self, order):
        mine, again = self.draws[:, 0], self.again[:, 0]
        for reference in (self.other[:, 0], norm.ppf):
            wanted = wasserstein(again, reference, order)
            assert wasserstein(mine, reference, order, self.log_weight) == pytest.approx(wanted, rel=1e-4)
            assert wasserstein(mine, reference, order) != pytest.approx(wanted, rel=1e-3)
        wanted = sliced_wasserstein(self.again, self.other, order=order)
        found = sliced_wasserstein(self.draws, self.other, order=order, log_weight=self.log_weight)
        assert found == pytest.approx(wanted, rel=1e-9)

    def test_equal_weights_change_nothing(self):
        mine, zeros = self.draws[:, 0], np.zeros(200)
        for reference in (self.other[:, 0], norm.ppf):
            assert wasserstein(mine, reference, 1.0, zeros) == pytest.approx(wasserstein(mine, reference), rel=1e-9)

    def test_divergence_is_that_of_counts_of_weights(self):
        edges, cells = np.array([-9.0, -1.0, 0.0, 1.0, 9.0]), np.diff(norm.cdf([-9.0, -1.0, 0.0, 1.0, 9.0]))
        rows = np.stack([self.draws[:, 0], self.draws[:, 1]])[..., None]
        found = divergence_on_grid(rows, cells, edges, 1e-9, np.stack([self.log_weight] * 2))
        wanted = [divergence_on_grid(column[:, None], cells, edges, 1e-9) for column in self.again.T]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        with pytest.raises(ValueError, match="log_weight must have shape"):
            divergence_on_grid(rows, cells, edges, log_weight=self.log_weight)
