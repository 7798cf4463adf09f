"""Robertson's reactions: stiff data, solved by LSODA, from which the rates are found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from invsamp.problems.robertson import INITIAL, NOISE_SD, TIMES, TRUTH, data, reactions, rhs
from invsamp.samplers import mala
from invsamp.sampling import sample
from invsamp.solvers.ode.integrators.status import Status

POINT = np.array([list(TRUTH.values())])


def test_data_are_the_model_at_the_truth_with_noise():
    observed = data(seed=3)
    rates = tuple(TRUTH.values())
    exact = solve_ivp(
        lambda t, x: rhs(t, x, rates), (0.0, TIMES[-1]), INITIAL, "Radau", TIMES, rtol=1e-10, atol=1e-16
    ).y.T
    np.testing.assert_allclose(observed.clean, exact, rtol=1e-6)
    np.testing.assert_allclose(observed.derivatives.sum(axis=1), 0.0, atol=1e-10)
    z = np.log(observed.states / observed.clean) / NOISE_SD
    # 66 standard normals: the sum of squares within its central 1 - 1e-6
    assert 22.0 < (z**2).sum() < 140.0
    np.testing.assert_array_equal(data(noise_sd=0.0).states, observed.clean)


def test_both_fidelities_are_near_the_exact_data():
    posterior = reactions()
    for fidelity, bound in (("coarse", 2e-2), ("fine", 1e-4)):
        np.testing.assert_allclose(posterior.predict(POINT, fidelity)[0], data().clean, rtol=bound)


def test_gradient():
    posterior = reactions(rtol=1e-9)
    assert posterior.check_gradient(POINT[0]).passed
    assert posterior.check_gradient(POINT[0] * (1.2, 0.7, 1.3)).passed


def test_an_explicit_method_gives_up_with_a_status():
    posterior = reactions(method="RK45")
    assert np.isposinf(posterior.potential().energy(posterior.to_position(POINT))).all()
    model = posterior.forward["fine"].model
    assert model.solve(POINT, np.array(INITIAL), TIMES, t0=0.0).status[0] == Status.STIFF


@pytest.mark.parametrize("start", [POINT, None])
def test_a_run_with_an_explicit_method_says_why_and_what_to_try(start):
    with pytest.raises(RuntimeError, match=r"STIFF by RK45 after t = .* of 10000.*stiff.*method=\"LSODA\""):
        sample(reactions(method="RK45"), mala(), draws=5, warmup=100, chains=2, seed=1, start=start, progress=False)


def test_prior_draws_have_finite_energies():
    posterior = reactions()
    energy = posterior.potential().energy(posterior.sample_start(np.random.default_rng(0), 40))
    assert np.isfinite(energy).mean() > 0.95


@pytest.mark.slow
def test_a_run_from_the_prior_finds_the_rates(within, laplace, draw):
    posterior = reactions()
    near = laplace(posterior, POINT)
    run = draw(posterior, mala(), draws=100, warmup=100, chains=4)
    logs = np.log(run.theta.reshape(-1, 3))
    mean, sd = logs.mean(axis=0), logs.std(axis=0)
    assert within(mean - np.log(POINT[0]), 4 * sd)
    # 400 draws have an ESS above 60: four standard errors of the mean and of the sd
    assert within(mean - near.mode, 4 * near.sd / np.sqrt(60))
    assert within(sd / near.sd - 1, 4 / np.sqrt(120))
    # control: had the third rate been taken to be 20% larger, that would have been seen
    assert not within(mean[2] - np.log(1.2 * POINT[0, 2]), 4 * sd[2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data(times=[0.0, 1.0]), "times must be positive finite numbers"),
        (lambda: data(times=[2.0, 1.0]), "times must increase"),
        (lambda: data(noise_sd=-1.0), "noise_sd must be a finite number >= 0, got -1.0"),
        (lambda: reactions(rtol=-1e-6), "rtol must be"),
        (lambda: reactions(method="Radau"), "method must be"),
        (lambda: reactions(data(noise_sd=0.0)), "scale must be positive"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
