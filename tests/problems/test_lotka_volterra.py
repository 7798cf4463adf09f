"""The hare-lynx posterior is the published model; the synthetic setting is recovered from its trajectory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

from invsamp.problems.lotka_volterra import (
    INITIAL,
    LARGEST,
    PELTS,
    REFERENCE,
    TIMES,
    TRUTH,
    YEARS,
    data,
    gradient_matching,
    hare_lynx,
    multiple_shooting,
    rhs,
)
from invsamp.samplers import mala

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
    log_prior = sum(target.logpdf(values).sum() for target, values in priors)
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


RATES = np.array([list(TRUTH.values())])
EVERY_HALF = TIMES[:5001:50]  # to time 50, nine periods


def test_data_are_the_model_at_the_truth():
    observed = data()
    rates = tuple(RATES[0])
    exact = solve_ivp(
        lambda t, x: rhs(t, x, rates), (0, 100), INITIAL, "DOP853", observed.times, rtol=1e-12, atol=1e-12
    ).y.T
    np.testing.assert_allclose(observed.states, exact, rtol=1e-5)
    np.testing.assert_allclose(observed.derivatives, np.stack(rhs(0.0, exact.T, rates), axis=1), atol=1e-3)
    noisy = data(EVERY_HALF, noise=0.05, seed=1)
    np.testing.assert_allclose(noisy.noise_sd, 0.05 * noisy.clean.std(axis=0))


def test_gradient_matching_is_linear_regression():
    observed = data(TIMES[::10])
    posterior = gradient_matching(observed, noise_sd=2.0)
    u, v = observed.states.T
    prey, *_ = np.linalg.lstsq(np.column_stack([u, -u * v]), observed.derivatives[:, 0], rcond=None)
    exact = posterior.forward["model"].gaussian(2.0)
    np.testing.assert_allclose(exact.mean[:2], prey, rtol=1e-9)
    np.testing.assert_allclose(exact.mean, RATES[0], rtol=1e-6)
    gram = np.linalg.inv(np.array([[v @ v, -(u * v) @ v], [-(u * v) @ v, (u * v) @ (u * v)]]))
    np.testing.assert_allclose(exact.covariance[2:, 2:], 4.0 * gram, rtol=1e-9)
    assert posterior.check_gradient(0.8 * RATES[0]).passed
    assert posterior.domain.contains(np.array([RATES[0], RATES[0] - (0, 0.2, 0, 0)])).tolist() == [True, False]


def test_weak_form_finds_the_rates_in_noisy_states():
    noisy = data(TIMES[::10], noise=0.05, seed=0)
    exact = gradient_matching(noisy, "weak").forward["model"].gaussian(noisy.noise_sd)
    assert (np.abs(exact.mean - RATES[0]) < 4 * np.sqrt(np.diag(exact.covariance))).all()
    assert (np.sqrt(np.diag(exact.covariance)) < 0.05 * RATES[0]).all()


def test_multiple_shooting_recovers_the_truth_from_noisy_states(draw):
    noisy = data(EVERY_HALF, noise=0.05, seed=0)
    posterior = multiple_shooting(noisy)
    model = posterior.forward["fine"]
    assert (len(model.begins), posterior.fidelities) == (10, ("coarse", "fine"))
    truth = np.concatenate([RATES[0], noisy.clean[::10][:10].ravel()])
    np.testing.assert_allclose(posterior.predict(truth)[0].reshape(-1, 2), noisy.clean, atol=1e-3)
    assert posterior.check_gradient(truth).passed
    fit = model.fit(noisy.states, {"alpha": 0.8, "beta": 0.08, "gamma": 1.2, "delta": 0.1}, noisy.noise_sd)
    run = draw(posterior, mala(), draws=100, warmup=150, chains=4, start=fit.start(np.random.default_rng(0), 4))
    theta = run.theta[..., :4].reshape(-1, 4)
    assert (np.abs(theta.mean(axis=0) - RATES[0]) < 4 * theta.std(axis=0)).all()
    # 400 draws have an ESS above 60; the posterior is nearly Gaussian
    assert (np.abs(theta.mean(axis=0) - fit.values) < 4 * fit.sd / np.sqrt(60)).all()
    assert (np.abs(theta.std(axis=0) / fit.sd - 1) < 4 / np.sqrt(120)).all()
    # control: a rate 10% off would have been seen
    assert (0.1 * RATES[0] > 4 * theta.std(axis=0)).all()


def test_the_truth_lies_well_inside_the_flat_priors():
    assert all(0.02 * LARGEST[name] < value < 0.5 * LARGEST[name] for name, value in TRUTH.items())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data([2.0, 1.0]), "times must increase"),
        (lambda: data(noise=-0.1), "noise must be a finite number >= 0, got -0.1"),
        (lambda: gradient_matching(data(EVERY_HALF), "splines"), "derivatives must be one of"),
        (lambda: multiple_shooting(data(EVERY_HALF)), "noise_sd must be positive"),
        (
            lambda: multiple_shooting(data(EVERY_HALF, noise=0.1), segment=-1.0),
            "segment must be a positive finite number",
        ),
        (lambda: hare_lynx(method="Radau"), "method must be"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
