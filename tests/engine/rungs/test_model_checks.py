"""Models that depend on the batch, or on earlier calls, are found, and what that does to the draws is about right."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.diagnostics.limits import ERROR
from invsamp.engine.rungs import model_checks
from invsamp.evaluate.requests import Estimate

TIMES = np.linspace(0.0, 1.0, 10)
DATA = 1.0 + 0.5 * TIMES + 0.1 * np.random.default_rng(0).normal(size=10)
SETTINGS = {"draws": 300, "seed": 1, "progress": False}


def line(theta):
    return theta[:, :1] + theta[:, 1:] * TIMES


def slopes(theta):
    return np.broadcast_to(np.stack([np.ones(10), TIMES], axis=1), (len(theta), 10, 2))


def posed(function):
    prior = iv.Prior(a=iv.Normal(0, 2), b=iv.Normal(0, 2))
    return iv.Posterior(prior, iv.with_jacobian(function, slopes), DATA, iv.GaussianNoise(0.1))


class Drifting:
    """Adds a little at each call."""

    def __init__(self, step):
        self.step, self.calls = step, 0

    def __call__(self, theta):
        self.calls += 1
        return line(theta) + self.step * self.calls


class Warm:
    """An iteration that begins at the last solution, and stops too early."""

    def __init__(self, sweeps):
        self.sweeps, self.last = sweeps, np.ones(10)

    def __call__(self, theta):
        rows = []
        for wanted in line(theta):
            for _ in range(self.sweeps):
                self.last = self.last + 0.5 * (wanted - self.last)
            rows.append(self.last)
        return np.stack(rows)


def batch_shift(size):
    return lambda theta: line(theta) + size * (len(theta) - 1) / len(theta)


def repeat_warnings(run):
    return [message for message in run.warnings() if message.startswith("IV-REPEAT: energies of fidelity")]


@pytest.mark.parametrize("sampler", [None, iv.mala(), iv.pcn()], ids=["chosen", "mala", "pcn"])
def test_a_model_that_depends_on_the_batch(sampler):
    """Four chains see y shifted by 3/4 of 0.05: by theory the worst mean is off by that, sqrt(10) / 0.1 times."""
    run = iv.sample(posed(batch_shift(0.05)), sampler, **SETTINGS)
    found = run.report["repeated"]["model"]
    assert found["cause"] == "batch" and found["positions"] == 8
    theory = 0.05 * 7 / 8 * np.sqrt(10) / 0.1  # in a batch of all positions
    # of eight numbers; 0.26 to 1.7 times that at 60 runs
    assert theory / 10 < found["effect"] < 4 * theory
    (message,) = repeat_warnings(run)
    assert "depend on the positions that are evaluated with them, in one batch" in message
    assert "posterior" in message and "axis" not in message


def test_a_model_that_depends_on_earlier_calls():
    run = iv.sample(posed(Drifting(1e-4)), iv.mala(), **SETTINGS)
    found = run.report["repeated"]["model"]
    assert found["cause"] == "calls" and found["effect"] > 3 * ERROR
    (message,) = repeat_warnings(run)
    assert "depend on earlier evaluations" in message and f"{found['effect']:.2g}" in message


@pytest.mark.parametrize("sampler", [iv.mala(), iv.pcn()], ids=["mala", "pcn"])
def test_a_warm_start_that_stops_too_early(sampler):
    with pytest.warns(UserWarning, match="depend on earlier evaluations.*among the starting points"):
        run = iv.sample(posed(Warm(2)), sampler, **SETTINGS)
    found = run.report["repeated"]["model"]
    assert found["cause"] == "calls" and found["effect"] > ERROR and repeat_warnings(run)


@pytest.mark.parametrize(
    "function",
    [line, batch_shift(1e-9), Warm(60), lambda theta: line(theta).astype(np.float32), Drifting(1e-9)],
    ids=["exact", "rounding", "converged", "single precision", "slow drift"],
)
@pytest.mark.parametrize("sampler", [None, iv.pcn()], ids=["chosen", "pcn"])
def test_rounding_is_left_alone(function, sampler):
    run = iv.sample(posed(function), sampler, **SETTINGS)
    found = run.report["repeated"]["model"]
    assert found["cause"] == "" and found["effect"] < ERROR and not repeat_warnings(run)


def test_energies_in_single_precision_may_differ_by_their_rounding():
    """Of energies about 1e7 single precision leaves units."""
    energies = iter(range(10**6))

    class Rough:
        def answer(self, requests):
            (request,) = requests
            noise = np.array([next(energies) % 5 for _ in request.position])
            return (Estimate(1e7 + (request.position**2).sum(axis=1) + noise, None),)

    position = np.random.default_rng(0).normal(size=(8, 2))
    assert model_checks.repeated(Rough(), "model", False, position)["cause"] == ""


def test_at_the_start_only_gross_differences_are_reported(recwarn):
    """Far from the posterior small differences are large in energy; but one half of all is not small."""
    run = iv.sample(posed(lambda theta: line(theta - theta.mean(axis=0))), iv.pcn(), **SETTINGS)
    first = [str(one.message) for one in recwarn if "among the starting points" in str(one.message)]
    assert len(first) == 1 and "depend on the positions" in first[0] and run.report["interrupted"] is False


def test_few_solves_which_are_not_counted_and_change_no_draws():
    class Counting:
        def __init__(self):
            self.rows = 0

        def __call__(self, theta):
            self.rows += len(theta)
            return line(theta)

    models = Counting(), Counting()
    runs = [
        iv.sample(posed(model), iv.pcn(), check_gradient=flag, **SETTINGS)
        for model, flag in zip(models, (True, False), strict=True)
    ]
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
    assert runs[0].report["evaluations"] == runs[1].report["evaluations"]
    assert runs[1].report["repeated"] == {} and 0 < models[0].rows - models[1].rows <= 4 * 2 + 8 * 2


def test_noise_that_is_known_is_no_fault():
    noisy = iv.samplers.sgld(0.001, estimator=iv.estimators.noisy(1.0, 1.0))
    run = iv.sample(posed(line), noisy, **SETTINGS)
    assert run.report["repeated"] == {}


def test_a_run_that_is_resumed_says_the_same(tmp_path):
    posterior = posed(batch_shift(0.05))
    whole = iv.sample(posterior, iv.mala(), directory=tmp_path / "whole", **SETTINGS)
    short = iv.sample(posterior, iv.mala(), directory=tmp_path / "run", **SETTINGS | {"draws": 100})
    assert repeat_warnings(short)
    more = iv.resume(tmp_path / "run", posterior, draws=300, progress=False)
    np.testing.assert_array_equal(more.theta, whole.theta)
    assert more.report["repeated"] == whole.report["repeated"] and repeat_warnings(more) == repeat_warnings(whole)
    assert repeat_warnings(iv.load(tmp_path / "run")) == repeat_warnings(whole)


def test_what_fails_after_the_last_step_leaves_the_draws(monkeypatch):
    def broken(*arguments):
        raise OSError("no server")

    monkeypatch.setattr(model_checks, "repeated", broken)
    monkeypatch.setattr(model_checks.ModelChecks, "begin", lambda *arguments, **chosen: None)
    run = iv.sample(posed(line), iv.mala(), **SETTINGS)
    assert run.report["draws"] == 300
    assert any("could not be evaluated again (OSError: no server)" in message for message in run.warnings())
