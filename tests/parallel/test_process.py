"""Worker processes beside the script that uses them: what they get from it, and that they end with it."""

from __future__ import annotations

import os
from pathlib import Path

import flaky_models as flaky
import launch
import numpy as np
import pytest

from invsamp.parallel.isolation import isolated

THETA = np.random.default_rng(0).normal(size=(5, 2))
TOOLS = str(Path(flaky.__file__).parent)
SCRIPT = f"""
import sys
sys.path.insert(0, {TOOLS!r})
import flaky_models, numpy as np
from invsamp.parallel.isolation import isolated

class Announced(flaky_models.Troubled):
    def check(self, stage, theta):
        if theta[0, 0] > 10.0:
            print("there", flush=True)
        super().check(stage, theta)

if __name__ == "__main__":
    deed = sys.argv[1]
    model = isolated(Announced(deed), workers=2, time_limit=2.0 if deed == "hang in C" else None)
    y = model(np.zeros((8, 2)))
    print(*(w._process.pid for w in model._pool.workers.values()), flush=True)
    if deed != "exit":
        model(np.full((2, 2), 11.0))
"""


def test_are_others_without_the_variables_of_a_launcher(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with isolated(flaky.ProcessNumber()) as model:
        process, launched, threads = model(THETA)[0]
    assert process != os.getpid()
    assert not launched
    assert threads == 3.0
    assert os.environ["OMPI_COMM_WORLD_SIZE"] == "2"


@pytest.mark.mpi
def test_of_a_rank_are_no_ranks():
    output = launch.mpi(
        f"""
        import sys
        sys.path.insert(0, {TOOLS!r})
        import flaky_models, numpy as np
        from mpi4py import MPI
        from invsamp.parallel.isolation import isolated

        if __name__ == "__main__":
            with isolated(flaky_models.BeginsMPI(), workers=2) as model:
                y = model(np.full((3, 2), MPI.COMM_WORLD.rank))
                print(MPI.COMM_WORLD.rank, y[:, :2].tolist())
        """,
        2,
    ).stdout
    assert sorted(output.splitlines()) == [f"{rank} {[[1.0, float(rank)]] * 3}" for rank in range(2)]


def test_end_with_the_script_that_used_them():
    output = launch.python(SCRIPT, "exit").stdout.split()
    assert len(output) == 2
    assert not any(launch.alive(int(pid)) for pid in output)


@pytest.mark.parametrize("deed", ["hang", pytest.param("hang in C", marks=pytest.mark.slow)])
def test_end_with_a_script_that_is_killed(tmp_path, deed):
    """Even if they hang in compiled code."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    process = launch.start([launch.sys.executable, "-u", str(file), deed])
    try:
        pids = process.stdout.readline().split()
        assert [process.stdout.readline() for _ in range(2)] == ["there\n"] * 2
        assert len(pids) == 2 and all(launch.alive(int(pid)) for pid in pids)
        process.kill()
        launch.wait_for(lambda: not any(launch.alive(int(pid)) for pid in pids))
    finally:
        launch.stop(process)


UNGUARDED = f"""
import sys
sys.path.insert(0, {TOOLS!r})
import flaky_models
from invsamp.parallel.isolation import isolated

class Own(flaky_models.Troubled):
    pass

print(isolated(Own())(flaky_models.np.zeros((1, 2))))
"""


def test_of_a_script_without_a_guard_are_refused():
    ended = launch.python(UNGUARDED, check=False)
    assert ended.returncode != 0
    assert "__main__" in ended.stderr.splitlines()[-1]
    assert "ModelError" in ended.stderr.splitlines()[-1]


def test_of_an_interactive_session_cannot_know_what_was_defined_in_it():
    ended = launch.python(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {UNGUARDED!r}])")
    assert "ModelError" in ended.stderr.splitlines()[-1]
    # "Can't get attribute 'Own'", or since Python 3.14 "has no attribute 'Own'"
    assert "attribute 'Own'" in ended.stderr.splitlines()[-1]
    assert "This excludes interactive sessions" in ended.stderr.splitlines()[-1]
