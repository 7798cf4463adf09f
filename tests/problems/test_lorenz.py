"""Lorenz: the data are the model's, gradient matching is a truncated Gaussian, multiple shooting finds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from invsamp.problems.lorenz import INITIAL, TIMES, TRUTH, data, gradient_matching, rhs
from invsamp.problems.lorenz import multiple_shooting as shoot
from invsamp.samplers import mala

POINT = np.array([list(TRUTH.values())])
EARLY = TIMES[:1001:5]  # to time 10, spaced by 0.05


def test_data_are_the_model_at_the_truth():
    observed = data(TIMES[:501])
    truth = tuple(POINT[0])
    exact = solve_ivp(
        lambda t, x: rhs(t, x, truth), (0.0, 5.0), INITIAL, "DOP853", observed.times, rtol=1e-12, atol=1e-12
    ).y.T
    np.testing.assert_allclose(observed.states, exact, atol=1e-6)
    np.testing.assert_allclose(observed.derivatives, np.stack(rhs(0.0, exact.T, truth), axis=1), atol=1e-4)
    full = data()
    assert full.states.shape == (10_001, 3)
    assert full.times[-1] == 100.0
    # the butterfly: both wings, and z about rho - 1
    assert full.states[:, 0].min() < -10 < 10 < full.states[:, 0].max()
    assert 20 < full.states[:, 2].mean() < 27


def test_noise_is_relative_to_each_states_spread():
    noisy = data(EARLY, noise=0.05, seed=1)
    np.testing.assert_allclose(noisy.noise_sd, 0.05 * noisy.clean.std(axis=0))
    assert not np.any(noisy.states == data(EARLY, noise=0.05, seed=2).states)


def test_gradient_matching_is_linear_regression_in_the_domain():
    observed = data(EARLY)
    posterior = gradient_matching(observed, noise_sd=(10.0, 20.0, 30.0))
    x, y, z = observed.states.T
    # each parameter has an equation to itself
    columns = ((y - x, observed.derivatives[:, 0]), (x, observed.derivatives[:, 1] + y + x * z))
    columns += ((-z, observed.derivatives[:, 2] - x * y),)
    mean = [design @ target / (design @ design) for design, target in columns]
    sd = [s / np.sqrt(design @ design) for s, (design, _) in zip((10.0, 20.0, 30.0), columns, strict=True)]
    exact = posterior.forward["model"].gaussian((10.0, 20.0, 30.0))
    np.testing.assert_allclose(exact.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(np.diag(exact.covariance)), sd, rtol=1e-9)
    np.testing.assert_allclose(exact.mean, POINT[0], rtol=1e-6)
    assert posterior.check_gradient(np.array([9.0, 20.0, 2.0])).passed
    inside = [[10.0, 28.0, 2.7], [3.0, 28.0, 2.7], [10.0, 0.9, 2.7], [10.0, 28.0, -0.1]]
    assert posterior.domain.contains(np.array(inside)).tolist() == [True, False, False, False]


def test_derivatives_by_other_means():
    noisy = data(EARLY, noise=0.05, seed=0)
    exact = gradient_matching(noisy, "weak").forward["model"].gaussian(noisy.noise_sd)
    assert (np.abs(exact.mean - POINT[0]) < 4 * np.sqrt(np.diag(exact.covariance))).all()
    # control: differences of noisy states are biased by far more than their posterior's sd
    differences = gradient_matching(noisy, "finite_differences").forward["model"].gaussian(noisy.noise_sd)
    assert (np.abs(differences.mean - POINT[0]) > 4 * np.sqrt(np.diag(differences.covariance))).any()


def test_multiple_shooting_recovers_the_truth_from_noisy_states(draw):
    noisy = data(EARLY, noise=0.05, seed=0)
    posterior = shoot(noisy)
    model = posterior.forward["fine"]
    assert len(model.begins) == 20
    assert posterior.fidelities == ("coarse", "fine")
    truth = np.concatenate([POINT[0], noisy.clean[::10][:20].ravel()])
    np.testing.assert_allclose(posterior.predict(truth)[0].reshape(-1, 3), noisy.clean, atol=1e-3)
    assert posterior.check_gradient(truth).passed
    fit = model.fit(noisy.states, {"sigma": 8.0, "rho": 25.0, "beta": 3.0}, noisy.noise_sd)
    run = draw(posterior, mala(), draws=100, warmup=150, chains=4, start=fit.start(np.random.default_rng(0), 4))
    theta = run.theta[..., :3].reshape(-1, 3)
    assert (np.abs(theta.mean(axis=0) - POINT[0]) < 4 * theta.std(axis=0)).all()
    # 400 draws have an ESS above 60; the posterior is nearly Gaussian
    assert (np.abs(theta.mean(axis=0) - fit.values) < 4 * fit.sd / np.sqrt(60)).all()
    assert (np.abs(theta.std(axis=0) / fit.sd - 1) < 4 / np.sqrt(120)).all()
    assert posterior.domain.contains(run.theta.reshape(-1, posterior.dimension)).all()


def test_multiple_shooting_in_a_coarse_fidelity_is_off_but_close():
    posterior = shoot(data(EARLY, noise=0.05, seed=0))
    truth = np.concatenate([POINT[0], data(EARLY).states[::10][:20].ravel()])
    error = np.abs(posterior.predict(truth, "coarse") - posterior.predict(truth))
    assert 1e-3 < error.max() < 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data([2.0, 1.0]), "times must increase"),
        (lambda: data(noise=-0.1), "noise must be a finite number >= 0, got -0.1"),
        (lambda: gradient_matching(data(EARLY), "splines"), "derivatives must be one of"),
        (lambda: gradient_matching(data(EARLY), noise_sd=0.0), "sd must be positive"),
        (lambda: gradient_matching(data(EARLY), np.ones((3, 3))), "derivatives must"),
        (lambda: shoot(data(EARLY)), "noise_sd must be positive"),
        (lambda: shoot(data(EARLY, noise=0.1), segment=0.0), "segment must be a positive finite number, got 0.0"),
        (lambda: shoot(data(EARLY, noise=0.1), segment=0.01), "segments must each hold a datum"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
