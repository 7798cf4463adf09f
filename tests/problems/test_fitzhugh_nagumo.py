"""FitzHugh-Nagumo: noisy spikes from which the membrane's parameters are found, past false modes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from invsamp.ladder import geometric
from invsamp.problems.fitzhugh_nagumo import NOISE_SD, TIMES, TRUTH, data, nerve, rhs
from invsamp.samplers import mala, parallel_tempering

POINT = np.array([list(TRUTH.values())])


@pytest.fixture(scope="module")
def posterior():
    return nerve()


def test_data_are_the_model_at_the_truth_with_noise():
    observed = data(seed=3)
    rates = tuple(POINT[0, :3])
    exact = solve_ivp(
        lambda t, x: rhs(t, x, rates), (0.0, 20.0), POINT[0, 3:5], "DOP853", TIMES, rtol=1e-12, atol=1e-12
    ).y.T
    np.testing.assert_allclose(observed.clean, exact, atol=1e-6)
    z = (observed.states - observed.clean) / NOISE_SD
    # 802 standard normals: the mean of squares within five standard errors
    assert abs((z**2).mean() - 1.0) < 5 * np.sqrt(2 / z.size)
    np.testing.assert_array_equal(data(noise_sd=0.0).states, observed.clean)
    # two spikes: the voltage rises through zero at the start and twice after
    assert (np.diff(np.sign(observed.clean[:, 0])) > 0).sum() == 3


def test_both_fidelities_are_near_the_exact_data(posterior):
    for fidelity, bound in (("coarse", 0.3), ("fine", 1e-3)):
        error = np.abs(posterior.predict(POINT, fidelity)[0] - data().clean)
        assert error.max() < bound
    # cheaper swaps with the coarse model make sense: it is off by about one unit of energy
    coarse, fine = (posterior.potential(f).energy(posterior.to_position(POINT))[0] for f in posterior.fidelities)
    assert 0.1 < abs(coarse - fine) < 3.0


def test_gradient():
    posterior = nerve(rtol=1e-9)
    assert posterior.check_gradient(POINT[0]).passed
    assert posterior.check_gradient(POINT[0] + (0.1, -0.1, 0.3, 0.2, -0.2, 0.1, 0.1)).passed


def test_prior_draws_nearly_all_have_a_finite_energy(posterior):
    start = posterior.sample_start(np.random.default_rng(0), 100)
    assert np.isfinite(posterior.potential().energy(start)).mean() > 0.9


def test_a_run_recovers_the_truth_and_laplace(within, posterior, laplace, draw):
    near = laplace(posterior, POINT)
    starts = near.mode + 0.05 * np.random.default_rng(0).standard_normal((4, 7))
    run = draw(posterior, mala(), draws=200, warmup=150, chains=4, start=posterior.to_theta(starts))
    position = posterior.to_position(run.theta.reshape(-1, 7))
    mean, sd = position.mean(axis=0), position.std(axis=0)
    assert within(mean - posterior.to_position(POINT)[0], 4 * sd)
    # 800 draws have an ESS above 60
    assert within(mean - near.mode, 4 * near.sd / np.sqrt(60))
    assert within(sd / near.sd - 1, 4 / np.sqrt(120))
    # control: c = 3.2 would have been seen
    assert not within(np.log(3.2) - mean[2], 4 * sd[2])


@pytest.mark.slow
def test_a_ladder_leads_all_chains_from_the_prior_past_the_false_modes(within, posterior, laplace, draw):
    near = laplace(posterior, POINT)
    ladder = parallel_tempering(temperatures=geometric(300.0, 8))
    found = {}
    # a kernel with a given step is not optimized before its first move
    for name, sampler in (("ladder", ladder), ("single", mala(1e-4))):
        run = draw(posterior, sampler, draws=250, warmup=700, chains=4)
        found[name] = posterior.to_position(run.theta).mean(axis=1)
    # each chain's mean over 250 draws, with an ESS above 10
    assert within(found["ladder"] - near.mode, 4 * near.sd / np.sqrt(10))
    # control: with neither descents nor hot replicas some chain stays in another orbit
    assert not within(found["single"] - near.mode, 10 * near.sd)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data(times=[1.0, 0.5]), "times must increase"),
        (lambda: data(noise_sd=-1.0), "noise_sd must be a finite number >= 0"),
        (lambda: nerve(rtol=0.0), "rtol must be"),
        (lambda: nerve(coarse_rtol=2.0), "rtol must be"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
