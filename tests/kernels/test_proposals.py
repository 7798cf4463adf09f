"""Langevin moves: the noise budget is spent to the last digit, and the Metropolis ratio is antisymmetric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from invsamp.domains import Box
from invsamp.kernels.langevin import log_acceptance
from invsamp.kernels.proposals import arrive, propose

STEP = 0.3


def injected_covariance(variance, step=STEP):
    """Covariance of the injected noise: the move is linear in it, so its columns are the moves of unit noises."""
    d = 3
    rows = np.repeat(np.asarray(variance, dtype=float)[None], d, axis=0)
    columns = propose(np.zeros((d, d)), np.eye(d), step, rows)[0]
    return columns.T @ columns


def test_exact_gradient():
    gradient, noise = np.array([[1.0, -2.0]]), np.array([[0.5, 0.25]])
    move, clipped = propose(gradient, noise, STEP)
    np.testing.assert_allclose(move, -0.3 * gradient + np.sqrt(2.0 * 0.3) * noise)
    assert clipped == 0
    # one step size for each chain, as warm-up has it
    np.testing.assert_array_equal(propose(gradient, noise, np.array([[STEP]]))[0], move)


@pytest.mark.parametrize("step", [STEP, np.array([[STEP], [0.1]])], ids=["one", "each"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_arriving_in_one_pass_is_to_move_and_add(step, kind):
    position, gradient = np.random.default_rng(1).standard_normal((2, 2, 50))
    noise = np.random.default_rng(2).standard_normal((2, 50)).astype(kind)
    np.testing.assert_array_equal(arrive(position, gradient, noise, step), position + propose(gradient, noise, step)[0])


@pytest.mark.parametrize(
    "variance",
    [1.5, [0.5, 1.0, 3.0], [[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.7]]],
    ids=["isotropic", "diagonal", "full"],
)
def test_injected_and_gradient_noise_add_up(variance):
    matrix = np.asarray(variance) if np.ndim(variance) == 2 else np.diag(np.broadcast_to(variance, 3))
    total = injected_covariance(variance) + STEP**2 * matrix
    np.testing.assert_allclose(total, 2.0 * STEP * np.eye(3), atol=1e-14)


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 3)])
def test_no_variance_is_an_exact_gradient(shape):
    rng = np.random.default_rng(0)
    gradient, noise = rng.standard_normal((2, 4, 3))
    plain, _ = propose(gradient, noise, STEP)
    budgeted, clipped = propose(gradient, noise, STEP, np.zeros(shape))
    np.testing.assert_allclose(budgeted, plain, rtol=1e-14)
    assert clipped == 0


def test_overspent_directions_get_nothing_and_are_counted():
    limit = 2.0 / STEP
    matrix = np.diag([limit + 1.0, limit, 1.0])
    covariance = injected_covariance(matrix)
    np.testing.assert_allclose(np.diag(covariance), [0.0, 0.0, 0.6 - 0.09], atol=1e-12)
    per_chain = np.stack([np.zeros((3, 3)), matrix, matrix])
    zeros = np.zeros((3, 3))
    assert propose(zeros, zeros, STEP, per_chain)[1] == 2
    isotropic = np.array([limit + 1.0, 0.0, limit - 1.0])
    assert propose(zeros, zeros, STEP, isotropic)[1] == 1


def test_log_acceptance_is_mala_without_bounds():
    rng = np.random.default_rng(0)
    here, gradient, end_gradient, noise = rng.standard_normal((4, 1, 3))
    energies = np.array([1.3]), np.array([0.8])
    move, _ = propose(gradient, noise, STEP)
    there = here + move
    spread = 2.0 * STEP * np.eye(3)
    forward = multivariate_normal.logpdf(there[0], (here - STEP * gradient)[0], spread)
    backward = multivariate_normal.logpdf(here[0], (there - STEP * end_gradient)[0], spread)
    ratio = log_acceptance(energies, noise, move, end_gradient, STEP)
    assert ratio[0] == pytest.approx((1.3 - 0.8) + backward - forward)


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, "diagonal", "dense"]))
def test_log_acceptance_of_the_way_back_is_the_opposite(seed, kind):
    """Along a specular path in a box, in whitened coordinates: what detailed balance asks for."""
    rng = np.random.default_rng(seed)
    factor = {None: np.eye(2), "diagonal": np.diag([0.5, 2.0]), "dense": np.array([[1.0, 0.0], [0.7, 0.6]])}[kind]
    precision = np.array([[2.0, 0.3], [0.3, 0.5]])
    box, metric = Box(-0.5, 0.8), None if kind is None else factor @ factor.T

    def evaluate(position):
        gradient = position @ precision
        return 0.5 * (gradient * position).sum(axis=1), gradient @ factor

    here = rng.uniform(-0.5, 0.8, (1, 2))
    noise = rng.standard_normal((1, 2))
    energy, gradient = evaluate(here)
    path = box.reflect(here, propose(gradient, noise, STEP)[0] @ factor.T, metric)
    velocity = np.linalg.solve(factor, path.move.T).T
    end_energy, end_gradient = evaluate(path.position)
    forward = log_acceptance((energy, end_energy), noise, velocity, end_gradient, STEP)

    back = box.reflect(path.position, -path.move, metric)
    back_velocity = np.linalg.solve(factor, back.move.T).T
    back_noise = (-velocity + STEP * end_gradient) / np.sqrt(2.0 * STEP)
    backward = log_acceptance((end_energy, energy), back_noise, back_velocity, gradient, STEP)
    np.testing.assert_allclose(back.position, here, atol=1e-10)
    np.testing.assert_allclose(backward, -forward, atol=1e-8)
