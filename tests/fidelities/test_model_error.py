"""The approximation error's mean and covariance, and what a posterior of the coarse model with it is."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

TIMES = np.linspace(0.0, 1.0, 5)
PRIOR = iv.Prior(a=iv.Normal(1.0, 0.5), b=iv.Normal(0.0, 1.0))


def fine(theta):
    return theta[:, :1] + 2.0 * theta[:, 1:] * TIMES


def coarse(theta):
    return theta[:, :1] + 1.8 * theta[:, 1:] * TIMES - 0.1 * TIMES**2


def posed(noise=None, **models):
    given = models or {"coarse": coarse, "fine": fine}
    return iv.Posterior(PRIOR, given, np.linspace(0, 1, 5), noise or iv.GaussianNoise(0.1))


def test_mean_and_covariance_are_those_over_the_prior(agrees):
    """Of a linear error: mean 0.1 t^2, covariance (0.2 t)(0.2 t)'; that without the offset is rejected."""
    error = iv.fidelities.approximation_error(posed(), draws=4096, seed=1)
    assert agrees(error.differences[:, 1:], 0.1 * TIMES[1:] ** 2)
    assert not agrees(error.differences[:, 1:], 0.0 * TIMES[1:])
    exact = 0.04 * np.outer(TIMES, TIMES)
    np.testing.assert_allclose(error.covariance, exact, atol=0.15 * exact.max())


def test_model_and_noise_have_both():
    error = iv.fidelities.approximation_error(posed(), draws=200, seed=1)
    theta = np.array([[1.0, 0.5]])
    np.testing.assert_allclose(error.model(theta), coarse(theta) + error.mean)
    np.testing.assert_allclose(error.noise.covariance.matrix, error.covariance + 0.01 * np.eye(5))
    cheap = iv.Posterior(PRIOR, error.model, np.linspace(0, 1, 5), error.noise)
    assert np.isfinite(cheap.potential().energy(theta)).all()


def test_the_fine_models_truth_is_less_surprising_with_it():
    """The misfit that data of the fine model have at their own theta, in units of its mean: about 1, and far above."""
    rng = np.random.default_rng(2)
    error = iv.fidelities.approximation_error(posed(), draws=1000, seed=1)
    theta = PRIOR.sample(rng, 2000)
    residual = fine(theta) + 0.1 * rng.standard_normal((2000, 5)) - coarse(theta)
    white = np.linalg.solve(np.linalg.cholesky(error.noise.covariance.matrix), (residual - error.mean).T)
    assert (white**2).mean() == pytest.approx(1.0, abs=0.15)
    assert ((residual / 0.1) ** 2).mean() > 2.0


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (lambda: posed(fine=fine), {}, "coarse and fine must be two fidelities, got 'fine' twice"),
        (posed, {"coarse": "rough"}, "coarse must be one of 'coarse', 'fine', got 'rough'"),
        (posed, {"draws": 5}, "draws must be an integer >= 10, got 5"),
        (lambda: posed(iv.StudentTNoise(0.1, 4.0)), {}, "noise must be a GaussianNoise of known numbers"),
        (
            lambda: posed(coarse=lambda t: np.full((len(t), 5), np.nan), fine=fine),
            {},
            "at least ten draws must be solved",
        ),
    ],
)
def test_what_cannot_be_is_named(make, settings, message):
    with pytest.raises(ValueError, match=message):
        iv.fidelities.approximation_error(make(), **settings)
