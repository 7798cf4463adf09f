"""Swap rules between meshes: two modes, 1,000 readings at 56 sensors, cold on 64x64 and hot on 8x8 or 16x16.

Short runs of the rows of examples/fidelities.py, 64 chains, whose spread gives the standard errors.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import f as fisher

from invsamp.problems import heat_modes as problem

pytestmark = pytest.mark.slow

DRAWS = 500
#: Of the root of the sum of three squared scores, by Hotelling: exceeded by a right sampler once in 100,000 times.
BOUND = float(np.sqrt(3 * 63 / 61 * fisher.isf(1e-5, 3, 61)))


@pytest.fixture(scope="module")
def example():
    folder = str(Path(__file__).parents[2] / "examples")
    sys.path.insert(0, folder)
    try:
        import fidelities
    finally:
        sys.path.remove(folder)
    return fidelities


@pytest.fixture(scope="module")
def truth():
    right = problem.quadrature(problem.posterior()).right
    return np.array([right.weight, *right.sd])


@pytest.fixture(scope="module")
def rows(example, truth):
    """Rows by name, each run once."""
    found, cases = {}, example.cases()

    def get(name, draws=DRAWS):
        if name not in found:
            found[name] = example.row(example.sample(cases[name], draws, seed=1), truth)
        return found[name]

    return get


def score(row):
    return np.linalg.norm([row["weight_z"], *row["sds_z"]])


@pytest.mark.parametrize(
    ("name", "fine_solves"),
    [("delayed acceptance, hot 16x16", 0.1), ("delayed acceptance, hot 8x8", 0.2), ("product target, hot 8x8", 1.0)],
)
def test_exact_rules(rows, within, name, fine_solves):
    row = rows(name)
    assert within(score(row), BOUND)
    assert row["fine_per_attempt"] <= fine_solves


def test_own_energies_are_rejected(rows, within):
    """The wrong sampler: eq. (18) takes the coarse energies as the fine ones."""
    assert not within(score(rows("eq. (18), hot 8x8", 4 * DRAWS)), BOUND)


def test_four_rungs_spend_a_quarter_on_each_step(rows, within):
    row = rows("delayed acceptance, 4 rungs", 300)
    assert within(score(row), BOUND)
    # 1 + 2/16 + 1/64, and the swaps; one fidelity takes 4
    assert row["equivalents_per_step"] < 1.3


def test_coupled_sum(rows, within):
    """Sds within 3% where the exact gradients have them, beside their errors; a step at a sixteenth of the solves."""
    row = rows("coupled sum, 4 rungs", 300)
    assert within(row["weight_z"], BOUND)
    sds, errors = np.array(row["sds"]), np.array(row["sd_errors"])
    exact = rows("delayed acceptance, 4 rungs", 300)["sds"]
    assert within(sds / exact - 1.0, 0.03 + 3.0 * errors / exact)
    assert row["equivalents_per_step"] < 0.35
    assert row["clipped_noise"] < 0.01


def test_batches(rows, truth, within):
    corrected, plain = rows("batches of 30, corrected"), rows("batches of 30, as they are")
    bound = 0.03 + 3.0 * np.array(corrected["sd_errors"]) / truth[1:]
    assert within(corrected["sds"] / truth[1:] - 1.0, bound)
    assert not within(plain["sds"] / truth[1:] - 1.0, bound)
