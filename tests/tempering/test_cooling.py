"""Targets that are not the posterior: cold ones, and decreasing temperatures. They are right, and are labeled."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

NORMAL = iv.Target(iv.LogDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=4))
FLAT = iv.Target(iv.LogDensity(lambda x: 0.0 * x[:, 0], lambda x: 0.0 * x, dimension=200))
STEP = 0.4


def squares(run: iv.Run) -> np.ndarray:
    return np.square(run.theta).mean(axis=(1, 2))


@pytest.mark.parametrize(
    ("sampler", "variance"),
    [
        (lambda target: iv.samplers.sgld(STEP, temperature=target), 0.25 / (1 - STEP / 2)),
        (lambda target: iv.samplers.sghmc(STEP, friction=0.5, temperature=target), 0.25 / (1 - STEP / 3)),
        (lambda target: iv.resgld((target, 1), 0.05), 0.25 / (1 - 0.05 / 2)),
        (lambda target: iv.samplers.parallel_tempering((target, iv.tempering.cold_posterior(0.6))), 0.25),
    ],
    ids=["sgld", "sghmc", "resgld", "parallel_tempering"],
)
def test_cold_posterior(sampler, variance, draw, agrees):
    run = draw(NORMAL, sampler(iv.tempering.cold_posterior(0.25)), draws=150, warmup=150)
    assert agrees(squares(run), variance)
    assert not agrees(squares(run), 4 * variance)  # control: temperature 1
    assert any("cold posterior, T = 0.25" in line for line in run.report["warnings"])


def test_annealing_ends_at_the_posterior(draw, agrees):
    sampler = iv.samplers.sgld(STEP, temperature=iv.tempering.annealed(iv.kernels.schedules.exponential(50.0, 0.9)))
    run = draw(NORMAL, sampler, draws=150, warmup=100)
    assert agrees(squares(run), 1 / (1 - STEP / 2))
    assert run.report["warnings"] == [] and run.report["learned_targets"] == [{"temperature": 1.0}]
    # control: a temperature that has not come down yet
    early = draw(
        NORMAL,
        iv.samplers.sgld(STEP, temperature=iv.tempering.annealed(iv.kernels.schedules.exponential(50.0, 0.99))),
        draws=150,
        warmup=100,
    )
    assert not agrees(squares(early), 1 / (1 - STEP / 2))
    (line,) = early.report["warnings"]
    assert line.startswith("IV-TARGET: the temperature fell from 18.3 to 4.09") and "no common distribution" in line


def test_noise_is_that_of_the_temperature_of_each_step(draw):
    """Where the energy is flat, a step has the variance 2 h T."""
    schedule = iv.kernels.schedules.exponential(9.0, 0.5)
    run = draw(
        FLAT, iv.samplers.sgld(STEP, temperature=iv.tempering.annealed(schedule, 0.1)), draws=8, warmup=0, chains=20
    )
    found = np.diff(run.theta, axis=1).var(axis=(0, 2))
    wanted = [2 * STEP * max(9.0 * 0.5**k, 0.1) for k in range(1, 8)]
    np.testing.assert_allclose(found, wanted, rtol=0.12)  # of 4,000 numbers: five standard errors
    assert "of temperature 0.1" not in run.report["warnings"][0] and "fell from 9" in run.report["warnings"][0]


@pytest.mark.parametrize(
    "preset", [iv.samplers.sgld, iv.samplers.sghmc, iv.samplers.cyclic_sgld], ids=lambda preset: preset.__name__
)
def test_a_temperature_falls_over_minibatches_too(preset, draw):
    """Of data that are all alike any batch has the gradient of all: so have the draws, and other data's have not."""
    target = iv.tempering.annealed(iv.kernels.schedules.exponential(50.0, 0.9))

    def drawn(data, estimator):
        model = iv.with_jacobian(lambda x: x @ np.ones((1, 12)), lambda x: np.ones((len(x), 12, 1)))
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 1.0)), model, np.array(data), iv.GaussianNoise(1.0))
        return draw(
            posterior, preset(0.02, estimator=estimator, temperature=target), draws=40, warmup=0, chains=4
        ).theta

    alike, apart = [0.5] * 12, [0.5] * 6 + [4.0] * 6
    np.testing.assert_allclose(drawn(alike, iv.estimators.minibatch(3)), drawn(alike, None), rtol=1e-8, atol=1e-10)
    assert np.abs(drawn(apart, iv.estimators.minibatch(3)) - drawn(apart, None)).max() > 0.01


