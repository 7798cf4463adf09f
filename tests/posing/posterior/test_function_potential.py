"""Potentials from functions and sums."""

from __future__ import annotations

import numpy as np
import pytest
from functions import square

from invsamp.posing.posterior.function_potential import FunctionPotential, SumPotential
from invsamp.posing.posterior.target import Target
from invsamp.protocols import Potential, Problem, TermwisePotential


@pytest.fixture
def regression():
    """Linear regression of 7 data on 2 coefficients, with a Gaussian prior."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((7, 3))  # two inputs and an output

    def term(position, data):
        away = (data[..., :2] * position[:, None]).sum(axis=2) - data[..., 2]
        return 0.5 * away**2, away[:, :, None] * data[..., :2]

    return SumPotential(rows, term, 2, prior=square)


def test_protocols(regression):
    potential = FunctionPotential(square, 2)
    assert isinstance(potential, Potential)
    assert not isinstance(potential, TermwisePotential)
    assert isinstance(regression, TermwisePotential)
    assert isinstance(Target(potential), Problem)


def test_function_potential_returns_what_its_function_does():
    potential, position = FunctionPotential(square, 2), np.array([[1.0, 2.0], [0.0, -3.0]])
    energy, gradient = potential.energy_and_gradient(position)
    np.testing.assert_array_equal(energy, [2.5, 4.5])
    np.testing.assert_array_equal(gradient, position)
    np.testing.assert_array_equal(potential.energy(position), energy)


def test_sum_of_all_terms_is_the_full_energy(regression):
    position = np.random.default_rng(1).standard_normal((4, 2))
    energy, gradient = regression.energy_and_gradient(position)
    everything = np.tile(np.arange(7), (4, 1))
    terms = regression.terms(position, everything)
    np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy, rtol=1e-14)
    np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient, rtol=1e-13)
    np.testing.assert_array_equal(regression.energy(position), energy)
    away = regression.data[:, :2] @ position[0] - regression.data[:, 2]
    assert energy[0] == pytest.approx(0.5 * (away**2).sum() + 0.5 * (position[0] ** 2).sum())


def test_sum_gradient_is_that_of_its_energy(regression):
    position, along = np.array([[0.3, -0.8]]), np.array([[0.6, 0.8]])
    _, gradient = regression.energy_and_gradient(position)
    h = 1e-4
    slope = (regression.energy(position + h * along) - regression.energy(position - h * along)) / (2.0 * h)
    assert slope[0] == pytest.approx((gradient * along).sum(), rel=1e-9)


def test_each_chain_has_its_own_batch(regression):
    position = np.zeros((2, 2))
    terms = regression.terms(position, np.array([[0, 1], [5, 6]]))
    outputs = regression.data[:, 2]
    np.testing.assert_allclose(terms.energies, 0.5 * outputs[[[0, 1], [5, 6]]] ** 2)
    assert terms.gradients.shape == (2, 2, 2)


def test_sum_without_prior_has_none():
    potential = SumPotential(np.ones((3, 1)), lambda p, d: (p - d[..., 0], np.ones((*d.shape[:2], 1))), 1)
    terms = potential.terms(np.zeros((2, 1)), np.array([[0], [1]]))
    np.testing.assert_array_equal(terms.prior_energy, 0.0)
    np.testing.assert_array_equal(terms.prior_gradient, np.zeros((2, 1)))
