"""Log conductivity on three meshes: the ladder's cold rung agrees with an independent sampler."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import invsamp as iv
from invsamp.problems import conductivity as problem

MESHES = {"coarse": 9, "middle": 10, "fine": 12}
CHAINS = 64
ROOT = Path(__file__).parents[2]


def moments(theta):
    """Means and mean squares of each chain and the squares' own mean, (chains, 41), for theta (chains, draws, 20)."""
    squares = (theta**2).mean(axis=1)
    return np.concatenate([theta.mean(axis=1), squares, squares.mean(axis=1, keepdims=True)], axis=1)


@pytest.mark.slow
def test_cold_rung_agrees_with_elliptical_slice_sampling(draw, agrees) -> None:
    posterior = problem.posterior(MESHES)
    kept = problem.reference(posterior, 75, CHAINS, 1)
    truth = moments(kept[:, 15:])
    center, error = truth.mean(axis=0), truth.std(axis=0, ddof=1) / np.sqrt(CHAINS)

    sampler = iv.samplers.parallel_tempering(
        (1.0, 1.6, 2.6), friction=0.1, fidelities=["fine", "middle", "coarse"], swap_fraction=0.5
    )
    # from the reference's own first states, which are wider than the posterior
    run = draw(posterior, sampler, draws=70, warmup=100, chains=CHAINS, start=kept[:, 0])
    assert agrees(moments(run.theta), center, error)
    assert min(np.divide(run.report["swap_accepts"], run.report["swap_attempts"])) > 0.01
    # the wrong distribution: the hottest rung
    assert not agrees(moments(run.rung_theta(2)), center, error)


@pytest.mark.slow
def test_example_on_smaller_meshes(within, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    posterior = problem.posterior(MESHES)
    monkeypatch.setattr(problem, "posterior", lambda: posterior)
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", ["conductivity", "--draws", "200", "--seed", "1", "--out", str(tmp_path)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a short run has not converged
        summary = runpy.run_path(str(ROOT / "examples" / "conductivity.py"))["main"]()
    assert {path.stem for path in tmp_path.glob("*.png")} == {"maps", "coefficients", "swaps"}
    kept = problem.reference(posterior, 60, 24, 2)[:, 20:]
    mean, sd = kept.mean(axis=(0, 1))[:3], kept.std(axis=(0, 1))[:3]
    # 8 short chains and 24 shorter ones: means of at least 4 effective draws each
    assert within(np.array(summary["z"]["mean"][:3]) - mean, 3 * sd)
    assert not within(mean, 3 * sd)  # the prior's mean would be noticed
