"""The example of the Poisson benchmark, short: it finds the inclusions and its checks say what they should."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from invsamp.problems import poisson64

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_example_finds_the_inclusions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", ["poisson64", "--draws", "400", "--seed", "1", "--out", str(tmp_path)])
    example = runpy.run_path(str(ROOT / "examples" / "poisson64.py"))
    run = example["main"]()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {path.stem for path in tmp_path.glob("*.png")} == {"maps", "marginals", "deflection", "trace"}

    # the soft inclusion is known to a few tenths, the stiff one from below
    mean = run.theta.mean(axis=(0, 1)).reshape(8, 8)
    truth = np.log(poisson64.truth())
    soft, stiff = truth < 0, truth > 0
    assert np.abs(mean[soft] - truth[soft]).max() < 0.5
    assert mean[stiff].min() > 1.5
    # away from both, along the edge, the stiffness is 1 to the sd of some 0.6 that the posterior has there
    assert np.abs(mean[0, 1:7]).max() < 0.5
    # control: so are the prior's means not
    assert not np.abs(np.full((8, 8), poisson64.PRIOR_MEAN)[0, 1:7]).max() < 0.5

    # 28 differences with errors from few effective draws: a chain that had not left its start would be tens off
    assert summary["symmetry_z"]["largest"] < 6.0
    # Stein's identity; the step's own bias and the error of so short a run are a few per cent
    assert abs(summary["stein"]["mean"] - 1.0) < 0.15
    potential = poisson64.posterior().potential()
    some = run.theta[:, ::100].reshape(-1, 64)
    wrong = (2.0 * (some - some.mean(axis=0)) * potential.energy_and_gradient(2.0 * some - some.mean(axis=0))[1]).mean()
    assert abs(wrong - 1.0) > 0.5  # control: draws that are twice as wide
    # the noise explains the misfit, of which few of the 169 data are left to the 64 unknowns
    assert 0.1 < summary["misfit_per_datum"] < 0.7
    published = summary["log_likelihood_minus_published"]
    if "ones" in published:
        assert abs(published["ones"]) < 1e-7 and abs(published["counted"]) < 1e-6
