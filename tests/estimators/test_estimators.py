"""Estimators: unbiased, with variances that are unbiased too."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from asking import Asked
from functions import quartic

from invsamp.estimators import exact, minibatch, minibatches, noisy
from invsamp.estimators.contract import expand_isotropic
from invsamp.evaluate.requests import sample_variance
from invsamp.posing.distributions.univariate import Normal
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.function_potential import FunctionPotential, SumPotential
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior

STRUCTURES = ["isotropic", "diagonal", "full"]


QUARTIC = FunctionPotential(quartic, 2)


@pytest.fixture
def regression():
    """Six data on two coefficients, with a prior, and a position."""
    rows = np.random.default_rng(0).standard_normal((6, 3))

    def term(position, data):
        away = (data[..., :2] * position[:, None]).sum(axis=2) - data[..., 2]
        return 0.5 * away**2, away[:, :, None] * data[..., :2]

    return SumPotential(rows, term, 2, prior=quartic), np.array([[0.7, -0.4]])


class TestExact:
    def test_is_the_potential(self):
        bound = Asked(exact(), QUARTIC, "full")
        position, rng = np.array([[1.0, 2.0]]), np.random.default_rng(0)
        estimate = bound.estimate(rng, position)
        assert bound.exact
        assert estimate.energy == pytest.approx(17.0 / 4.0)
        assert estimate.energy_variance is None
        assert estimate.gradient_variance is None
        assert bound.energy(rng, position) == (estimate.energy, None)
        # no randomness is spent
        assert rng.random() == np.random.default_rng(0).random()


class TestMinibatch:
    """Means over all batches, exhaustively."""

    def check_moments(self, estimate, potential, position, structure):
        """Estimates and variances of all batches at one position: both are unbiased."""
        energy, gradient = potential.energy_and_gradient(position)
        np.testing.assert_allclose(estimate.energy.mean(), energy[0], rtol=1e-13)
        np.testing.assert_allclose(estimate.gradient.mean(axis=0), gradient[0], rtol=1e-12)
        # the variance over batches is what the batches show of it on average
        np.testing.assert_allclose(estimate.energy_variance.mean(), estimate.energy.var(), rtol=1e-12)
        covariance = np.cov(estimate.gradient.T, ddof=0)
        wanted = {"full": covariance, "diagonal": np.diag(covariance), "isotropic": np.trace(covariance) / 2.0}
        np.testing.assert_allclose(estimate.gradient_variance.mean(axis=0), wanted[structure], rtol=1e-12)

    @pytest.mark.parametrize("structure", STRUCTURES)
    def test_estimates_and_their_variances_are_unbiased(self, regression, monkeypatch, structure):
        potential, position = regression
        subsets = np.array(list(combinations(range(6), 3)))
        monkeypatch.setattr(minibatches, "random_subsets", lambda *_: subsets)
        bound = Asked(minibatch(3), potential, structure)
        estimate = bound.estimate(np.random.default_rng(0), np.repeat(position, len(subsets), axis=0))
        self.check_moments(estimate, potential, position, structure)
        alone, variance = bound.energy(np.random.default_rng(0), np.repeat(position, len(subsets), axis=0))
        np.testing.assert_array_equal(alone, estimate.energy)
        np.testing.assert_array_equal(variance, estimate.energy_variance)

    def test_whole_data_has_no_noise(self, regression):
        potential, position = regression
        estimate = Asked(minibatch(6), potential, "full").estimate(np.random.default_rng(0), position)
        np.testing.assert_allclose(estimate.energy, potential.energy(position), rtol=1e-14)
        np.testing.assert_array_equal(estimate.energy_variance, 0.0)
        np.testing.assert_array_equal(estimate.gradient_variance, np.zeros((1, 2, 2)))

    @pytest.mark.parametrize("structure", STRUCTURES)
    @pytest.mark.parametrize("labels", [[7, 1, 7, 3, 1, 3], [0, 0, 0, 5, 2, 4]], ids=["equal groups", "unequal groups"])
    def test_groups_are_unbiased_with_unbiased_variances(self, regression, monkeypatch, structure, labels):
        potential, position = regression
        estimator = minibatch(2, groups=labels)
        subsets = np.array(list(combinations(range(len(set(labels))), 2)))
        monkeypatch.setattr(minibatches, "random_subsets", lambda *_: subsets)
        bound = Asked(estimator, potential, structure)
        estimate = bound.estimate(np.random.default_rng(0), np.repeat(position, len(subsets), axis=0))
        self.check_moments(estimate, potential, position, structure)
        assert bound.degrees_of_freedom == 1

    def test_groups_of_one_datum_are_the_data(self, regression):
        potential, position = regression
        position = np.repeat(position, 50, axis=0)
        plain = Asked(minibatch(3), potential, "full").estimate(np.random.default_rng(5), position)
        grouped = Asked(minibatch(3, groups=np.arange(6)), potential, "full").estimate(
            np.random.default_rng(5), position
        )
        for one, other in zip(plain[:4], grouped[:4], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)

    def test_a_model_with_rows_evaluates_the_groups_of_the_batch_alone(self):
        asked = []

        class Rows:
            def __call__(self, theta):
                raise AssertionError("the whole model was evaluated")

            linearize = __call__

            def rows(self, theta, indices):
                asked.append(indices)
                return theta * indices, indices[:, :, None].astype(float)

        sensors = np.tile(np.arange(4), 3)  # 3 times, 4 sensors
        posterior = Posterior(Prior(x=Normal(0.0, 1.0)), Rows(), np.zeros((3, 4)), GaussianNoise(1.0))
        bound = Asked(minibatch(2, groups=sensors.reshape(3, 4)), posterior.potential(), "full")
        estimate = bound.estimate(np.random.default_rng(0), np.ones((5, 1)))
        (indices,) = asked
        assert indices.shape == (5, 6)
        assert all(len(set(row)) == 2 for row in sensors[indices].tolist())
        constant = 12 * 0.5 * np.log(2.0 * np.pi) + 0.5 * np.log(2.0 * np.pi) + 0.5
        np.testing.assert_allclose(estimate.energy, constant + (indices**2).sum(axis=1), rtol=1e-12)

    def test_refusals(self, regression):
        potential, _ = regression
        with pytest.raises(ValueError, match="size must be an integer >= 2, got 1"):
            minibatch(1)
        with pytest.raises(ValueError, match="at most the 6 data terms, got 7"):
            Asked(minibatch(7), potential, "full")
        with pytest.raises(ValueError, match="minibatch needs a potential with data terms"):
            Asked(minibatch(3), QUARTIC, "full")
        with pytest.raises(ValueError, match="size of a minibatch must be at most the 2 groups, got 3"):
            minibatch(3, groups=[0, 0, 1, 1, 1, 0])
        with pytest.raises(ValueError, match="groups must be integers, got"):
            minibatch(2, groups=[0.0, 1.0, 2.0])
        with pytest.raises(ValueError, match="one label for each of the 6 data terms, got 4"):
            Asked(minibatch(2, groups=[0, 1, 2, 3]), potential, "full")

    def test_groups_with_an_index_are_refused_as_it_would_be_lost(self):
        assert minibatch(2, groups=pd.Series([0, 1, 1])) == minibatch(2, groups=[0, 1, 1])
        with pytest.raises(ValueError, match=r"groups must be an array without labels.*got \['b', 'a', 'c'\]"):
            minibatch(2, groups=pd.Series([0, 1, 1], ["b", "a", "c"]))

    def test_groups_print_shortly_and_are_distinguishable(self):
        first, second = minibatch(5, np.arange(1000) % 20), minibatch(5, np.arange(1000) // 50)
        assert repr(first).startswith("Minibatch(size=5 of 20 groups, labels ")
        assert len(repr(first)) < 60
        assert repr(first) != repr(second)
        assert first == minibatch(5, np.arange(1000).reshape(50, 20) % 20)
        assert repr(minibatch(3)) == "Minibatch(size=3)"


class TestNoisy:
    n = 40_000

    @pytest.fixture
    def position(self):
        return np.tile([[0.5, -1.0]], (self.n, 1))

    def test_moments_are_those_stated(self, position, agrees):
        bound = Asked(noisy(2.0, 0.5), QUARTIC, "diagonal")
        estimate = bound.estimate(np.random.default_rng(0), position)
        energy, gradient = quartic(position)
        errors = np.column_stack([estimate.energy - energy, estimate.gradient - gradient])
        assert agrees(errors, np.zeros(3))
        assert agrees(errors**2, [4.0, 0.25, 0.25])
        assert not agrees(errors**2, [4.4, 0.25, 0.25])
        # independent between energy and gradient, and between entries
        assert agrees(errors[:, [0, 0, 1]] * errors[:, [1, 2, 2]], np.zeros(3))
        np.testing.assert_array_equal(estimate.energy_variance, 4.0)
        np.testing.assert_array_equal(estimate.gradient_variance, np.full((self.n, 2), 0.25))

    def test_energies_alone_have_the_same_noise_and_fresh(self, position, agrees):
        bound, rng = Asked(noisy(2.0, 0.5), QUARTIC, "full"), np.random.default_rng(0)
        first, second = bound.energy(rng, position)[0], bound.energy(rng, position)[0]
        away = np.column_stack([first, second]) - quartic(position)[0][:, None]
        assert agrees(away[:, 0] * away[:, 1], 0.0)
        assert agrees(away**2, [4.0, 4.0])

    def test_state_dependent(self):
        bound = Asked(noisy(lambda x, energy: 0.1 * energy, lambda x, energy: x[:, 0]), QUARTIC, "isotropic")
        position = np.array([[1.0, 0.0], [2.0, 0.0]])
        estimate = bound.estimate(np.random.default_rng(0), position)
        np.testing.assert_allclose(estimate.energy_variance, [0.025**2, 0.4**2])
        np.testing.assert_allclose(estimate.gradient_variance, [1.0, 4.0])

    def test_failed_solves_stay_infinite(self):
        """A noise that grows with the energy must not turn +inf into nan."""
        failing = FunctionPotential(lambda x: (np.full(len(x), np.inf), np.zeros_like(x)), 2)
        bound = Asked(noisy(lambda x, energy: energy, lambda x, energy: energy), failing, "isotropic")
        estimate = bound.estimate(np.random.default_rng(0), np.zeros((3, 2)))
        np.testing.assert_array_equal(estimate.energy, np.inf)
        np.testing.assert_array_equal(estimate.gradient, 0.0)

    @pytest.mark.parametrize(("name", "value"), [("energy_sd", -1.0), ("gradient_sd", np.nan), ("energy_sd", np.inf)])
    def test_refusals(self, name, value):
        with pytest.raises(ValueError, match=f"{name} must be a finite number >= 0 or a function, got {value}"):
            noisy(**{name: value})


@pytest.mark.parametrize("structure", STRUCTURES)
def test_probes_show_the_variance(structure, agrees):
    bound = Asked(noisy(2.0, 0.5), QUARTIC, structure)
    position = np.random.default_rng(0).standard_normal((2000, 2))
    energy, gradient, freedom = bound.probe(np.random.default_rng(1), position, 5)
    assert freedom == 4
    truth = expand_isotropic(np.array([0.25]), 2, structure)[0]
    assert agrees(energy, 4.0)
    assert gradient.shape == (2000, *np.shape(truth))
    assert agrees(gradient.reshape(2000, -1), np.ravel(truth))
    # dividing by n in place of n - 1
    assert not agrees(energy * 4.0 / 5.0, 4.0)


def test_sample_variance_is_the_covariance_of_each_chain():
    values = np.random.default_rng(0).standard_normal((3, 10, 2)) @ np.array([[1.0, 0.5], [0.0, 2.0]])
    covariances = np.stack([np.cov(chain.T) for chain in values])
    np.testing.assert_allclose(sample_variance(values, "full"), covariances, rtol=1e-12)
    np.testing.assert_allclose(sample_variance(values, "diagonal"), np.diagonal(covariances, axis1=1, axis2=2))
    np.testing.assert_allclose(sample_variance(values, "isotropic"), np.trace(covariances, axis1=1, axis2=2) / 2.0)


def test_isotropic_variance_in_each_form():
    variance = np.array([1.0, 4.0])
    assert expand_isotropic(variance, 3, "isotropic") is variance
    np.testing.assert_array_equal(expand_isotropic(variance, 3, "diagonal"), [[1.0] * 3, [4.0] * 3])
    np.testing.assert_array_equal(expand_isotropic(variance, 3, "full"), np.stack([np.eye(3), 4.0 * np.eye(3)]))
