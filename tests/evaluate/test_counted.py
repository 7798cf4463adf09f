"""Potentials at work: what is not finite becomes a failed solve, and all is counted."""

from __future__ import annotations

import numpy as np
import pytest
from asking import Asked
from functions import square

from invsamp.estimators import minibatch
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Batch, Request
from invsamp.posing.forward import ModelError
from invsamp.posing.potential import FunctionPotential, SumPotential


class TestCountedPotential:
    @pytest.mark.parametrize(
        ("where", "bad"),
        [*(("gradient", bad) for bad in (np.nan, np.inf, -np.inf)), ("energy", np.nan), ("energy", np.inf)],
    )
    def test_non_finite_results_become_failed_solves(self, bad, where):
        def function(position):
            energy, gradient = square(position)
            (energy if where == "energy" else gradient[:, 1])[position[:, 0] > 0.0] = bad
            return energy, gradient

        potential = CountedPotential(FunctionPotential(function, 2), "model")
        position = np.array([[1.0, 1.0], [-1.0, 1.0], [2.0, 2.0]])
        energy, gradient = potential.energy_and_gradient(position)
        np.testing.assert_array_equal(energy, [np.inf, 1.0, np.inf])
        np.testing.assert_array_equal(gradient, [[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0]])
        assert (potential.evaluations, potential.failed) == (3, 2)
        if where == "energy":
            np.testing.assert_array_equal(potential.energy(position), energy)
            assert (potential.evaluations, potential.failed) == (6, 4)

    @pytest.mark.parametrize("gradient", [False, True])
    def test_density_without_bound_is_no_failure_but_a_mistake(self, gradient):
        def function(position):
            return np.where(position[:, 0] > 0.0, -np.inf, 1.0), np.zeros(position.shape)

        potential = CountedPotential(FunctionPotential(function, 2), "model")
        with pytest.raises(
            ModelError, match=r"energies of fidelity 'model' must be finite.*-inf at the position \[2.0, 3.0\]"
        ):
            potential.answer(Request("model", np.array([[-1.0, 1.0], [2.0, 3.0]]), gradient))

    def test_large_but_finite_results_are_no_failures(self):
        huge = FunctionPotential(lambda p: (np.full(len(p), 1e200), np.full_like(p, 1e300)), 2)
        potential = CountedPotential(huge, "model")
        energy, gradient = potential.energy_and_gradient(np.zeros((3, 2)))
        assert potential.failed == 0
        assert (energy == 1e200).all()
        assert (gradient == 1e300).all()

    def test_failed_terms(self):
        def term(position, data):
            energies = np.where(data[..., 0] > 2.5, np.nan, 1.0 + 0.0 * position)
            return energies, np.ones((*energies.shape, 1))

        data = np.arange(4.0)[:, None]
        potential = CountedPotential(SumPotential(data, term, 1), "model")
        batch = Batch(np.array([[0, 1], [2, 3]]), None, 4, "full")
        found = potential.answer(Request("model", np.zeros((2, 1)), batch=batch))
        np.testing.assert_array_equal(found.energy, [4.0, np.inf])
        np.testing.assert_array_equal(found.gradient, [[4.0], [0.0]])
        np.testing.assert_array_equal(found.energy_variance, [0.0, 0.0])
        assert found.failed
        assert (potential.evaluations, potential.failed) == (2, 1)
        estimate = Asked(minibatch(2), potential, "full").estimate(np.random.default_rng(0), np.zeros((50, 1)))
        assert np.isinf(estimate.energy).any()
        assert np.isfinite(estimate.energy).any()
        assert np.isfinite(estimate.gradient_variance).all()

    def test_offers_terms_only_where_the_potential_does(self):
        assert CountedPotential(FunctionPotential(square, 2), "model").size is None
