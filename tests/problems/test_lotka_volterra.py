"""The hare-lynx posterior is the published model."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.integrate import solve_ivp

from invsamp.problems.lotka_volterra import PELTS, REFERENCE, YEARS, hare_lynx, rhs

POINT = np.array([[reference.mean for reference in REFERENCE.values()]])


def positive(mean, sd):
    return stats.truncnorm(-mean / sd, np.inf, mean, sd)


def test_density_is_the_published_one_written_out_with_scipy():
    alpha, beta, gamma, delta, u0, v0, *sigma = POINT[0]
    priors = [
        (positive(1, 0.5), (alpha, gamma)),
        (positive(0.05, 0.05), (beta, delta)),
        (stats.lognorm(1.0, scale=10), (u0, v0)),
        (stats.lognorm(1.0, scale=np.exp(-1)), sigma),
    ]
    log_prior = sum(law.logpdf(values).sum() for law, values in priors)
    rates = (alpha, beta, gamma, delta)
    trajectory = solve_ivp(
        lambda t, x: rhs(t, x, rates), (0, 20), (u0, v0), "DOP853", YEARS - 1900, rtol=1e-12, atol=1e-12
    )
    log_likelihood = stats.lognorm(np.array(sigma), scale=trajectory.y.T).logpdf(PELTS)
    posterior = hare_lynx(rtol=1e-10)
    np.testing.assert_allclose(posterior.log_prior(POINT), log_prior, rtol=1e-10)
    np.testing.assert_allclose(posterior.log_likelihood(POINT)[0], log_likelihood, rtol=1e-6)
    # at the default tolerance the energy is right to a thousandth
    default = hare_lynx()
    assert abs(default.log_likelihood(POINT).sum() - log_likelihood.sum()) < 1e-3
    # all eight are positive and sampled as logarithms, so the position's energy has the sum of the logs
    energy = default.potential().energy(default.to_position(POINT))[0]
    np.testing.assert_allclose(energy, -(log_prior + log_likelihood.sum() + np.log(POINT).sum()), atol=1e-3)


def test_gradient_and_names():
    posterior = hare_lynx(rtol=1e-10)
    assert posterior.check_gradient(POINT[0]).passed
    assert tuple(posterior.labels) == tuple(REFERENCE)
    assert posterior.data.shape == (21, 2)


def test_the_reference_sd_is_about_the_curvature_of_the_energy():
    # inverse Hessian in the logarithms against sd / mean: the posterior is near a Gaussian there. 25% for its skewness
    posterior = hare_lynx(rtol=1e-9)
    potential, position = posterior.potential(), posterior.to_position(POINT)
    steps = 1e-4 * np.eye(8)
    hessian = (
        potential.energy_and_gradient(position + steps)[1] - potential.energy_and_gradient(position - steps)[1]
    ) / 2e-4
    sd = np.sqrt(np.diag(np.linalg.inv(0.5 * (hessian + hessian.T))))
    published = np.array([reference.sd / reference.mean for reference in REFERENCE.values()])
    np.testing.assert_allclose(sd, published, rtol=0.25)


def test_prior_draws_nearly_all_have_a_finite_energy():
    posterior = hare_lynx()
    start = posterior.sample_start(np.random.default_rng(0), 60)
    assert np.isfinite(posterior.potential().energy(start)).mean() > 0.9
