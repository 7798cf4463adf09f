"""Divergent paths are distinguished from those rejected at an edge."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import invsamp as iv
from invsamp.diagnostics.path_checks import path_warnings


def sampled(sampler, energy, slope, d=2, **settings):
    density = iv.LogDensity(lambda x: -energy(x), lambda x: -slope(x), dimension=d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return iv.sample(iv.Target(density), sampler, draws=60, warmup=0, chains=4, seed=1, progress=False, **settings)


def bowl(x):
    return 0.5 * np.square(x).sum(axis=1)


def cut(x):
    """No energy beyond 1 in the first coordinate, as of a solve that fails."""
    return np.where(x[:, 0] < 1.0, bowl(x), np.inf)


@pytest.mark.parametrize("sampler", [iv.hmc, iv.mams])
def test_steps_that_are_too_long_diverge_and_warn(sampler):
    run = sampled(sampler(step_size=1e4), bowl, lambda x: x, start=np.ones(2))
    assert run.data.sample_stats["diverging"].to_numpy().all()
    (message,) = [line for line in run.warnings() if line.startswith("IV-PATHS")]
    assert "240 of 240 paths (100.00%) diverged, above 2%: the error of their energy exceeded 1000" in message


@pytest.mark.parametrize("sampler", [iv.hmc, iv.mams])
def test_solves_that_fail_are_an_edge(sampler):
    run = sampled(sampler(step_size=0.3), cut, lambda x: x, start=np.zeros(2))
    stats = run.data.sample_stats
    assert (stats["acceptance_rate"].to_numpy() == 0.0).mean() > 0.1  # many paths are refused there
    assert not stats["diverging"].to_numpy().any()
    assert not any("IV-PATHS" in line for line in run.warnings())


def test_bounds_that_give_a_path_up_are_an_edge():
    prior = iv.Prior(x=iv.Normal(0.0, 1.0), y=iv.Uniform(-1.0, 1.0))
    posterior = iv.Posterior(prior, log_likelihood=iv.LogDensity(lambda t: 0.0 * t[:, 0], lambda t: 0.0 * t))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = iv.sample(posterior, iv.samplers.infinity_hmc(1.0), draws=60, warmup=0, chains=4, seed=1, progress=False)
    stats = run.data.sample_stats
    assert (stats["acceptance_rate"].to_numpy() == 0.0).mean() > 0.1
    assert not stats["diverging"].to_numpy().any()


def test_a_path_that_diverges_before_solves_fail_counts():
    """The energy overflows some steps after the error has grown."""

    def steep(x):
        return np.where(bowl(x) < 1e12, bowl(x), np.inf)

    run = sampled(iv.hmc(step_size=8.0, length=40.0), steep, lambda x: x, start=np.ones(2))
    assert run.data.sample_stats["diverging"].to_numpy().mean() > 0.5


def test_a_few_paths_are_no_reason_to_warn():
    flags = np.zeros((4, 1000))
    flags[0, :80] = 1.0
    assert not path_warnings(flags)
    flags[0, 80] = 1.0
    assert path_warnings(flags)
    assert not path_warnings(np.full((4, 10), np.nan))
