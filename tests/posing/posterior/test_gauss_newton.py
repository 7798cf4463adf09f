"""Gauss-Newton matrices of posteriors: with energies and gradients as they are, exact where models are linear."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

SLOPES = np.random.default_rng(0).standard_normal((12, 3))


def linear(noise, data, **more):
    """y = slopes @ b, with b within bounds, and missing information of the noise."""
    model = iv.with_jacobian(
        lambda theta: theta @ SLOPES.T, lambda theta: np.tile(SLOPES, (len(theta), 1, 1)), parameters=["b"]
    )
    return iv.Posterior(iv.Prior(b=iv.Uniform([-3.0] * 3, [3.0] * 3), **more), model, data, noise)


def differences(potential, position, h=1e-5):
    """The Hessian (d, d) at a position (d,)."""
    moves = h * np.eye(len(position))
    up, down = (potential.energy_and_gradient(position + sign * moves)[1] for sign in (1.0, -1.0))
    return (up - down) / (2.0 * h)


def test_energy_and_gradient_are_those_that_are_sampled():
    posterior = linear(iv.StudentTNoise(4.0, "s"), np.ones(12), s=iv.LogNormal(0.0, 1.0))
    potential = posterior.potential()
    position = posterior.sample_start(np.random.default_rng(1), 6)
    position[2, 0] = 9.0  # outside
    found, (energy, gradient) = potential.curvature(position), potential.energy_and_gradient(position)
    np.testing.assert_allclose(found.energy, energy, rtol=1e-12)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-10, atol=1e-10)
    assert np.isinf(energy[2])
    assert not found.matrix[2].any()


def test_a_linear_model_with_known_noise_has_its_hessian():
    posterior = linear(iv.GaussianNoise(0.3), np.zeros(12), c=iv.Normal(0.0, 2.0))
    position = posterior.sample_start(np.random.default_rng(1), 1)
    wanted = differences(posterior.potential(), position[0])
    np.testing.assert_allclose(posterior.potential().curvature(position).matrix[0], wanted, rtol=1e-5, atol=1e-5)
    assert wanted[3, 3] == pytest.approx(0.25)  # the prior's own


def test_an_unknown_scale_has_the_second_derivative_of_its_own():
    """Of n log s + S / (2 s^2), in log s; with the observations it is not mixed."""
    data = np.random.default_rng(2).standard_normal(12)
    posterior = linear(iv.GaussianNoise("s"), data, s=iv.LogUniform(0.01, 10.0))
    position = posterior.sample_start(np.random.default_rng(1), 1)
    b, s = position[0, :3], np.exp(position[0, 3])
    matrix = posterior.potential().curvature(position).matrix[0]
    assert matrix[3, 3] == pytest.approx(2.0 * np.square((data - SLOPES @ b) / s).sum(), rel=1e-5)
    np.testing.assert_allclose(matrix[:3, :3], SLOPES.T @ SLOPES / s**2, rtol=1e-5)
    np.testing.assert_allclose(matrix[3, :3], 0.0, atol=1e-9)


def test_matrices_are_positive_semidefinite_where_likelihoods_are_not_concave():
    posterior = linear(iv.StudentTNoise(1.0, "s"), 100.0 * np.ones(12), s=iv.LogUniform(0.01, 10.0))
    position = posterior.sample_start(np.random.default_rng(1), 20)
    values = np.linalg.eigvalsh(posterior.potential().curvature(position).matrix)
    hessian = np.linalg.eigvalsh(differences(posterior.potential(), position[0]))
    assert hessian[0] < -1e-3
    assert (values[:, 0] > -1e-9 * values[:, -1]).all()


def test_parts_that_provide_it():
    """Posteriors of models with a Jacobian, of data and parameters that do not depend on each other."""
    zeros = np.zeros(12)
    assert linear(iv.GaussianNoise(0.3), zeros).potential().curved
    assert not linear(iv.GaussianNoise(covariance=np.eye(12)), zeros).potential().curved
    assert not linear(iv.GaussianNoise(0.3), zeros, m=iv.Normal(0.0, 1.0), c=iv.Normal("m", 1.0)).potential().curved

    class Adjoint:
        def __call__(self, theta):
            return theta @ SLOPES.T

        def linearize(self, theta):
            return self(theta), lambda cotangent: cotangent @ SLOPES

    prior = iv.Prior(b=iv.Normal(np.zeros(3), 1.0))
    assert not iv.Posterior(prior, Adjoint(), zeros, iv.GaussianNoise(0.3)).potential().curved
