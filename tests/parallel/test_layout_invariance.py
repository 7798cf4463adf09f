"""The same draws, bit for bit, and the same counts, by any number of processes, and by another number after a kill."""

from __future__ import annotations

import json
import signal
from functools import cache
from pathlib import Path

import launch
import layout_runs
import pytest

from invsamp.results.run import Run

SCRIPT = Path(layout_runs.__file__)
#: Number of processes -> runs, of one to four rungs; `test_sharing` makes most of them, and others, by threads in place
#: of processes, some by four and five.
RUNS = {
    2: ("one rung", "hmc", "four rungs", "coupled sums", "one batch for both", "nothing chosen for a field"),
    3: (
        "shared pilot",
        "prior to posterior",
        "corrected coarse model",
        "interacting contours",
        "minibatches that swap",
        "found, noisy",
        "nothing chosen",
    ),
}


def digests(output):
    """By rank: name -> digests of the draws and of the report."""
    return json.loads(output.splitlines()[-1])


@cache
def alone(name):
    """In this process."""
    found = layout_runs.digest(layout_runs.run(name))
    return list(found)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Short runs raise warnings, which are ignored here."""
    monkeypatch.setattr(Run, "warnings", lambda self: [])


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", RUNS)
def test_draws_and_counts_do_not_depend_on_the_number_of_processes(ranks):
    wanted = {name: alone(name) for name in RUNS[ranks]}  # first: otherwise each rank compiles
    printed = digests(launch.mpi(SCRIPT, ranks, *RUNS[ranks]).stdout)
    assert printed == [wanted] * ranks  # every rank has the whole run


def test_another_seed_and_another_number_of_chains_give_other_draws(monkeypatch):
    """The digests distinguish runs."""
    first = alone("three fidelities")
    for setting, value in (("seed", 8), ("chains", 4)):
        with monkeypatch.context() as changed:
            changed.setitem(layout_runs.LENGTH, setting, value)
            assert layout_runs.digest(layout_runs.run("three fidelities"))[0] != first[0]


@pytest.mark.mpi
def test_a_run_resumed_by_others_after_signals_is_the_uninterrupted_one(tmp_path):
    directory, name = str(tmp_path / "run"), "four rungs"

    def started(ranks, *more):
        return launch.mpi(SCRIPT, ranks, "--directory", directory, *more, name, check=False)

    # if one is stopped in warm-up, all of them stop after that step; complete segments survive a later kill.
    # The status of the first two is the launcher's: Open MPI 5 under load says 0 at times
    ended = started(3, "--signal", int(signal.SIGTERM), "--step", 60, "--rank", 2)
    assert "stopped in warm-up, step 60" in ended.stderr and "invsamp.resume" in ended.stderr
    ended = started(2, "--signal", int(signal.SIGINT), "--step", 70, "--rank", 0)
    assert "stopped in warm-up, step 70" in ended.stderr
    ended = started(2, "--signal", int(signal.SIGKILL), "--step", 135, "--rank", 1)
    assert ended.returncode != 0
    ended = launch.python(SCRIPT, "--directory", directory, name)
    assert digests(ended.stdout) == [{name: alone(name)}]
