"""A forward model that raises, returns NaN and hangs, at some theta each: the run is one of the remaining target."""

from __future__ import annotations

import time

import flaky_models
import numpy as np
import pytest
from scipy.stats import norm

import invsamp as iv
from invsamp.parallel import pool, process
from invsamp.parallel.isolation import isolated

# quantiles of the posterior between which it fails: 5%, 5% and 1%; what a chain proposes is about as likely to be there
SHARES = {"raise": (0.85, 0.9), "nan": (0.5, 0.55), "hang": (0.84, 0.85)}
BANDS = tuple((norm.ppf(lower), norm.ppf(upper), deed) for deed, (lower, upper) in SHARES.items())
# with one datum 0, prior and noise of standard deviation sqrt(2), the posterior would be a standard normal
PRIOR = iv.Prior(x=iv.Normal(0.0, 2.0**0.5))
NOISE = iv.GaussianNoise(2.0**0.5)
CHAINS, WARMUP, DRAWS = 512, 8, 12


TOP = norm.ppf(0.84)


def integrals(lower, upper):
    """Integrals of 1, x, x^2 and the indicator of x > TOP over an interval under the standard normal density."""
    a, b = norm.pdf([lower, upper])
    ends = [0.0 if np.isinf(x) else x * density for x, density in ((lower, a), (upper, b))]
    mass = norm.cdf(upper) - norm.cdf(lower)
    above = max(0.0, norm.cdf(upper) - norm.cdf(max(lower, TOP)))
    return np.array([mass, a - b, mass + ends[0] - ends[1], above])


class Noted:
    """A model that remembers where it was asked."""

    def __init__(self, model):
        self._model, self.parameters, self.thetas = model, model.parameters, []

    @property
    def message(self):
        return self._model.message

    def __call__(self, theta):
        self.thetas.extend(theta[:, 0])
        return self._model(theta)

    def linearize(self, theta):
        self.thetas.extend(theta[:, 0])
        return self._model.linearize(theta)


class Hurry:
    """Time in which a pool waits for workers: it runs on to the time limit when all who are at work hang.

    So the limit can be one that no right answer exceeds, however slow the machine is.
    """

    def __init__(self, model, folder):
        self._workers, self._folder, self._ahead, self._heard = model._pool.workers, folder, 0.0, pool.heard

    def monotonic(self):
        return time.monotonic() + self._ahead

    def heard(self, things, timeout):
        while not (ready := self._heard(things, 0.01)) and timeout != 0.0:
            at_work = [worker for worker in self._workers.values() if worker.task is not None]
            if at_work and all((self._folder / str(worker._process.pid)).exists() for worker in at_work):
                self._ahead += timeout
                break
        return ready


@pytest.mark.slow
def test_a_run_with_it_counts_right_and_samples_the_remaining_target(agrees, draw, monkeypatch, tmp_path):
    model = flaky_models.Unreliable(BANDS, str(tmp_path))
    with isolated(model, workers=4, time_limit=20.0) as apart:
        hurry = Hurry(apart, tmp_path)
        for module in (pool, process):
            monkeypatch.setattr(module, "time", hurry)
        monkeypatch.setattr(pool, "heard", hurry.heard)
        noted = Noted(apart)
        posterior = iv.Posterior(PRIOR, noted, np.zeros(1), NOISE)
        settings = {"draws": DRAWS, "warmup": WARMUP, "chains": CHAINS, "check_gradient": False}  # it solves, too
        run = draw(posterior, iv.mala(step_size=0.9), **settings)
    expected = {deed: sum(model.deed(x) == deed for x in noted.thetas) for deed in SHARES}
    assert apart.failures == {
        "raised": expected["raise"],
        "not_finite": expected["nan"],
        "timed_out": expected["hang"],
        "died": 0,
    }
    assert run.report["evaluations"]["model"] == len(noted.thetas) >= CHAINS * (WARMUP + DRAWS)
    assert run.report["failed_solves"]["model"] == sum(expected.values())
    for deed, (lower, upper) in SHARES.items():
        assert 0.5 < expected[deed] / len(noted.thetas) / (upper - lower) < 2.0

    x = run.data.posterior["x"].values
    assert not any(((lower < x) & (x < upper)).any() for lower, upper, _ in BANDS)
    everything = integrals(-np.inf, np.inf)
    remaining = everything - sum(integrals(lower, upper) for lower, upper, _ in BANDS)
    statistics = np.stack([f.mean(axis=1) for f in (x, x**2, x > TOP)], axis=1)
    assert agrees(statistics, remaining[1:] / remaining[0])
    assert not agrees(statistics, everything[1:])
