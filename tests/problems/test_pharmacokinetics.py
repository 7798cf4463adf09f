"""Patients and their drug: the models are what they say, and the two parametrizations one posterior."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

from invsamp.problems import pharmacokinetics as problem


@cache
def truth() -> dict[str, np.ndarray]:
    return {
        **problem.patients()[0],
        **{f"log_{name}": np.log(problem.POPULATION[name]) for name in ("clearance", "volume")},
        **{name: problem.POPULATION[name] for name in ("spread_clearance", "spread_volume", "absorption", "sd")},
    }


def test_patients_are_those_of_the_closed_formula() -> None:
    own, data = problem.patients(seed=3)
    k, ke = problem.POPULATION["absorption"], (own["clearance"] / own["volume"])[:, None]
    scale = problem.DOSES[:, None] * k / (own["volume"][:, None] * (k - ke))
    exact = scale * (np.exp(-ke * problem.TIMES) - np.exp(-k * problem.TIMES))
    z = np.log(data / exact) / problem.POPULATION["sd"]
    # 140 standard normals: the sum of squares within its central 1 - 1e-6
    assert 71 < (z**2).sum() < 240
    named = {name: np.asarray(value) for name, value in truth().items()} | own
    np.testing.assert_allclose(problem.population(3).predict(named)[0], exact, rtol=2e-4)


def test_an_injection_is_that_of_a_general_solver() -> None:
    posterior, true = problem.two_compartments(), dict(problem.INJECTION)
    p = tuple(true.values())
    seen = problem.INJECTION_TIMES[true["lag"] < problem.INJECTION_TIMES]
    exact = solve_ivp(
        lambda t, x: problem._injected(t, x, p), (true["lag"], 16.0), (true["dose"], 0.0), t_eval=seen, rtol=1e-9
    )
    y = posterior.predict(true)[0, :, 0]
    np.testing.assert_allclose(y[-len(seen) :], exact.y[0], rtol=1e-5)
    np.testing.assert_array_equal(y[: -len(seen)], 0.0)
    assert posterior.check_gradient(true).passed


def test_centered_or_not_it_is_one_posterior() -> None:
    centered, other = problem.population(centered=True), problem.population(centered=False)
    assert str(centered.prior.graph).count("(centered)") == 2 == str(other.prior.graph).count("(non-centered)")
    theta = centered.prior.pack(truth())[None]
    np.testing.assert_allclose(centered.log_prior(theta), other.log_prior(theta), rtol=1e-12)
    np.testing.assert_array_equal(centered.log_likelihood(theta), other.log_likelihood(theta))
    for posterior in (centered, other):
        assert posterior.check_gradient(truth()).relative_error < 1e-3
        start = posterior.to_position(posterior.prior.pack(problem.MIDDLE)[None])
        assert np.isfinite(posterior.potential().energy(start)).all()
