"""Learning of contour targets: the fixed points of every random field, gains, and the range of energies."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.tempering.contour_learning import FIELDS, RANGE_STEPS, Gain, Learning, Range, hyperbolic, shares

MASSES = np.array([0.05, 0.4, 0.3, 0.15, 0.08, 0.02])
BINS = np.arange(len(MASSES))


def drift(learning, theta, zeta):
    """The mean change of one step if bins are visited as by the target with these masses."""
    mode_occupancy = MASSES / theta**zeta
    mode_occupancy /= mode_occupancy.sum()
    log_psi, k = np.log(theta)[None], 1000
    after = np.concatenate([learning.step(log_psi, zeta, np.array([j]), k) for j in BINS])
    change = after - log_psi if learning.field == "log" else np.exp(after) - theta
    return mode_occupancy @ change


@pytest.mark.parametrize(
    ("field", "zeta"), [("log", 1.0), ("log", 0.6), ("csgld", 0.75), ("icsgld", 0.5), ("awsgld", 1.0)]
)
def test_fixed_points(field, zeta):
    """Of log and CSGLD the masses, of ICSGLD their power 1 / zeta, of AWSGLD the distribution function."""
    theta = {"icsgld": MASSES ** (1.0 / zeta), "awsgld": np.cumsum(MASSES)}.get(field, MASSES)
    theta = theta / theta[-1] if field == "awsgld" else theta / theta.sum()
    learning = Learning(field, Gain(1.0, 100.0, 0.6))
    if field == "awsgld":  # its bins are visited in proportion to the masses over theta of their own bin
        assert abs(drift(learning, theta, zeta)[-1]) < 1e-15
    assert np.abs(drift(learning, theta, zeta)).max() < 1e-12
    wrong = np.roll(theta, 1) if field != "awsgld" else np.linspace(0.2, 1.0, 6)
    assert np.abs(drift(learning, wrong, zeta)).max() > 1e-5


@pytest.mark.parametrize("field", FIELDS)
def test_what_is_learned_goes_there(field, within):
    """From equal masses to the fixed point, drawn from the target at each step; increasing where required."""
    rng, zeta = np.random.default_rng(5), 1.0
    learning = Learning(field, Gain(20.0, 40.0, 1.0) if field == "log" else Gain(100.0, 1000.0, 0.75))
    log_psi = learning.begun(6)
    for k in range(1, 6001):
        mode_occupancy = MASSES / np.exp(log_psi[0])
        at = rng.choice(6, size=4, p=mode_occupancy / mode_occupancy.sum())
        log_psi = learning.step(log_psi, zeta, at, k)
    truth = np.cumsum(MASSES) if field == "awsgld" else MASSES
    if field == "awsgld":
        assert (np.diff(log_psi[0]) > 0).all()
        np.testing.assert_allclose(log_psi[0, -1], 0.0, atol=1e-12)
    found = log_psi[0] - np.log(truth)
    assert within(found.std(), 0.25)
    assert not within(log_psi[0].std(), 0.25)


def test_chains_learn_together_or_apart():
    at = np.array([0, 0, 3, 5])
    together = Learning("csgld").step(np.log(np.full((1, 6), 1 / 6)), 0.75, at, 1)
    apart = Learning("csgld", shared=False).step(np.log(np.full((4, 6), 1 / 6)), 0.75, at, 1)
    assert together.shape == (1, 6) and apart.shape == (4, 6)
    np.testing.assert_allclose(np.exp(apart).mean(axis=0), np.exp(together[0]), rtol=1e-12)
    np.testing.assert_allclose(np.exp(apart).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(apart[0], apart[1])


def test_gains():
    assert [Gain(12.0)(k) for k in (1, 24, 48)] == [0.5, 0.5, 0.25]
    assert iv.tempering.gain(1.0, 100.0, 0.6)(1) == 1.0 / 101.0
    assert iv.tempering.gain(0.1, max_gain=0.01)(1) == 0.01
    for wrong in (
        {"scale": 0.0},
        {"scale": 1.0, "exponent": 0.5},
        {"scale": 1.0, "max_gain": 2.0},
        {"scale": 1, "offset": -1},
    ):
        with pytest.raises(ValueError, match=f"{list(wrong)[-1]} must be"):
            iv.tempering.gain(**wrong)


def test_shares_are_equal_at_one():
    np.testing.assert_allclose(shares(np.log(MASSES)[None], 1.0), 1.0 / 6.0)
    np.testing.assert_allclose(shares(np.log(MASSES)[None], 0.5), np.sqrt(MASSES)[None] / np.sqrt(MASSES).sum())


class TestRange:
    def test_of_a_gaussian_the_first_target_is_flat(self):
        """Energies of d / 2 squares: the density of states is known, and v is its log, up to the range's ends."""
        d, hottest = 10, 8.0
        rng, sums = np.random.default_rng(2), Range.begun()
        for k in range(1, 2 * RANGE_STEPS + 1):
            temperature = 1.0 if k <= RANGE_STEPS else hottest
            sums = Range.step(sums, temperature * rng.gamma(d / 2, size=400), k)
        np.testing.assert_array_equal(sums[:, 0], 400 * RANGE_STEPS / 2)
        knots, value = Range.found(sums, hottest, 24)
        assert 2.5 < knots[0] < 3.1 and 74 < knots[-1] < 77.5
        np.testing.assert_allclose(np.diff(knots)[1:] / np.diff(knots)[:-1], np.diff(knots)[1] / np.diff(knots)[0])
        beta = np.diff(value) / np.diff(knots)
        middle = 0.5 * (knots[1:] + knots[:-1])
        inside = (middle > 5.5) & (middle < 38)
        np.testing.assert_allclose(beta[inside], (d / 2) / middle[inside], rtol=0.03)
        assert beta.max() <= 1.0 and beta.min() >= 1.0 / hottest - 1e-12

    def test_solves_that_fail_are_left_out(self):
        sums = Range.step(Range.begun(), np.array([1.0, np.inf, 3.0]), RANGE_STEPS)
        np.testing.assert_array_equal(sums, [[2.0, 4.0, 10.0], [0.0, 0.0, 0.0]])

    def test_energies_that_do_not_vary_make_knots_all_the_same(self):
        sums = np.array([[50.0, 50.0, 50.0], [50.0, 50.0, 50.0]])
        knots, value = Range.found(sums, 10.0, 5)
        assert (np.diff(knots) > 0).all() and np.isfinite(value).all()

    def test_slopes_stay_between_those_of_the_ends(self):
        slopes = np.diff(hyperbolic(np.linspace(-3.0, 30.0, 12), (0.0, 10.0), 5.0)) / 3.0
        assert slopes[0] == pytest.approx(1.0) and slopes[-1] == pytest.approx(0.2) and (np.diff(slopes) <= 1e-12).all()
