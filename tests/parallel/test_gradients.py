"""A wrong gradient ends a run on every process alike, and what is checked does not depend on how many there are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import threads

import invsamp as iv

A = np.random.default_rng(0).normal(size=(6, 2))


def linear(factor):
    return iv.with_jacobian(
        lambda theta: theta @ A.T, lambda theta: np.broadcast_to(factor * A, (len(theta), *A.shape)).copy()
    )


def attempt(comm, sampler, coarse=1.0, fine=1.0):
    """What the run says, or its draws and what its check took."""
    forward = {"coarse": linear(coarse), "fine": linear(fine)}
    prior = iv.Prior(x=iv.Normal(0, 1), y=iv.Normal(0, 1))
    posterior = iv.Posterior(prior, forward, A @ [0.3, -0.2], iv.GaussianNoise(0.5))
    settings = {"draws": 5, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
    try:
        run = iv.sample(posterior, sampler, comm=comm, **settings)
    except ValueError as error:
        return str(error)
    return run.theta, run.report["gradient_check_evaluations"], run.warnings()


def ladder(adjusted):
    return iv.samplers.parallel_tempering(
        (1.0, 3.0), 0.05, fidelities=(0, 1), adjusted=adjusted, preconditioner=None, swap=iv.swaps.delayed_acceptance()
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("wrong", ["coarse", "fine"])
def test_it_is_refused_everywhere(ranks, wrong):
    alone = attempt(None, ladder(False), **{wrong: 1.5})
    assert f"the gradient of fidelity {wrong!r} is not that of its energy" in alone
    found = threads.run(ranks, lambda comm: attempt(comm, ladder(False), **{wrong: 1.5}))
    assert found == [alone] * ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_what_is_right_or_only_slow_is_sampled_to_the_same_draws(ranks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for factor in (1.0, 1.5):
            draws, solves, said = attempt(None, ladder(True), fine=factor)
            assert solves["coarse"] == 10
            assert any("is not that of its energy" in message for message in said) == (factor != 1.0)
            for other in threads.run(ranks, lambda comm, factor=factor: attempt(comm, ladder(True), fine=factor)):
                np.testing.assert_array_equal(other[0], draws)
                assert other[1] == solves and other[2] == said
