"""A run that is killed again and again, and one that is far larger than its memory: short forms of the benchmark."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "checkpoints.py"))


@pytest.mark.filterwarnings("ignore")
def test_a_run_on_the_heat_problem_survives_kills_at_random_moments(tmp_path):
    found = BENCHMARK["killed_run"](tmp_path / "run", draws=600, kills=10, longest=1.2, seed=3)
    assert found.equal
    assert found.strays == []
    assert found.early + found.warming + found.drawing == 10


def test_a_million_draws_in_a_directory_take_less_than_300_megabytes():
    imported, peak, made = BENCHMARK["memory"](draws=20_000, chains=50)
    assert made == 1_000_000
    assert peak < 300.0
    # the draws alone, 8 parameters and an energy each, would be 72 MB; besides the run, this has its compiled code, and
    # what is imported when it is first wanted
    assert peak - imported < 160.0
