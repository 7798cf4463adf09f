"""The Poisson benchmark: its draws keep Stein's identities, and the example finds the inclusions."""

from __future__ import annotations

import json
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import invsamp as iv
from invsamp.problems import poisson64

ROOT = Path(__file__).parents[2]


def products(posterior, theta, center):
    """Of each chain the means of (log a_k - c_k) dU/dlog a_k, (chains, 64), whose expectation is 1 whatever c.

    The run's own mean as c moves them by one part in the number of effective draws, thousands, which is far below their
    errors.
    """
    gradient = posterior.potential().energy_and_gradient(theta.reshape(-1, 64))[1]
    return ((theta - center) * gradient.reshape(theta.shape)).mean(axis=1)


@pytest.mark.slow
def test_draws_keep_the_identities_of_stein(draw, agrees) -> None:
    posterior = poisson64.posterior((16,))
    # from near the truth, where 64 chains settle sooner than from the prior
    start = np.log(poisson64.truth()).ravel() + 0.3 * np.random.default_rng(0).standard_normal((64, 64))
    settings = {"thin": 4, "chains": 64, "start": start}
    run = draw(posterior, iv.samplers.ghmc(friction=0.025), draws=60, warmup=400, **settings)
    center = run.theta.mean(axis=(0, 1))
    assert run.report["acceptance"][0] == pytest.approx(0.93, abs=0.05)
    assert agrees(products(posterior, run.theta, center), 1.0)
    # wrong: draws that are an eighth too wide, and those on their way to temperature 16
    potential = posterior.potential()
    assert not agrees(products(posterior, center + 1.125 * (run.theta - center), center), 1.0)
    flatter = iv.extending.FunctionPotential(
        lambda p: tuple(part / 16.0 for part in potential.energy_and_gradient(p)), 64
    )
    hot = draw(iv.Target(flatter), iv.samplers.ghmc(friction=0.025), draws=20, warmup=100, **settings)
    assert not agrees(products(posterior, hot.theta, center), 1.0)


@pytest.mark.slow
def test_the_example_finds_the_inclusions(within, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", ["poisson64", "--draws", "300", "--seed", "1", "--out", str(tmp_path)])
    posterior = poisson64.posterior((16,))  # a third of the time of the published 32 x 32 squares
    monkeypatch.setattr(poisson64, "posterior", lambda: posterior)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a short run has not converged
        run = runpy.run_path(str(ROOT / "examples" / "poisson64.py"))["main"]()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {path.stem for path in tmp_path.glob("*.png")} == {"maps", "marginals", "deflection", "trace"}

    # the soft inclusion is known to a few tenths, the stiff one from below
    mean = run.theta.mean(axis=(0, 1)).reshape(8, 8)
    truth = np.log(poisson64.truth())
    soft, stiff = truth < 0, truth > 0
    assert within(mean[soft] - truth[soft], 0.5)
    assert mean[stiff].min() > 1.5
    # away from both, along the edge, the stiffness is 1 to the sd of some 0.6 that the posterior has there
    assert within(mean[0, 1:7], 0.5)
    # control: so is the prior's mean not
    assert not within(poisson64.PRIOR_MEAN, 0.5)

    # 28 and 64 scores with errors from few effective draws: a chain that has not converged would be off by tens
    assert within(summary["symmetry_z"]["largest"], 6.0)
    assert within(summary["stein"]["largest_z"], 6.0)
    # the noise explains the misfit, of which few of the 169 data are left to the 64 unknowns
    assert 0.1 < summary["misfit_per_datum"] < 0.7
    published = summary["log_likelihood_minus_published"]
    assert abs(published["ones"]) < 1e-7 and abs(published["counted"]) < 1e-6
    assert summary["discretization"] == "bilinear elements on 16x16 squares"