def test_a_final_temperature_below_one_is_reported(draw):
    sampler = iv.samplers.cyclic_sgld(
        0.1, temperature=iv.tempering.annealed(iv.kernels.schedules.exponential(2.0, 0.5), 0.3)
    )
    run = draw(NORMAL, sampler, draws=20, warmup=20, chains=4)
    assert any("the draws are those of temperature 0.3, not 1" in line for line in run.report["warnings"])


def test_a_temperature_that_falls_is_resumed(draw, tmp_path):
    sampler = iv.samplers.sghmc(0.1, temperature=iv.tempering.annealed(iv.kernels.schedules.exponential(50.0, 0.9)))
    settings = {"warmup": 10, "chains": 4}
    whole = draw(NORMAL, sampler, draws=30, **settings)
    draw(NORMAL, sampler, draws=11, directory=tmp_path / "run", **settings)
    again = iv.resume(tmp_path / "run", NORMAL, draws=30, progress=False)
    np.testing.assert_array_equal(again.theta, whole.theta)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iv.tempering.cold_posterior(1.0), r"temperature must be a number in \(0, 1\), got 1.0"),
        (lambda: iv.tempering.cold_posterior(0.0), r"temperature must be a number in \(0, 1\), got 0.0"),
        (lambda: iv.tempering.annealed(10.0), "temperature must be a schedule"),
        (lambda: iv.tempering.annealed(iv.kernels.schedules.constant(1.0), 0.0), "final must be a positive"),
        (lambda: iv.tempering.annealed(lambda k: -1.0), "must be a positive finite number, got -1.0"),
        (
            lambda: iv.samplers.sgld(0.1, temperature=0.1),
            r"temperature must be 1, or a target: cold_posterior\(0.1\).* got 0.1",
        ),
        (lambda: iv.samplers.sghmc(0.1, temperature="cold"), "temperature must be"),
        (
            lambda: iv.resgld((1.0, iv.tempering.cold_posterior(0.5)), 0.1),
            "targets must take less of the misfit from rung to rung",
        ),
        (
            lambda: iv.resgld((iv.tempering.annealed(iv.kernels.schedules.exponential(5, 0.9)), 10.0), 0.1),
            "a temperature that falls is for one",
        ),
    ],
)
def test_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_gradient_descent_with_momentum(draw):
    run = draw(NORMAL, iv.samplers.sgd(0.1, momentum=0.9), draws=30, warmup=0, chains=2, start=np.ones((2, 4)))
    x, u, path = 1.0, 0.0, []
    for _ in range(30):
        u = 0.9 * u - 0.1 * x
        x += u
        path.append(x)
    np.testing.assert_allclose(run.theta[:, :, 2], [path, path])
    with pytest.raises(ValueError, match="momentum must be"):
        iv.samplers.sgd(0.1, momentum=1.0)


def test_contours_with_momentum(draw, agrees):
    """If Psi is flat the target is the posterior, without weights, for any kernel."""
    sampler = iv.samplers.csgld(0.05, np.arange(1.0, 12.0), friction=0.3, log_psi=np.zeros(12))
    run = draw(NORMAL, sampler, draws=300, warmup=100)
    assert run.weights is None
    assert agrees(np.square(run.theta).mean(axis=(1, 2)), 1 / (1 - 0.05 / 3.4))
    assert run.report["kernels"] == ["sghmc"]
