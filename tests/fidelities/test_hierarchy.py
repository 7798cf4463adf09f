"""Costs and differences of levels, and the probabilities that follow from them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from asking import Asked

from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.evaluate.counted import CountedPotential
from invsamp.fidelities.hierarchy import _best_probabilities, measure_levels
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target

PRECISION = np.array([[4.0, 1.0], [1.0, 2.0]])


def level(mean, factor):
    def function(position):
        away = position - mean
        return 0.5 * factor * np.einsum("ci,ij,cj->c", away, PRECISION, away), factor * away @ PRECISION

    return FunctionPotential(function, 2)


TARGET = Target({"a": level(0.3, 1.2), "b": level(0.1, 1.05), "c": level(0.0, 1.0)})
DRAWS = np.random.default_rng(0).multivariate_normal(np.zeros(2), np.linalg.inv(PRECISION), 4000)


class TestMeasureLevels:
    def test_the_noise_is_that_of_the_estimator(self):
        found = measure_levels(TARGET, DRAWS, noise=0.5, costs=(1.0, 8.0, 64.0))
        assert found.noise == pytest.approx(0.5, rel=1e-6)
        made = {}
        for name in TARGET.fidelities:
            made[name] = CountedPotential(TARGET.potential(name), name, made)
        bound = Asked(coupled_sum(probabilities=found.probabilities), made["c"], "full")
        covariance = bound.probe(np.random.default_rng(0), DRAWS, 1)[1].mean(axis=0)
        gradients = TARGET.potential("c").energy_and_gradient(DRAWS)[1]
        whitened = np.linalg.solve(gradients.T @ gradients / len(DRAWS), covariance)
        assert np.trace(whitened) / 2.0 == pytest.approx(found.noise, rel=1e-10)
        p = np.array(found.probabilities)
        assert found.cost == pytest.approx((p * [1.0, 8.0, 64.0]).sum() / 64.0)
        # the ratio of a coarse level's error: 0.3 off in both entries and 20% too steep; 4,000 draws, 3% in squares
        assert found.errors[0] == pytest.approx(0.04 + 1.44 * 0.09 * PRECISION.sum() / 2.0, rel=0.05)
        assert found.errors[-1] == 0.0

    def test_measured_costs_are_seconds(self):
        found = measure_levels(TARGET, DRAWS)
        assert all(cost > 0.0 for cost in found.costs)
        assert found.names == ("a", "b", "c")
        assert measure_levels(TARGET, DRAWS, ("a", "c")).names == ("a", "c")

    def test_refusals(self):
        with pytest.raises(ValueError, match="at least two fidelities"):
            measure_levels(TARGET, DRAWS, ("a",))
        with pytest.raises(ValueError, match="noise must be a positive finite number, got 0"):
            measure_levels(TARGET, DRAWS, noise=0.0)
        with pytest.raises(ValueError, match=r"costs must have shape \(3,\)"):
            measure_levels(TARGET, DRAWS, costs=(1.0, 2.0))
        with pytest.raises(ValueError, match="more than 2 states that can be solved, got 2"):
            measure_levels(TARGET, DRAWS[:2])


class TestBestProbabilities:
    @pytest.mark.parametrize("errors", [(1.0, 0.2, 0.05, 0.0), (1.0, 1.3, 0.05, 0.0), (0.5, 0.5, 0.5, 0.0)])
    def test_nothing_on_a_grid_is_cheaper(self, errors):
        """Also where a level is worse than the one before it, and so is not solved at all."""
        errors, costs = np.array(errors), np.array([1.0, 4.0, 16.0, 64.0])
        found, noise = _best_probabilities(errors, costs, 2.0)
        assert noise == pytest.approx(2.0, rel=1e-9)

        def cost(p):
            # of two levels with one probability the finer alone is solved
            solved = np.append(p[:-1] > p[1:], True)
            return (np.array(p) * costs * solved).sum()

        def left(p):
            return np.sum(-np.diff(errors) * (1.0 / np.array(p)[1:] - 1.0))

        steps = np.geomspace(1e-2, 1.0, 25)
        others = [(1.0, *p) for p in itertools.combinations_with_replacement(steps[::-1], 3)]
        # a certain second level would leave out the first: which levels to use is not asked
        allowed = [cost(np.array(p)) for p in others if left(p) <= 2.0 and p[1] < 1.0]
        assert len(allowed) > 100
        assert cost(found) <= min(allowed) * 1.02

    def test_equal_levels_need_the_coarsest_alone(self):
        found, noise = _best_probabilities(np.zeros(3), np.array([1.0, 2.0, 4.0]), 1.0)
        assert noise == 0.0
        assert (found[1:] < 1e-3).all()
        assert (found > 0.0).all()
