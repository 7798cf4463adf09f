"""The comparison with other toolkits: what it counts, what it says of it, and that its page is of its results."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from invsamp.problems import heat_modes

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def peers():
    path = list(sys.path)
    sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
    import _problems
    import page

    yield page, _problems
    sys.path[:] = path


def line(toolkit: str, ess: float, off: float = 0.05, **other: object) -> dict:
    of = {"toolkit": toolkit, "solves": 1000.0, "seconds": 10.0, "machine": "one", "sd_error": 0.05, "false": 0.0}
    return of | {"ess": ess, "mean_error": off} | other


def test_the_page_is_of_the_results(peers):
    page, _ = peers
    lines, found = page.results()
    assert (ROOT / "docs" / "validation" / "peers.md").read_text() == page.page(lines, found)
    assert len(json.loads((ROOT / "benchmarks" / "peers" / "references.json").read_text())) == 5


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (
            [line("nutpie", 300.0)],
            "nutpie has 3 times as many. **Per second invsamp loses**",
        ),
        ([line("nutpie", 20.0)], "Per solve invsamp has 5 times as many effective draws as nutpie."),
        ([line("nutpie", 300.0, seconds=40.0)], "Per second nutpie has 0.75 times as many: too close to decide."),
        ([line("nutpie", 300.0, machine="other")], "**Per solve invsamp loses**: nutpie has 3 times as many."),
        ([line("pints", 300.0, off=1.0)], "No other of these runs came near the reference"),
        ([line("pints", 300.0, false=0.25)], "Off the reference, with these settings: PINTS."),
        ([line("pints", 0.0)], "Off the reference, with these settings: PINTS."),
        ([line("nutpie", 20.0), line("nutpie", 300.0, off=1.0)], "Per solve invsamp has 5 times"),
        ([line("nutpie", 20.0), line("nutpie", 3.0, off=1.0)], "Of 2 runs of nutpie, 1 came near the reference"),
    ],
)
def test_sentences_on_the_ranking(peers, runs, words):
    page, _ = peers
    found = {(name, "hare_lynx"): [one for one in runs if one["toolkit"] == name] for name in page.NAMES}
    said = page.verdict("hare_lynx", found | {("invsamp", "hare_lynx"): [line("invsamp", 100.0)]})
    assert words in said
    assert ("econd" in said) == (runs[0]["machine"] == "one" and page.right(runs[:1]))  # seconds of one machine alone


def test_runs_without_draws_are_named(peers):
    page, _ = peers
    late = {"unfinished": 240.0, "solves": 1000}
    assert page.unfinished("nutpie", [late], 0) == (
        "nutpie (one run) had no draws after 240 seconds and 1,000 solves, with these settings."
    )
    assert page.unfinished("numpyro", [late], 2).startswith("NumPyro (1 of 3 runs) had no draws")


def test_a_chain_that_stays_in_its_mode_has_no_effective_draws(peers):
    _, problems = peers
    coins = np.random.default_rng(0).random((4, 400)) < 0.5
    assert problems.crossings(coins) > 800
    assert problems.crossings(np.concatenate([coins[:3], np.ones((1, 400), bool)])) == 0.0


def test_solves_are_counted_and_end_in_time(peers):
    _, problems = peers
    density = problems.Density(heat_modes.posterior())
    assert density([0.5, 1.5]) == -np.inf and density.solves == 0
    energy, gradient = density.energy_and_gradient(np.array([[0.5, 0.5], [0.4, 0.5]]))
    value, slope = density.with_gradient([0.5, 0.5])
    assert value == -energy[0] and np.array_equal(slope, -gradient[0])
    assert (density.solves, density.gradients) == (3, 3) and problems.Density.latest is density
    density.until = time.process_time() - 1.0
    with pytest.raises(problems.Unfinished):
        density([0.5, 0.5])
