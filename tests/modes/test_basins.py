"""Descents that end in each other's basins: the same minima, by fewer evaluations."""

from __future__ import annotations

import numpy as np
import pytest
from targets import gaussian

from invsamp.domains import Unbounded
from invsamp.evaluate.requests import Estimate, answered
from invsamp.modes.basins import Basins
from invsamp.modes.descent import descend, joined
from invsamp.modes.minima import distinct
from invsamp.modes.objective import Objective

CENTERS, SDS = np.array([[-5.0, 0.0], [5.0, 0.0]]), np.array([1.0, 0.5])


def two_wells(x):
    """The lower of two parabolas; the one on the right is 2 higher."""
    apart = x[:, None, :] - CENTERS
    energies = 0.5 * (apart**2).sum(axis=2) / SDS**2 + [0.0, 2.0]
    own = energies.argmin(axis=1)
    rows = np.arange(len(x))
    return energies[rows, own], apart[rows, own] / SDS[own, None] ** 2


def banana(x):
    a, b = x.T
    return 0.5 * a**2 + 50.0 * (b - a * a) ** 2, np.stack([a - 200.0 * a * (b - a * a), 100.0 * (b - a * a)], axis=1)


class Counted:
    def __init__(self, function):
        self.function, self.rows = function, 0

    def __call__(self, at):
        self.rows += len(at)
        return Estimate(*self.function(at))
        yield


def led(function, position, **settings):
    counted = Counted(function)
    objective = Objective(counted, np.ones(position.shape[1]), Unbounded())
    asking = descend(objective, position, tolerance=0.1, most=500, **settings)
    return answered(asking, None), counted


@pytest.mark.parametrize("function", [two_wells, gaussian(np.diag([1e-4, 1.0, 1e4])).function, banana])
def test_the_same_minima_by_fewer_evaluations(function):
    d = 3 if function not in (two_wells, banana) else 2
    few, many = 0, 0
    for seed in range(5):
        starts = 6.0 * np.random.default_rng(seed).standard_normal((16, d))
        alone, slow = led(function, starts)
        basins = Basins(10.0, waiting=12)
        first, _ = led(function, starts[:4], basins=basins)
        rest, quick = led(function, starts[4:], basins=basins)
        few, many = few + quick.rows, many + slow.rows - int(alone.evaluations[:4].sum())
        end = joined(first, rest)
        assert end.converged.all()
        np.testing.assert_allclose(end.energy, alone.energy, atol=0.2)
        minima = [
            answered(distinct(Objective(Counted(function), np.ones(d), Unbounded()), of, basins=known), None)
            for of, known in ((alone, None), (end, basins))
        ]
        assert minima[0].counts.tolist() == minima[1].counts.tolist()
        np.testing.assert_allclose(minima[0].log_evidence, minima[1].log_evidence, atol=0.25)
    assert few < 0.95 * many


def test_a_basin_has_the_mass_of_its_gaussian():
    """Neither what lies too high, nor what has that energy by chance and another gradient, nor what is bent."""
    basins = Basins(10.0)
    basins.add(basins.basin(np.zeros(2), 0.0, np.zeros(2), np.diag([1.0, 100.0]), False, None))
    at = np.array([[1.0, 0.05], [5.0, 0.0], [1.0, 1.0]])
    energy, gradient = gaussian(np.diag([1.0, 100.0])).function(at)
    assert [basin is not None for basin in basins.within(at, energy, gradient)] == [True, False, False]
    assert basins.within(at[:1], energy[:1], -gradient[:1]) == [None]
    assert basins.within(at[:1], energy[:1] + 1.0, gradient[:1]) == [None]
    bent = np.array([[2.0, 4.0]])  # in the valley, where the energy is that of the first axis alone
    assert basins.within(bent, *banana(bent)) == [None]


def test_ends_far_above_their_minimum_are_polished():
    """Of scales over twelve orders of magnitude rounds of a descent gain little long before its lowest point."""
    function = gaussian(np.diag(10.0 ** -np.arange(-12.0, 13.0, 2.0))).function
    starts = np.random.default_rng(0).standard_normal((16, 13))
    alone, _ = led(function, starts)
    assert alone.converged.all()
    assert alone.energy.max() > 5.0
    end, _ = led(function, starts, basins=Basins(10.0, waiting=16))
    assert end.energy.max() < 0.2


def test_no_basin_without_a_gaussian():
    """A Hessian that is none, or beside a cliff, is not asked for again."""
    for precision, bounded in ((np.diag([1.0, -1.0]), False), (np.eye(2), True)):
        basins = Basins(10.0)
        assert basins.pays(2, 16, 0.0)
        assert basins.basin(np.zeros(2), 0.0, np.zeros(2), precision, bounded, None) is None
        assert not basins.pays(2, 16, 0.0)
        assert basins.within(np.zeros((1, 2)), np.zeros(1), np.zeros((1, 2))) == [None]


def test_a_basin_at_a_bound_holds_what_lies_above_it():
    """Where the gradient pushes against it."""
    basins = Basins(10.0)
    gradient, at = np.array([3.0, 0.0]), np.array([[0.5, 1.0], [4.0, 0.0], [0.5, 1.0]])
    basins.add(basins.basin(np.zeros(2), 0.0, gradient, np.eye(2), True, np.diag([0.1, 1.0])))
    assert basins.pays(2, 16, 5.0)
    energy, slope = at @ gradient + 0.5 * (at**2).sum(axis=1), gradient + at
    energy[2] += 1.0
    assert [basin is not None for basin in basins.within(at, energy, slope)] == [True, False, False]
    assert basins.towards(at[0], slope[0]) == []


def test_an_end_without_a_gaussian_says_nothing_of_lower_ones():
    """Below a minimum at a bound, of no weight, there may be modes with a Gaussian."""
    basins = Basins(20.0)
    assert basins.basin(np.zeros(2), 12.0, np.zeros(2), np.eye(2), True, None) is None
    assert not basins.pays(2, 16, 13.0)
    assert basins.pays(2, 16, 0.0)
    assert basins.basin(np.zeros(2), 0.0, np.zeros(2), np.eye(2), False, None) is not None


def test_no_hessian_far_above_the_lowest_minimum():
    basins = Basins(10.0)
    assert basins.pays(2, 16, 1e6)
    basins.add(basins.basin(np.zeros(2), 0.0, np.zeros(2), np.eye(2), False, None))
    assert basins.pays(2, 16, 9.0)
    assert not basins.pays(2, 16, 11.0)
    assert not basins.pays(100, 16, 9.0)  # more expensive than what it saves


def test_points_that_begin_together_are_led_once():
    starts = np.array([[3.0, 1.0], [-4.0, 2.0]])
    one, counted = led(two_wells, starts)
    end, again = led(two_wells, starts[[0, 1, 0, 0]])
    assert again.rows == counted.rows == end.evaluations.sum()
    np.testing.assert_array_equal(end.position, one.position[[0, 1, 0, 0]])
    assert end.evaluations[2:].tolist() == [0, 0]
