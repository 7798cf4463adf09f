"""A preconditioner that is known before a run: the Gaussian of a mode, dense or of low rank."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.kernels.metric import DenseMetric, LowRankMetric
from invsamp.ladder.preconditioner import given

D, SD = 100, 0.02


@pytest.fixture(scope="module")
def problem():
    """Three informed directions of a hundred, fifty times narrower than the others."""
    slopes = np.linalg.qr(np.random.default_rng(1).standard_normal((D, 3)))[0].T
    model = iv.with_jacobian(lambda b: b @ slopes.T, lambda b: np.broadcast_to(slopes, (len(b), *slopes.shape)))
    prior = iv.Prior(b=iv.Normal(0.0, np.ones(D)))
    return iv.Posterior(prior, model, np.array([1.0, -1.0, 0.5]), iv.GaussianNoise(SD)), slopes


@pytest.fixture(scope="module")
def modes(problem):
    return iv.maximize(problem[0], starts=1, seed=1, rank=10)


@pytest.mark.parametrize("dense", [False, True])
def test_a_metric_of_low_rank_is_the_dense_one(dense):
    rng = np.random.default_rng(2)
    factor = np.tril(rng.standard_normal((7, 7))) + 5.0 * np.eye(7) if dense else rng.uniform(0.5, 2.0, 7)
    vectors, values = np.linalg.qr(rng.standard_normal((7, 3)))[0], np.array([1e4, 3.0, -0.5])
    metric = LowRankMetric(factor, vectors, values)
    whole = factor if dense else np.diag(factor)
    matrix = whole @ np.linalg.inv(np.eye(7) + (vectors * values) @ vectors.T) @ whole.T
    np.testing.assert_allclose(metric.matrix, matrix, atol=1e-12)
    moves, root = rng.standard_normal((4, 7)), metric.color(np.eye(7)).T
    np.testing.assert_allclose(metric.uncolor(metric.color(moves)), moves, atol=1e-10)
    np.testing.assert_allclose(metric.whiten(moves), moves @ root, atol=1e-12)
    for covariance in (np.ones(2), np.full((2, 7), 2.0), np.stack([np.eye(7), np.diag(np.arange(7.0))])):
        expected = DenseMetric(root).whiten_covariance(covariance)
        np.testing.assert_allclose(metric.whiten_covariance(covariance), expected, atol=1e-10)


def test_warm_up_finds_the_step_size_alone(problem, modes, draw):
    posterior, slopes = problem
    run = draw(posterior, iv.mala(preconditioner=modes), start=modes, draws=100, warmup=100, chains=8)
    assert run.report["acceptance"] == pytest.approx([0.574], abs=0.15)
    assert run.report["preconditioner"].startswith("given")
    # mean squared moves in units of the variances: all directions move alike, narrow or not
    narrow = np.square(np.diff(run.theta @ slopes.T, axis=1)).mean() / (2.0 * SD**2)
    wide = np.square(np.diff(run.theta[..., :20], axis=1)).mean() / 2.0
    assert 0.1 < narrow < 1.0
    assert wide == pytest.approx(narrow, rel=0.3)


def test_of_dense_gaussians_and_other_kernels(draw):
    covariance = np.array([[4.0, 1.9], [1.9, 1.0]])
    prior = iv.Prior(x=iv.MultivariateNormal(np.zeros(2), covariance))
    slopes = np.array([[1.0, 0.0]])
    model = iv.with_jacobian(lambda x: x @ slopes.T, lambda x: np.broadcast_to(slopes, (len(x), 1, 2)))
    posterior = iv.Posterior(prior, model, [0.0], iv.GaussianNoise(1e3))
    found = iv.maximize(posterior, starts=2, seed=1)
    for make in (iv.mams, iv.samplers.sghmc, iv.samplers.parallel_tempering):
        run = draw(posterior, make(preconditioner=found), draws=10, warmup=100, chains=4)
        for matrix in run.report["preconditioner_matrices"]:
            np.testing.assert_allclose(matrix, covariance, rtol=0.01)


def test_a_run_resumes_with_it(problem, modes, tmp_path):
    posterior, _ = problem
    sampler = iv.mala(preconditioner=modes)
    settings = {"warmup": 100, "chains": 2, "seed": 1, "progress": False, "start": modes}
    with pytest.warns(UserWarning):
        whole = iv.sample(posterior, sampler, draws=8, **settings)
        iv.sample(posterior, sampler, draws=4, directory=tmp_path, **settings)
        longer = iv.resume(tmp_path, posterior, draws=8, progress=False)
    np.testing.assert_array_equal(longer.theta, whole.theta)


def test_it_prints_and_compares(modes):
    sampler = iv.mala(preconditioner=modes)
    assert sampler == iv.mala(preconditioner=modes) != iv.mala()
    assert "preconditioner given (a mode's Gaussian)" in str(sampler)
    assert repr(sampler.preconditioner) == "Given(100 unknowns, 3 directions)"


def test_modes_of_another_problem_or_without_a_gaussian_are_refused(modes):
    pair = np.eye(2)
    model = iv.with_jacobian(lambda x: x, lambda x: np.broadcast_to(pair, (len(x), 2, 2)))
    other = iv.Posterior(iv.Prior(x=iv.Normal(0.0, np.ones(2))), model, np.zeros(2), iv.GaussianNoise(1.0))
    with pytest.raises(ValueError, match="preconditioner must be modes of the problem's 2 unknowns, got some of 100"):
        iv.sample(other, iv.mala(preconditioner=modes), progress=False)
    flat = iv.Target(iv.extending.FunctionPotential(lambda x: (0.5 * x[:, 0] ** 2, x * [1.0, 0.0]), 2))
    with pytest.raises(ValueError, match="of which one has a Gaussian, got none"):
        given(iv.maximize(flat, starts=2, seed=1))
    with pytest.raises(ValueError, match="preconditioner must be"):
        iv.mala(preconditioner=3)
